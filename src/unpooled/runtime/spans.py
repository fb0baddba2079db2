"""Numbers that mostly follow each other, kept as stretches [first, last], both included."""

from __future__ import annotations

from typing import TypeAlias

Spans: TypeAlias = list[list[int]]


def add(spans: Spans, number: int) -> None:
    """Lengthens the last stretch by the number, or begins another with it."""
    if spans and spans[-1][1] == number - 1:
        spans[-1][1] = number
    else:
        spans.append([number, number])


def holds(spans: Spans, number: int) -> bool:
    """Whether the number is in one of them."""
    return any(first <= number <= last for first, last in spans)


def count(spans: Spans) -> int:
    """How many numbers they hold."""
    return sum(last - first + 1 for first, last in spans)
