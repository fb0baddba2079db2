r"""Users estimate how fast their graph averages, each knowing its own links only.

Wanted is the spectral gap: the smallest eigenvalue l_2 > 0 of the mixing matrix M (eigenvalues in
[0, 2]; see :mod:`unpooled.kernels.linalg.polynomials`). Each user draws a random number, v = (v_1,
.., v_m). One exchange gives u_0 = M v, in which nothing common to all users is left. T more
exchanges give u_j = T_j(M - 1) u_0 by Chebyshev's recurrence u_{j+1} = 2 (M - 1) u_j - u_{j-1},
each user having its own entry of these. The modified moments m_j = <u_0, u_j>, j = 0..2T-1, follow
from sums over users,

    m_{2j} = 2 <u_j, u_j> - m_0,      m_{2j+1} = 2 <u_{j+1}, u_j> - m_1,

and these sums go up the tree with the clusters of the common start. They determine M on the space
spanned by u_0..u_{T-2}. The smallest Ritz value there is at least l_2, and close to it since T is
twice the reach of the graph. It is taken a little smaller. If it is still too large, averages are
less exact; if too small, they take an exchange or two more.

**What leaves** are combinations of random numbers with the links' weights, and sums of products of
these: nothing about rows, and of the links only how they act on random numbers.
"""

from __future__ import annotations

import numpy as np

from unpooled.kernels.linalg.products import dots, matmul, matmul_tn
from unpooled.messages.message import Post
from unpooled.messages.release import Release
from unpooled.protocols.mesh.base import Block, Peer
from unpooled.protocols.mesh.shared.convergecast import ExtraSums
from unpooled.types import FloatArray, IntArray

_PROBES = 2
"""Draws per user: a single one may happen to have little of the eigenvector wanted."""
_SAFETY = 0.8
"""By which the smallest Ritz value, which is too large, is multiplied."""
MIN_GAP = 1e-4
"""No smaller gap is worked with."""

PROBE_RELEASE = Release(
    "probe",
    ("probe",),
    ("model",),
    "random numbers, mixed with neighbours', which tell how fast the graph averages",
    shapes={"probe": (_PROBES,)},
)


def n_steps(block: Block) -> int:
    """T of the module's text."""
    return max(4, 2 * block.reach)


def probe_spectrum(block: Block) -> Peer[ExtraSums]:
    """What users add up, and how the root estimates the gap from their totals."""
    near, steps = block.neighbourhood, n_steps(block)
    draws = [
        np.random.default_rng([block.seed, int(user), 3]).normal(size=_PROBES)
        for user in near.users
    ]
    v: FloatArray = np.array(draws)
    heard = yield Post("probe", 0, {"probe": v})
    u = [-heard.mixed(near, "probe", heard.received(near))]
    for j in range(steps):
        heard = yield Post("probe", j + 1, {"probe": u[-1]})
        shifted = -heard.mixed(near, "probe", heard.received(near)) - u[-1]
        u.append(shifted if j == 0 else 2 * shifted - u[-2])
    own = [dots(u[j // 2], u[(j + 1) // 2]) for j in range(2 * steps)]
    return ExtraSums(np.column_stack(own), estimate_gap, 1)


def estimate_gap(sums: FloatArray) -> FloatArray:
    """A rather low estimate of l_2, as an array of one, from <u_j, u_j>, <u_j, u_{j+1}>, ... ."""
    steps = len(sums) // 2
    if not sums[0] > 0:
        return np.array([2.0])  # no links: nothing to mix
    if not (np.abs(sums) < 1e150 * sums[0]).all() or sums[0] > 1e150:
        return np.array([MIN_GAP])  # no mixing matrix gives such sums: somebody sent nonsense
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
    return np.array([float(np.clip(_SAFETY * ritz[0], MIN_GAP, 2.0))])
