"""What the command line prints: nothing that a terminal would obey.

Names, values and paths come from files that others have written. What is unprintable in them is
spelt out (an escape becomes ``\\x1b``), here, so that no sentence has to think of it.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """The text in one line, with what is unprintable spelt out."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def say(*lines: str) -> None:
    """Prints the lines."""
    for line in lines:
        print(printable(line))
