"""Torch on one thread and from one seed while a party uses the network, so that results repeat."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, RLock

import torch


class _OneTorchThread:
    """One thread for torch while any party works, since on several it would round differently.

    Torch keeps the number for each thread, and threads that are started later take the number set
    last by any: so the last party to leave sets again what the first one found.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._found = Lock(), 0, 1

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._found = torch.get_num_threads()
            self._inside += 1
            torch.set_num_threads(1)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                torch.set_num_threads(self._found)


_ONE_THREAD, _DRAWING = _OneTorchThread(), RLock()


@contextmanager
def working(draws: bool, seed: int) -> Iterator[None]:
    """While a party uses the network.

    One that draws random numbers takes those of the process: parties then work one after the other,
    each from its own seed.
    """
    with _ONE_THREAD:
        if not draws:
            yield
            return
        with _DRAWING, torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            yield
