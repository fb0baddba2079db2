"""Federated scaling is scikit-learn's on the pooled rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler as Pooled

from tests.cells import cells_of
from tests.sentences import refuses
from unpooled import FeCA
from unpooled.data.parties import Parties
from unpooled.errors import InputError, ProtocolError
from unpooled.messages.message import Reply
from unpooled.preprocessing import StandardScaler
from unpooled.privacy.policy import DEPLOYMENT, STUDY, Deployment
from unpooled.protocols.prepare.moments import Moments
from unpooled.simulate import Options, run_star


def tables(offset: float = 0.0, sizes: tuple[int, ...] = (1, 7, 30, 12)) -> list[np.ndarray]:
    """Unequal parties with different means; the third column is constant."""
    rng = np.random.default_rng(0)
    made = [rng.normal(i, [1.0, 0.01, 0.0, 50.0], size=(n, 4)) for i, n in enumerate(sizes)]
    for own in made:
        own[:, 2] = 7.0
    return [own + offset for own in made]


def same(model: StandardScaler, other: Pooled, rtol: float = 1e-9) -> None:
    for name in ("mean_", "var_", "scale_"):
        np.testing.assert_allclose(getattr(model, name), getattr(other, name), rtol=rtol, atol=1e-9)


@pytest.mark.parametrize("sizes", [(50,), (1, 7, 30, 12), (1, 1, 1)])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_scikit_learn_on_pooled_rows(sizes: tuple[int, ...], weighted: bool) -> None:
    rows = tables(sizes=sizes)
    rng = np.random.default_rng(1)
    weights = [rng.uniform(0.1, 3, size=n) for n in sizes] if weighted else None
    if weights is not None and sizes[0] > 1:
        weights[0][0] = 0.0
    flat = None if weights is None else np.concatenate(weights)
    model = StandardScaler().fit(rows, sample_weight=weights)
    pooled = np.concatenate(rows)
    # On some processors the variance of a constant column is -1e-15 to scikit-learn, which takes
    # the root of it before it sets such a column's scale to 1.
    with np.errstate(invalid="ignore"):
        other = Pooled().fit(pooled, sample_weight=flat)
    same(model, other)
    assert model.scale_[2] == 1.0
    assert model.n_samples_seen_ == pytest.approx(np.sum(flat) if weighted else sum(sizes))
    found = model.transform(rows)
    assert isinstance(found, list)
    np.testing.assert_allclose(np.concatenate(found), other.transform(pooled), atol=1e-9)
    back = model.inverse_transform(found)
    np.testing.assert_allclose(np.concatenate(back), pooled, atol=1e-9)
    np.testing.assert_allclose(
        model.inverse_transform(pooled), other.inverse_transform(pooled), atol=1e-9
    )


def test_moments_by_hand() -> None:
    # a: weight 2, sum 2. b: weight 4, sum 18 + 10 = 28. Together: mean (2 + 28) / 6 = 5. About 5,
    # a: -5 - 3 = -8 and 25 + 9 = 34; b: 3 x 1 + 5 = 8 and 3 x 1 + 25 = 28. Together 0 and 62.
    rows = [np.array([[0.0], [2.0]]), np.array([[6.0], [10.0]])]
    weights = [np.ones(2), np.array([3.0, 1.0])]
    sent: dict[str, Any] = {}

    def watch(who: str, said: Any) -> None:
        if isinstance(said, Reply):
            sent[who] = {name: values.tolist() for name, values in said.body.items()}

    run = run_star(Moments(), Parties.of(rows, weights=weights), options=Options(watch=watch))
    assert sent["0"] == {"weight": [2.0], "sums": [-8.0], "squares": [34.0]}
    assert sent["1"] == {"weight": [4.0], "sums": [8.0], "squares": [28.0]}
    assert float(run.result["weight"]) == 6.0
    assert run.result["mean"].tolist() == [5.0]
    assert run.result["variance"].tolist() == pytest.approx([62 / 6])


def test_no_digits_are_lost_far_from_zero() -> None:
    rows = tables(1e8)
    near, far = StandardScaler().fit(tables()), StandardScaler().fit(rows)
    # The values themselves, and the means that are sent, are rounded by 1.5e-8 up there; the sum
    # of squares of values of 1e8 would be rounded by 2 and more.
    np.testing.assert_allclose(far.mean_ - 1e8, near.mean_, atol=1e-7)
    np.testing.assert_allclose(far.var_[[0, 3]], near.var_[[0, 3]], rtol=1e-6)
    exact = np.concatenate(rows) - 1e8  # without error
    np.testing.assert_allclose(far.var_, exact.var(axis=0), rtol=1e-8, atol=1e-12)
    assert far.scale_[2] == 1.0
    same(far, Pooled().fit(np.concatenate(rows)), rtol=1e-8)


def test_constant_and_nearly_constant_columns() -> None:
    n = 40
    wobble = np.where(np.arange(n) % 2, 1.0, -1.0)
    pooled = np.stack(
        [
            np.zeros(n),
            np.full(n, 0.1),
            np.full(n, 1e140),
            1.0 + 1e-6 * wobble,  # small, but variance
            1.0 + 1e-15 * wobble,  # no more than rounding
            1e8 + 1e-3 * wobble,
            1e-30 * wobble,
            np.full(n, 1 / 3),
        ],
        axis=1,
    )
    parts = np.split(pooled, [3, 4, 20])
    model, other = StandardScaler().fit(parts), Pooled().fit(pooled)
    np.testing.assert_allclose(model.scale_, other.scale_, rtol=1e-6)
    assert model.scale_[[0, 1, 2, 4, 7]].tolist() == [1.0] * 5
    assert model.scale_[3] == pytest.approx(1e-6, rel=1e-6)
    assert model.scale_[6] == pytest.approx(1e-30)
    found = np.concatenate(model.transform(parts))
    assert not found[:, [0, 1, 2, 7]].any()  # scikit-learn's is off by rounding: 1e124 in column 2
    rest = [3, 4, 5, 6]
    np.testing.assert_allclose(found[:, rest], other.transform(pooled)[:, rest], atol=1e-6)


@pytest.mark.parametrize("with_mean", [False, True])
@pytest.mark.parametrize("with_std", [False, True])
def test_with_mean_and_with_std(with_mean: bool, with_std: bool) -> None:
    rows = tables()
    pooled = np.concatenate(rows)
    model = StandardScaler(with_mean=with_mean, with_std=with_std).fit(rows)
    other = Pooled(with_mean=with_mean, with_std=with_std).fit(pooled)
    np.testing.assert_allclose(model.transform(pooled), other.transform(pooled), atol=1e-9)
    np.testing.assert_allclose(
        model.inverse_transform(pooled), other.inverse_transform(pooled), atol=1e-9
    )
    if with_std:
        np.testing.assert_allclose(model.scale_, other.scale_, rtol=1e-9)
    else:
        assert model.var_ is None
        assert model.scale_ is None


def test_containers() -> None:
    rows = tables()
    pooled = np.concatenate(rows)
    groups = np.repeat(list("dabc"), [len(own) for own in rows])
    shuffled = np.random.default_rng(0).permutation(len(pooled))
    expected = Pooled().fit_transform(pooled)
    parts = np.split(expected, np.cumsum([len(own) for own in rows])[:-1])
    named = dict(zip("dabc", rows, strict=True))

    found = StandardScaler().fit(named).transform(named)
    assert list(found) == list("dabc")
    for key, own in zip("dabc", parts, strict=True):
        np.testing.assert_allclose(found[key], own, atol=1e-9)
    found = StandardScaler().fit(tuple(rows)).transform(tuple(rows))
    assert isinstance(found, tuple)
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-9)
    model = StandardScaler().fit(pooled[shuffled], groups=groups[shuffled])
    np.testing.assert_allclose(model.transform(pooled), expected, atol=1e-9)
    assert model.traffic_.table["party"].tolist() == list("abcd")
    found = StandardScaler().fit_transform(pooled)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_columns_go_by_name() -> None:
    rows = tables()
    frames = [pd.DataFrame(own, columns=list("wxyz")) for own in rows]
    frames[1] = frames[1][list("zxyw")]
    frames[3] = frames[3][list("yzwx")]
    model = StandardScaler().fit(frames)
    other = Pooled().fit(np.concatenate(rows))
    same(model, other)
    assert model.feature_names_in_.tolist() == list("wxyz")
    assert model.get_feature_names_out().tolist() == list("wxyz")
    found = model.transform(frames[1])
    np.testing.assert_allclose(found, other.transform(rows[1]), atol=1e-9)
    np.testing.assert_allclose(model.inverse_transform(found), rows[1], atol=1e-9)
    framed = model.set_output(transform="pandas").transform(frames[1])
    assert framed.columns.tolist() == list("wxyz")
    with pytest.raises(InputError, match="goes with one table"):
        model.transform(frames)


def test_names_of_columns_without_names() -> None:
    model = StandardScaler().fit(tables())
    assert model.get_feature_names_out().tolist() == ["x0", "x1", "x2", "x3"]
    assert model.n_features_in_ == 4
    assert not hasattr(model, "feature_names_in_")
    StandardScaler().fit([pd.DataFrame(own, columns=list("wxyz")) for own in tables()])


def test_in_a_pipeline_over_groups() -> None:
    rng = np.random.default_rng(0)
    corners = np.array([[0.0, 0.0], [1.0, 900.0], [2.0, 100.0]])
    kind = rng.integers(3, size=90)
    pooled = corners[kind] + rng.normal(size=(90, 2)) * [0.03, 300.0]
    groups = rng.integers(4, size=90)
    pipe = make_pipeline(StandardScaler(), FeCA(3, random_state=0))
    pipe.fit(pooled, standardscaler__groups=groups, feca__groups=groups)
    scaled = Pooled().fit_transform(pooled)
    other = FeCA(3, random_state=0).fit(scaled, groups=groups)
    np.testing.assert_allclose(pipe[-1].cluster_centers_, other.cluster_centers_, rtol=0, atol=1e-9)
    assert np.array_equal(pipe.predict(pooled), other.labels_)
    assert len(pipe[-1].traffic_.table) == 4
    # Whole containers go through too.
    parts = [pooled[groups == g] for g in range(4)]
    again = make_pipeline(StandardScaler(), FeCA(3, random_state=0)).fit(parts)
    np.testing.assert_allclose(again[-1].cluster_centers_, other.cluster_centers_, atol=1e-9)


def test_small_parties_do_not_count_in_deployment() -> None:
    rows = tables(sizes=(20, 5, 30))
    model = StandardScaler(policy="deployment").fit(rows)
    same(model, Pooled().fit(np.concatenate([rows[0], rows[2]])))
    assert model.n_samples_seen_ == 50
    what = "takes no part: its 5 rows do not make a cell of 10 persons, its minimum count"
    assert model.remarks_ == {"1": [what]}
    # What it sends is zeros: nothing about its rows.
    sent: dict[str, Any] = {}
    watch = Options(policy=DEPLOYMENT, watch=lambda who, said: sent.update({who: said}))
    run_star(Moments(), Parties.of(rows), options=watch)
    assert all(not values.any() for values in sent["1"].body.values())
    assert all(values.any() for values in sent["0"].body.values())


def test_a_row_that_outweighs_all_others_is_no_crowd() -> None:
    rows = tables(sizes=(30, 30, 40))
    weights = [np.ones(30), np.ones(30), np.ones(40)]
    weights[1][4] = 1e6
    model = StandardScaler(policy="deployment").fit(rows, sample_weight=weights)
    others = [rows[0], np.delete(rows[1], 4, axis=0), rows[2]]
    same(model, Pooled().fit(np.concatenate(others)))
    assert model.remarks_ == {
        "1": ["1 of 30 rows held back, each of which would stand out in a cell"]
    }


def test_scaling_is_that_of_the_rows_in_cells() -> None:
    """Not of the means of cells, which vary less: the scatter within cells is counted too."""
    rows = tables(sizes=(57, 33, 128))
    weights = [np.random.default_rng(2).uniform(0.5, 2.0, len(own)) for own in rows]
    cells = [cells_of(own, 10, w) for own, w in zip(rows, weights, strict=True)]
    inside = [own.labels >= 0 for own in cells]
    pooled = np.concatenate([own[there] for own, there in zip(rows, inside, strict=True)])
    pooled_weights = np.concatenate([w[there] for w, there in zip(weights, inside, strict=True)])
    model = StandardScaler(policy="deployment").fit(rows, sample_weight=weights)
    same(model, Pooled().fit(pooled, sample_weight=pooled_weights))
    means, within = [own.means for own in cells], [own.weights for own in cells]
    alone = StandardScaler().fit(means, sample_weight=within)
    assert (alone.var_ <= model.var_).all()
    assert alone.var_[3] < 0.6 * model.var_[3]
    np.testing.assert_allclose(alone.mean_, model.mean_, rtol=1e-12)


def test_each_party_has_its_own_policy() -> None:
    rows = dict(zip("abc", tables(sizes=(20, 5, 30)), strict=True))
    policy = {"a": "deployment", "b": STUDY, "c": Deployment(min_count=31)}
    model = StandardScaler(policy=policy).fit(rows)
    same(model, Pooled().fit(np.concatenate([rows["a"], rows["b"]])))


def test_nobody_large_enough() -> None:
    model = StandardScaler(policy="deployment")
    rows = tables(sizes=(5, 9, 1))
    refuses(lambda: model.fit(rows), "No party sent anything about its rows", ProtocolError)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"with_mean": 1}, "with_mean=1 must be True or False"),
        ({"with_std": "no"}, "with_std='no' must be True or False"),
        ({"policy": "none"}, "policy='none' is not known; give 'study' or 'deployment'"),
        ({"policy": None}, "policy=None is not known"),
        ({"policy": {"0": "study", "5": "study"}}, "policy names '5', which is no party"),
        ({"policy": {"0": "study"}}, "Party 1 has no policy"),
    ],
)
def test_bad_options(options: dict[str, Any], words: str) -> None:
    model = StandardScaler(**options)
    refuses(lambda: model.fit(tables()), words)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_before_fit_and_with_other_columns() -> None:
    model = StandardScaler()
    for method in (model.transform, model.inverse_transform):
        with pytest.raises(NotFittedError):
            method(tables()[1])
    model.fit(tables())
    for method in (model.transform, model.inverse_transform):
        refuses(lambda m=method: m(tables()[1][:, :3]), "X has 3 features, but StandardScaler is")
    assert clone(model).get_params() == model.get_params()


def test_input_is_left_alone() -> None:
    rows = tables()
    before = [own.copy() for own in rows]
    model = StandardScaler().fit(rows)
    model.transform(rows)
    model.inverse_transform(rows)
    assert all(np.array_equal(a, b) for a, b in zip(rows, before, strict=True))
