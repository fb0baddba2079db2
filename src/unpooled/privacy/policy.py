"""A party's own say over what leaves it.

The ledger asks the policy before every release. The policy answers with what may leave: the arrays
as they are, other arrays in their place, or None to withhold the release; or it ends the party's
part with :class:`unpooled.errors.PolicyRefusal`. Nothing leaves that it did not hand back.

Two policies ship. ``study`` is for experiments inside one process, ``deployment`` for real sites.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Protocol

import numpy as np

from unpooled.checks import whole
from unpooled.errors import InputError, PolicyRefusal
from unpooled.messages.release import Release
from unpooled.privacy.row_groups import enough
from unpooled.types import Body, PartyId


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
    count: Callable[[], float | None] = lambda: None
    """Works out ``fewest``."""

    @cached_property
    def fewest(self) -> float | None:
        """The fewest rows that everything the party has sent, this included, would tell apart.

        See :mod:`unpooled.privacy.row_groups`. 0 if the protocol does not say, None in a mesh,
        where neighbours can solve for sums whatever is done here.
        """
        return self.count()


class Policy(Protocol):
    """Anything with a ``review``.

    If it has a ``min_count`` too, the party's steps know of it and hold back what it would refuse.
    """

    def review(self, exit: Exit) -> Body | None:
        """What may leave, None to withhold it; PolicyRefusal ends the party's part."""


@dataclass(frozen=True)
class Study:
    """For experiments inside one process: everything declared may leave.

    That includes sums over a single row, and successive sums whose difference is a single row.
    """

    min_count: int = 1

    def review(self, exit: Exit) -> Body | None:
        """Lets every declared release pass."""
        return exit.body


@dataclass(frozen=True)
class Deployment:
    """For real sites: no rows, no sums over few, and caps on how often and how much.

    Where everything the party has sent in a run, taken together in whatever sums and differences,
    would say something about fewer than ``min_count`` rows, the release is refused. Protocols with
    a coordinator know the minimum and hold back by themselves what would be refused; in a mesh it
    cannot be kept (``Exit.fewest`` is None there).
    """

    min_count: int = 10
    max_rounds: int = 10_000
    max_floats: int = 1_000_000_000
    kinds: tuple[str, ...] | None = None
    """The kinds of messages it allows; None allows all that disclose no rows."""

    def __post_init__(self) -> None:
        whole("min_count", self.min_count, 1)
        whole("max_rounds", self.max_rounds, 1, inf)
        whole("max_floats", self.max_floats, 1, inf)
        if self.min_count == 2:
            raise InputError(
                "min_count=2 hides nothing, since two numbers follow from their mean and spread; "
                "give at least 3, or 1 for no minimum."
            )

    def review(self, exit: Exit) -> Body | None:
        """Refuses rows, kinds not allowed, sums over few, and whatever would go over a cap."""
        self.refuse_kind(exit.party, exit.release)
        if exit.fewest is not None and not enough(np.array([exit.fewest]), self.min_count)[0]:
            raise PolicyRefusal(
                f"Party {exit.party} does not send {exit.release.kind!r} of round {exit.round}, "
                f"which would tell fewer rows apart than its minimum of {self.min_count}; use a "
                "method that keeps to it, or have its owner lower it."
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

    def refuse_kind(self, party: PartyId, release: Release) -> None:
        """Refuses what never leaves, whatever is in it: this is known before a run begins."""
        if "rows" in release.discloses:
            raise PolicyRefusal(
                f"Party {party} does not send {release.kind!r}, which discloses rows "
                f"({release.why}); choose a start or method that sends none."
            )
        if self.kinds is not None and release.kind not in self.kinds:
            raise PolicyRefusal(
                f"Party {party} does not send {release.kind!r} ({release.why}), which is not among "
                f"the kinds it allows ({', '.join(self.kinds) or 'none'}); have its owner add it."
            )


STUDY = Study()
DEPLOYMENT = Deployment()
POLICIES: Mapping[str, Policy] = {"study": STUDY, "deployment": DEPLOYMENT}
