"""Decorators by which numba compiles functions, and where compiled code is kept.

Compiled code is kept beside the sources (or in the user's cache folder, where these are read-only),
so only the first call after an installation waits for it. Nothing may be reordered (no fastmath): a
sum has one order of addition, on every machine.

Numba's cache knows only the file that a function is in, but compiled code also depends on the
functions of other files that it calls: code that is older than any source in the folder is dropped.

Importing numba takes a while. So modules that are part of ``import unpooled`` import compiled code
inside the functions that use it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, TypeVar, cast

import numba
from numba.core.event import Event, Listener, install_listener

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}
_INNER = {**_OPTIONS, "cache": False, "no_cpython_wrapper": True}
_ONE_AT_A_TIME = Lock()
_LOG = logging.getLogger("unpooled")

prange = numba.prange


def drop_older(folder: Path) -> None:
    """Deletes compiled code that is older than a source in the folder."""
    newest = max((source.stat().st_mtime for source in folder.glob("*.py")), default=0.0)
    for index in folder.glob("__pycache__/*.nbi"):
        with suppress(OSError):  # another process may delete it, or this one may not be allowed to
            if index.stat().st_mtime < newest:
                index.unlink()


drop_older(Path(__file__).parent)


def _kept(function: Function, **options: Any) -> Function:
    """Compiled, and kept on disk if there is a folder that can be written to."""
    try:
        return cast(Function, numba.njit(**_OPTIONS, **options)(function))
    except RuntimeError:  # there is no such folder
        return cast(Function, numba.njit(**{**_OPTIONS, "cache": False}, **options)(function))


def jit(function: Function) -> Function:
    """Compiled for one core, and callable from the interpreter."""
    return _kept(function)


def inner(function: Function) -> Function:
    """Compiled for one core, and callable from compiled code only."""
    return cast(Function, numba.njit(**_INNER)(function))


def inlined(function: Function) -> Function:
    """Compiled as a part of its callers: for functions with one caller, mostly.

    That is quicker to compile than a function of its own, and handing over arrays costs nothing.
    """
    return cast(Function, numba.njit(inline="always", **_INNER)(function))


def on_all_cores(function: Function) -> Function:
    """As `jit`, with the iterations of ``prange`` spread over the cores."""
    return _kept(function, parallel=True)


def inner_on_all_cores(function: Function) -> Function:
    """As `on_all_cores`, but callable from compiled code only."""
    return cast(Function, numba.njit(parallel=True, **_INNER)(function))


def one_at_a_time(function: Function) -> Function:
    """For what the interpreter calls and uses all cores: one call at a time, in any thread.

    Not every thread pool that numba comes with can serve two callers at once, and two calls that
    share the cores would gain nothing.
    """

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        with _ONE_AT_A_TIME:
            return function(*arguments, **named)

    return cast(Function, call)


@contextmanager
def waits_explained() -> Iterator[None]:
    """Logs one line, the first time that anything has to be compiled.

    It goes to the log ``unpooled``, at a level that is shown unless somebody turned it off: in a
    pipe or a notebook too.
    """
    with install_listener("numba:compile", _CompileNotice()):
        yield


class _CompileNotice(Listener):
    logged: ClassVar[bool] = False
    """In this process, by any thread."""

    def on_start(self, event: Event) -> None:
        if not _CompileNotice.logged:
            _CompileNotice.logged = True
            _LOG.warning(
                "unpooled is compiling for this machine, once (half a minute); python -m "
                "unpooled.kernels.compiled.ahead does it ahead."
            )

    def on_end(self, event: Event) -> None:
        pass
