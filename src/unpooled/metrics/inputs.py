"""Labels and centres as users pass them, checked and made arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from unpooled.data.tables import LARGEST, has_missing
from unpooled.errors import InputError
from unpooled.types import Array, FloatArray


def distinct_labels(labels: Array) -> Array:
    """The different labels, in ascending order."""
    try:
        return np.unique(labels)
    except TypeError as error:
        raise InputError("Labels cannot be compared: use all numbers or all strings.") from error


def label_vector(values: Any, n: int, what: str) -> Array:
    """One label for each of ``n`` rows; ``what`` names the argument in errors."""
    if has_missing(values):
        raise InputError(f"{what} contains NaN or another missing value: give every row one.")
    vector = plain_array(values, what)
    if vector.shape != (n,):
        raise InputError(
            f"{what} has the shape {vector.shape} where there are {n} rows: pass one value a row."
        )
    if vector.dtype.kind == "f" and not np.isfinite(vector).all():
        raise InputError(f"{what} contains NaN or infinity: give every row a proper value.")
    return vector


def finite_array(values: Any, what: str, ndim: int) -> FloatArray:
    """Numbers in ``ndim`` dimensions, none missing, infinite or too large to be squared."""
    array: FloatArray = plain_array(values, what, np.float64)
    if array.ndim != ndim or array.size == 0:
        raise InputError(
            f"{what} has the shape {array.shape}: pass {ndim} dimensions, none of them empty."
        )
    if not (np.abs(array) <= LARGEST).all():
        raise InputError(
            f"{what} contains NaN, infinity or values beyond {LARGEST:g}: drop or rescale them."
        )
    return array


def plain_array(values: Any, what: str, dtype: Any = None) -> Array:
    """Whatever NumPy can make an array of."""
    try:
        return np.asarray(values, dtype=dtype)
    except (TypeError, ValueError) as error:
        kind = "numbers" if dtype else "labels"
        raise InputError(f"{what} is not an array of {kind}: pass a plain one.") from error
