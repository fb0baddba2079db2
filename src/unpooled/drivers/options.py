"""What the in-process drivers share: options, the outcome, and a map over parties."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from unpooled.chunks import libraries, workers
from unpooled.drivers.faults import Fault
from unpooled.errors import InputError
from unpooled.types import Body, PartyId
from unpooled.wire.ledger import Remark
from unpooled.wire.message import Message
from unpooled.wire.policy import STUDY, Deployment, Policy, Release
from unpooled.wire.traffic import Traffic


@dataclass(frozen=True)
class Run:
    """What came of a run: the protocol's result (in a mesh with users in order) and the traffic."""

    result: Body
    traffic: Traffic
    remarks: Mapping[PartyId, tuple[Remark, ...]] = field(default_factory=dict)
    """What parties held back, from their own ledgers."""
    elapsed: int = 0
    """In a mesh, the exchanges that it took, those included in which lost messages were repeated.
    """

    @property
    def remarks_in_words(self) -> dict[PartyId, list[str]]:
        """The remarks, as the estimators' ``remarks_`` have them."""
        return {party: list(map(str, said)) for party, said in self.remarks.items()}


@dataclass(frozen=True)
class Options:
    """How to run, none of which may change the result (but for the faults)."""

    policy: Policy | Mapping[PartyId, Policy] = STUDY
    """One for all, or each party's own."""
    faults: tuple[Fault, ...] = ()
    quorum: int | None = None
    """How many answers are enough in a star, where the protocol does not say; None means all."""
    threads: int = 1
    through_codec: bool = False
    """Send every message and every party's state through its bytes, as a network would."""
    order: Callable[[int], Sequence[int]] = field(default=range)
    """The order in which n parties are served."""
    watch: Callable[[str, Message], None] | None = None
    """Told of every message that leaves, with its sender (the first user of a block)."""

    def policy_of(self, *users: PartyId) -> Policy:
        """The policy of the users that one host carries."""
        if not isinstance(self.policy, Mapping):
            return self.policy
        missing = [name for name in users if name not in self.policy]
        if missing:
            raise InputError(f"Party {missing[0]} has no policy; name one for every party.")
        own = [self.policy[name] for name in users]
        if any(policy != own[0] for policy in own):
            raise InputError(
                f"Parties {users[0]} and others share a host but not a policy; give each a block "
                "of its own (blocks=number of parties)."
            )
        return own[0]

    def refuse_kinds(self, names: Iterable[PartyId], releases: Sequence[Release]) -> None:
        """Refuses what a party's policy never lets out, before a long run that would come to it."""
        for name in names:
            policy = self.policy_of(name)
            if isinstance(policy, Deployment):
                for release in releases:
                    policy.refuse_kind(name, release)


class _Alone:
    """What holds for the whole process while any run is on: set by the first, reset by the last.

    Linear algebra on one thread, and no warnings from scikit-learn of clusters that coincide. Runs
    in several threads overlap, and each setting back what it found would leave things changed.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._runs = 0
        self._settings = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._runs == 0:
                self._settings.enter_context(libraries().limit(limits=1, user_api="blas"))
                self._settings.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore", ConvergenceWarning)
            self._runs += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._runs -= 1
            if self._runs == 0:
                self._settings.close()


_ALONE = _Alone()

Serve: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]


@contextmanager
def serving(options: Options) -> Iterator[Serve]:
    """A map over parties: in the options' order, on their threads, results in party order.

    Libraries underneath get one thread each, since several would round sums differently; and
    scikit-learn does not warn of clusters that coincide, which protocols see for themselves.
    """
    with _ALONE, libraries().limit(limits=1, user_api="openmp"):
        if options.threads == 1:
            yield partial(_in_order, map, options)
        else:
            with workers(options.threads) as pool:
                yield partial(_in_order, pool.map, options)


def _in_order(
    run: Callable[..., Iterable[Any]],
    options: Options,
    call: Callable[[Any], Any],
    items: Sequence[Any],
) -> list[Any]:
    def quietly(item: Any) -> Any:
        # What overflows is noticed by the protocols, who can say what it means.
        with np.errstate(over="ignore", invalid="ignore"):
            return call(item)

    order = list(options.order(len(items)))
    done = dict(zip(order, run(quietly, [items[i] for i in order]), strict=True))
    return [done[i] for i in range(len(items))]
