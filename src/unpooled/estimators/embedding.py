"""What estimators share that cluster embedded rows: centres lie where the embedding puts them."""

from __future__ import annotations

from typing import Any

import numpy as np

from unpooled.checks import whole
from unpooled.data.parties import Parties
from unpooled.data.tables import Table
from unpooled.errors import InputError
from unpooled.estimators.star import StarEstimator
from unpooled.kernels.assignment import centers
from unpooled.kernels.linalg.features import SHIFT_INVARIANT
from unpooled.protocols.prepare.kernel import GAMMA
from unpooled.protocols.star.base import StarProtocol
from unpooled.runtime.serving import serving
from unpooled.simulate import Run
from unpooled.simulate.options import Options
from unpooled.types import Body, FloatArray, PerRow


class EmbeddingEstimator(StarEstimator):
    """Embeds rows by what the run has found, and labels them there."""

    def _run(
        self, protocol: StarProtocol, parties: Parties, seed: int, how: Options, history: Any
    ) -> Run:
        how.preflight(parties.names, protocol.releases)
        return super()._run(protocol, parties, seed, how, history)

    def _keep_embedding(self, result: Body) -> None:
        self.embedding_by_ = {
            name: np.array(value) for name, value in result.items() if name.startswith("kernel.")
        }
        self.gamma_ = float(result[GAMMA][0])

    def _n_rounds(self, run: Run) -> int:
        return run.traffic.rounds

    def embed(self, X: Any) -> PerRow[FloatArray]:
        """The rows as points of the space in which ``cluster_centers_`` lie.

        Parameters
        ----------
        X : array, data frame, or list, tuple or dict of these
            New rows, with the columns that ``fit`` saw.

        Returns
        -------
        points : array of shape (n, s), or list, tuple or dict of these
            A point for each row, in the container of ``X``.
        """
        table = self._read_new(X)
        return table.restore(self._embedded(table.parties.rows))

    def _embedded(self, rows: FloatArray) -> FloatArray:
        """h(x) for every row."""
        nobody = Parties.of([np.empty((0, rows.shape[1]))])
        protocol = self._protocol(self._n_clusters(), nobody)
        with serving():  # so that it is rounded as in the run
            return protocol.embedded(rows, self.embedding_by_)

    def _set_labels(self, table: Table) -> None:
        rows = self._embedded(table.parties.rows)
        labels = centers.label(rows, self.cluster_centers_)
        self.embedding_ = table.restore(rows)
        self.labels_ = table.restore(labels)
        self.inertia_ = centers.cost(rows, table.parties.weights, self.cluster_centers_, labels)


def feature_count(value: Any, default: int, kernel: str, form: str) -> int:
    """How many features to draw."""
    count = default if value is None else whole("n_features", value, 1)
    if kernel in SHIFT_INVARIANT and form == "cos-sin" and count % 2:
        raise InputError(
            f"n_features={count} is odd, but cosines and sines come in pairs; give an even number "
            "or form='phase'."
        )
    return count
