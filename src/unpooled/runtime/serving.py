"""Serves parties in order or on threads, with the libraries underneath held to one thread."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from unpooled.parallel import libraries, workers


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
def serving(threads: int = 1, order: Callable[[int], Sequence[int]] = range) -> Iterator[Serve]:
    """A map over parties: in this order, on so many threads, results in party order.

    Libraries underneath get one thread each, since several would round sums differently; and
    scikit-learn does not warn of clusters that coincide, which protocols see for themselves.
    """
    with _ALONE, libraries().limit(limits=1, user_api="openmp"):
        if threads == 1:
            yield partial(_in_order, map, order)
        else:
            with workers(threads) as pool:
                yield partial(_in_order, pool.map, order)


def _in_order(
    run: Callable[..., Iterable[Any]],
    order: Callable[[int], Sequence[int]],
    call: Callable[[Any], Any],
    items: Sequence[Any],
) -> list[Any]:
    def quietly(item: Any) -> Any:
        # What overflows is noticed by the protocols, who can say what it means.
        with np.errstate(over="ignore", invalid="ignore"):
            return call(item)

    places = list(order(len(items)))
    done = dict(zip(places, run(quietly, [items[i] for i in places]), strict=True))
    return [done[i] for i in range(len(items))]
