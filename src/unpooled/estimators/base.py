"""What all estimators share: they remember the table they saw, and label new rows like it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol, Self, TypeVar, overload

import numpy as np
from sklearn import get_config
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from unpooled.data.tables import Expected, Table, read
from unpooled.errors import InputError
from unpooled.estimators import prepared
from unpooled.types import Array, FloatArray, IntArray, PerRow

PartyKey = TypeVar("PartyKey")


class Frame(Protocol):
    """A data frame of whatever package: it names its columns."""

    @property
    def columns(self) -> Any:
        """The names."""


class CentersEstimator(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """A clustering by centres."""

    n_clusters: int
    verbose: int
    labels_: PerRow[IntArray]

    @abstractmethod
    def _fit(self, table: Table) -> None:
        """Runs the method on the table and keeps what came of it."""

    @abstractmethod
    def _labels(self, rows: FloatArray) -> IntArray:
        """The nearest of ``cluster_centers_`` for each row."""

    @abstractmethod
    def _distances(self, rows: FloatArray) -> FloatArray:
        """The distance of each row to each of ``cluster_centers_``."""

    @abstractmethod
    def _cost(self, table: Table) -> float:
        """The cost of the table's rows at ``cluster_centers_``, as the method counts it."""

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, sample_weight: Any = None) -> Self:
        """Clusters the rows of all parties without putting them together.

        Parameters
        ----------
        X : array, data frame, or list, tuple or dict of these
            One table for all, with ``groups``, or one for each party. Columns of data frames are
            matched by name.
        y : None
            Ignored.
        groups : array of shape (n,) or str, default=None
            The party of each row of one table, or the name of the column that has it, which is no
            feature then. Without it there is one party.
        sample_weight : array of shape (n,), or list, tuple or dict of these, default=None
            A weight for each row, in the container of ``X``; None weighs all rows alike.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        table = read(X, groups, sample_weight, Expected(type(self).__name__))
        self._fit(table)
        remember(self, table)
        return self

    @overload
    def predict(self, X: Mapping[PartyKey, Any]) -> dict[PartyKey, IntArray]: ...
    @overload
    def predict(self, X: Array | Frame) -> IntArray: ...
    @overload
    def predict(self, X: Any) -> PerRow[IntArray]: ...
    def predict(self, X: Any) -> PerRow[IntArray]:
        """The nearest of ``cluster_centers_`` for each row.

        Parameters
        ----------
        X : array, data frame, or list, tuple or dict of these
            New rows, with the columns that ``fit`` saw.

        Returns
        -------
        labels : array of shape (n,), or list, tuple or dict of these
            The number of each row's cluster, in the container of ``X``.
        """
        table = self._read_new(X)
        return table.restore(self._labels(table.parties.rows))

    @overload
    def transform(self, X: Mapping[PartyKey, Any]) -> dict[PartyKey, FloatArray]: ...
    @overload
    def transform(self, X: Array | Frame) -> FloatArray: ...
    @overload
    def transform(self, X: Any) -> PerRow[FloatArray]: ...
    def transform(self, X: Any) -> PerRow[FloatArray]:
        """The distance of each row to each of ``cluster_centers_``.

        For a Bregman loss this is the square root of the divergence.

        Parameters
        ----------
        X : array, data frame, or list, tuple or dict of these
            New rows, with the columns that ``fit`` saw.

        Returns
        -------
        distances : array of shape (n, K), or list, tuple or dict of these
            A line for each row, in the container of ``X``.
        """
        table = self._read_new(X)
        refuse_frames_of_parties(self, table)
        return table.restore(self._distances(table.parties.rows))

    def score(
        self, X: Any, y: Any = None, *, groups: Any = None, sample_weight: Any = None
    ) -> float:
        """Minus the cost of the rows of ``X`` at ``cluster_centers_``: higher is better.

        The cost is the method's own: squared distances to the nearest centre unless its docstring
        has another. More clusters always cost less, so a search over ``n_clusters`` by this score
        takes the most it may; and costs measured in different spaces or by different losses do not
        compare.

        Parameters
        ----------
        X : array, data frame, or list, tuple or dict of these
            Rows with the columns that ``fit`` saw.
        y : None
            Ignored.
        groups : array of shape (n,) or str, default=None
            As in ``fit``; the cost of a row is the same whichever party it belongs to.
        sample_weight : array of shape (n,), or list, tuple or dict of these, default=None
            A weight for each row, in the container of ``X``; None weighs all rows alike.

        Returns
        -------
        score : float
            Minus the cost.
        """
        return -self._cost(self._read_new(X, groups, sample_weight))

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])

    @property
    def _centers(self) -> FloatArray:
        """The centres where the rows of :meth:`_read_new` lie."""
        return prepared.centers(self)

    def _read_new(self, X: Any, groups: Any = None, sample_weight: Any = None) -> Table:
        """New rows, raw as they are given, prepared as those of the fit were."""
        check_is_fitted(self, "n_features_in_")
        return prepared.rows(self, read_like_fitted(self, X, groups, sample_weight))


def remember(model: Any, table: Table) -> None:
    """Notes the table's columns on a fitted estimator, as scikit-learn does."""
    model.n_features_in_ = table.parties.n_features
    for name, value in (
        ("feature_names_in_", table.columns and np.asarray(table.columns, dtype=object)),
        ("group_name_in_", table.groups),
    ):
        model.__dict__.pop(name, None)
        if value is not None:
            setattr(model, name, value)


def read_like_fitted(model: Any, X: Any, groups: Any = None, sample_weight: Any = None) -> Table:
    """New rows, with the columns that the estimator was fitted on."""
    columns = getattr(model, "feature_names_in_", None)
    names = tuple(columns) if columns is not None else None
    named = getattr(model, "group_name_in_", None)
    expected = Expected(type(model).__name__, model.n_features_in_, names, named)
    return read(X, groups, sample_weight, expected)


def refuse_frames_of_parties(model: Any, table: Table) -> None:
    """``set_output`` makes one frame, which several parties' tables cannot be."""
    own = getattr(model, "_sklearn_output_config", {}).get("transform")
    output = str(own or get_config()["transform_output"])
    if not table.plain and output != "default":
        raise InputError(
            f"set_output(transform={output!r}) goes with one table; transform the parties' tables "
            "one by one."
        )
