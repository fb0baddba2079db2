r"""Polynomials that average: how to combine a few exchanges with neighbours into a mean over all.

Users mix by the weighted Laplacian M = D_w - (w_ij), w_ij = 1 / max(deg_i, deg_j), whose
eigenvalues lie in [0, 2], 0 belonging to what all users have in common. One exchange gives a user
its part of M p, and S of them, by the two-term recurrence

    p <- z + b_n p,      z <- z - a_n M p,      n = 0..S-1,

turn z into P(M) z with P(0) = 1: what users have in common stays, and the part of the disagreement
that belongs to the eigenvalue l is multiplied by P(l). The aim is a P of few exchanges that is
small on the spectrum.

*Chebyshev's* is the best one where only an interval [low, high] is known to hold the spectrum. It
never makes anything in (0, high] larger, so a wrong ``low`` costs time only. *Conjugate residuals*
on the spectrum itself find a P that is small on the eigenvalues, wherever these are: on a ring of
m users, with its m/2 distinct ones, it is exactly 0 after m/2 exchanges.
"""

from __future__ import annotations

import math

import numpy as np

from unpooled.kernels.linalg.products import dot
from unpooled.types import FloatArray

_ZERO = 1e-12
"""Eigenvalues below this are 0 but for rounding."""
_EXACT = 1e-13


def residual(coefficients: FloatArray, eigenvalues: FloatArray) -> FloatArray:
    """P(l) for each eigenvalue."""
    r: FloatArray = np.ones_like(eigenvalues)
    p: FloatArray = np.zeros_like(eigenvalues)
    for a, b in coefficients:
        p = r + b * p
        r = r - a * eigenvalues * p
    return r


def chebyshev(low: float, high: float, passes: int) -> FloatArray:
    """The (a_n, b_n), (passes, 2), of the polynomial that is smallest on [low, high]."""
    middle, half = (high + low) / 2, (high - low) / 2
    found = np.zeros((passes, 2))
    a = b = 0.0
    for n in range(passes):
        b = 0.0 if n == 0 else (half * a) ** 2 / (2 if n == 1 else 4)
        a = 1 / middle if n == 0 else 1 / (middle - b / a)
        found[n] = a, b
    return found


def passes_needed(low: float, high: float, theta: float) -> int:
    """The least number S of exchanges after which Chebyshev's polynomial is at most ``theta``.

    That is where 1 / T_S(x) <= theta, T_S(x) = cosh(S arcosh x), x = (high + low) / (high - low).
    """
    if high - low <= _ZERO * high:
        return 1
    return max(1, math.ceil(math.acosh(1 / theta) / math.acosh((high + low) / (high - low))))


def widest(passes: int, theta: float, high: float = 2.0) -> FloatArray:
    """Chebyshev's polynomial of that many exchanges on the widest interval up to ``high`` on
    which it is at most ``theta``: for a graph of which nothing is known."""
    x = math.cosh(math.acosh(1 / theta) / passes)
    return chebyshev(high * (x - 1) / (x + 1), high, passes)


def conjugate_residuals(spectrum: FloatArray, theta: float, most: int) -> FloatArray:
    """The (a_n, b_n) of the polynomial that is at most ``theta`` on the spectrum, or the first
    ``most`` of them."""
    found: list[tuple[float, float]] = []
    r = p = np.ones_like(spectrum)
    b = 0.0
    while len(found) < most:
        step = spectrum * p
        energy = dot(r, spectrum * r)
        a = energy / dot(step, step)
        found.append((a, b))
        r = r - a * step
        if np.abs(r).max() <= max(theta, _EXACT):
            break
        b = dot(r, spectrum * r) / energy
        p = r + b * p
    return np.array(found)


def shortest(spectrum: FloatArray, theta: float) -> FloatArray:
    """The shorter of both polynomials, for a graph with these eigenvalues, in ascending order."""
    spectrum = spectrum[spectrum > _ZERO]
    if not len(spectrum):
        return np.zeros((1, 2))  # nobody to average with
    low, high = float(spectrum[0]), float(spectrum[-1])
    passes = passes_needed(low, high, theta)
    found = conjugate_residuals(spectrum, theta, passes)
    reached = np.abs(residual(found, spectrum)).max() <= theta
    return found if reached else chebyshev(low, high, passes)
