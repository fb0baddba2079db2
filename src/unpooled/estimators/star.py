"""What all estimators with a coordinator share."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections import defaultdict
from typing import Any

import numpy as np
from joblib import cpu_count
from sklearn.exceptions import ConvergenceWarning

from unpooled import checks
from unpooled.drivers.local import Options, Run, run_star
from unpooled.estimators import options, prepared
from unpooled.estimators.base import CentersEstimator
from unpooled.kernels import centers
from unpooled.protocols.star import StarProtocol
from unpooled.tables import Table
from unpooled.types import Body, FloatArray, IntArray, Parties
from unpooled.wire.message import Note


class StarEstimator(CentersEstimator):
    """Reads the data, runs the protocol between its parties, keeps what came of it.

    ``policy`` is the parties' say over what leaves them: "study" (in-process experiments: whatever
    the method declares), "deployment" (real sites: no rows, no sums over fewer than 10), an object
    of :mod:`unpooled.wire.policy`, or a dict with one for each party. ``remarks_`` says, party by
    party, what was held back for it. ``history_`` has what the coordinator noted: ``received``, the
    number of centroids, and for methods of several rounds ``cost`` and ``movement``.

    The model of a run that standardised columns also has ``preparations_``, and takes raw rows; see
    :mod:`unpooled.estimators.prepared`.
    """

    policy: Any
    random_state: Any

    @abstractmethod
    def _protocol(self, n_clusters: Any, parties: Parties) -> StarProtocol:
        """The protocol with the estimator's options, checked."""

    def planned(self, parties: Parties) -> StarProtocol:
        """The protocol for these parties, of whom only names and columns need be known."""
        return self._protocol(self._n_clusters(), parties)

    def _fit(self, table: Table) -> None:
        n_clusters = self._n_clusters()
        protocol = self._protocol(n_clusters, table.parties)
        policy = options.policy(self.policy, table.parties.names)
        seed = checks.seed(self.random_state)
        repeats = options.refuse_too_many_clusters(n_clusters or 1, table)
        options.refuse_no_extent(table)
        history = _History()
        how = Options(policy=policy, threads=min(cpu_count(), len(table.parties)))
        run = self._run(protocol, table.parties, seed, how, history)
        found = np.array(run.result["centers"])
        if repeats:
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
        self.history_ = history.arrays()
        self.traffic_ = run.traffic
        self.remarks_ = run.remarks_in_words

    def _n_clusters(self) -> int | None:
        """The number asked for; None if the coordinator is to find it."""
        return checks.whole("n_clusters", self.n_clusters, 1)

    def _run(
        self, protocol: StarProtocol, parties: Parties, seed: int, how: Options, history: _History
    ) -> Run:
        return run_star(protocol, parties, seed=seed, options=how, observe=history.record)

    def _n_rounds(self, run: Run) -> int:
        """The method's own count, where it has one."""
        return int(run.result.get("rounds", np.array(run.traffic.rounds)))

    def _keep_embedding(self, result: Body) -> None:
        """Keeps what rows are embedded by, if they are: all that parties get of a result has it."""

    def _keep(self, result: Body) -> None:
        """Keeps what else only this method has."""

    def _set_labels(self, table: Table) -> None:
        rows, weights = table.parties.rows, table.parties.weights
        labels = self._labels(rows)
        self.labels_ = table.restore(labels)
        self.inertia_ = centers.cost(rows, weights, self.cluster_centers_, labels)

    def _labels(self, rows: FloatArray) -> IntArray:
        return centers.label(rows, self._centers)

    def _distances(self, rows: FloatArray) -> FloatArray:
        return centers.distances(rows, self._centers)


class _History:
    """``history_``: what the coordinator noted, one value per round."""

    def __init__(self) -> None:
        self._rounds: dict[str, list[float]] = defaultdict(list)

    def record(self, note: Note) -> None:
        """Adds a round."""
        for name, value in note.body.items():
            self._rounds[name].append(value.item())

    def arrays(self) -> dict[str, np.ndarray]:
        """The rounds as arrays."""
        return {name: np.asarray(values) for name, values in self._rounds.items()}
