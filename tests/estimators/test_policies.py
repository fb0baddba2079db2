"""Parties' policies, through the estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import unpooled
from tests.estimators.test_sklearn import MESH, STAR
from tests.sentences import refuses
from unpooled import (
    DGC,
    CoresetKMeans,
    FederatedKMeans,
    FuzzyCMeans,
    GossipKMeans,
    KernelKMeans,
    KernelPCAKMeans,
    OneShotKMeans,
    RandomFeatureKMeans,
)
from unpooled.errors import InputError, PolicyRefusal, ProtocolError
from unpooled.kernels.lloyd.fuzzy import memberships
from unpooled.metrics import center_distance
from unpooled.privacy.policy import STUDY, Deployment

RNG = np.random.default_rng(0)
PLACES = np.array([[0.0, 0.0], [30.0, 0.0], [0.0, 30.0]])
TABLES = {
    name: np.concatenate([place + RNG.normal(size=(n, 2)) for place in PLACES])
    for name, n in (("north", 20), ("south", 30), ("west", 15))
}

SENDING_ROWS = (CoresetKMeans, KernelPCAKMeans, RandomFeatureKMeans)
APART = (FuzzyCMeans, KernelKMeans)
"""Whose parties look for more clusters than there are, so that some are small."""


@pytest.mark.parametrize("estimator", MESH)
def test_a_mesh_sends_no_rows_under_deployment(estimator: Any) -> None:
    for init in () if estimator is GossipKMeans else ("dkm+c", "random", "k-means++"):
        model = estimator(3, init=init, policy="deployment", random_state=0)
        refuses(lambda model=model: model.fit(TABLES), "which discloses rows", PolicyRefusal)
    model = estimator(3, init=PLACES, policy="deployment", max_rounds=20).fit(TABLES)
    assert np.array_equal(
        model.peer_centers_, estimator(3, init=PLACES, max_rounds=20).fit(TABLES).peer_centers_
    )


@pytest.mark.parametrize(
    "options",
    [{}, {"averaging": "tree"}, {"topology": "private"}, {"loss": "huber"}, {"rho": 100.0}],
    ids=str,
)
def test_gossip_needs_no_rows_to_start_from(options: dict[str, Any]) -> None:
    """Where no cluster is small, both policies end in the same clusters."""
    study = GossipKMeans(3, random_state=0, tol=1e-9, **options).fit(TABLES)
    strict = GossipKMeans(3, random_state=0, tol=1e-9, policy="deployment", **options).fit(TABLES)
    assert strict.converged_
    assert center_distance(strict.cluster_centers_, study.cluster_centers_) < 1e-6
    assert center_distance(strict.cluster_centers_, PLACES) < 1.0


def test_gossip_where_everybody_is_too_small() -> None:
    model = GossipKMeans(3, policy=Deployment(min_count=100), random_state=0)
    refuses(lambda: model.fit(TABLES), "No user sent anything about its rows", ProtocolError)
    assert not [name for name in vars(model) if name.endswith("_")]
    own = {**dict.fromkeys(TABLES, Deployment(min_count=100)), "south": Deployment(min_count=5)}
    with pytest.raises(InputError, match="share a host but not a policy"):
        GossipKMeans(3, policy=own).fit(TABLES)


@pytest.mark.parametrize("estimator", [e for e in STAR if e not in (*APART, *SENDING_ROWS)])
def test_a_star_without_small_clusters_is_the_same_under_both_policies(estimator: Any) -> None:
    """Where no cluster is small, nothing is held back but what crosses borders, which none does."""
    options = {"local_clusters": 3} if estimator is unpooled.KFED else {}
    study = estimator(3, random_state=0, **options).fit(TABLES)
    strict = estimator(3, policy="deployment", random_state=0, **options).fit(TABLES)
    assert center_distance(strict.cluster_centers_, study.cluster_centers_) < 1e-9
    assert strict.remarks_ == {}


@pytest.mark.parametrize("final", ["one-shot", "lloyd"])
@pytest.mark.parametrize("solver", ["block-krylov", "dspgd"])
def test_kernel_k_means_finds_the_same_clusters_under_both_policies(
    solver: str, final: str
) -> None:
    options = {"solver": solver, "final": final, "max_rounds": 3, "random_state": 0}
    study = KernelKMeans(3, **options).fit(TABLES)
    strict = KernelKMeans(3, policy="deployment", **options).fit(TABLES)
    for own, other in zip(strict.embedding_.values(), study.embedding_.values(), strict=True):
        assert np.array_equal(own, other)
    labels = [np.concatenate(list(model.labels_.values())) for model in (study, strict)]
    assert adjusted_rand_score(*labels) == 1
    assert study.remarks_ == {}
    assert {remark.split(":")[0] for own in strict.remarks_.values() for remark in own} <= {
        f"{kind} {number}" for kind in ("centroids", "sums") for number in range(100)
    }


def test_parties_may_have_policies_of_their_own() -> None:
    own = {"north": "study", "south": Deployment(min_count=31), "west": STUDY}
    model = OneShotKMeans(3, local_clusters=3, policy=own, random_state=0).fit(TABLES)
    assert list(model.remarks_) == ["south"]
    assert model.traffic_.table["floats_up"].tolist() == [9, 0, 9]


@pytest.mark.parametrize("estimator", SENDING_ROWS)
def test_what_sends_rows_is_refused(estimator: Any) -> None:
    model = estimator(3, policy="deployment", random_state=0)
    refuses(lambda: model.fit(TABLES), "which discloses rows", PolicyRefusal)
    # One party that does not want to is enough.
    model = estimator(3, policy={**dict.fromkeys(TABLES, "study"), "south": "deployment"})
    refuses(lambda: model.fit(TABLES), "Party south does not send", PolicyRefusal)


@pytest.mark.parametrize("estimator", [DGC, GossipKMeans, OneShotKMeans, FederatedKMeans])
@pytest.mark.parametrize("policy", ["strict", None, Deployment, 3])
def test_unknown_policies(estimator: Any, policy: Any) -> None:
    refuses(lambda: estimator(3, policy=policy).fit(TABLES), "policy=.* is not known; give 'study'")


def test_memberships_are_those_of_the_fitted_centres() -> None:
    model = FuzzyCMeans(3, random_state=0).fit(TABLES)
    degrees = model.memberships(TABLES)
    assert list(degrees) == list(TABLES)
    for name, rows in TABLES.items():
        np.testing.assert_allclose(degrees[name].sum(axis=1), 1.0)
        assert np.array_equal(degrees[name].argmax(axis=1), model.labels_[name])
        assert np.array_equal(degrees[name], memberships(rows, model.cluster_centers_, 2.0))
