"""Work on a long table chunk by chunk, on all cores.

Chunks are the same whatever the number of cores, and results come in their order, so that sums are
added in one order everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
from joblib import cpu_count
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
_Array: TypeAlias = np.ndarray[Any, Any]

_NUMBERS = 1 << 20
"""In a chunk: 8 MiB, so that what is made on the way stays near the processor."""


def in_chunks(work: Callable[[slice], T], shape: tuple[int, ...]) -> list[T]:
    """What the work returns for each chunk of rows of a table of this shape."""
    spans = _spans(shape)
    threads = _threads(len(spans))
    if threads < 2:
        return [work(span) for span in spans]
    with workers(threads) as pool:
        return list(pool.map(work, spans))


def add_in_chunks(total: _Array, work: Callable[[slice], _Array], shape: tuple[int, ...]) -> None:
    """Adds to ``total`` what the work returns for each chunk, a few of them at a time."""
    spans = _spans(shape)
    threads = _threads(len(spans))
    if threads < 2:
        for span in spans:
            total += work(span)
        return
    with workers(threads) as pool:
        for first in range(0, len(spans), 2 * threads):
            for part in pool.map(work, spans[first : first + 2 * threads]):
                total += part


def _spans(shape: tuple[int, ...]) -> list[slice]:
    n_rows, width = shape
    step = max(1, _NUMBERS // max(1, width))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def _threads(chunks: int) -> int:
    return min(cpu_count(), chunks) if chunks > 1 else 1  # counting cores takes its time


def workers(threads: int) -> ThreadPoolExecutor:
    """Threads in which the libraries underneath use no threads of their own."""
    # OpenMP's limit holds for the thread that sets it, so every thread sets its own.
    limit = partial(libraries().limit, limits=1, user_api="openmp")
    return ThreadPoolExecutor(threads, initializer=limit)


def libraries() -> ThreadpoolController:
    """What has threads of its own underneath.

    To find that takes milliseconds, more than many a fit, so it is looked for again only once more
    has been imported, which is how libraries get here.
    """
    return _found(len(sys.modules))


@lru_cache(maxsize=1)
def _found(n_modules: int) -> ThreadpoolController:
    return ThreadpoolController()
