"""What all peer-to-peer estimators share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from unpooled import checks
from unpooled.data.parties import Parties
from unpooled.data.tables import Table
from unpooled.errors import InputError
from unpooled.estimators import options
from unpooled.estimators.base import CentersEstimator
from unpooled.estimators.history import History
from unpooled.graphs.reading import topology
from unpooled.graphs.topology import Topology
from unpooled.kernels.assignment.nearest import all_pairs, nearest
from unpooled.kernels.linalg.products import dot
from unpooled.losses import Loss, SquaredEuclidean
from unpooled.messages.message import Note
from unpooled.metrics import consensus_distance
from unpooled.parallel import in_chunks
from unpooled.protocols.mesh.base import MeshProtocol
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters
from unpooled.simulate import Options, run_mesh
from unpooled.types import Body, FloatArray, IntArray


class MeshEstimator(CentersEstimator):
    """Reads the data, runs the protocol between its parties, keeps what came of it."""

    graph: Any
    init: Any
    init_rounds: int
    policy: Any
    random_state: Any

    penalised = True
    """Whether the cost has the disagreement between neighbours in it, as J_rho does."""

    @abstractmethod
    def _loss(self) -> Loss:
        """The loss that the options mean, in its metric."""

    @abstractmethod
    def _protocol(self, start: InitialCenters, loss: Loss) -> MeshProtocol:
        """The protocol with the estimator's options, checked."""

    def _start(self, n_clusters: int, parties: Parties) -> InitialCenters:
        """Where centres start, checked."""
        return options.start(self.init, self.init_rounds, n_clusters, parties)

    def planned(self, parties: Parties) -> MeshProtocol:
        """The protocol for these parties, of whom only names and columns need be known.

        Parameters
        ----------
        parties : Parties
            Of whom only names and columns need be known.

        Returns
        -------
        protocol : MeshProtocol
            With the estimator's options, checked.
        """
        n_clusters = checks.whole("n_clusters", self.n_clusters, 1)
        loss = self._loss()
        loss.metric.check_width(parties.n_features)
        return self._protocol(self._start(n_clusters, parties), loss)

    def _fit(self, table: Table) -> None:
        protocol = self.planned(table.parties)
        n_clusters, loss = self.n_clusters, self._loss()
        distinct = options.refuse_too_many_clusters(n_clusters, table)
        options.refuse_no_extent(table)
        options.refuse_broken_loss(loss, table)
        options.refuse_rows_outside(loss, table)
        network = topology(self.graph, table.parties.names)
        history = _History(self.verbose, network if self.penalised else None)
        seed = checks.seed(self.random_state)
        how = Options(policy=options.policy(self.policy, table.parties.names))
        run = run_mesh(
            protocol, table.parties, network, seed=seed, options=how, observe=history.record
        )
        self.loss_ = loss
        self.peer_centers_ = np.array(run.result["centers"])
        self._set_centers(network)
        self._set_labels(table)
        self.n_rounds_ = self.n_iter_ = int(run.result["rounds"].max())
        self.converged_ = not run.result["running"].any()
        self.history_ = history.arrays()
        self.traffic_ = run.traffic
        self.remarks_ = dict(run.remarks)
        if self.converged_:
            history.converged(self.n_iter_, float(self.history_["movement"][-1]))
        if distinct is not None:
            options.warn_of_repeats(distinct, n_clusters)

    def _set_centers(self, network: Topology) -> None:
        self.__dict__.pop("cluster_centers_", None)
        if network.n_users == 1 or len(network.edges):
            # Relative to one user, so that users who agree give exactly what they agree on.
            first = self.peer_centers_[0]
            self.cluster_centers_ = first + (self.peer_centers_ - first).mean(axis=0)

    def _set_labels(self, table: Table) -> None:
        parties, x, loss = table.parties, self.peer_centers_, self.loss_
        labels: IntArray = np.empty(len(parties.rows), dtype=np.int64)

        def inertia(span: slice) -> float:
            rows, owner = parties.rows[span], parties.owner[span]
            labels[span] = nearest(rows, owner, x, loss.dissimilarity)
            squared = loss.metric.squared(x[owner, labels[span]] - rows)
            return dot(parties.weights[span], squared)

        self.inertia_ = sum(in_chunks(inertia, parties.rows.shape))
        self.labels_ = table.restore(labels)

    @property
    def _n_features_out(self) -> int:
        return int(self.peer_centers_.shape[1])

    def _labels(self, rows: FloatArray) -> IntArray:
        nowhere = np.zeros(len(rows), dtype=np.int64)
        return nearest(rows, nowhere, self.cluster_centers_[None], self.loss_.dissimilarity)

    def _distances(self, rows: FloatArray) -> FloatArray:
        nowhere = np.zeros(len(rows), dtype=np.int64)
        centers = self.cluster_centers_[None]
        divergence = all_pairs(rows, nowhere, centers, self.loss_.dissimilarity)
        return np.asarray(np.sqrt(np.maximum(divergence, 0.0)))

    def _cost(self, table: Table) -> float:
        parties, x, loss = table.parties, self.cluster_centers_, self.loss_
        labels = self._labels(parties.rows)

        def cost_of_rows(span: slice) -> float:
            own, rows = x[labels[span]], parties.rows[span]
            # The loss "kmeans" is half the squared distance, which nobody would call a cost.
            squared = isinstance(loss, SquaredEuclidean)
            each = loss.metric.squared(own - rows) if squared else loss.value(own, rows)
            return dot(parties.weights[span], each)

        return sum(in_chunks(cost_of_rows, parties.rows.shape))

    def _read_new(self, X: Any, groups: Any = None, sample_weight: Any = None) -> Table:
        table = super()._read_new(X, groups, sample_weight)
        if not hasattr(self, "cluster_centers_"):
            raise InputError(
                "With graph=None every party has centres of its own (peer_centers_) and there "
                "are none for all; fit with a graph to predict."
            )
        options.refuse_rows_outside(self.loss_, table)
        return table


class _History(History):
    """``history_``: one number per round, seen from outside the network."""

    _cost = "cost"

    def __init__(self, verbose: Any, penalty: Topology | None) -> None:
        super().__init__(verbose)
        self._penalty = penalty

    def record(self, note: Note) -> None:
        """Adds a round, or several."""
        if "consensus" in note.body:  # users were through them without saying where they were
            self._record_all(note.round, note.body)
            return
        centers: FloatArray = note.body["centers"]
        cost = float(note.body["cost"].sum())
        if self._penalty is not None:
            cost += self._penalty.disagreement(centers)
        values = {
            "cost": cost,
            "consensus": consensus_distance(centers),
            "changed": int(note.body["changed"].sum()),
            "movement": float(note.body["movement"].max()),
        }
        self._add(note.round, values)

    def _record_all(self, first: int, body: Body) -> None:
        penalty = body["penalty"] if self._penalty is not None else 0.0
        named = {"cost": body["cost"] + penalty}
        named |= {name: body[name] for name in ("consensus", "changed", "movement")}
        for name, values in named.items():
            self._rounds[name] += values.tolist()
        if self._verbose:
            for i in range(len(body["cost"])):
                self._say(first + i, {name: values[i] for name, values in named.items()})
