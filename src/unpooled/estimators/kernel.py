"""The estimator of kernel k-means, a thin layer over its protocols."""

from __future__ import annotations

from math import ceil
from typing import Any, Literal

import numpy as np

from unpooled.checks import flag, number, number_or, one_of, whole
from unpooled.data.parties import Parties
from unpooled.errors import InputError
from unpooled.estimators import options
from unpooled.estimators.embedding import EmbeddingEstimator, feature_count
from unpooled.kernels.linalg.features import FORMS, FREQUENCIES, KERNELS
from unpooled.protocols.prepare.dspgd import CompressedDSPGD
from unpooled.protocols.prepare.dspgd_uncompressed import UncompressedDSPGD
from unpooled.protocols.prepare.kernel import Kernel, Solver
from unpooled.protocols.prepare.kernel_map import KernelMap
from unpooled.protocols.prepare.krylov import BlockKrylov
from unpooled.protocols.prepare.then import Then
from unpooled.protocols.star.base import StarProtocol
from unpooled.protocols.star.coreset import CoresetKMeans
from unpooled.protocols.star.federated import FederatedKMeans
from unpooled.protocols.star.one_shot import OneShotKMeans
from unpooled.types import Body

SOLVERS = ("block-krylov", "dspgd")
FINAL = ("one-shot", "lloyd", "coreset")
_FEW = 6
"""Columns up to which a Sobol sequence beats orthogonal frequencies."""
_BLOCK = 4
"""Vectors in a block at least."""
_LEAST = 200
"""Features to draw at least, since 2 d are too few where columns are."""
_LOCAL = 3
"""Times ``n_clusters``: centroids of a party. They are short, and distinguish more optima."""


class KernelKMeans(EmbeddingEstimator):
    """k-means in the space of a kernel, which finds clusters of any shape; rows stay at home.

    Parties make the same D random features z(x) from a shared seed, find with the coordinator the
    ``n_components`` directions in which the features of all rows spread most, and cluster their
    rows in these; see :mod:`unpooled.protocols.prepare.kernel_map`.

    ``solver="block-krylov"`` draws features once and needs two or three rounds of sums of about D x
    s numbers (:mod:`unpooled.protocols.prepare.krylov`). ``solver="dspgd"`` is federated kernel
    k-means as published: features are drawn afresh in each of ``max_rounds`` iterations, each of
    which takes dozens of rounds (:mod:`unpooled.protocols.prepare.dspgd`); with ``compress=False``
    without its compression.

    **What the coordinator learns.** Of every party: how many rows it has, their mean and their
    scatter, from ``gamma="mean-distance"``. Then sums over all its rows of products of features,
    as many as it asks for: at most the party's Gram matrix, Σ z(x) z(x)', D x D. Features being
    known to everybody, this discloses **whether a given row is among a party's, exactly, if it has
    fewer than D rows**, and the rows themselves if they are a handful. Only the sum over parties is
    needed, so adding up securely would hide it; that is not done here. With many more rows than D
    such a test is worth little. Last, what ``final`` sends, about embedded rows: "one-shot"
    centroids and counts; "lloyd" these, then sums and counts; "coreset" **rows of the embedding**.
    With compress=False the coordinator can solve for every party's rows. Under policy="deployment"
    all this is about means of cells in place of rows.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    solver : {"block-krylov", "dspgd"}, default="block-krylov"
        How the directions are found.
    kernel : str, default="gaussian"
        "gaussian" exp(-γ |x - y|²), "laplacian" exp(-γ Σ |x_j - y_j|), "cauchy" Π 1 / (1 + γ (x_j -
        y_j)²), "polynomial" (γ x·y + 1)³ or "exponential" exp(γ x·y).
    gamma : float or "mean-distance", default="mean-distance"
        γ, or 1 / (2 times the mean squared distance of two rows), found from sums, and what is
        alike for the other kernels.
    n_features : int or None, default=None
        D; None: max(2 d, 4 ``n_components``), and at least 200.
    n_components : int or None, default=None
        Directions, s; None: ``n_clusters``, the least that dspgd takes.
    max_rounds : int or None, default=None
        For block-krylov products with a block of vectors (None: 2 for up to 4 directions, else 3);
        for dspgd iterations T (None: 20).
    compress : bool, default=True
        For dspgd: with its compression (CEM).
    threshold : float or None, default=None
        For dspgd: by how much eigenvalues are lowered, λ; None: the (k+2)-th of the first
        iteration.
    tol : float, default=1e-3
        For dspgd: how exact Lanczos's eigenvalues are.
    frequencies : {"orthogonal", "sobol", "independent"} or None, default=None
        How they are drawn; None: "orthogonal" with block-krylov, "sobol" with it and up to 6
        columns, "independent" with dspgd; see :mod:`unpooled.kernels.linalg.features`.
    form : {"cos-sin", "phase"} or None, default=None
        Of the features; None: "cos-sin" for block-krylov, "phase" for dspgd.
    power : float, default=0.5
        How the s directions are weighed, by this power of their eigenvalues: 0.5 is kernel k-means,
        less gives more weight to the later ones, 0 the same to all, as in spectral clustering.
    normalise : bool, default=False
        Whether embedded rows are scaled to length 1; with a ``power`` of 0.25, more directions than
        clusters and a ``gamma`` several times "mean-distance" this finds finer structure, at the
        cost of more numbers.
    final : {"one-shot", "lloyd", "coreset"} or None, default=None
        How embedded rows are clustered: "one-shot" (None with block-krylov), "lloyd", which sends
        no embedded row either and gets to the bottom, or "coreset" (None with dspgd).
    coreset_size : int, default=1000
        Rows that "coreset" draws.
    n_init : int or "auto", default=10
        Starts of each clustering; "auto" makes 10.
    policy : {"study", "deployment"}, policy, or dict of one for each party, default="study"
        What parties let out.
    verbose : int, default=0
        Whether to print what is noted of every round.
    random_state : int, RandomState, Generator or None, default=None
        Seed.

    Attributes
    ----------
    cluster_centers_ : array of shape (K, s)
        The centres, in the space of the embedding.
    labels_ : array of shape (n,), or list, tuple or dict of these
        The cluster of each row, in the container of ``X``.
    inertia_ : float
        The weighted sum of squared distances in the space of the embedding, which is another for
        every kernel, scale and number of directions.
    embedding_ : array of shape (n, s), or list, tuple or dict of these
        The embedded rows, in the container of ``X``.
    eigenvalues_ : array of shape (s,)
        Those of the (approximate) kernel matrix, the largest first.
    gamma_ : float
        The kernel's scale, γ.
    embedding_by_ : dict of arrays
        What new rows are embedded by.
    n_rounds_ : int
        Rounds of messages.
    history_ : dict of arrays
        ``rank``; ``error``: with block-krylov how far the directions are from eigenvectors,
        relative to the largest eigenvalue, with dspgd by how much the eigenvalues have changed;
        with dspgd ``products`` (of Lanczos); and what ``final`` notes.
    traffic_ : Traffic
        What was sent: see :class:`unpooled.privacy.Traffic`.
    remarks_ : dict of lists
        Which of their rows parties left out, and why.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (d,)
        Names of the columns, where ``X`` has them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_circles
    >>> from unpooled import KernelKMeans
    >>> X, ring = make_circles(400, factor=0.3, noise=0.05, random_state=0)
    >>> hospitals = np.arange(400) % 4
    >>> model = KernelKMeans(n_clusters=2, gamma=4.0, random_state=0).fit(X, groups=hospitals)
    >>> bool((model.labels_ == ring).all() or (model.labels_ != ring).all())
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        solver: str = "block-krylov",
        kernel: str = "gaussian",
        gamma: Any = "mean-distance",
        n_features: Any = None,
        n_components: Any = None,
        max_rounds: Any = None,
        compress: bool = True,
        threshold: Any = None,
        tol: float = 1e-3,
        frequencies: Any = None,
        form: Any = None,
        power: float = 0.5,
        normalise: bool = False,
        final: Any = None,
        coreset_size: int = 1000,
        n_init: int | Literal["auto"] = 10,
        policy: Any = "study",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.solver = solver
        self.kernel = kernel
        self.gamma = gamma
        self.n_features = n_features
        self.n_components = n_components
        self.max_rounds = max_rounds
        self.compress = compress
        self.threshold = threshold
        self.tol = tol
        self.frequencies = frequencies
        self.form = form
        self.power = power
        self.normalise = normalise
        self.final = final
        self.coreset_size = coreset_size
        self.n_init = n_init
        self.policy = policy
        self.verbose = verbose
        self.random_state = random_state

    def _protocol(self, n_clusters: int, parties: Parties) -> Then:
        fast = one_of("solver", self.solver, SOLVERS) == "block-krylov"
        s = self.n_components
        s = n_clusters if s is None else whole("n_components", s, 1)
        kernel = self._kernel(parties.n_features, s, fast)
        default = (2 if s <= _BLOCK else 3) if fast else 20
        rounds = default if self.max_rounds is None else whole("max_rounds", self.max_rounds, 1)
        solver: Solver
        if fast:
            # Per number sent, three products with somewhat fewer vectors than directions are sought
            # find these better than two with as many.
            block = max(_BLOCK, s if rounds == 1 else ceil(5 * s / 6))
            solver = BlockKrylov(kernel, s, min(block, kernel.n_features), rounds)
        else:
            solver = self._dspgd(kernel, n_clusters, s, rounds)
        inner = self._inner(n_clusters, fast)
        preparation = KernelMap(
            kernel,
            number_or("mean-distance", "gamma", self.gamma),
            solver,
            n_components=s,
            draws=1 if fast else rounds,
            power=number("power", self.power, most=0.5),
            normalise=flag("normalise", self.normalise),
        )
        return Then(preparation, inner)

    def _kernel(self, n_columns: int, s: int, fast: bool) -> Kernel:
        name = one_of("kernel", self.kernel, KERNELS)
        drawn = self.frequencies
        if drawn is None:
            drawn = ("sobol" if n_columns <= _FEW else "orthogonal") if fast else "independent"
        drawn = one_of("frequencies", drawn, FREQUENCIES)
        form = ("cos-sin" if fast else "phase") if self.form is None else self.form
        form = one_of("form", form, FORMS)
        default = max(2 * n_columns, 4 * s, _LEAST)
        count = feature_count(self.n_features, default, name, form)
        if count < s:
            raise InputError(
                f"n_features={count} is fewer than the {s} components wanted; draw more features "
                "or ask for fewer components."
            )
        return Kernel(name, count, drawn, form)

    def _dspgd(self, kernel: Kernel, n_clusters: int, s: int, rounds: int) -> Solver:
        if s < n_clusters:
            raise InputError(
                f"n_components={s} is fewer than n_clusters={n_clusters}, by whose eigenvalues "
                "solver='dspgd' finds its threshold; give at least as many."
            )
        threshold = None if self.threshold is None else number("threshold", self.threshold)
        if threshold is None and kernel.n_features < n_clusters + 2:
            raise InputError(
                f"n_features={kernel.n_features} makes fewer than the {n_clusters + 2} eigenvalues "
                "of which the last is the threshold; draw more features or give a threshold."
            )
        method = CompressedDSPGD if flag("compress", self.compress) else UncompressedDSPGD
        tol = number("tol", self.tol, above=0.0)
        return method(kernel, n_clusters, s, rounds, threshold, tol)

    def _inner(self, n_clusters: int, fast: bool) -> StarProtocol:
        n_init = options.starts(self.n_init)
        final = ("one-shot" if fast else "coreset") if self.final is None else self.final
        final = one_of("final", final, FINAL)
        if final == "coreset":
            size = whole("coreset_size", self.coreset_size, 1)
            return CoresetKMeans(n_clusters, size, n_init=n_init)
        first = OneShotKMeans(n_clusters, _LOCAL * n_clusters, n_init=n_init)
        return first if final == "one-shot" else FederatedKMeans(first)

    def _keep(self, result: Body) -> None:
        self.eigenvalues_ = np.array(result["eigenvalues"])
