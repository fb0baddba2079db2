"""Finds where something is wrong in a csv file: its lines, as an editor shows them.

Numbers are read by polars, which is fast and does not report where it failed. This goes through the
file as text. The first line is line 1; a value that runs over several lines is in the first.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_SEPARATORS = ";\t|"


class CsvRecord(NamedTuple):
    """The values between two ends of line, and the line that they begin in."""

    line: int
    values: list[str]


class TooLong(NamedTuple):
    """A record of more values than there are columns."""

    place: str
    text: str
    size: int


def header(path: Path) -> list[str]:
    """The names of the columns; none if the file is empty."""
    return next((record.values for record in _records(path)), [])


def other_separator(header: list[str], wanted: tuple[str, ...]) -> str:
    """What is between columns where it is no comma; nothing where it is, or is not known."""
    if any(column in header for column in wanted):
        return ""
    for separator in _SEPARATORS:
        names = [name.strip(' "') for name in ",".join(header).split(separator)]
        if any(column in names for column in wanted) or (len(header) == 1 and len(names) > 1):
            return separator
    return ""


def first_too_long(path: Path, n_columns: int) -> TooLong | None:
    """The first record of more values than columns."""
    for line, values in _records(path):
        if len(values) > n_columns:
            return TooLong(_line_place(line), ",".join(values), len(values))
    return None


def column(path: Path, index: int, n_columns: int) -> Iterator[tuple[str, str]]:
    """Where each value of a column stands, and the value."""
    records = _records(path, blank=n_columns == 1)
    next(records)
    for line, values in records:
        yield _line_place(line), values[index] if index < len(values) else ""


def _line_place(line: int) -> str:
    return f"line {line} (counting the header)"


def _records(path: Path, *, blank: bool = False) -> Iterator[CsvRecord]:
    """All records; blank lines are none, unless that is how an only column has no value."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file)
        line = 1
        for values in reader:
            if values or blank:
                yield CsvRecord(line, values)
            line = reader.line_num + 1
