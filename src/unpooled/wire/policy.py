"""A party's own say over what leaves it.

The ledger asks the policy before every release; a policy answers by returning or by raising
:class:`~unpooled.errors.PolicyRefusal`. It is asked about what the protocol declared, so it can
answer before any number has left.
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
    or ``model`` (parameters such as centres that no row can be read from directly).
    """

    kind: str
    fields: tuple[str, ...]
    discloses: Disclosure
    why: str

    def __post_init__(self) -> None:
        if self.discloses not in DISCLOSURES:
            raise ValueError(f"{self.kind!r} must disclose one of {DISCLOSURES}.")


@dataclass(frozen=True)
class Exit:
    """One release that wants out: who, what was declared, and what has left before."""

    party: PartyId
    release: Release
    round: int
    body: Body
    floats: int
    """Numbers in this release."""
    rounds_before: int
    floats_before: int


class Policy(Protocol):
    """Anything with a ``check`` that refuses by raising."""

    def check(self, exit: Exit) -> None:
        """Returns if the release may leave, raises PolicyRefusal if not."""


@dataclass(frozen=True)
class Study:
    """For experiments inside one process: everything declared may leave."""

    def check(self, exit: Exit) -> None:
        """Lets every declared release pass."""


@dataclass(frozen=True)
class Deployment:
    """For real sites: no rows, and caps on how often and how much."""

    max_rounds: int = 10_000
    max_floats: int = 1_000_000_000

    def check(self, exit: Exit) -> None:
        """Refuses rows, and whatever would go over a cap."""
        if exit.release.discloses == "rows":
            raise PolicyRefusal(
                f"Party {exit.party} does not send {exit.release.kind!r}, which discloses rows "
                f"({exit.release.why}); choose a start or method that sends none."
            )
        if exit.rounds_before >= self.max_rounds:
            raise PolicyRefusal(
                f"Party {exit.party} has reached its cap of {self.max_rounds} releases; lower "
                "max_rounds or have its owner raise the cap."
            )
        if exit.floats_before + exit.floats > self.max_floats:
            raise PolicyRefusal(
                f"Party {exit.party} would send {exit.floats_before + exit.floats} numbers, over "
                f"its cap of {self.max_floats}; send less or have its owner raise the cap."
            )


STUDY = Study()
DEPLOYMENT = Deployment()
