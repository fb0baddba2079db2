"""Kernel k-means of one table: a matrix of rank s for that of the kernel, then k-means on its root.

Kernel k-means is k-means on φ(x), where φ(x) · φ(y) = k(x, y). Of K = U Λ U', with eigenvalues in
descending order, the s leading pairs make K_s = U_s Λ_s U_s', whose root U_s Λ_s^½ has one line for
every row: h(x) in R^s. k-means on h is kernel k-means but for what lies beyond s, and of no
clustering's cost is that more than tr K - tr K_s (Zha et al. 2001, Ding & He 2004).

A new row is embedded by what it has in common with **anchors**, rows that were seen by ``fit``:
h(x) = k(x, anchors) M. Methods differ in the anchors and in M.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.cluster import KMeans
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from unpooled.checks import number_or, one_of, seed, whole
from unpooled.errors import InputError
from unpooled.kernels.assignment import centers
from unpooled.kernels.linalg.features import KERNELS
from unpooled.kernels.linalg.lanczos import above_rounding, signs
from unpooled.kernels.linalg.landmarks import Span
from unpooled.kernels.lloyd.kmeans import distinct_rows
from unpooled.protocols.prepare.bandwidth import in_units
from unpooled.types import FloatArray, IntArray


@dataclass(frozen=True)
class ScaledKernel:
    """A kernel with its scale, worked out exactly and a chunk of rows at a time."""

    name: str
    gamma: float

    def matrix(self, rows: FloatArray, others: FloatArray) -> FloatArray:
        """k(x, y) for all pairs."""
        return Span(self.name, self.gamma, others).similarities(rows)

    def onto(self, rows: FloatArray, anchors: FloatArray, map_: FloatArray) -> FloatArray:
        """k(x, anchors) M for every row, without ever holding all of k."""
        return Span(self.name, self.gamma, anchors).onto(rows, map_)


@dataclass(frozen=True)
class Embedding:
    """What a method found; columns beyond the rank are zero."""

    anchors: FloatArray
    map: FloatArray
    """M: one line for each anchor."""
    rows: FloatArray
    """h(x) of the rows it was found from."""
    eigenvalues: FloatArray
    """The squared lengths of its columns, the largest first."""


class EmbeddedKMeans(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """k-means on rows embedded by a kernel."""

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        kernel: str = "gaussian",
        gamma: Any = "mean-distance",
        n_components: Any = None,
        n_init: int = 10,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.n_init = n_init
        self.random_state = random_state

    @abstractmethod
    def _embedding(
        self, rows: FloatArray, kernel: ScaledKernel, n_components: int, rng: np.random.Generator
    ) -> Embedding:
        """The method's own embedding of the rows."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Clusters the rows of one table.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            The rows of all, in one place.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        n_clusters = whole("n_clusters", self.n_clusters, 1)
        n_init = whole("n_init", self.n_init, 1)
        given = self.n_components
        n_components = n_clusters if given is None else whole("n_components", given, 1)
        name = one_of("kernel", self.kernel, KERNELS)
        gamma = number_or("mean-distance", "gamma", self.gamma)
        rng = np.random.default_rng(seed(self.random_state))
        # A copy, as anchors must stay as they are whatever becomes of X.
        rows = check_array(X, dtype=np.float64, copy=True, estimator=self, input_name="X")
        _refuse_too_few_rows(rows, n_clusters, n_components)
        if gamma is None:
            gamma = in_units(name, mean_distance(rows), rows.shape[1])
        found = self._embedding(rows, ScaledKernel(name, gamma), n_components, rng)
        sign = signs(found.rows)
        found = replace(found, map=found.map * sign, rows=found.rows * sign)
        start = int(rng.integers(2**31 - 1))
        clustering = KMeans(n_clusters, n_init=n_init, random_state=start).fit(found.rows)

        # Only now, so that a refusal leaves everything as it was: the columns' names and number.
        validate_data(self, X, skip_check_array=True)
        self.gamma_ = gamma
        self.anchors_, self.map_ = found.anchors, found.map
        self.embedding_, self.eigenvalues_ = found.rows, found.eigenvalues
        self.cluster_centers_ = clustering.cluster_centers_
        self.labels_ = clustering.labels_.astype(np.int64)
        self.inertia_ = float(clustering.inertia_)
        return self

    def transform(self, X: Any) -> FloatArray:
        """The rows as points of the space in which ``cluster_centers_`` lie.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            Rows with the columns that ``fit`` saw.

        Returns
        -------
        points : array of shape (n, s)
            h(x) for every row.
        """
        return self._embedded(X)

    def predict(self, X: Any) -> IntArray:
        """The nearest of ``cluster_centers_`` for each embedded row.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            Rows with the columns that ``fit`` saw.

        Returns
        -------
        labels : array of shape (n,)
            The number of each row's cluster.
        """
        return centers.label(self._embedded(X), self.cluster_centers_)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the squared distances of embedded rows to the nearest centre: higher is better.

        Spaces of different kernels, scales and numbers of components do not compare.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            Rows with the columns that ``fit`` saw.
        y : None
            Ignored.

        Returns
        -------
        score : float
            Minus the sum.
        """
        points = self._embedded(X)
        labels = centers.label(points, self.cluster_centers_)
        return -centers.cost(points, np.ones(len(points)), self.cluster_centers_, labels)

    def _embedded(self, X: Any) -> FloatArray:
        check_is_fitted(self, "map_")
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        return ScaledKernel(self.kernel, self.gamma_).onto(rows, self.anchors_, self.map_)

    @property
    def _n_features_out(self) -> int:
        return int(self.map_.shape[1])


def mean_distance(rows: FloatArray) -> float:
    """γ = N² / (2 Σ_ij |x_i - x_j|²) = N / (4 Σ_i |x_i - mean|²), as in Wang et al. (2019)."""
    with np.errstate(over="ignore", invalid="ignore"):
        shifted = rows - rows[0]  # so that equal rows have exactly no spread
        spread = float(np.square(shifted - shifted.mean(axis=0)).sum())
    gamma = len(rows) / (4 * spread) if spread > 0 else inf
    if not 0 < gamma < inf:
        raise InputError(
            f"gamma cannot be found from rows (n_samples={len(rows)}) whose squared distances from "
            f"their mean add up to {spread:g}; give a number."
        )
    return gamma


def roots(eigenvalues: FloatArray, size: int) -> tuple[FloatArray, FloatArray]:
    """λ^½ and λ^-½ of a matrix of this size, both 0 where λ is no more than rounding."""
    kept = above_rounding(eigenvalues, size)
    root = np.sqrt(np.where(kept, eigenvalues, 0.0))
    return root, np.divide(1.0, root, out=np.zeros_like(root), where=kept)


def _refuse_too_few_rows(rows: FloatArray, n_clusters: int, n_components: int) -> None:
    n = len(rows)
    few = distinct_rows(rows, n_clusters - 1)
    if few is not None:
        distinct = len(few[0])
        raise InputError(
            f"n_clusters={n_clusters} is more than the {distinct} distinct rows (n_samples={n}); "
            f"ask for at most {distinct}."
        )
    if n_components > n:
        raise InputError(
            f"n_components={n_components} is more than the {n} rows; ask for at most {n}."
        )
