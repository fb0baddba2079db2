"""How a kind of value is written: taken apart into simpler ones, and put together again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Unwritable(Exception):
    """Says what a value is that a model's file cannot hold."""


class Unreadable(Exception):
    """What is wrong with a file, as the end of a sentence that begins with the file's name."""


class Kind(NamedTuple):
    """Which values are of this kind, and the two ways."""

    holds: Callable[[Any], bool]
    apart: Callable[[Any], Any]
    together: Callable[[Any], Any]


def exactly(*types: type) -> Callable[[Any], bool]:
    """Values of these types; a subclass may carry more than is written."""
    return lambda value: type(value) in types
