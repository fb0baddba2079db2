"""The front door to distributed coresets."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from sklearn.datasets import load_iris

from tests.sentences import refuses
from unpooled import CoresetKMeans
from unpooled.errors import GraphError, InputError, PolicyRefusal
from unpooled.privacy.policy import Deployment

X = load_iris(return_X_y=True)[0]
TABLES = {name: X[i::5] for i, name in enumerate("abcde")}


def fitted(**options: Any) -> CoresetKMeans:
    return CoresetKMeans(3, **{"coreset_size": 60, "random_state": 0, **options}).fit(TABLES)


@pytest.mark.bits
@pytest.mark.parametrize("objective", ["kmeans", "kmedian"])
@pytest.mark.parametrize("graph", ["path", "ring", "complete", nx.star_graph(4)], ids=str)
def test_along_a_graph_the_result_is_the_same(graph: Any, objective: str) -> None:
    star, along = fitted(objective=objective), fitted(objective=objective, graph=graph)
    assert np.array_equal(star.cluster_centers_, along.cluster_centers_)
    assert np.array_equal(star.coreset_weights_, along.coreset_weights_)
    assert star.traffic_.rounds == 2
    assert along.traffic_.rounds == (8 if graph in ("path", "ring") else 4)
    assert along.traffic_.floats_up == along.traffic_.floats_down


def test_the_coreset_stands_for_all_rows() -> None:
    model = fitted()
    assert len(model.coreset_) == len(model.coreset_weights_) == 60 + 5 * 3
    assert model.coreset_weights_.sum() == pytest.approx(150)
    assert model.history_["received"].tolist() == [75]
    assert model.history_["cost"][0] == pytest.approx(model.inertia_, rel=0.3)
    assert model.traffic_.floats_up == 5 + 75 * (4 + 1)


def test_inertia_is_what_the_objective_says() -> None:
    for objective, power in (("kmeans", 2), ("kmedian", 1)):
        model = fitted(objective=objective)
        distance = np.linalg.norm(X[:, None] - model.cluster_centers_, axis=2).min(axis=1)
        assert model.inertia_ == pytest.approx((distance**power).sum())


def test_medians_do_not_run_after_an_outlier() -> None:
    spoilt = {**TABLES, "c": np.concatenate([TABLES["c"], np.full((1, 4), 60.0)])}
    mean, median = (
        CoresetKMeans(1, objective=objective, random_state=0).fit(spoilt).cluster_centers_
        for objective in ("kmeans", "kmedian")
    )
    assert np.abs(median - np.median(X, axis=0)).max() < 0.6
    assert np.abs(mean - X.mean(axis=0)).max() > 0.2


@pytest.mark.parametrize(
    ("options", "words", "error"),
    [
        ({"coreset_size": 0}, "coreset_size=0 must be a whole number of at least 1", InputError),
        ({"n_init": 2.5}, "n_init=2.5 must be a whole number", InputError),
        ({"objective": "kmedoid"}, "objective='kmedoid' is not known; give 'kmeans'", InputError),
        ({"graph": "circle"}, "graph='circle' is not known", GraphError),
        ({"graph": nx.Graph([("a", "b"), ("c", "d"), ("d", "e")])}, "disconnected", GraphError),
        ({"policy": Deployment(kinds=())}, "does not send 'cost' .* kinds it al", PolicyRefusal),
    ],
)
def test_what_cannot_be_done_is_refused(
    options: dict[str, Any], words: str, error: type[Exception]
) -> None:
    refuses(lambda: fitted(**options), words, error)
