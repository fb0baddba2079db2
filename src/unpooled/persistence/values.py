"""Turns values into JSON with arrays beside it, and back.

None, bools, whole numbers, floats, strings and lists are themselves in JSON, with the NaN and
Infinity of Python's own ``json``. All else is an object with one key: ``{"array": member}`` for an
array, or the tag of a :class:`ValueKind`, which takes a value apart into simpler ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from unpooled.errors import InputError
from unpooled.types import Array


class Unwritable(Exception):
    """Names a value that a model's file cannot hold."""


class Unreadable(Exception):
    """What is wrong with a file, as the end of a sentence that begins with the file's name."""


class ValueKind(NamedTuple):
    """Which values are of this kind (not subclasses, which may carry more), and the two ways."""

    holds: Callable[[Any], bool]
    apart: Callable[[Any], Any]
    together: Callable[[Any], Any]


class Attribute(NamedTuple):
    """A value that knows whose it is: arrays are named after it, and so are refusals."""

    owner: str
    name: str
    value: Any


KINDS = {
    "tuple": ValueKind(lambda value: type(value) is tuple, list, tuple),
    "dict": ValueKind(
        lambda value: type(value) is dict,
        lambda pairs: [list(pairs), list(pairs.values())],
        lambda parts: dict(zip(*parts, strict=True)),
    ),
}


class Encoder:
    """Takes values apart; ``arrays`` collects their arrays by the names of their members."""

    def __init__(self, kinds: Mapping[str, ValueKind]) -> None:
        self.arrays: dict[str, Array] = {}
        self._kinds = kinds
        self._stem = ""

    def value(self, value: Any) -> Any:
        """Any value, as JSON."""
        if value is None or type(value) in (bool, float, str):
            return value
        if type(value) is int and value.bit_length() <= 4096:
            return value  # Python itself neither prints nor reads endless ones
        if type(value) is Attribute:
            return self._of(value)
        for tag, kind in self._kinds.items():
            if kind.holds(value):
                return {tag: self.value(kind.apart(value))}
        if type(value) is list:
            return [self.value(item) for item in value]
        if type(value) in (np.ndarray, np.memmap) and _fits_npy(value.dtype):
            return {"array": self._member(value)}
        of = f" of {value.dtype!r}" if isinstance(value, np.ndarray) else ""
        raise Unwritable(f"a value of type {type(value).__name__}{of}")

    def _of(self, attribute: Attribute) -> Any:
        self._stem = "arrays/" + re.sub(r"\W", "_", attribute.name, flags=re.ASCII)
        try:
            return self.value(attribute.value)
        except (RecursionError, Unwritable) as error:
            what = "a value nested too deeply" if isinstance(error, RecursionError) else error
            raise InputError(
                f"{attribute.name} of {attribute.owner} holds {what}, which cannot be written "
                "without pickle; put plain values (a whole number as random_state), arrays, graphs "
                "or what unpooled brings in its place, or keep your arrays with numpy.savez."
            ) from None

    def _member(self, array: Array) -> str:
        first = f"{self._stem}.npy"
        name = first if first not in self.arrays else f"{self._stem}.{len(self.arrays)}.npy"
        self.arrays[name] = array
        return name


def decode_value(coded: Any, kinds: Mapping[str, ValueKind], array: Callable[[str], Array]) -> Any:
    """The value that the JSON stands for; ``array`` gives the array of a member."""
    if isinstance(coded, list):
        return [decode_value(item, kinds, array) for item in coded]
    if not isinstance(coded, dict):
        return coded
    ((tag, parts),) = coded.items()
    return (
        array(parts) if tag == "array" else kinds[tag].together(decode_value(parts, kinds, array))
    )


def _fits_npy(dtype: np.dtype[Any]) -> bool:
    # The kind V is also that of types which others add to NumPy, and which npy would forget.
    known = dtype.kind in "biufcSUmMV" and not dtype.hasobject
    return known and npy.descr_to_dtype(npy.dtype_to_descr(dtype)) == dtype
