"""A party's own say over what leaves it.

A policy is asked twice. Before a run, :meth:`Policy.preflight` refuses what it would never allow,
so that nobody begins in vain. At every release, :meth:`Policy.review` answers with what may leave:
the arrays as they are, other arrays in their place, or None to withhold the release; or it ends the
party's part with :class:`unpooled.errors.PolicyRefusal`. Nothing leaves that it did not hand back.

No caller asks a policy for its class: what callers need to know, every policy says by itself.

Two policies ship. ``study`` is for experiments inside one process, ``deployment`` for real sites.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from unpooled.checks import whole
from unpooled.errors import InputError, PolicyRefusal
from unpooled.messages.conform import most_numbers
from unpooled.messages.release import Release
from unpooled.privacy.row_groups import enough
from unpooled.types import Body, PartyId


@dataclass(frozen=True)
class ReleaseRequest:
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
    """Works out ``smallest_group``."""

    @cached_property
    def smallest_group(self) -> float | None:
        """How few rows everything the party has sent, this included, would tell apart.

        See :mod:`unpooled.privacy.row_groups`. 0 if the protocol does not say, None in a mesh,
        where neighbours can solve for sums whatever is done here.
        """
        return self.count()


@dataclass(frozen=True)
class RunRequest:
    """What a run would ask of a party, as far as it is known in advance."""

    party: PartyId
    releases: tuple[Release, ...]
    n_columns: int | None = None
    """How many columns the data have; None where it does not matter."""
    copies: int = 1
    """Receivers of each of the party's messages."""
    rounds: int | None = None
    """The most rounds of the method, where it says so."""
    total_floats: int | None = None
    """The numbers that the party would send in all, where that is known."""


class Policy(ABC):
    """What a party lets out: subclasses review releases, and may refuse whole runs."""

    min_count: int = 1
    """Rows that a sum must be about: the party's steps suppress by themselves what has fewer."""
    sees_every_release: bool = True
    """Whether it must see every release; if it goes by totals, rounds may be counted together."""

    def preflight(self, request: RunRequest) -> None:  # noqa: B027 (most refuse nothing)
        """Refuses, before a run, what :meth:`review` would refuse in it whatever the numbers
        are."""

    @abstractmethod
    def review(self, request: ReleaseRequest) -> Body | None:
        """What may leave, None to withhold it; PolicyRefusal ends the party's part."""

    def with_min_count(self, min_count: int) -> Policy:
        """The same policy with another minimum count."""
        raise InputError(f"min-count={min_count!r} goes with the deployment policy only.")

    def described(self, party: PartyId) -> str:
        """What it allows this party to send, in a sentence."""
        return f"The policy of {party} allows this: {self}"


@dataclass(frozen=True)
class Reviewed(Policy):
    """A policy of one's own that is no subclass: anything with a ``review``."""

    inner: Any

    @property
    def min_count(self) -> int:  # type: ignore[override]
        """The inner one's, if it has any."""
        return int(getattr(self.inner, "min_count", 1))

    def review(self, request: ReleaseRequest) -> Body | None:
        """What the inner one answers."""
        answer: Body | None = self.inner.review(request)
        return answer


def as_policy(given: Any) -> Policy:
    """The policy itself, or one made of any object that has a ``review``."""
    return given if isinstance(given, Policy) else Reviewed(given)


@dataclass(frozen=True)
class Study(Policy):
    """For experiments inside one process: everything declared may leave.

    That includes sums over a single row, and successive sums whose difference is a single row.
    """

    min_count: int = 1
    sees_every_release = False

    def review(self, request: ReleaseRequest) -> Body | None:
        """Lets every declared release pass."""
        return request.body

    def with_min_count(self, min_count: int) -> Policy:
        """A minimum makes it the deployment policy."""
        return Deployment(min_count=min_count)

    def described(self, party: PartyId) -> str:
        return f"The policy of {party} is study: everything above may leave, about single rows too."


@dataclass(frozen=True)
class Deployment(Policy):
    """For real sites: no rows, no sums over few, and caps on how often and how much.

    Where everything the party has sent in a run, taken together in whatever sums and differences,
    would say something about fewer than ``min_count`` rows, the release is refused. Protocols with
    a coordinator know the minimum and hold back by themselves what would be refused; in a mesh it
    cannot be kept (``ReleaseRequest.smallest_group`` is None there).
    """

    min_count: int = 10
    max_rounds: int = 10_000
    max_floats: int = 1_000_000_000
    kinds: tuple[str, ...] | None = None
    """The kinds of messages it allows; None allows all that disclose no rows."""
    sees_every_release = False

    def __post_init__(self) -> None:
        whole("min_count", self.min_count, 1)
        whole("max_rounds", self.max_rounds, 1, inf)
        whole("max_floats", self.max_floats, 1, inf)
        if self.min_count == 2:
            raise InputError(
                "min_count=2 hides nothing, since two numbers follow from their mean and spread; "
                "give at least 3, or 1 for no minimum."
            )

    def review(self, request: ReleaseRequest) -> Body | None:
        """Refuses rows, kinds not allowed, sums over few, and whatever would go over a cap."""
        self._refuse_kind(request.party, request.release)
        if (
            request.smallest_group is not None
            and not enough(np.array([request.smallest_group]), self.min_count)[0]
        ):
            raise PolicyRefusal(
                f"Party {request.party} does not send {request.release.kind!r} of round "
                f"{request.round}, which would tell fewer rows apart than its minimum of "
                f"{self.min_count}; use a method that keeps to it, or have its owner lower it."
            )
        if request.total_rounds > self.max_rounds:
            raise PolicyRefusal(
                f"Party {request.party} has sent in {self.max_rounds} rounds, which is its cap; "
                "ask for fewer or have its owner raise the cap."
            )
        if request.total_floats > self.max_floats:
            raise PolicyRefusal(
                f"Party {request.party} would have sent {request.total_floats} numbers, over its "
                f"cap of {self.max_floats}; send less or have its owner raise the cap."
            )
        return request.body

    def preflight(self, request: RunRequest) -> None:
        """Refuses kinds that never leave, and runs that would go over a cap."""
        for release in request.releases:
            self._refuse_kind(request.party, release)
            if request.n_columns is not None:
                self._refuse_large(request, release, request.n_columns)
        if request.rounds is not None and request.rounds > self.max_rounds:
            raise PolicyRefusal(
                f"The plan asks for up to {request.rounds} rounds, but party {request.party} sends "
                f"in {self.max_rounds} at most; lower max_rounds in the plan or have its owner "
                "raise the cap."
            )
        if request.total_floats is not None and request.total_floats > self.max_floats:
            raise PolicyRefusal(
                f"Party {request.party} sends {self.max_floats} numbers at most, but this run "
                f"takes {request.total_floats}; ask for fewer rounds or have its owner raise the "
                "cap."
            )

    def with_min_count(self, min_count: int) -> Policy:
        """The same caps with another minimum."""
        return replace(self, min_count=min_count)

    def _refuse_kind(self, party: PartyId, release: Release) -> None:
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

    def _refuse_large(self, request: RunRequest, release: Release, n_columns: int) -> None:
        numbers = most_numbers(release, n_columns)
        if numbers is not None and numbers * request.copies > self.max_floats:
            raise PolicyRefusal(
                f"One {release.kind!r} takes up to {numbers * request.copies} numbers, but party "
                f"{request.party} sends {self.max_floats} at most in a run; have its owner raise "
                "the cap."
            )


STUDY = Study()
DEPLOYMENT = Deployment()
POLICIES: Mapping[str, Policy] = {"study": STUDY, "deployment": DEPLOYMENT}
