"""Messages against their declarations: what fits passes, nothing else does, nothing raises."""

from __future__ import annotations

import timeit
from collections.abc import Callable
from math import inf
from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from unpooled.data.tables import LARGEST
from unpooled.messages.codec import DTYPES, encode
from unpooled.messages.conform import largest_size, lengths, misfit, most_numbers
from unpooled.messages.message import Reply
from unpooled.messages.release import COLUMNS, FINITE, AtMost, Columns, Release
from unpooled.types import Body

D = 3
FOUND = AtMost(4, "centroids")
SUMMARY = Release(
    "summary",
    ("centroids", "counts", "cost", "who", "unrest", "box"),
    ("sums",),
    "for these tests",
    shapes={
        "centroids": (FOUND, COLUMNS),
        "counts": (FOUND,),
        "cost": (1,),
        "who": (AtMost(inf, "parties"),),
        "unrest": (),
        "box": (Columns(2, 1),),
    },
    bounds={"cost": FINITE, "unrest": inf},
    types={"who": "uint64"},
)
TABLE = Release("table", ("x",), ("sums",), "a table", shapes={"x": (2, COLUMNS)})


def body(**changed: Any) -> Body:
    """A body that fits, with some fields changed, or left out if None."""
    whole = {
        "centroids": np.ones((2, D)),
        "counts": np.ones(2),
        "cost": np.ones(1),
        "who": np.array([1, 2**64 - 1], dtype=np.uint64),
        "unrest": np.array(inf),
        "box": np.ones(2 * D + 1),
        **changed,
    }
    return {name: value for name, value in whole.items() if value is not None}


def test_what_is_as_declared_fits() -> None:
    assert misfit(SUMMARY, body(), D) is None
    assert misfit(SUMMARY, body(centroids=np.ones((0, D)), counts=np.ones(0)), D) is None
    assert misfit(SUMMARY, body(centroids=np.ones((4, D)), counts=np.ones(4)), D) is None
    assert misfit(SUMMARY, body(cost=np.full(1, -FINITE)), D) is None
    assert misfit(SUMMARY, body(centroids=np.full((2, D), LARGEST)), D) is None
    assert misfit(SUMMARY, body(unrest=np.array(-inf)), D) is None
    assert misfit(SUMMARY, body(who=np.zeros(1000, dtype=np.uint64)), D) is None


@pytest.mark.parametrize(
    ("changed", "clause"),
    [
        ({"secret": np.ones(1)}, "field 'secret' is not declared"),
        ({"counts": None}, "field 'counts' is missing"),
        ({"counts": np.ones(2, np.float32)}, "'counts' is of type float32 where float64 is due"),
        ({"counts": np.ones(2, np.bool_)}, "'counts' is of type bool where float64 is due"),
        ({"who": np.ones(2)}, "'who' is of type float64 where uint64 is due"),
        ({"counts": np.ones(3)}, "'counts' has shape (3,) where (2,) is due"),
        ({"counts": np.array(1.0)}, "'counts' has shape () where (2,) is due"),
        ({"centroids": np.ones((5, D))}, "has shape (5, 3) where (at most 4, 3) is due"),
        ({"centroids": np.ones((2, D + 1))}, "has shape (2, 4) where (at most 4, 3) is due"),
        ({"centroids": np.ones(2)}, "has shape (2,) where (at most 4, 3) is due"),
        ({"who": np.ones((1, 1), np.uint64)}, "has shape (1, 1) where (any number,) is due"),
        ({"unrest": np.ones(1)}, "'unrest' has shape (1,) where () is due"),
        ({"box": np.ones(D)}, "'box' has shape (3,) where (7,) is due"),
        ({"counts": np.array([1.0, np.nan])}, "field 'counts' holds a NaN"),
        ({"unrest": np.array(np.nan)}, "field 'unrest' holds a NaN"),
        ({"counts": np.array([1.0, -inf])}, "field 'counts' holds a number beyond 1e+150"),
        ({"counts": np.array([1.0, -1.1e150])}, "field 'counts' holds a number beyond 1e+150"),
        ({"cost": np.array([inf])}, "field 'cost' holds an infinity"),
    ],
)
def test_what_is_not_is_named(changed: dict[str, Any], clause: str) -> None:
    said = misfit(SUMMARY, body(**changed), D)
    assert said is not None
    assert clause in said


def test_axes_of_one_name_in_one_field_are_equally_long() -> None:
    n = AtMost(4, "users")
    square = Release("square", ("x",), ("model",), "a square", shapes={"x": (n, n)})
    assert misfit(square, {"x": np.ones((3, 3))}, D) is None
    said = misfit(square, {"x": np.ones((3, 2))}, D)
    assert said == "field 'x' has shape (3, 2) where all axes of users are equally long"


def test_an_answer_keeps_to_the_lengths_of_its_question() -> None:
    question = Release("q", ("centers",), ("model",), "?", shapes={"centers": (FOUND, COLUMNS)})
    asked = {"centers": np.ones((3, D))}
    known = lengths(question, asked)
    assert known == {"centroids": 3}
    assert lengths(question, {"centers": np.ones((2, 3, D))}, users=2) == known
    said = misfit(SUMMARY, body(), D, lengths=known)
    assert said == "field 'centroids' has shape (2, 3) where (3, 3) is due"
    three = body(centroids=np.ones((3, D)), counts=np.ones(3))
    assert misfit(SUMMARY, three, D, lengths=known) is None
    assert known == {"centroids": 3}  # and is left as it was


def test_users_come_first() -> None:
    stacked = {name: np.stack([value] * 5) for name, value in body().items()}
    assert misfit(SUMMARY, stacked, D, users=5) is None
    assert misfit(SUMMARY, stacked, D) is not None
    assert misfit(SUMMARY, {name: value[:1] for name, value in stacked.items()}, D, users=1) is None
    said = misfit(SUMMARY, stacked, D, users=4)
    assert said == "field 'centroids' has shape (5, 2, 3) where (4, at most 4, 3) is due"


def test_where_no_shape_is_declared_numbers_are_looked_at_all_the_same() -> None:
    loose = Release("loose", ("x", "y"), ("sums",), "whatever")
    assert misfit(loose, {}, D) is None
    assert misfit(loose, {"x": np.ones((2, 9))}, D) is None
    assert misfit(loose, {"y": np.array([np.nan])}, D) == "field 'y' holds a NaN"
    assert misfit(loose, {"z": np.ones(1)}, D) == "field 'z' is not declared"
    assert largest_size(loose, D) is most_numbers(loose, D) is None


def test_a_question_without_fields() -> None:
    bare = Release("bare", (), ("model",), "nothing but the question")
    assert misfit(bare, {}, D) is None
    assert largest_size(bare, D) == len(encode(Reply("bare", {})))
    assert most_numbers(bare, D) == 0


def test_values_of_the_data_are_not_quoted() -> None:
    said = misfit(SUMMARY, body(counts=np.array([1.0, 4.567e200])), D)
    assert said is not None
    assert "4.567" not in said


arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0))
)
names = st.sampled_from((*SUMMARY.fields, "x", "secret"))
hostile = st.dictionaries(names, arrays, max_size=7)
nearly = hostile.map(lambda found: body(**found))
signalling = np.array([0x7FF0000000000001], dtype=np.uint64).view(np.float64)


@given(hostile | nearly, st.integers(0, 5), st.none() | st.integers(0, 3))
@example(body(cost=signalling), D, None)
@example({"x": np.repeat(signalling, 2 * D).reshape(2, D)}, D, None)
def test_nothing_raises(found: Body, n_columns: int, users: int | None) -> None:
    for release in (SUMMARY, TABLE):
        with np.errstate(all="raise"):
            said = misfit(release, found, n_columns, users)
        assert (said is None) == plainly_fits(release, found, n_columns, users)


def plainly_fits(release: Release, found: Body, n_columns: int, users: int | None) -> bool:
    """The same in plain loops."""
    if set(found) != set(release.fields):
        return False
    named: dict[str, set[int]] = {}
    for name, value in found.items():
        shape = list(value.shape)
        if str(value.dtype) != release.types.get(name, "float64"):
            return False
        if users is not None and (not shape or shape.pop(0) != users):
            return False
        sizes = release.shapes[name]
        if len(sizes) != len(shape):
            return False
        for size, length in zip(sizes, shape, strict=True):
            if isinstance(size, AtMost):
                named.setdefault(size.name, set()).add(length)
                if length > size.most:
                    return False
            elif isinstance(size, Columns):
                if length != size.times * n_columns + size.plus:
                    return False
            elif length != size:
                return False
        bound = release.bounds.get(name, 1.000000001e150)
        for number in value.ravel().tolist():
            if number != number or abs(number) > bound:
                return False
    return all(len(found) == 1 for found in named.values())


sizes = st.one_of(
    st.integers(0, 4),
    st.builds(Columns, st.integers(0, 2), st.integers(0, 3)),
    st.builds(AtMost, st.integers(0, 4), st.sampled_from(("", "a", "b"))),
)
releases = st.dictionaries(
    st.sampled_from(("x", "y", "long_name")),
    st.tuples(st.lists(sizes, max_size=3).map(tuple), st.sampled_from(DTYPES).map(str)),
).map(
    lambda fields: Release(
        "kind",
        tuple(fields),
        ("model",),
        "drawn",
        shapes={name: shape for name, (shape, _) in fields.items()},
        types={name: dtype for name, (_, dtype) in fields.items()},
    )
)


@given(releases, st.integers(1, 4), st.none() | st.integers(1, 3), st.data())
def test_no_fitting_body_is_larger_than_the_largest(
    release: Release, n_columns: int, users: int | None, data: st.DataObject
) -> None:
    named = {name: data.draw(st.integers(0, 4)) for name in ("a", "b")}

    def length(size: Any, whole: bool) -> int:
        if isinstance(size, Columns):
            return size.times * n_columns + size.plus
        if isinstance(size, AtMost):
            wanted = named.get(size.name) if size.name else data.draw(st.integers(0, 4))
            return int(size.most) if whole else min(int(size.most), wanted or 0)
        return int(size)

    def made(whole: bool) -> Body:
        first = () if users is None else (users,)
        return {
            name: np.zeros((*first, *(length(s, whole) for s in shape)), release.types[name])
            for name, shape in release.shapes.items()
        }

    largest = largest_size(release, n_columns, users)
    assert largest == len(encode(Reply("kind", made(True))))
    assert most_numbers(release, n_columns, users) == sum(v.size for v in made(True).values())
    found = made(False)
    if misfit(release, found, n_columns, users) is None:
        assert len(encode(Reply("kind", found))) <= largest


def test_no_bound_where_none_is_known() -> None:
    assert largest_size(SUMMARY, D) is None
    assert most_numbers(SUMMARY, D) is None


def test_the_largest_takes_no_memory() -> None:
    huge = Release("huge", ("x",), ("sums",), "", shapes={"x": (AtMost(10**12), COLUMNS)})
    assert most_numbers(huge, D) == D * 10**12


@pytest.mark.parametrize("about", ["shapes", "bounds", "types"])
def test_nothing_is_declared_of_fields_that_are_not(about: str) -> None:
    said = {"shapes": (1,), "bounds": 1.0, "types": "float64"}[about]
    with pytest.raises(ValueError, match="no field 'y'"):
        Release("k", ("x",), ("sums",), "?", **{about: {"y": said}})  # type: ignore[arg-type]


def test_types_are_those_that_can_travel() -> None:
    with pytest.raises(ValueError, match="cannot travel"):
        Release("k", ("x",), ("sums",), "?", types={"x": "complex128"})


def test_declarations_are_values() -> None:
    again = Release("table", ("x",), ("sums",), "a table", shapes={"x": (2, COLUMNS)})
    assert again == TABLE
    assert hash(again) == hash(TABLE)
    assert again != Release("table", ("x",), ("sums",), "a table", shapes={"x": (3, COLUMNS)})


def test_looking_takes_no_longer_than_encoding() -> None:
    found = {"x": np.random.default_rng(0).normal(size=(10_000, 10))}
    release = Release("k", ("x",), ("sums",), "", shapes={"x": (AtMost(10_000, "n"), COLUMNS)})
    looking = fastest(lambda: misfit(release, found, 10))
    assert looking < 2 * fastest(lambda: encode(Reply("k", found)))


def fastest(call: Callable[[], object]) -> float:
    return min(timeit.repeat(call, number=1, repeat=200))
