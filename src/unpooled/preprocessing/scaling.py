"""Standardising columns by the mean and deviation of all parties' rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.checks import flag
from unpooled.data.tables import Expected, Table, read
from unpooled.estimators import options
from unpooled.estimators.base import read_like_fitted, refuse_frames_of_parties, remember
from unpooled.protocols.prepare.moments import Moments, deviation
from unpooled.simulate import Options, run_star
from unpooled.types import FloatArray, PerRow


class StandardScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Scales every column to mean 0 and variance 1 over all parties' rows, without pooling.

    Equal to scikit-learn's ``StandardScaler`` on the pooled rows. Every party sends, once, 2 d + 1
    numbers; see :mod:`unpooled.protocols.prepare.moments`.

    Parameters
    ----------
    with_mean : bool, default=True
        Whether to subtract the mean.
    with_std : bool, default=True
        Whether to divide by the deviation; columns that are constant are not divided.
    policy : {"study", "deployment"}, policy, or dict of one for each party, default="study"
        What parties let out.

    Attributes
    ----------
    mean_ : array of shape (d,)
        The means of all rows.
    var_ : array of shape (d,) or None
        Their variances; None without ``with_std``.
    scale_ : array of shape (d,) or None
        Their deviations; None without ``with_std``.
    n_samples_seen_ : float
        The weight of all rows.
    traffic_ : Traffic
        What was sent: see :class:`unpooled.privacy.Traffic`.
    remarks_ : dict of lists
        Which of their rows parties left out, and why.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (d,)
        Names of the columns, where ``X`` has them.
    """

    def __init__(
        self, *, with_mean: bool = True, with_std: bool = True, policy: Any = "study"
    ) -> None:
        self.with_mean = with_mean
        self.with_std = with_std
        self.policy = policy

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, sample_weight: Any = None) -> Self:
        """Finds mean and deviation; ``X`` in any form that the estimators take.

        Parameters
        ----------
        X : array, data frame, or list, tuple or dict of these
            Rows in any form that the estimators take.
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
        flag("with_mean", self.with_mean)
        flag("with_std", self.with_std)
        table = read(X, groups, sample_weight, Expected(type(self).__name__))
        policy = options.policy(self.policy, table.parties.names)
        run = run_star(Moments(), table.parties, options=Options(policy=policy))
        remember(self, table)
        weight, mean, variance = (run.result[name] for name in ("weight", "mean", "variance"))
        self.mean_ = np.array(mean)
        self.var_ = np.array(variance) if self.with_std else None
        self.scale_ = deviation(run.result) if self.with_std else None
        self.n_samples_seen_ = float(weight)
        self.traffic_ = run.traffic
        self.remarks_ = dict(run.remarks)
        return self

    def transform(self, X: Any) -> PerRow[FloatArray]:
        """(x - mean) / deviation, in the container of ``X``.

        Parameters
        ----------
        X : array, data frame, or list, tuple or dict of these
            Rows with the columns that ``fit`` saw.

        Returns
        -------
        rows : array of shape (n, d), or list, tuple or dict of these
            In the container of ``X``.
        """
        table = self._read_new(X)
        return table.restore(self._prepared(table.parties.rows))

    def inverse_transform(self, X: Any) -> PerRow[FloatArray]:
        """x deviation + mean, in the container of ``X``.

        Parameters
        ----------
        X : array, data frame, or list, tuple or dict of these
            Scaled rows.

        Returns
        -------
        rows : array of shape (n, d), or list, tuple or dict of these
            In the container of ``X``.
        """
        table = self._read_new(X)
        shift, scale = self._shift_and_scale()
        return table.restore(table.parties.rows * scale + shift)

    def _prepared(self, rows: FloatArray) -> FloatArray:
        shift, scale = self._shift_and_scale()
        return np.asarray((rows - shift) / scale)

    def _shift_and_scale(self) -> tuple[FloatArray, FloatArray]:
        nothing, one = np.zeros(self.n_features_in_), np.ones(self.n_features_in_)
        return (
            self.mean_ if self.with_mean else nothing,
            one if self.scale_ is None else self.scale_,
        )

    def _read_new(self, X: Any) -> Table:
        check_is_fitted(self, "n_features_in_")
        table = read_like_fitted(self, X)
        refuse_frames_of_parties(self, table)
        return table
