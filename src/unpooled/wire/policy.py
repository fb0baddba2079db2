"""A party's own say over what leaves it.

The ledger asks the policy before every release. The policy answers with what may leave: the arrays
as they are, other arrays in their place, or None to withhold the release; or it ends the party's
part with :class:`~unpooled.errors.PolicyRefusal`. Nothing leaves that it did not hand back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from unpooled.errors import PolicyRefusal
from unpooled.types import Body, PartyId

Disclosure = Literal["rows", "sums", "counts", "model"]
DISCLOSURES: tuple[Disclosure, ...] = ("rows", "sums", "counts", "model")


@dataclass(frozen=True)
class Release:
    """A kind of message that a protocol may send, declared in advance.

    ``fields`` names everything that may be in it; ``discloses`` says what can be read from it:
    ``rows`` (some row itself, or values of single rows), ``sums`` over rows, ``counts`` of rows,
    or ``model`` (parameters from which none of these follows). ``why`` says it in words.
    """

    kind: str
    fields: tuple[str, ...]
    discloses: tuple[Disclosure, ...]
    why: str

    def __post_init__(self) -> None:
        if not self.discloses or not set(self.discloses) <= set(DISCLOSURES):
            raise ValueError(f"{self.kind!r} must disclose some of {DISCLOSURES}.")


@dataclass(frozen=True)
class Exit:
    """One release that wants out: who, what was declared, and what it would bring the total to.

    For a host that carries several users, the totals are those of the user that sends most.
    """

    party: PartyId
    release: Release
    round: int
    body: Body
    total_rounds: int
    """Exchanges in which the party has sent, this one included."""
    total_floats: int
    """Numbers it has sent, to all receivers, these included."""


class Policy(Protocol):
    """Anything with a ``review``."""

    def review(self, exit: Exit) -> Body | None:
        """What may leave, None to withhold it; PolicyRefusal ends the party's part."""


@dataclass(frozen=True)
class Study:
    """For experiments inside one process: everything declared may leave."""

    def review(self, exit: Exit) -> Body | None:
        """Lets every declared release pass."""
        return exit.body


@dataclass(frozen=True)
class Deployment:
    """For real sites: no rows, and caps on how often and how much."""

    max_rounds: int = 10_000
    max_floats: int = 1_000_000_000

    def review(self, exit: Exit) -> Body | None:
        """Refuses rows, and whatever would go over a cap."""
        if "rows" in exit.release.discloses:
            raise PolicyRefusal(
                f"Party {exit.party} does not send {exit.release.kind!r}, which discloses rows "
                f"({exit.release.why}); choose a start or method that sends none."
            )
        if exit.total_rounds > self.max_rounds:
            raise PolicyRefusal(
                f"Party {exit.party} has sent in {self.max_rounds} rounds, which is its cap; ask "
                "for fewer or have its owner raise the cap."
            )
        if exit.total_floats > self.max_floats:
            raise PolicyRefusal(
                f"Party {exit.party} would have sent {exit.total_floats} numbers, over its cap of "
                f"{self.max_floats}; send less or have its owner raise the cap."
            )
        return exit.body


STUDY = Study()
DEPLOYMENT = Deployment()
