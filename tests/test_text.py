"""Text from elsewhere is printed and logged without anything that a terminal obeys."""

from __future__ import annotations

import sys

from unpooled.text import printable


def test_what_is_unprintable_is_spelt_out() -> None:
    assert printable("a \x1b[31mred\nline\x07") == r"a \x1b[31mred\nline\x07"
    assert printable("Größe, 大小") == "Größe, 大小"
    assert printable("abcdef", 3) == "abc"


def test_every_letter_comes_out_printable_and_twice_is_once() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    once = printable(every)
    assert once.isprintable()
    assert printable(once) == once
