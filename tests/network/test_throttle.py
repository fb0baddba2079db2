"""What happens again and again is logged often at first, then ever more seldom."""

from __future__ import annotations

from unpooled.network.throttle import worth_logging


def test_the_first_times_and_then_powers_of_two() -> None:
    assert [n for n in range(1, 100) if worth_logging(n)] == [1, 2, 3, 4, 8, 16, 32, 64]
    assert sum(map(worth_logging, range(1, 10**6 + 1))) == 21
