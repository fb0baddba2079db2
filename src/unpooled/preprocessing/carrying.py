"""Models of standardised rows that take raw ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from unpooled.data.parties import Parties
from unpooled.estimators.prepared import carry
from unpooled.preprocessing.scaling import StandardScaler
from unpooled.protocols.prepare.standardise import MEAN, SCALE, Standardise
from unpooled.protocols.prepare.then import Then


def carry_scaler(model: Any, scaler: StandardScaler) -> None:
    """Has a model of rows that this scaler standardised take raw rows.

    ``model`` is an estimator with a coordinator whose ``cluster_centers_`` are those of a run.
    """
    nobody = Parties.of([np.empty((0, model.n_features_in_))])
    found = {"centers": model.cluster_centers_, MEAN: scaler.mean_, SCALE: scaler.scale_}
    carry(model, (scaler,), Then(Standardise(), model.planned(nobody)).in_columns(found))
