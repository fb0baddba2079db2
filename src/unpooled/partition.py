"""Ways to spread a labelled data set over parties, for studies.

Every function returns ``groups``, the party 0..n_parties-1 of each row, and leaves no party empty.
The same arguments and seed give the same ``groups``.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from unpooled.checks import whole
from unpooled.errors import InputError
from unpooled.types import BoolArray, IntArray

__all__ = ["balanced", "by_class", "dirichlet", "iid"]

RandomState: TypeAlias = int | np.integer[Any] | np.random.Generator | np.random.RandomState | None

DIRICHLET_TRIES = 1000
"""Draws that `dirichlet` makes before it gives up on filling every party."""

_LARGEST_ALPHA = 1e100


def iid(n_samples: int, *, n_parties: int, random_state: RandomState = None) -> IntArray:
    """Deals the rows out at random; party sizes differ by at most one.

    Parameters
    ----------
    n_samples : int
        How many rows there are.
    n_parties : int
        How many parties there are.
    random_state : int, RandomState, Generator or None, default=None
        Seed.

    Returns
    -------
    groups : array of shape (n,)
        The party of each row, from 0 on.
    """
    n = whole("n_samples", n_samples, 1)
    return balanced(np.zeros(n), n_parties=n_parties, random_state=random_state)


def balanced(y: Any, *, n_parties: int, random_state: RandomState = None) -> IntArray:
    """Gives every party an equal share of every class.

    The rows, shuffled and then sorted by class, are dealt out one by one to the parties in turn. A
    class is one run of that deal, and so is the whole: the counts of a class, and the sizes of the
    parties, differ by at most one.

    Parameters
    ----------
    y : array of shape (n,)
        The class of each row.
    n_parties : int
        How many parties there are.
    random_state : int, RandomState, Generator or None, default=None
        Seed.

    Returns
    -------
    groups : array of shape (n,)
        The party of each row, from 0 on.
    """
    codes, _ = _classes(y)
    m = _check_parties(n_parties, len(codes))
    rng = _generator(random_state)
    groups = np.empty(len(codes), dtype=np.int64)
    groups[_rows_by_class(codes, rng)] = rng.permutation(m)[np.arange(len(codes)) % m]
    return groups


def dirichlet(
    y: Any, *, n_parties: int, alpha: float, random_state: RandomState = None
) -> IntArray:
    """Splits each class over the parties by shares drawn from Dirichlet(alpha, ..., alpha).

    Of the n_c rows of class c, party j gets those between the cuts n_c (p_1 + ... + p_{j-1}) and
    n_c (p_1 + ... + p_j), rounded, where p ~ Dirichlet(alpha) is drawn anew for each class. A small
    alpha leaves a class with few parties, a large one spreads it evenly. A draw that leaves a party
    empty is thrown away, up to `DIRICHLET_TRIES` times.

    Parameters
    ----------
    y : array of shape (n,)
        The class of each row.
    n_parties : int
        How many parties there are.
    alpha : float
        How evenly classes are spread.
    random_state : int, RandomState, Generator or None, default=None
        Seed.

    Returns
    -------
    groups : array of shape (n,)
        The party of each row, from 0 on.
    """
    codes, sizes = _classes(y)
    m = _check_parties(n_parties, len(codes))
    concentration = _check_alpha(alpha)
    rng = _generator(random_state)
    for _ in range(DIRICHLET_TRIES):
        shares = rng.dirichlet(np.full(m, concentration), size=len(sizes))
        cuts = np.rint(np.cumsum(shares, axis=1) * sizes[:, None]).astype(np.int64)
        cuts[:, -1] = sizes  # the shares add up to 1 only up to rounding
        counts = np.diff(cuts, axis=1, prepend=0)
        if counts.sum(axis=0).all():
            break
    else:
        raise InputError(
            f"alpha={alpha} left one of n_parties={m} without rows in each of {DIRICHLET_TRIES} "
            "draws: raise alpha, lower n_parties or use more rows."
        )
    groups = np.empty(len(codes), dtype=np.int64)
    parties = np.tile(np.arange(m), len(sizes))
    groups[_rows_by_class(codes, rng)] = np.repeat(parties, counts.ravel())
    return groups


def by_class(
    y: Any, *, n_parties: int, classes_per_party: int, random_state: RandomState = None
) -> IntArray:
    """Gives every party rows of ``classes_per_party`` classes only.

    Every class is held by somebody, classes have as equal numbers of holders as their rows permit,
    and a class's rows are shared evenly between its holders. A class cannot have more holders than
    rows; where that leaves too few places, some parties hold fewer classes.

    Parameters
    ----------
    y : array of shape (n,)
        The class of each row.
    n_parties : int
        How many parties there are.
    classes_per_party : int
        Of how many classes a party has rows.
    random_state : int, RandomState, Generator or None, default=None
        Seed.

    Returns
    -------
    groups : array of shape (n,)
        The party of each row, from 0 on.
    """
    codes, sizes = _classes(y)
    m = _check_parties(n_parties, len(codes))
    wanted = _check_classes_per_party(classes_per_party, m, len(sizes))
    rng = _generator(random_state)
    places = _holders_per_class(sizes, m, wanted, rng)
    held = _who_holds_what(places, m, rng)
    order, starts = _rows_by_class(codes, rng), np.cumsum(sizes) - sizes
    groups = np.empty(len(codes), dtype=np.int64)
    for c, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        holders = rng.permutation(np.flatnonzero(held[:, c]))
        groups[order[start : start + size]] = holders[np.arange(size) % len(holders)]
    return groups


def _holders_per_class(sizes: IntArray, m: int, wanted: int, rng: np.random.Generator) -> IntArray:
    """Hands the m * wanted places out to the classes in turn, none beyond its rows or m."""
    most = np.minimum(sizes, m)
    places = np.zeros_like(most)
    left = m * wanted
    while left and (places < most).any():
        taken = rng.permutation(np.flatnonzero(places < most))[:left]
        places[taken] += 1
        left -= len(taken)
    return places


def _who_holds_what(places: IntArray, m: int, rng: np.random.Generator) -> BoolArray:
    """A table (parties, classes) in which class c has places[c] holders.

    Parties hold equal numbers of classes, up to one. Each takes the classes with the most places
    left; by the theorem of Gale and Ryser this always comes out.
    """
    left = places.copy()
    held = np.zeros((m, len(places)), dtype=np.bool_)
    share, extra = divmod(int(places.sum()), m)
    for party, lucky in enumerate(rng.permutation(m) < extra):
        chosen = np.lexsort((rng.random(len(left)), -left))[: share + lucky]
        held[party, chosen] = True
        left[chosen] -= 1
    return held


def _rows_by_class(codes: IntArray, rng: np.random.Generator) -> IntArray:
    """The row numbers, sorted by class and in random order within a class."""
    shuffled = rng.permutation(len(codes))
    return shuffled[np.argsort(codes[shuffled], kind="stable")]


def _classes(y: Any) -> tuple[IntArray, IntArray]:
    """The class number of each row, and the rows of each class."""
    try:
        values = np.asarray(y)
        _, codes, sizes = np.unique(values, return_inverse=True, return_counts=True)
    except (TypeError, ValueError) as error:
        raise InputError(
            "y is not a plain array of comparable labels: pass all numbers or all strings."
        ) from error
    if values.ndim != 1 or len(values) == 0:
        raise InputError(
            f"y has the shape {values.shape}: pass one class label for each row, and at least one."
        )
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise InputError("y contains NaN: give every row a class or drop the row.")
    return codes.astype(np.int64), sizes.astype(np.int64)


def _check_parties(n_parties: Any, n_rows: int) -> int:
    m = whole("n_parties", n_parties, 1)
    if m > n_rows:
        raise InputError(
            f"n_parties={m} exceeds the number of rows, {n_rows}: lower it so that every party "
            "gets a row."
        )
    return m


def _check_alpha(alpha: Any) -> float:
    # Beyond the bound the draw overflows; the shares are equal long before.
    number = float(alpha) if isinstance(alpha, Real) else np.nan
    if not 0 < number <= _LARGEST_ALPHA:
        raise InputError(
            f"alpha={alpha!r} is out of range: pass a number above 0 and at most {_LARGEST_ALPHA}."
        )
    return number


def _check_classes_per_party(classes_per_party: Any, m: int, n_classes: int) -> int:
    wanted = whole("classes_per_party", classes_per_party, 1)
    if wanted > n_classes:
        raise InputError(
            f"classes_per_party={wanted} exceeds the number of classes in y, {n_classes}: lower it."
        )
    if m * wanted < n_classes:
        raise InputError(
            f"n_parties={m} with classes_per_party={wanted} have room for {m * wanted} of the "
            f"{n_classes} classes in y: raise one of them so that every class is held by somebody."
        )
    return wanted


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(np.iinfo(np.int32).max))
    if random_state is None or (isinstance(random_state, int | np.integer) and random_state >= 0):
        return np.random.default_rng(random_state)
    raise InputError(
        f"random_state={random_state!r} cannot seed a generator: pass None, an int from 0 on, a "
        "numpy Generator or a numpy RandomState."
    )
