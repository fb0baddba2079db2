"""Distances between sets of centres: to the true ones, and among the users of a mesh."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from unpooled.errors import InputError
from unpooled.kernels.linalg.products import lengths
from unpooled.metrics.inputs import finite_array


def center_distance(centers: Any, true_centers: Any) -> float:
    """The Frobenius norm of the difference between matched centres.

    (Σ_k |c_k - t_π(k)|²)^½, where the matching π makes the sum smallest. If there are more centres
    on one side, only the matched ones count: those left over add nothing.

    Parameters
    ----------
    centers : array of shape (K, d)
        The centres that were found.
    true_centers : array of shape (L, d)
        The centres to compare them with.

    Returns
    -------
    distance : float
        0 where they are the same.
    """
    found, true = finite_array(centers, "centers", 2), finite_array(true_centers, "true_centers", 2)
    if found.shape[1] != true.shape[1]:
        raise InputError(
            f"centers have {found.shape[1]} columns but true_centers {true.shape[1]}: "
            "pass centres of the same space."
        )
    squared = cdist(found, true, "sqeuclidean")
    return float(np.sqrt(squared[linear_sum_assignment(squared)].sum()))


def consensus_distance(peer_centers: Any) -> float:
    """The largest distance of a user's centre to the mean over users of the centre of that index.

    max_{i,k} |c_ik - (1/m) Σ_j c_jk| for an array (m, K, d) of the K centres of m users.

    Parameters
    ----------
    peer_centers : array of shape (m, K, d)
        The K centres of m users.

    Returns
    -------
    distance : float
        0 where users agree.
    """
    peers = finite_array(peer_centers, "peer_centers", 3)
    moved = peers - peers[0]  # so that users who agree are at distance 0, not at rounding error
    return float(lengths(moved - moved.mean(axis=0)).max())
