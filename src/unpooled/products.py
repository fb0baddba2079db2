"""Dense products, all in one place and one layout.

BLAS has kernels for every processor, and takes another one, which rounds differently, where a
factor is in Fortran order, strided, or a vector instead of a matrix of one column. So every factor
is brought into C order first (:func:`unpooled.types.in_c_order`; nothing is copied that has it),
and a transposed factor is transposed here, which tells BLAS to read it that way and moves nothing.
Then the same numbers give the same bits, wherever they come from.

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


def matmul(a: FloatArray, b: FloatArray) -> FloatArray:
    """A B; either may be a vector."""
    return np.asarray(in_c_order(a) @ in_c_order(b))


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
    return np.asarray(a.T @ b)


def matmul_nt(a: FloatArray, b: FloatArray) -> FloatArray:
    """A B'."""
    a, b = in_c_order(a), _other(a, b)
    return np.asarray(a @ b.T)


def gram(a: FloatArray) -> FloatArray:
    """A' A, of which BLAS works out one half only."""
    a = in_c_order(a)
    return np.asarray(a.T @ a)


def dot(a: FloatArray, b: FloatArray) -> float:
    """a · b for two vectors, added up in pairs: the same on every processor and any threads."""
    return float((in_c_order(a) * in_c_order(b)).sum())


def dots(a: FloatArray, b: FloatArray) -> FloatArray:
    """a · b for every pair of vectors along the last axes."""
    return np.asarray(np.vecdot(in_c_order(a), in_c_order(b)))


def squared_lengths(a: FloatArray) -> FloatArray:
    """|a|² for every vector along the last axis."""
    a = in_c_order(a)
    return np.asarray(np.vecdot(a, a))


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
    return np.asarray(np.matvec(in_c_order(matrix), in_c_order(vectors)))


def _other(a: FloatArray, b: FloatArray) -> FloatArray:
    """The second factor. Of one and the same memory NumPy would make a :func:`gram`, and of equal
    numbers elsewhere it would not."""
    return b.copy() if np.may_share_memory(a, b) else in_c_order(b)
