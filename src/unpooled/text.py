"""Text from elsewhere (files, other parties, other programs), made safe to print and to log.

A terminal obeys control characters, and a line break forges a line of a log. What is unprintable is
spelt out, so that it is seen and does nothing: an escape becomes the four letters ``\\x1b``.
"""

from __future__ import annotations


def printable(text: str, most: int | None = None) -> str:
    """The text in one line, of its first ``most`` letters, with what is unprintable spelt out."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text[:most]
    )
