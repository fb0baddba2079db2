r"""How fast users can average, found out by users who know their own links only.

Wanted is the smallest eigenvalue l_2 > 0 of the mixing matrix M (eigenvalues in [0, 2]; see
:mod:`unpooled.kernels.linalg.polynomials`). Each user draws a number, v = (v_1, .., v_m). One
exchange gives u_0 = M v, from which what all users have in common is gone; T more give u_j = T_j(M
- 1) u_0 by Chebyshev's recurrence u_{j+1} = 2 (M - 1) u_j - u_{j-1}, each user having its own entry
of these. The modified moments m_j = <u_0, u_j>, j = 0..2T-1, follow from sums over users,

    m_{2j} = 2 <u_j, u_j> - m_0,      m_{2j+1} = 2 <u_{j+1}, u_j> - m_1,

and these sums go up the tree with whatever else does. They say all about M on the space spanned by
u_0..u_{T-2}: the smallest Ritz value there is at least l_2 and close to it, since T is twice the
reach of the graph. It is taken a little smaller; if it is still too large, averages are less
exact, and if too small, they take an exchange or two more.

**What leaves** are combinations of random numbers with the links' weights, and sums of products of
these: nothing about rows, and of the links only how they act on random numbers.
"""

from __future__ import annotations

import numpy as np

from unpooled.kernels.linalg.products import dots, matmul, matmul_tn
from unpooled.messages.message import Post
from unpooled.messages.release import Release
from unpooled.protocols.mesh.base import Block, Peer
from unpooled.protocols.mesh.shared.common_start import Beside
from unpooled.types import FloatArray, IntArray

_PROBES = 2
"""Draws per user: one alone may happen to have little of what is looked for."""
_CAUTION = 0.8
LEAST = 1e-4

PROBE_RELEASE = Release(
    "probe",
    ("probe",),
    ("model",),
    "random numbers, mixed with neighbours', which tell how fast the graph averages",
    shapes={"probe": (_PROBES,)},
)


def n_steps(block: Block) -> int:
    """T."""
    return max(4, 2 * block.reach)


def probe(block: Block) -> Peer[Beside]:
    """The users' sums, and the lower bound of the spectrum that a root makes of them."""
    near, steps = block.neighbourhood, n_steps(block)
    draws = [
        np.random.default_rng([block.seed, int(user), 3]).normal(size=_PROBES)
        for user in near.users
    ]
    last: FloatArray = np.array(draws)
    heard = yield Post("probe", 0, {"probe": last})
    u = [-heard.mixed(near, "probe", heard.spoken(near))]
    for j in range(steps):
        heard = yield Post("probe", j + 1, {"probe": u[-1]})
        shifted = -heard.mixed(near, "probe", heard.spoken(near)) - u[-1]
        u.append(shifted if j == 0 else 2 * shifted - u[-2])
    own = [dots(u[j // 2], u[(j + 1) // 2]) for j in range(2 * steps)]
    return Beside(np.column_stack(own), lowest, 1)


def lowest(sums: FloatArray) -> FloatArray:
    """A careful estimate of l_2, as an array of one, from <u_j, u_j>, <u_j, u_{j+1}>, ... ."""
    steps = len(sums) // 2
    if not sums[0] > 0:
        return np.array([2.0])  # nobody to mix with
    if not (np.abs(sums) < 1e150 * sums[0]).all() or sums[0] > 1e150:
        return np.array([LEAST])  # nobody mixes like that
    m = 2.0 * sums
    m[0::2] -= sums[0]
    m[1::2] -= sums[1]

    # <u_i, (M - 1) u_j> = ( <u_i, u_{j+1}> + <u_i, u_{|j-1|}> ) / 2, which needs one u more.
    def product(i: IntArray, k: IntArray) -> FloatArray:
        """<u_i, u_k>"""
        return np.asarray(0.5 * (m[i + k] + m[np.abs(i - k)]))

    i, k = np.arange(steps - 1)[:, None], np.arange(steps - 1)
    shifted = 0.5 * (product(i, k + 1) + product(i, np.abs(k - 1)))
    values, vectors = np.linalg.eigh(product(i, k))
    kept = values > 1e-10 * values[-1]
    basis = vectors[:, kept] / np.sqrt(values[kept])
    ritz = 1.0 + np.linalg.eigvalsh(matmul(matmul_tn(basis, (shifted + shifted.T) / 2), basis))
    return np.array([float(np.clip(_CAUTION * ritz[0], LEAST, 2.0))])
