"""Mean square errors of centres, of which Tables 5 and 10 of the FeCA paper have some.

The paper does not define them. The FeCA row of Table 10 and the second line of Table 5 are

    MSE = (mean distance of Table 1)² / 15,

with Table 1's means as they are rounded there: 1.0, 6.8 and 22.3 give 6.7, 308.3 and 3315.3. Two
readings are computed from each run, both in units of 1e6: the squared distance over all 15 centres
("all"), and over the means of groups alone, by their number ("groups"), as the paper says of cases
with fewer centres.
"""

from __future__ import annotations

from unpooled.experiments.feca.setting import UNIT, sset_key
from unpooled.experiments.reproduction.tasks import Results
from unpooled.types import FloatArray

MSE_UNIT = 1e6
MSE_READINGS = {
    "all": "squared distance of all centres, over their number",
    "groups": "means of groups alone, over their number",
}
TRUE_CENTERS = 15
SQUARED_ROWS = {"iid": ("1.0", "6.7"), "(0.3)": ("6.8", "308.3"), "(0.1)": ("22.3", "3315.3")}
"""Table 1's rounded distance, and the mean square error that Tables 5 and 10 print."""


def squared_mean(distance: float, k: int = TRUE_CENTERS) -> float:
    """(distance in 1e4)² / k in 1e6, as the paper seems to have it."""
    return (distance * UNIT) ** 2 / k / MSE_UNIT


def square_errors(
    results: Results, method: str, name: str, how: str, runs: int, reading: str, k: int
) -> FloatArray:
    """The mean square error of each run, by a reading."""
    key = sset_key(method, name, how)
    distance = results.runs(key, "distance" if reading == "all" else "groups", runs)
    number = k if reading == "all" else results.runs(key, "centers", runs)
    squared: FloatArray = (distance * UNIT) ** 2 / number / MSE_UNIT
    return squared


def squares_text() -> str:
    """That the printed errors are squares of rounded means, with the numbers."""
    pairs = ", ".join(
        f"{distance}² gives {squared_mean(float(distance)):.1f} ({error} printed)"
        for distance, error in SQUARED_ROWS.values()
    )
    return f"The printed errors of FeCA are squares of Table 1's rounded means over 15: {pairs}."
