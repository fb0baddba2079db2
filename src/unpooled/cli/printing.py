"""Prints lines of the command line, without anything that a terminal would obey.

Names, values and paths come from files that others have written. They are made printable here, so
that no sentence has to think of it.
"""

from __future__ import annotations

from unpooled.text import printable


def print_lines(*lines: str) -> None:
    """Prints the lines."""
    for line in lines:
        print(printable(line))
