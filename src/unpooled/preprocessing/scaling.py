"""Standardising columns by the mean and deviation of all parties' rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.checks import flag
from unpooled.drivers.local import Options, run_star
from unpooled.estimators import options
from unpooled.estimators.base import read_like_fitted, refuse_frames_of_parties, remember
from unpooled.protocols.scaling import Moments, deviation
from unpooled.tables import Expected, Table, read
from unpooled.types import FloatArray


class StandardScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Scales every column to mean 0 and variance 1 over all parties' rows, without pooling.

    Equal to scikit-learn's ``StandardScaler`` on the pooled rows. Every party sends, once, 2 d + 1
    numbers; see :mod:`unpooled.protocols.scaling`.

    Parameters
    ----------
    with_mean : whether to subtract the mean
    with_std : whether to divide by the deviation; columns that are constant are not divided
    policy : what parties let out: "study", "deployment", a policy, or one for each party

    Attributes
    ----------
    mean_, var_, scale_ : (d,) each; ``var_`` and ``scale_`` are None without ``with_std``
    n_samples_seen_ : the weight of all rows
    traffic_, remarks_, n_features_in_
    """

    def __init__(
        self, *, with_mean: bool = True, with_std: bool = True, policy: Any = "study"
    ) -> None:
        self.with_mean = with_mean
        self.with_std = with_std
        self.policy = policy

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, sample_weight: Any = None) -> Self:
        """Finds mean and deviation; ``X`` in any form that the estimators take."""
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
        self.remarks_ = run.remarks_in_words
        return self

    def transform(self, X: Any) -> Any:
        """(x - mean) / deviation, in the container of ``X``."""
        table = self._read_new(X)
        return table.restore(self._prepared(table.parties.rows))

    def inverse_transform(self, X: Any) -> Any:
        """x deviation + mean, in the container of ``X``."""
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
