"""The compiler of hot loops, and the only place that knows which one it is.

Compiled code is kept beside the sources (or in the user's cache folder, where these are read-only),
so only the first call after an installation waits for it. Nothing may be reordered (no fastmath):
a sum has one order of addition, on every machine.

Importing this takes a while; modules that are part of ``import unpooled`` import what is compiled
where they use it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
_ONE_AT_A_TIME = Lock()

prange = numba.prange


def jit(function: Function) -> Function:
    """Compiled; for one core."""
    return cast(Function, numba.njit(**_OPTIONS)(function))


def on_all_cores(function: Function) -> Function:
    """Compiled, with the turns of ``prange`` spread over the cores; for calls from jitted code."""
    return cast(Function, numba.njit(parallel=True, **_OPTIONS)(function))


def one_at_a_time(function: Function) -> Function:
    """For calls from the interpreter of what uses all cores: not every pool of threads that the
    compiler comes with can serve two callers at once, and there is nothing to be gained by it."""

    @wraps(function)
    def call(*arguments: Any) -> Any:
        with _ONE_AT_A_TIME:
            return function(*arguments)

    return cast(Function, call)
