"""The front door to kernel k-means."""

from __future__ import annotations

from typing import Any

import numpy as np

from unpooled.checks import flag, number, one_of, whole
from unpooled.drivers.local import Run
from unpooled.errors import InputError
from unpooled.estimators.star import StarEstimator
from unpooled.kernels import centers
from unpooled.kernels.features import FORMS, KERNELS, SHIFT_INVARIANT
from unpooled.protocols.coreset import CoresetKMeans
from unpooled.protocols.dspgd import CompressedDSPGD, UncompressedDSPGD
from unpooled.protocols.federated import FederatedKMeans
from unpooled.protocols.kernel import GAMMA, MAP, SEED, Draw, Kernel, Solver
from unpooled.protocols.kernel_kmeans import KernelKMeans as Protocol
from unpooled.protocols.krylov import BlockKrylov
from unpooled.protocols.oneshot import OneShotKMeans
from unpooled.protocols.star import StarProtocol
from unpooled.tables import Table
from unpooled.types import FloatArray, IntArray, Parties

SOLVERS = ("block-krylov", "dspgd")
FINAL = ("one-shot", "lloyd", "coreset")


class KernelKMeans(StarEstimator):
    """k-means in the space of a kernel, by random features whose directions are found together.
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
        orthogonal: Any = None,
        form: Any = None,
        final: Any = None,
        coreset_size: int = 1000,
        n_init: int = 10,
        policy: Any = "study",
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
        self.orthogonal = orthogonal
        self.form = form
        self.final = final
        self.coreset_size = coreset_size
        self.n_init = n_init
        self.policy = policy
        self.random_state = random_state

    def _protocol(self, n_clusters: int, parties: Parties) -> Protocol:
        fast = one_of("solver", self.solver, SOLVERS) == "block-krylov"
        s = n_clusters if self.n_components is None else whole("n_components", self.n_components, 1)
        kernel = self._kernel(parties.n_features, s, fast)
        rounds = self.max_rounds
        rounds = (2 if fast else 20) if rounds is None else whole("max_rounds", rounds, 1)
        gamma = None
        if not (isinstance(self.gamma, str) and self.gamma == "mean-distance"):
            gamma = number("gamma", self.gamma, above=0.0)
        solver: Solver
        if fast:
            solver = BlockKrylov(kernel, s, min(max(4, s), kernel.n_features), rounds)
        else:
            method = CompressedDSPGD if flag("compress", self.compress) else UncompressedDSPGD
            threshold = None if self.threshold is None else number("threshold", self.threshold)
            tol = number("tol", self.tol, above=0.0)
            solver = method(kernel, n_clusters, s, rounds, threshold, tol)
        inner = self._inner(n_clusters, fast)
        draws = 1 if fast else rounds
        return Protocol(kernel, gamma, solver, inner, s, parties.n_features, draws)

    def _kernel(self, n_columns: int, s: int, fast: bool) -> Kernel:
        name = one_of("kernel", self.kernel, KERNELS)
        orthogonal = fast if self.orthogonal is None else flag("orthogonal", self.orthogonal)
        form = ("cos-sin" if fast else "phase") if self.form is None else self.form
        form = one_of("form", form, FORMS)
        if self.n_features is None:
            count = max(2 * n_columns, 4 * s)
        else:
            count = whole("n_features", self.n_features, 1)
        if count < s:
            raise InputError(
                f"n_features={count} is fewer than the {s} components wanted; draw more features "
                "or ask for fewer components."
            )
        if name in SHIFT_INVARIANT and form == "cos-sin" and count % 2:
            raise InputError(
                f"n_features={count} is odd, but cosines and sines come in pairs; give an even "
                "number or form='phase'."
            )
        return Kernel(name, count, orthogonal, form)

    def _inner(self, n_clusters: int, fast: bool) -> StarProtocol:
        n_init = whole("n_init", self.n_init, 1)
        final = ("one-shot" if fast else "coreset") if self.final is None else self.final
        final = one_of("final", final, FINAL)
        if final == "coreset":
            size = whole("coreset_size", self.coreset_size, 1)
            return CoresetKMeans(n_clusters, size, n_init=n_init)
        first = OneShotKMeans(n_clusters, n_clusters, n_init=n_init)
        return first if final == "one-shot" else FederatedKMeans(first)

    def _keep(self, run: Run) -> None:
        self.gamma_ = float(run.result[GAMMA][0])
        self.features_seed_ = int(run.result[SEED][0])
        self.features_map_ = np.array(run.result[MAP])
        self.eigenvalues_ = np.array(run.result["eigenvalues"])

    def _set_labels(self, table: Table) -> None:
        rows = self._embedded(table.parties.rows)
        labels = centers.label(rows, self.cluster_centers_)
        self.embedding_ = table.restore(rows)
        self.labels_ = table.restore(labels)
        self.inertia_ = centers.cost(rows, table.parties.weights, self.cluster_centers_, labels)

    def _embedded(self, rows: FloatArray) -> FloatArray:
        """h(x) for every row."""
        fast = self.solver == "block-krylov"
        kernel = self._kernel(rows.shape[1], self.features_map_.shape[1], fast)
        told = Draw(self.gamma_, self.features_seed_, None).told
        return kernel.embedded(rows, {**told, MAP: self.features_map_})

    def _labels(self, rows: FloatArray) -> IntArray:
        return centers.label(self._embedded(rows), self.cluster_centers_)

    def _distances(self, rows: FloatArray) -> FloatArray:
        return centers.distances(self._embedded(rows), self.cluster_centers_)
