"""Dense products, all in one place and one layout.

BLAS has kernels for every processor, and takes another one, which rounds differently, where a
factor is in Fortran order, strided, or a vector instead of a matrix of one column. So every factor
is brought into C order first (:func:`unpooled.types.in_c_order`; nothing is copied that has it),
and a transposed factor is transposed here, which tells BLAS to read it that way and moves nothing.
Then the same numbers give the same bits, however they were stored.

A row of a product may also be rounded differently depending on how many other rows there are, and
where among them it stands: the last few go through another part of a kernel. Where a row must not
see the rows beside it, as where rows of one party and of all are to be embedded alike,
:func:`matmul_by_rows` multiplies blocks of one size that no kernel has a remainder of.

Sparse products need none of this: SciPy adds in the order of the entries.
"""

from __future__ import annotations

import numpy as np

from unpooled.types import FloatArray, in_c_order

_BLOCK = 192
"""Rows: a multiple of what any kernel takes at a time (2, 4, 6, 8, 12, 16, 24, 32 or 48)."""

_ADDED_AT_ONCE = 8192
"""Numbers: NumPy's ``einsum`` takes a longer vector in pieces that depend on those beside it."""


def matmul(a: FloatArray, b: FloatArray) -> FloatArray:
    """A B; either may be a vector."""
    return _product(in_c_order(a), in_c_order(b))


def matmul_by_rows(a: FloatArray, b: FloatArray) -> FloatArray:
    """A B, of which every row is the same whatever other rows A has."""
    a, b = in_c_order(a), in_c_order(b)
    (n, inner), width = a.shape, b.shape[1]
    full = n - n % _BLOCK
    out = np.empty((n, width))
    np.matmul(
        a[:full].reshape(full // _BLOCK, _BLOCK, inner),
        b,
        out=out[:full].reshape(full // _BLOCK, _BLOCK, width),
    )
    if full < n:
        last = np.zeros((_BLOCK, inner))
        last[: n - full] = a[full:]
        out[full:] = np.matmul(last, b)[: n - full]
    return out


def matmul_tn(a: FloatArray, b: FloatArray) -> FloatArray:
    """A' B."""
    a, b = in_c_order(a), _other(a, b)
    return _product(a.T, b)


def matmul_nt(a: FloatArray, b: FloatArray) -> FloatArray:
    """A B'."""
    a, b = in_c_order(a), _other(a, b)
    return _product(a, b.T)


def gram(a: FloatArray) -> FloatArray:
    """A' A, of which BLAS works out one half only."""
    a = in_c_order(a)
    return _product(a.T, a)


def dot(a: FloatArray, b: FloatArray) -> float:
    """a · b for two vectors, added up in pairs: the same on every processor and any threads."""
    return float((in_c_order(a) * in_c_order(b)).sum())


def dots(a: FloatArray, b: FloatArray) -> FloatArray:
    """a · b for every pair of vectors along the last axes.

    Not by BLAS, which on some processors rounds by where in memory a vector begins.
    """
    a, b = in_c_order(a), in_c_order(b)
    if a.shape[-1] > _ADDED_AT_ONCE:
        return np.asarray((a * b).sum(axis=-1))
    return np.asarray(np.einsum("...i,...i->...", a, b))


def squared_lengths(a: FloatArray) -> FloatArray:
    """|a|² for every vector along the last axis."""
    return dots(a, a)


def lengths(a: FloatArray) -> FloatArray:
    """|a| for every vector along the last axis."""
    return np.sqrt(squared_lengths(a))


def norm(a: FloatArray) -> float:
    """|a|, of a matrix over all its entries (Frobenius)."""
    return float(lengths(a.reshape(-1)))


def matvecs(matrix: FloatArray, vectors: FloatArray) -> FloatArray:
    """A x for every vector x along the last axis, one product for each.

    A product of whole matrices would round a vector differently depending on those beside it.
    """
    matrix, vectors = in_c_order(matrix), in_c_order(vectors)
    if len(matrix) == 1:
        return dots(vectors, matrix[0])[..., None]
    return np.asarray(np.matvec(matrix, vectors))


def _product(a: FloatArray, b: FloatArray) -> FloatArray:
    """A B, by :func:`dots` where it is one number."""
    if a.size == b.size == a.shape[-1] > 0:
        return dots(a.reshape(-1), b.reshape(-1)).reshape(a.shape[:-1] + b.shape[1:])
    return np.asarray(a @ b)


def _other(a: FloatArray, b: FloatArray) -> FloatArray:
    """The second factor. Of one and the same memory NumPy would make a :func:`gram`, and of equal
    numbers elsewhere it would not."""
    return b.copy() if np.may_share_memory(a, b) else in_c_order(b)
