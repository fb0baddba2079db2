"""Reads a TOML file that people wrote, and refuses what can be neither hashed nor quoted."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import date, time
from pathlib import Path
from typing import Any

from unpooled.errors import InputError

_DEEPEST = 16
"""Tables and lists in each other; centres for every peer take six."""


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """A file of ours, parsed; one sentence if it cannot be."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"The {what} {path} cannot be read ({error.strerror}); give the path of a TOML file."
        ) from None
    try:
        content = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"The {what} {path} is not valid TOML: {reason}.") from None
    _refuse_odd(content, f"The {what} {path}")
    return content


def _refuse_odd(content: Mapping[str, Any], source: str) -> None:
    """Refuses what can be neither hashed nor quoted: dates, endless numbers, endless nesting."""
    values: list[Any] = [content]
    for _ in range(_DEEPEST):
        values = [
            inner
            for value in values
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        for value in values:
            if isinstance(value, date | time):
                raise InputError(f"{source} has the date or time {value}; put it in quotes.")
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise InputError(f"{source} has a whole number of more than 64 bits; lower it.")
    if values:
        raise InputError(f"{source} has more than {_DEEPEST} tables and lists in each other.")
