"""Compares messages with what was declared of them: fields, shapes, types and numbers.

A driver that receives messages from elsewhere asks :func:`misfit` before it hands one on; nothing
in a message can make it raise. :func:`largest_size`, :func:`most_numbers` and :func:`most_bytes`
say before a run how much a message may come to.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isinf, prod

import numpy as np

from unpooled.data.tables import LARGEST
from unpooled.messages.codec import body_size
from unpooled.messages.release import FINITE, AtMost, Columns, Release, Size
from unpooled.types import Array, Body

_LARGEST = LARGEST * (1 + 1e-9)
"""A mean of numbers up to ``LARGEST`` may be rounded up."""


def misfit(
    release: Release,
    body: Body,
    n_columns: int,
    users: int | None = None,
    lengths: Mapping[str, int] | None = None,
) -> str | None:
    """What is wrong with the first field that is not as declared, as a clause; None if all fit.

    ``users`` is how many of them a body from a mesh holds, along every array's first axis.
    ``lengths`` are those of named axes that are known: of the question, for an answer to it.
    """
    for name in body:
        if name not in release.fields:
            return f"field {name!r} is not declared"
    known = dict(lengths or {})
    for name in release.fields:
        if name not in body:
            if name in release.shapes and name not in release.optional:
                return f"field {name!r} is missing"
            continue
        wrong = _wrong_type(release, name, body[name])
        wrong = wrong or _wrong_shape(release, name, body[name], n_columns, users, known)
        wrong = wrong or _wrong_number(release, name, body[name])
        if wrong is not None:
            return f"field {name!r} {wrong}"
    return None


def wrong_numbers(release: Release, body: Body) -> str | None:
    """The same for the numbers alone, of a body whose form is known to fit."""
    for name, value in body.items():
        wrong = _wrong_number(release, name, value)
        if wrong is not None:
            return f"field {name!r} {wrong}"
    return None


def lengths(release: Release, body: Body, users: int | None = None) -> dict[str, int]:
    """The lengths of the named axes in a body that fits: what an answer to it must keep to."""
    first = 0 if users is None else 1
    return {
        size.name: length
        for name, sizes in release.shapes.items()
        if name in body
        for size, length in zip(sizes, body[name].shape[first:], strict=True)
        if isinstance(size, AtMost) and size.name
    }


def largest_size(release: Release, n_columns: int, users: int | None = None) -> int | None:
    """The bytes of the largest message of this kind, encoded; None if no bound is known."""
    body = _largest(release, n_columns, users)
    return None if body is None else body_size(release.kind, body)


def most_numbers(release: Release, n_columns: int, users: int | None = None) -> int | None:
    """The numbers in the largest message of this kind; None if no bound is known."""
    shapes = _largest_shapes(release, n_columns, users)
    return None if shapes is None else sum(map(prod, shapes.values()))


def most_bytes(release: Release, n_columns: int, users: int | None = None) -> int | None:
    """The bytes of these numbers, however many they are; None if no bound is known."""
    shapes = _largest_shapes(release, n_columns, users)
    if shapes is None:
        return None
    return sum(prod(shape) * _dtype(release, name).itemsize for name, shape in shapes.items())


def _largest(release: Release, n_columns: int, users: int | None) -> Body | None:
    """The largest message of this kind. It takes no memory."""
    shapes = _largest_shapes(release, n_columns, users)
    if shapes is None:
        return None
    return {
        name: np.broadcast_to(np.zeros((), _dtype(release, name)), shape)
        for name, shape in shapes.items()
    }


def _largest_shapes(
    release: Release, n_columns: int, users: int | None
) -> dict[str, tuple[int, ...]] | None:
    shapes = {}
    for name in release.fields:
        if name not in release.shapes:
            return None
        most = [_most(size, n_columns) for size in release.shapes[name]]
        if any(map(isinf, most)):
            return None
        shapes[name] = (*(() if users is None else (users,)), *map(int, most))
    return shapes


def _most(size: Size, n_columns: int) -> float:
    if isinstance(size, Columns):
        return size.times * n_columns + size.plus
    return size.most if isinstance(size, AtMost) else size


def _dtype(release: Release, name: str) -> np.dtype:
    return np.dtype(release.types.get(name, "float64"))


def _wrong_type(release: Release, name: str, value: Array) -> str | None:
    due = _dtype(release, name)
    return None if value.dtype == due else f"is of type {value.dtype} where {due} is due"


def _wrong_shape(
    release: Release,
    name: str,
    value: Array,
    n_columns: int,
    users: int | None,
    known: dict[str, int],
) -> str | None:
    """Compares shapes; ``known`` gains the lengths of axes whose name is new."""
    if name not in release.shapes:
        return None
    sizes = (*(() if users is None else (users,)), *release.shapes[name])
    # An axis whose length is known already is as good as one of a fixed length.
    due = [known.get(s.name, s) if isinstance(s, AtMost) and s.name else s for s in sizes]
    fits = len(due) == value.ndim and all(
        length <= size.most if isinstance(size, AtMost) else length == _most(size, n_columns)
        for size, length in zip(due, value.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join(_in_words(size, n_columns) for size in due)
        return f"has shape {value.shape} where ({wanted}{',' * (len(due) == 1)}) is due"
    for size, length in zip(due, value.shape, strict=True):
        if isinstance(size, AtMost) and size.name and known.setdefault(size.name, length) != length:
            return f"has shape {value.shape} where all axes of {size.name} are equally long"
    return None


def _in_words(size: Size, n_columns: int) -> str:
    most = _most(size, n_columns)
    if isinf(most):
        return "any number"
    return f"at most {most:.0f}" if isinstance(size, AtMost) else f"{most:.0f}"


def _wrong_number(release: Release, name: str, value: Array) -> str | None:
    if value.dtype.kind != "f" or not value.size:
        return None
    bound = release.bounds.get(name, _LARGEST)
    flat = value.reshape(-1)
    if bound >= _LARGEST and float(np.vdot(flat, flat)) < _LARGEST:
        return None  # their squares add up to little: none is large, infinite or NaN
    with np.errstate(all="ignore"):  # bytes from elsewhere may be NaNs that raise alarms
        # Neither is so if there is a NaN; as float64, since in half the digits bounds are infinite.
        if float(value.max()) <= bound and float(value.min()) >= -bound:
            return None
        if np.isnan(value).any():
            return "holds a NaN"
    return f"holds {'an infinity' if bound >= FINITE else f'a number beyond {LARGEST:g}'}"
