"""Images as rows: what people pass as ``X``, flattened to one row per image."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import issparse

from unpooled.checks import one_of, whole
from unpooled.errors import InputError
from unpooled.types import Array

ImageShape = tuple[int, int, int]
CHANNELS = ("last", "first")


def flattened(X: Any, channels: str) -> tuple[Any, ImageShape | None]:
    """``X`` with a row for each image (channel by channel), and their shape.

    Tables of rows are left as they are; nothing is known of their shape then.
    """
    one_of("channels", channels, CHANNELS)
    if issparse(X):  # refused where tables are read
        return X, None
    if isinstance(X, Mapping):
        pairs = {name: _flat(table, channels, f"party {name}") for name, table in X.items()}
        return {name: rows for name, (rows, _) in pairs.items()}, _same_shape(pairs.values())
    if isinstance(X, list | tuple) and len(X) and getattr(X[0], "ndim", 2) > 1:
        found = [_flat(table, channels, f"party {i}") for i, table in enumerate(X)]
        return type(X)(rows for rows, _ in found), _same_shape(found)
    return _flat(X, channels, "X")


def shape_of(given: Any, seen: ImageShape | None, n_columns: int) -> ImageShape:
    """The images' shape (channels, height, width): as given, as seen, or guessed.

    Rows of a square number of columns are taken for square images of one channel, others for images
    one pixel high.
    """
    if given is None:
        side = math.isqrt(n_columns)
        return seen or ((1, side, side) if side * side == n_columns else (1, 1, n_columns))
    if not isinstance(given, list | tuple) or len(given) != 3:
        raise InputError(f"image_shape={given!r} must be (channels, height, width).")
    shape = tuple(whole("image_shape", axis, 1) for axis in given)
    if seen is not None and shape != seen:
        raise InputError(f"image_shape={shape} but the images have {seen}; leave it out.")
    if math.prod(shape) != n_columns:
        raise InputError(
            f"image_shape={shape} makes {math.prod(shape)} values of an image, but rows have "
            f"{n_columns}; give (channels, height, width) of the rows."
        )
    return shape  # type: ignore[return-value]


def as_pictures(rows: Array, shape: ImageShape) -> Array:
    """Rows as (n, height, width, channels), which is how they are drawn."""
    return rows.reshape(len(rows), *shape).transpose(0, 2, 3, 1)


def _flat(table: Any, channels: str, what: str) -> tuple[Any, ImageShape | None]:
    if not isinstance(table, np.ndarray) or table.ndim < 3:
        return table, None
    if table.ndim == 3:
        table = table[:, None]
    elif table.ndim == 4:
        table = table if channels == "first" else table.transpose(0, 3, 1, 2)
    else:
        raise InputError(
            f"The images of {what} have the shape {table.shape}; give (n, height, width) or "
            "(n, height, width, channels)."
        )
    n, channel, height, width = table.shape
    return table.reshape(n, channel * height * width), (channel, height, width)


def _same_shape(pairs: Any) -> ImageShape | None:
    shapes = {shape for _, shape in pairs}
    if len(shapes) > 1:
        raise InputError(f"Parties have images of unlike shapes {sorted(map(str, shapes))}.")
    found: ImageShape | None = next(iter(shapes))
    return found
