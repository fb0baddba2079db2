"""What all estimators share: they remember the table they saw, and label new rows like it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from unpooled.errors import InputError
from unpooled.estimators import prepared
from unpooled.tables import Expected, Table, read
from unpooled.types import FloatArray, IntArray


class CentersEstimator(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """A clustering by centres."""

    n_clusters: int

    @abstractmethod
    def _fit(self, table: Table) -> None:
        """Runs the method on the table and keeps what came of it."""

    @abstractmethod
    def _labels(self, rows: FloatArray) -> IntArray:
        """The nearest of ``cluster_centers_`` for each row."""

    @abstractmethod
    def _distances(self, rows: FloatArray) -> FloatArray:
        """The distance of each row to each of ``cluster_centers_``."""

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, sample_weight: Any = None) -> Self:
        """Clusters the rows of all parties without putting them together.

        Parameters
        ----------
        X : a table with ``groups``, or a list, tuple or dict of tables, one per party
        y : ignored
        groups : the party of each row of one table; without it there is one party
        sample_weight : a weight for each row, in the same form as ``X``
        """
        table = read(X, groups, sample_weight, Expected(type(self).__name__))
        self._fit(table)
        remember(self, table)
        return self

    def predict(self, X: Any) -> Any:
        """The nearest of ``cluster_centers_`` for each row, in the container of ``X``."""
        table = self._read_new(X)
        return table.restore(self._labels(table.parties.rows))

    def transform(self, X: Any) -> Any:
        """The distance of each row to each of ``cluster_centers_``, in the container of ``X``.

        For a Bregman loss this is the square root of the divergence.
        """
        table = self._read_new(X)
        refuse_frames_of_parties(self, table)
        return table.restore(self._distances(table.parties.rows))

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])

    @property
    def _centers(self) -> FloatArray:
        """The centres where the rows of :meth:`_read_new` lie."""
        return prepared.centers(self)

    def _read_new(self, X: Any) -> Table:
        """New rows, raw as they are given, prepared as those of the fit were."""
        check_is_fitted(self, "n_features_in_")
        return prepared.rows(self, read_like_fitted(self, X))


def remember(model: Any, table: Table) -> None:
    """Notes the table's columns on a fitted estimator, as scikit-learn does."""
    model.n_features_in_ = table.parties.n_features
    model.__dict__.pop("feature_names_in_", None)
    if table.columns is not None:
        model.feature_names_in_ = np.asarray(table.columns, dtype=object)


def read_like_fitted(model: Any, X: Any) -> Table:
    """New rows, with the columns that the estimator was fitted on."""
    columns = getattr(model, "feature_names_in_", None)
    names = tuple(columns) if columns is not None else None
    return read(X, None, None, Expected(type(model).__name__, model.n_features_in_, names))


def refuse_frames_of_parties(model: Any, table: Table) -> None:
    """``set_output`` makes one frame, which several parties' tables cannot be."""
    own = getattr(model, "_sklearn_output_config", {}).get("transform")
    output = str(own or get_config()["transform_output"])
    if not table.plain and output != "default":
        raise InputError(
            f"set_output(transform={output!r}) goes with one table; transform the parties' tables "
            "one by one."
        )
