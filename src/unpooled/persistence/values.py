"""Everything that models are made of, as JSON with arrays beside it, and back.

None, bools, whole numbers, finite floats, strings and lists are themselves in JSON. All else is an
object with one key: ``{"array": member}`` for an array, or the name of the kind that takes the
value apart into simpler ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite
from typing import Any

import numpy as np
from numpy.lib import format as npy
from sklearn.base import BaseEstimator

from unpooled.errors import InputError
from unpooled.persistence import classes, foreign
from unpooled.persistence.kinds import Kind, Unwritable, exactly
from unpooled.types import Array

_KINDS: dict[str, Kind] = {
    "float": Kind(exactly(float), repr, float),  # those that JSON lacks: nan, inf, -inf
    "tuple": Kind(exactly(tuple), list, tuple),
    "dict": Kind(
        exactly(dict), lambda d: [list(d), list(d.values())], lambda p: dict(zip(*p, strict=True))
    ),
    **foreign.KINDS,
    **classes.KINDS,
}
_LONGEST = 4096
"""Bits of a whole number; Python itself neither prints nor reads endless ones."""


class Encoder:
    """Takes a model apart; ``arrays`` collects its arrays by the names of their members."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._attribute = ""

    def model(self, model: BaseEstimator) -> Any:
        """The estimator: its class, its parameters, and all else that it carries."""
        home = classes.home_of_model(type(model))
        names = model.get_params(deep=False)
        params = sorted(name for name in vars(model) if name in names)
        rest = sorted(name for name in vars(model) if name not in names)
        return {"model": [*home, self._all_of(model, params), self._all_of(model, rest)]}

    def _all_of(self, model: BaseEstimator, names: list[str]) -> Any:
        return {"dict": [names, [self._of(model, name) for name in names]]}

    def _of(self, model: BaseEstimator, name: str) -> Any:
        self._attribute = name
        try:
            return self.value(vars(model)[name])
        except (RecursionError, Unwritable) as error:
            what = "a value nested too deeply" if isinstance(error, RecursionError) else error
            raise InputError(
                f"{name} of {type(model).__name__} holds {what}, which cannot be written without "
                "pickle; put plain values, arrays, graphs or what unpooled brings in its place, "
                "or keep the arrays you need with numpy.savez."
            ) from None

    def value(self, value: Any) -> Any:
        """Any value, as JSON."""
        if value is None or type(value) in (bool, str):
            return value
        if type(value) is int and value.bit_length() <= _LONGEST:
            return value
        if type(value) is float and isfinite(value):
            return value
        if type(value) is list and not foreign.is_row(value):
            return [self.value(item) for item in value]
        if type(value) in (np.ndarray, np.memmap) and _is_plain(value.dtype):
            return {"array": self._member(value)}
        if isinstance(value, BaseEstimator):
            return self.model(value)
        for tag, kind in _KINDS.items():
            if kind.holds(value):
                return {tag: self.value(kind.apart(value))}
        of = f" of {value.dtype!r}" if isinstance(value, np.ndarray) else ""
        raise Unwritable(f"a value of type {type(value).__name__}{of}")

    def _member(self, array: Array) -> str:
        stem = "arrays/" + re.sub(r"\W", "_", self._attribute, flags=re.ASCII)
        first = f"{stem}.npy"
        name = first if first not in self.arrays else f"{stem}.{len(self.arrays)}.npy"
        self.arrays[name] = array
        return name


class Decoder:
    """Puts a model together; ``array`` gives the array of a member."""

    def __init__(self, array: Callable[[str], Array]) -> None:
        self._array = array

    def value(self, coded: Any) -> Any:
        """The value that the JSON stands for."""
        if isinstance(coded, list):
            return [self.value(item) for item in coded]
        if not isinstance(coded, dict):
            return coded
        ((tag, parts),) = coded.items()
        if tag == "array":
            return self._array(parts)
        together = classes.model if tag == "model" else _KINDS[tag].together
        return together(self.value(parts))


def _is_plain(dtype: np.dtype[Any]) -> bool:
    # The kind V is also that of types which others add to NumPy, and which npy would forget.
    known = dtype.kind in "biufcSUmMV" and not dtype.hasobject
    return known and npy.descr_to_dtype(npy.dtype_to_descr(dtype)) == dtype
