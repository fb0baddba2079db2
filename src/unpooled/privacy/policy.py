"""A party's own say over what leaves it.

A policy is asked three times. Before a run, :meth:`Policy.preflight` refuses what it would never
allow, so that nobody begins in vain. At the entrance, :meth:`Policy.admitted` says what protocols
are given of the party's rows: with a minimum count these are means of its cells, and nothing else
of the rows can leave, because no protocol ever sees it. At every release, :meth:`Policy.review`
answers with what may leave: the arrays as they are, other arrays in their place, or None to
withhold the release; or it ends the party's part with :class:`unpooled.errors.PolicyRefusal`.
Nothing leaves that it did not hand back.

No caller asks a policy for its class: what callers need to know, every policy says by itself.

Two policies ship. ``study`` is for experiments inside one process, ``deployment`` for real sites.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import quote

from unpooled.checks import whole
from unpooled.data.parties import Parties, PartyData
from unpooled.errors import InputError, PolicyRefusal
from unpooled.messages.conform import most_numbers
from unpooled.messages.release import Release
from unpooled.privacy.cell_store import CellStore
from unpooled.privacy.entrance import entered
from unpooled.privacy.site_rows import SiteRows
from unpooled.types import Body, PartyId

NETWORK_WEIGHTS = "network-weights"
ALLOWED = (NETWORK_WEIGHTS,)
"""What an owner may allow by name although no minimum count bounds what it tells of rows."""


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
    n_parties: int | None = None
    """How many parties take part, itself included, where that is known."""


class Policy(ABC):
    """What a party lets out: subclasses review releases, and may refuse whole runs."""

    min_count: int = 1
    """Persons that everything which leaves must be about; above 1 a party is its cells."""
    allow: tuple[str, ...] = ()
    """What may leave although it cannot be made from cells."""
    sees_every_release: bool = True
    """Whether it must see every release; if it goes by totals, rounds may be counted together."""

    def preflight(self, request: RunRequest) -> None:  # noqa: B027 (most refuse nothing)
        """Refuses, before a run, what :meth:`review` would refuse in it whatever the numbers
        are."""

    def admitted(
        self,
        data: PartyData,
        *,
        needs_rows: bool = False,
        site: SiteRows | None = None,
        columns: tuple[str, ...] | None = None,
    ) -> PartyData:
        """What protocols are given of a party's rows; data that were admitted stay as they are.

        ``needs_rows`` is the protocol's: it says that it cannot do with cells. ``site`` is what a
        site knows of its rows: names of columns, rows and persons, and columns that this run does
        not use; ``columns`` are those that it does.
        """
        if data.admitted:
            return data
        if self.min_count <= 1:
            return replace(data, admitted=True)
        if needs_rows and NETWORK_WEIGHTS not in self.allow:
            raise PolicyRefusal(
                f"Party {data.name} does not hand out its rows, without which this method cannot "
                "do: it trains networks on them, and no minimum count bounds what these tell of "
                f"rows; choose another method, or have its owner set allow = [{NETWORK_WEIGHTS!r}]."
            )
        store = self.store(data.name)
        return entered(data, self.min_count, store, site, columns, needs_rows=needs_rows)

    def admitted_parties(self, parties: Parties) -> tuple[Parties, dict[PartyId, list[str]]]:
        """What a mesh protocol is given of the rows of several users; and what was left out."""
        if parties.admitted or self.min_count <= 1:
            return parties, {}
        seen = [self.admitted(parties[i]) for i in range(len(parties))]
        table = Parties.of(
            [data.rows for data in seen],  # type: ignore[misc]
            weights=[data.weights for data in seen],
            names=parties.names,
        )
        table = replace(table, admitted=True)
        return table, {data.name: [data.remark] for data in seen if data.remark}

    def store(self, party: PartyId) -> CellStore | None:
        """Where the party's cells are kept; None if they are made anew in every run."""
        return None

    @abstractmethod
    def review(self, request: ReleaseRequest) -> Body | None:
        """What may leave, None to withhold it; PolicyRefusal ends the party's part."""

    def with_own(self, **settings: Any) -> Policy:
        """The same policy with a site's own settings, such as ``min_count`` or ``memory``."""
        name, value = next(iter(settings.items()))
        raise InputError(f"{name}={value!r} goes with the deployment policy only.")

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

    def with_own(self, **settings: Any) -> Policy:
        """A site that has settings means the deployment policy."""
        return Deployment(**settings)

    def described(self, party: PartyId) -> str:
        return f"The policy of {party} is study: everything above may leave, about single rows too."


@dataclass(frozen=True)
class Deployment(Policy):
    """For real sites: a party is its cells, and there are caps on how often and how much it sends.

    Before anything leaves, the party's rows are put into cells of at least ``min_count`` persons,
    and the weighted means of these are all that any protocol is given
    (:mod:`unpooled.privacy.cells`). The cells depend on the rows and the minimum alone, so any
    number of runs with other methods, seeds or numbers of clusters tells no more than the cells.
    They hold for changed rows only if they are kept: with ``memory``, a folder, every party has a
    store of its own in it (:mod:`unpooled.privacy.cell_store`).
    """

    min_count: int = 10
    allow: tuple[str, ...] = ()
    """What may leave although it cannot be made from cells: ``"network-weights"``, a network that
    was trained on the rows."""
    least_parties: int = 3
    """It takes no part in runs that are meant for fewer: of two parties, each can take its own
    share from the result. A plan with a quorum may end with fewer than take part."""
    kinds: tuple[str, ...] | None = None
    """The kinds of messages it allows; None allows all."""
    max_rounds: int = 10_000
    max_floats: int = 1_000_000_000
    memory: str | Path | None = None
    one_party: bool = False
    """Whether ``memory`` is one party's own, as at a site, whatever it is called in a run; else
    every party has a folder in it."""
    sees_every_release = False

    def __post_init__(self) -> None:
        if self.memory is not None and not isinstance(self.memory, str | Path):
            raise InputError(f"memory={self.memory!r} is no folder; give its path.")
        if isinstance(self.memory, Path):  # models are saved with their policy
            object.__setattr__(self, "memory", str(self.memory))
        whole("min_count", self.min_count, 1)
        whole("least_parties", self.least_parties, 1)
        whole("max_rounds", self.max_rounds, 1, inf)
        whole("max_floats", self.max_floats, 1, inf)
        for name in ("allow", "kinds"):  # lists as files have them: a policy can be hashed
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, tuple(getattr(self, name)))
        if not isinstance(self.allow, tuple) or not all(name in ALLOWED for name in self.allow):
            raise InputError(
                f"allow={self.allow!r} is not known; give a list of any of {', '.join(ALLOWED)}."
            )
        if self.kinds is not None and not isinstance(self.kinds, tuple):
            raise InputError(f"kinds={self.kinds!r} is no list; give one of kinds of messages.")
        if self.min_count == 2:
            raise InputError(
                "min_count=2 hides nothing, since two numbers follow from their mean and spread; "
                "give at least 3, or 1 for no minimum."
            )

    def store(self, party: PartyId) -> CellStore | None:
        if self.memory is None:
            return None
        if self.one_party:
            return CellStore(Path(self.memory), party)
        # Every character that a file system might take for something else is written as %xx.
        name = quote(party, safe=" ", errors="surrogatepass").replace(".", "%2E")
        return CellStore(Path(self.memory) / name, party)

    def review(self, request: ReleaseRequest) -> Body | None:
        """Refuses kinds not allowed, and whatever would go over a cap."""
        self._refuse_kind(request.party, request.release)
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
        """Refuses runs of too few parties, kinds that never leave, and runs over a cap."""
        if request.n_parties is not None and request.n_parties < self.least_parties:
            raise PolicyRefusal(
                f"Party {request.party} takes no part in a run of {request.n_parties}, fewer than "
                f"its least of {self.least_parties} parties: the others could take their own share "
                "from the result; find more parties or have its owner lower least_parties."
            )
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

    def with_own(self, **settings: Any) -> Policy:
        """The same but for these."""
        return replace(self, **settings)

    def described(self, party: PartyId) -> str:
        kinds = "any kind" if self.kinds is None else ", ".join(self.kinds) or "nothing"
        allowed = f", and {', '.join(self.allow)}" if self.allow else ""
        return (
            f"The policy of {party} is deployment: about at least {self.min_count} persons, to "
            f"runs of at least {self.least_parties} parties, messages of {kinds}{allowed}, in at "
            f"most {self.max_rounds} rounds and {self.max_floats} numbers."
        )

    def _refuse_kind(self, party: PartyId, release: Release) -> None:
        if NETWORK_WEIGHTS in release.discloses and NETWORK_WEIGHTS not in self.allow:
            raise PolicyRefusal(
                f"Party {party} does not send {release.kind!r} ({release.why}): no minimum count "
                "bounds what a network tells of the rows it was trained on; choose another method, "
                f"or have its owner set allow = [{NETWORK_WEIGHTS!r}]."
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
POLICIES: Mapping[str, Policy] = {
    "study": STUDY,
    "deployment": DEPLOYMENT,
    "deployment-datashield": Deployment(min_count=3),
    "deployment-cms": Deployment(min_count=11),
}
"""Policies by name. The minimum of 10 is a common rule of statistical offices and research data
centres; 3 is DataSHIELD's default for tables and subsets (``nfilter.tab``, ``nfilter.subset``); 11
is that of the Centers for Medicare & Medicaid Services, which suppress cells of 10 or fewer."""
