"""What all estimators with a coordinator share."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from joblib import cpu_count
from sklearn.exceptions import ConvergenceWarning

from unpooled import checks
from unpooled.data.parties import Parties
from unpooled.data.tables import Table
from unpooled.estimators import options, prepared
from unpooled.estimators.base import CentersEstimator
from unpooled.estimators.history import History
from unpooled.kernels.assignment import centers
from unpooled.protocols.star.base import StarProtocol
from unpooled.simulate import Options, Run, run_star
from unpooled.types import Body, FloatArray, IntArray


class StarEstimator(CentersEstimator):
    """Reads the data, runs the protocol between its parties, keeps what came of it.

    ``policy`` decides what may leave parties: "study" (in-process experiments: whatever the method
    declares), "deployment" (real sites: nothing but means of cells of at least 10 persons), an
    object of :mod:`unpooled.privacy.policy`, or a dict with one for each party. ``remarks_`` lists,
    party by party, which rows were left out for it. ``history_`` has what the coordinator noted:
    ``received``, the number of centroids, and for methods of several rounds ``cost`` and
    ``movement``.

    The model of a run that standardised columns also has ``preparations_``, and takes raw rows; see
    :mod:`unpooled.estimators.prepared`.
    """

    policy: Any
    random_state: Any
    n_iter_: int

    @abstractmethod
    def _protocol(self, n_clusters: Any, parties: Parties) -> StarProtocol:
        """The protocol with the estimator's options, checked."""

    def planned(self, parties: Parties) -> StarProtocol:
        """The protocol for these parties, of whom only names and columns need be known.

        Parameters
        ----------
        parties : Parties
            Of whom only names and columns need be known.

        Returns
        -------
        protocol : StarProtocol
            With the estimator's options, checked.
        """
        return self._protocol(self._n_clusters(), parties)

    def _fit(self, table: Table) -> None:
        n_clusters = self._n_clusters()
        protocol = self._protocol(n_clusters, table.parties)
        policy = options.policy(self.policy, table.parties.names)
        seed = checks.seed(self.random_state)
        distinct = options.refuse_too_many_clusters(n_clusters or 1, table)
        options.refuse_no_extent(table)
        history = History(self.verbose)
        self._warn_of_cells(protocol, policy)
        how = Options(policy=policy, threads=min(cpu_count(), len(table.parties)))
        run = self._run(protocol, table.parties, seed, how, history)
        found = np.array(run.result["centers"])
        if distinct is not None:
            found = found[np.arange(n_clusters or 1) % len(found)]
        if len(found) < (n_clusters or 1):
            warnings.warn(
                f"{type(self).__name__} found {len(found)} centres, fewer than n_clusters="
                f"{n_clusters}: parties sent no more that differ.",
                ConvergenceWarning,
                stacklevel=3,
            )
        prepared.forget(self)  # what a model from a file was prepared by
        self.cluster_centers_ = found
        self._keep_embedding(run.result)
        self._keep(run.result)
        self._set_labels(table)
        self.n_rounds_ = self._n_rounds(run)
        if getattr(self, "converged_", False):
            history.converged(self.n_iter_, float(run.result["movement"]))
        self.history_ = history.arrays()
        self.traffic_ = run.traffic
        self.remarks_ = dict(run.remarks)
        if distinct is not None:
            options.warn_of_repeats(distinct, n_clusters or 1)

    def _warn_of_cells(self, protocol: StarProtocol, policy: Any) -> None:
        """Says so where a method does not do on cells what it does on rows."""
        policies = policy.values() if isinstance(policy, Mapping) else [policy]
        if protocol.on_cells and any(own.min_count > 1 for own in policies):
            warnings.warn(protocol.on_cells, UserWarning, stacklevel=4)

    def _n_clusters(self) -> int | None:
        """The number asked for; None if the coordinator is to find it."""
        return checks.whole("n_clusters", self.n_clusters, 1)

    def _run(
        self, protocol: StarProtocol, parties: Parties, seed: int, how: Options, history: History
    ) -> Run:
        return run_star(protocol, parties, seed=seed, options=how, observe=history.record)

    def _n_rounds(self, run: Run) -> int:
        """The method's own count, where it has one."""
        return int(run.result.get("rounds", np.array(run.traffic.rounds)))

    def _keep_embedding(self, result: Body) -> None:
        """Keeps what rows are embedded by, if they are: all that parties get of a result has it."""

    def _keep(self, result: Body) -> None:
        """Keeps what else only this method has."""

    def _embedded(self, rows: FloatArray) -> FloatArray:
        """The rows as points of the space in which ``cluster_centers_`` lie."""
        return rows

    def _set_labels(self, table: Table) -> None:
        points = self._embedded(table.parties.rows)
        labels = centers.label(points, self.cluster_centers_)
        self.labels_ = table.restore(labels)
        self.inertia_ = centers.cost(points, table.parties.weights, self.cluster_centers_, labels)

    def _labels(self, rows: FloatArray) -> IntArray:
        return centers.label(self._embedded(rows), self._centers)

    def _distances(self, rows: FloatArray) -> FloatArray:
        return centers.distances(self._embedded(rows), self._centers)

    def _cost(self, table: Table) -> float:
        points = self._embedded(table.parties.rows)
        labels = centers.label(points, self._centers)
        return centers.cost(points, table.parties.weights, self._centers, labels)
