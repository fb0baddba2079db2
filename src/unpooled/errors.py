"""Everything that `unpooled` refuses, as one exception tree.

::

    UnpooledError
    ├── InputError (ValueError)        data or an option a person gave
    │   ├── InputTypeError (TypeError) something that is no table of numbers
    │   └── DomainError                rows or centres outside a loss's domain
    ├── GraphError (ValueError)        a graph that cannot carry the protocol
    ├── DataUnavailable (LookupError)  a data set that is neither on disk nor reachable
    ├── WireError
    │   ├── MalformedMessage           bytes that are not a message
    │   └── OversizedMessage           a message beyond the stated bounds
    ├── LedgerRefusal
    │   ├── UndeclaredRelease          a kind or field the protocol never declared
    │   └── PolicyRefusal              declared, but the party's own policy says no
    ├── LinkRefusal                    something that came over the network and is not taken
    ├── StateError                     a state directory that cannot be gone on with
    ├── ProtocolError                  a protocol broke a rule of its role
    ├── QuorumLost                     too few parties answered
    │   └── PartyLeft                  since one of them takes no part
    └── TooFewParties                  there is a result, but with fewer parties than agreed

Messages are one sentence that names the party, the value and the remedy.
"""


class UnpooledError(Exception):
    """Root of all errors raised on purpose by this library."""


class InputError(UnpooledError, ValueError):
    """Data or an option that was given by a person cannot be used."""


class InputTypeError(InputError, TypeError):
    """Something that was given by a person is of no usable type."""


class DomainError(InputError):
    """Rows or centres lie outside the set on which a loss is defined."""


class GraphError(UnpooledError, ValueError):
    """The graph cannot carry the protocol."""


class DataUnavailable(UnpooledError, LookupError):
    """A data set is neither in the data folder nor reachable."""


class WireError(UnpooledError):
    """A message cannot be turned into bytes, or bytes into a message."""


class MalformedMessage(WireError):
    """Bytes that are not a message."""


class OversizedMessage(WireError):
    """A message beyond the stated bounds."""


class LedgerRefusal(UnpooledError):
    """The ledger, a party's only exit, refused to let something out."""


class UndeclaredRelease(LedgerRefusal):
    """A message kind or field which the protocol did not declare."""


class PolicyRefusal(LedgerRefusal):
    """A declared release which the party's own policy does not allow."""


class LinkRefusal(UnpooledError):
    """Something that came over the network and is not taken; ``reason`` says so in two words."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class StateError(UnpooledError):
    """A state directory that cannot be gone on with."""


class ProtocolError(UnpooledError):
    """A protocol broke a rule of its role."""


class QuorumLost(UnpooledError):
    """Too few parties answered for the run to go on."""


class PartyLeft(QuorumLost):
    """The run cannot go on without ``who``, which takes no part because of ``why``."""

    def __init__(self, who: str, why: str, sentence: str) -> None:
        super().__init__(sentence)
        self.who = who
        self.why = why


class TooFewParties(UnpooledError):
    """The result is there, but fewer parties are in it than the plan's ``min_parties``."""
