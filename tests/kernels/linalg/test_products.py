"""Products give the same bits however their factors lie in memory; and they are all in one file."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.linalg import eigh_tridiagonal
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

import unpooled
from unpooled.kernels.linalg import products
from unpooled.testing.layouts import LAYOUTS, Layout, byte_swapped
from unpooled.types import in_c_order

pytestmark = pytest.mark.bits

SIZES = [(1, 1, 1), (1, 7, 5), (5, 7, 1), (1, 40, 1), (13, 3, 9), (33, 29, 17), (70, 130, 50)]
ELSEWHERE = {
    "kernels/linalg/segments.py": 3,
    "metrics/sums.py": 1,
    "protocols/mesh/gossip/averaging.py": 1,
    "protocols/mesh/base.py": 2,
    "messages/conform.py": 1,
}
"""How many products other files have: sparse ones, which SciPy adds in one order, and one that is
asked for nothing but whether it is a number."""
layouts = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    """As in every run."""
    with threadpool_limits(1, user_api="blas"):
        yield


def factors(n: int, inner: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([n, inner, m])
    return rng.normal(size=(n, inner)), rng.normal(size=(inner, m))


def made(a: np.ndarray, b: np.ndarray, layout: Layout) -> dict[str, np.ndarray]:
    """All products of two matrices that lie so."""
    (x, y), row = (layout(a), layout(b)), layout(b[:, 0])
    return {
        "matmul": products.matmul(x, y),
        "matmul, vector": products.matmul(x, row),
        "matmul, from the left": products.matmul(row, y),
        "matmul_by_rows": products.matmul_by_rows(x, y),
        "matmul_tn": products.matmul_tn(layout(a.T.copy()), y),
        "matmul_nt": products.matmul_nt(x, layout(b.T.copy())),
        "gram": products.gram(x),
        "matvecs": products.matvecs(layout(b.T.copy()), x),
        "dot": np.array(products.dot(row, row)),
        "dots": products.dots(x, layout(2.0 * a)),
        "lengths": products.lengths(x),
        "norm": np.array(products.norm(x)),
    }


@layouts
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_same_bits_in_every_layout(layout: Layout, size: tuple[int, int, int]) -> None:
    a, b = factors(*size)
    expected = made(a, b, np.copy)
    for name, found in made(a, b, layout).items():
        assert found.tobytes() == expected[name].tobytes(), name
        assert np.allclose(found, expected[name])


@pytest.mark.parametrize("layout", [own for own in LAYOUTS if own is not byte_swapped])
def test_decompositions_and_distances_see_no_layout(layout: Layout) -> None:
    """What LAPACK and SciPy are handed they bring into a layout of their own."""
    rng = np.random.default_rng(0)
    table, other = rng.normal(size=(60, 23)), rng.normal(size=(9, 23))
    square = table.T @ table
    adjacency = csr_array(rng.normal(size=(30, 60)) * (rng.random((30, 60)) < 0.2))
    for work in (
        lambda x, y, z: np.linalg.svd(y, full_matrices=False),
        lambda x, y, z: np.linalg.qr(y),
        lambda x, y, z: np.linalg.eigh(x),
        lambda x, y, z: (np.linalg.cholesky(x), np.linalg.eigvalsh(x)),
        lambda x, y, z: eigh_tridiagonal(x[0], x[0, 1:]),
        lambda x, y, z: (cdist(y, z), cdist(y, z, "sqeuclidean"), cdist(y, z, "cityblock")),
        lambda x, y, z: (adjacency @ y, adjacency @ y[:, :1]),
    ):
        plain = work(square, table, other)
        for one, two in zip(plain, work(*map(layout, (square, table, other))), strict=True):
            assert np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(two).tobytes()


def test_an_axis_of_one_has_one_stride() -> None:
    vector = np.arange(6.0)
    wide = np.asfortranarray(np.ones((6, 3)))
    for odd in (vector[None], vector[:, None], wide[:, :1], wide[:1].T):
        assert in_c_order(odd).strides == np.array(odd).copy(order="C").strides
        assert np.array_equal(in_c_order(odd), odd)


def test_nothing_is_copied_that_lies_as_it_should() -> None:
    for value in (np.ones(3), np.ones((4, 3)), np.ones((2, 3, 4)), np.array(1.0), np.ones((0, 3))):
        assert in_c_order(value) is value
    row = np.ones((1, 3))
    assert np.shares_memory(in_c_order(row), row)


@pytest.mark.parametrize("inner", [1, 2, 7, 64, 300])
@pytest.mark.parametrize("width", [1, 3, 10, 129])
def test_a_row_does_not_see_the_rows_beside_it(inner: int, width: int) -> None:
    rng = np.random.default_rng([inner, width])
    rows, b = rng.normal(size=(450, inner)), rng.normal(size=(inner, width))
    whole = products.matmul_by_rows(rows, b)
    assert np.allclose(whole, rows @ b)
    for some in ([0], [449], range(13), range(200, 393), range(0, 450, 3)):
        assert np.array_equal(products.matmul_by_rows(rows[some], b), whole[some])
    places = products.matmul_by_rows(np.repeat(rows[:1], 385, axis=0), b)
    assert (places == whole[0]).all()


def moved(values: np.ndarray, places: int) -> np.ndarray:
    """The same numbers so many places behind an address that any vector unit likes."""
    memory = np.empty(values.size + 16)
    begin = -memory.ctypes.data // 8 % 8 + places
    found = memory[begin : begin + values.size].reshape(values.shape)
    found[...] = values
    return found


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_where_in_memory_a_factor_begins_is_nothing(size: tuple[int, int, int]) -> None:
    a, b = factors(*size)
    expected = made(a, b, lambda values: moved(values, 0))
    for places in (1, 2, 3, 5):
        found = made(a, b, lambda values, places=places: moved(values, places))  # type: ignore[misc]
        for name, value in found.items():
            assert value.tobytes() == expected[name].tobytes(), name


@pytest.mark.parametrize("width", [1, 2, 3, 8, 17, 300, 8192, 8193, 20_000])
def test_a_vector_does_not_see_the_vectors_beside_it(width: int) -> None:
    a, b = factors(7, width, 7)
    whole, lengths = products.dots(a, b.T), products.squared_lengths(a)
    assert np.allclose(whole, (a * b.T).sum(axis=1))
    for row in range(7):
        assert products.dots(a[row], b.T[row]) == whole[row]
        assert products.squared_lengths(a[row : row + 1]) == lengths[row]
    assert np.array_equal(products.dots(a, b[:, 0]), products.dots(np.stack([b[:, 0]] * 7), a))


def test_one_matrix_twice_is_as_good_as_two_that_are_equal() -> None:
    table = np.random.default_rng(0).normal(size=(37, 19))
    assert np.array_equal(products.matmul_tn(table, table), products.matmul_tn(table, table.copy()))
    assert np.array_equal(products.matmul_nt(table, table), products.matmul_nt(table, table.copy()))


OTHERS = ("deep/", "experiments/", "testing/attacks/")


def test_no_product_is_made_elsewhere() -> None:
    """Torch has products of its own, and experiments and attacks are no part of a run."""
    source = Path(unpooled.__file__).parent
    found: dict[str, int] = {}
    for file in sorted(source.rglob("*.py")):
        name = file.relative_to(source).as_posix()
        if name != "kernels/linalg/products.py" and not name.startswith(OTHERS):
            count = sum(map(is_product, ast.walk(ast.parse(file.read_text()))))
            found |= {name: count} if count else {}
    assert found == ELSEWHERE


def is_product(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp | ast.AugAssign):
        return isinstance(node.op, ast.MatMult)
    names = {"dot", "vdot", "inner", "matmul", "einsum", "tensordot", "vecdot", "matvec", "vecmat"}
    if not isinstance(node, ast.Attribute):
        return False
    called: Callable[[ast.expr], str] = ast.unparse
    return (node.attr in names and called(node.value) == "np") or (
        node.attr == "norm" and called(node.value) == "np.linalg"
    )
