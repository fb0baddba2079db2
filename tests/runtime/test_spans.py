from hypothesis import given
from hypothesis import strategies as st

from unpooled.runtime import spans
from unpooled.runtime.spans import Spans


@given(st.lists(st.integers(0, 30), unique=True))
def test_they_hold_what_was_added(numbers: list[int]) -> None:
    own: Spans = []
    for number in numbers:
        spans.add(own, number)
    assert [number for number in range(31) if spans.holds(own, number)] == sorted(numbers)
    assert spans.count(own) == len(numbers)


def test_numbers_that_follow_each_other_are_one_stretch() -> None:
    own: Spans = []
    for number in (3, 4, 5, 9):
        spans.add(own, number)
    assert own == [[3, 5], [9, 9]]
