"""Checks of single options, each refused in one clear sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from unpooled.errors import InputError

MOST = 2**31 - 1
"""The most of anything that options ask for: of more, nothing could be made."""


def whole(name: str, value: Any, least: int, most: float = MOST) -> int:
    """An integer from ``least`` to ``most``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise InputError(f"{name}={value!r} must be a whole number of at least {least}.")
    if int(value) > most:
        raise InputError(f"{name}={value!r} must be a whole number of at most {most}.")
    return int(value)


def number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float = 0.0,
    most: float = math.inf,
) -> float:
    """A finite number greater than ``above``, or at least ``least``, and not over ``most``."""
    try:
        found = (
            float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
        )
    except OverflowError:
        found = math.inf
    inside = found > above if above is not None else found >= least
    if math.isfinite(found) and inside and found <= most:
        return found
    bound = f"greater than {above:g}" if above is not None else f"of at least {least:g}"
    bound += f" and at most {most:g}" if math.isfinite(most) else ""
    raise InputError(f"{name}={value!r} must be a finite number {bound}.")


def number_or(word: str, name: str, value: Any) -> float | None:
    """A positive number, or None for the word by which it is left to us."""
    if isinstance(value, str):
        if value == word:
            return None
        raise InputError(f'{name}={value!r} is not known; give "{word}" or a number.')
    return number(name, value, above=0.0)


def fraction(name: str, value: Any) -> float:
    """A number from 0 up to, not including, 1."""
    found = number(name, value)
    if found >= 1:
        raise InputError(f"{name}={value!r} must be a share, from 0 to less than 1.")
    return found


def whole_or_none(name: str, value: Any, least: int) -> int | None:
    """An integer that is at least ``least``, or None."""
    return None if value is None else whole(name, value, least)


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name}={value!r} must be True or False.")
    return bool(value)


def one_of(name: str, value: Any, known: Sequence[str]) -> str:
    """One of the words ``known``."""
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{name}={value!r} is not known; give {' or '.join(map(repr, known))}.")
    return value


def seed(random_state: Any) -> int:
    """A seed from any of the forms that scikit-learn's and NumPy's users give."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    # It takes seconds to import, which commands on keys and plans' first refusals need not wait.
    from sklearn.utils import check_random_state

    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except (TypeError, ValueError):
        raise InputError(
            f"random_state={random_state!r} cannot seed a generator; give None, a whole number "
            "from 0 to 2**32 - 1, a numpy Generator or a RandomState."
        ) from None
