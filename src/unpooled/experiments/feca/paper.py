"""Tables 1, 4 and 6 of Xu et al. 2024, "Jigsaw Game: Federated Clustering" (arXiv 2407.12764).

Copied as printed, also where the print looks wrong. Twelve values are S1 to S4, each iid,
Dirichlet(0.3), Dirichlet(0.1); four are S1 to S4, of pooled rows, whatever the split; three are S1.
"""

from __future__ import annotations

from itertools import product
from typing import TypeAlias

from unpooled.experiments.splits import SPLITS

S_SETS = ("s1", "s2", "s3", "s4")
Cell: TypeAlias = tuple[str, str]
"""A set and a split."""
CELLS: tuple[Cell, ...] = tuple(product(S_SETS, SPLITS))

_TABLE_1_AND_6 = {
    "M-Avg": "7.2±4.3 45.8±5.0 63.0±2.8 14.7±7.1 51.4±8.9 64.0±11.1 "
    "16.4±6.8 35.5±5.7 46.7±5.3 14.2±3.7 28.7±3.3 40.1±6.4",
    "FFCM v1, 1 round": "12.2±15.8 80.7±13.3 81.1±15.7 16.7±20.4 70.9±13.3 89.7±16.0 "
    "16.6±15.2 58.1±11.9 77.4±8.9 11.4±9.5 45.0±8.9 63.1±10.8",
    "FFCM v1, 10 rounds": "3.3±1.4 50.3±8.8 66.1±12.4 9.6±19.1 56.9±12.3 60.3±18.2 "
    "11.4±15.5 45.9±8.8 66.6±12.9 4.8±1.3 45.0±12.3 52.0±11.9",
    "FFCM v2, 1 round": "23.1±19.4 75.7±16.8 77.0±14.4 16.1±16.9 71.9±13.5 79.9±12.6 "
    "18.2±12.6 62.7±12.6 79.1±10.2 13.0±11.4 48.9±9.7 60.4±9.6",
    "FFCM v2, 10 rounds": "2.6±0.4 42.9±14.8 54.2±14.6 32.9±0.5 58.1±13.5 59.4±25.8 "
    "4.5±0.7 49.4±19.3 56.7±16.7 4.9±0.6 44.6±9.1 49.9±7.3",
    "k-FED": "84.6±15.8 59.4±12.3 59.8±16.9 75.9±17.7 64.1±13.1 63.9±11.6 "
    "73.1±14.3 65.6±15.2 68.8±12.8 52.7±10.8 43.4±6.3 47.5±8.6",
    "FeCA": "1.0±0.1 6.8±3.7 22.3±15.6 1.9±0.1 13.6±16.1 38.8±3.4 "
    "3.6±0.7 23.6±8.8 33.2±6.7 4.7±0.7 24.5±7.2 31.5±5.8",
    "FeCA, theoretical": "1.1±0.1 31.8±23.8 58.9±15.1",
    "Centralized": "14.3±18.7 8.4±14.7 25.4±19.1 20.1±10.0",
}
_TABLE_4_PURITY = {
    "M-Avg": "0.99 0.79 0.69 0.93 0.74 0.68 0.80 0.66 0.61 0.75 0.64 0.57",
    "FFCM v1, 1 round": "0.97 0.69 0.66 0.95 0.68 0.58 0.83 0.60 0.54 0.79 0.60 0.53",
    "FFCM v1, 10 rounds": "0.98 0.78 0.68 0.96 0.74 0.71 0.85 0.66 0.57 0.80 0.61 0.55",
    "FFCM v2, 1 round": "0.95 0.69 0.66 0.95 0.63 0.61 0.83 0.58 0.52 0.78 0.57 0.54",
    "FFCM v2, 10 rounds": "0.99 0.80 0.76 0.97 0.70 0.72 0.86 0.65 0.61 0.80 0.60 0.59",
    "k-FED": "0.62 0.76 0.75 0.60 0.71 0.71 0.55 0.61 0.60 0.55 0.62 0.58",
    "FeCA": "0.99 0.98 0.96 0.97 0.95 0.90 0.86 0.80 0.78 0.80 0.73 0.65",
    "Centralized": "0.97 0.96 0.83 0.77",
}
_TABLE_4_NMI = {
    "M-Avg": "0.98 0.85 0.79 0.92 0.80 0.78 0.77 0.71 0.69 0.70 0.65 0.62",
    "FFCM v1, 1 round": "0.98 0.80 0.78 0.93 0.77 0.71 0.78 0.67 0.64 0.72 0.63 0.60",
    "FFCM v1, 10 rounds": "0.98 0.85 0.80 0.94 0.80 0.78 0.79 0.71 0.66 0.72 0.64 0.61",
    "FFCM v2, 1 round": "0.97 0.80 0.78 0.93 0.75 0.72 0.78 0.67 0.63 0.71 0.62 0.60",
    "FFCM v2, 10 rounds": "0.99 0.87 0.85 0.95 0.78 0.79 0.79 0.70 0.68 0.72 0.63 0.63",
    "k-FED": "0.80 0.84 0.83 0.75 0.80 0.80 0.66 0.69 0.68 0.62 0.65 0.63",
    "FeCA": "0.99 0.96 0.95 0.95 0.94 0.90 0.80 0.77 0.75 0.72 0.69 0.66",
    "Centralized": "0.98 0.94 0.79 0.71",
}


def _by_cell(row: str) -> dict[Cell, tuple[float, ...]]:
    values = [tuple(float(number) for number in value.split("±")) for value in row.split()]
    if len(values) == len(S_SETS):
        values = [value for value in values for _ in SPLITS]
    return dict(zip(CELLS, values, strict=len(values) != len(SPLITS)))


def _first(row: str) -> dict[Cell, float]:
    return {cell: value[0] for cell, value in _by_cell(row).items()}


DISTANCE = {method: _by_cell(row) for method, row in _TABLE_1_AND_6.items()}
"""Mean and standard deviation of the distance to the true centres, in units of 1e4."""
PURITY = {method: _first(row) for method, row in _TABLE_4_PURITY.items()}
NMI = {method: _first(row) for method, row in _TABLE_4_NMI.items()}
