from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn import metrics as pooled
from sklearn.datasets import load_iris

from tests.sentences import refuses
from unpooled import metrics


def plain_davies_bouldin(X, labels):
    """As scikit-learn's, but by differences.

    scikit-learn expands |x - c|² and so finds rows that lie on their centre up to 1e-7 away from
    it, which is too coarse a reference where a cluster has one row or repeats of one row.
    """
    clusters = [X[labels == k] for k in np.unique(labels)]
    centers = np.array([rows.mean(axis=0) for rows in clusters])
    radius = [cdist(rows, c[None]).mean() for rows, c in zip(clusters, centers, strict=True)]
    apart = cdist(centers, centers)
    apart[apart == 0] = np.inf
    return np.mean(np.max(np.add.outer(radius, radius) / apart, axis=1))


SCORES = {
    metrics.silhouette: lambda X, y: pooled.silhouette_score(X, y, metric="sqeuclidean"),
    metrics.calinski_harabasz: pooled.calinski_harabasz_score,
    metrics.davies_bouldin: plain_davies_bouldin,
}
each_score = pytest.mark.parametrize("score", SCORES, ids=lambda score: score.__name__)


def close(value):
    return pytest.approx(value, rel=1e-9, abs=1e-9)


def sample(seed=0, n=90, d=3, k=4):
    """Rows around k places, labels that include a cluster of one row, and parties."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k - 1, n)
    labels[:k] = np.arange(k)
    X = rng.normal(size=(n, d)) + 2 * labels[:, None]
    return X, labels, rng.integers(0, 5, n)


# Against classes and centres.


def test_accuracy_matches_clusters_to_classes():
    y = [0, 0, 0, 1, 1, 2]
    assert metrics.accuracy(y, [2, 2, 2, 0, 0, 1]) == 1.0
    assert metrics.accuracy(y, [2, 2, 2, 0, 0, 1], match="identity") == 0.0
    assert metrics.accuracy(y, [0, 0, 1, 1, 1, 2], "identity") == close(5 / 6)
    assert metrics.accuracy(["a", "a", "b"], [7, 7, 9]) == 1.0


def test_accuracy_takes_the_best_matching_not_the_greedy_one():
    y = np.repeat([0, 1], [9, 5])
    labels = np.repeat([0, 1, 0], [5, 4, 5])
    assert metrics.accuracy(y, labels) == close(9 / 14)


@pytest.mark.parametrize(("n_labels", "expected"), [(1, 1 / 3), (6, 1 / 2)])
def test_accuracy_with_other_numbers_of_clusters(n_labels, expected):
    y = np.repeat([0, 1, 2], 4)
    assert metrics.accuracy(y, np.arange(12) * n_labels // 12) == close(expected)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=30))
def test_accuracy_purity_and_nmi_are_consistent(pairs):
    y, labels = np.array(pairs).T
    best, identity = metrics.accuracy(y, labels), metrics.accuracy(y, labels, "identity")
    assert identity <= best <= metrics.purity(y, labels) <= 1.0
    assert metrics.accuracy(labels, y) == best
    assert metrics.nmi(y, labels) == pooled.normalized_mutual_info_score(y, labels)


def test_purity_counts_the_largest_class_of_each_cluster():
    assert metrics.purity([0, 0, 1, 1, 1, 2], [0, 0, 0, 1, 1, 1]) == close(4 / 6)
    assert metrics.purity([0, 0, 1], ["a", "b", "c"]) == 1.0


def test_center_distance_is_a_frobenius_norm_over_the_best_matching():
    rng = np.random.default_rng(0)
    true = 100 * rng.normal(size=(6, 3))
    error = rng.normal(size=(6, 3))
    found = true + error
    assert metrics.center_distance(found[::-1], true) == close(np.linalg.norm(error))
    assert metrics.center_distance(found[:4], true) == close(np.linalg.norm(error[:4]))
    assert metrics.center_distance(true, found[2:]) == close(np.linalg.norm(error[2:]))


def test_center_distance_minimises_the_sum_of_squares():
    """By plain distances the matching would be the other one: 3 + 3 > 0 + 5."""
    found, true = [[0.0, 0.0], [3.0, 0.0]], [[3.0, 0.0], [3.0, 3.0]]
    assert metrics.center_distance(found, true) == close(np.sqrt(18))
    assert np.hypot(3, 3) + 0 < 3 + 3


def test_consensus_distance():
    peers = np.zeros((4, 2, 2))
    peers[3, 1] = [4.0, 0.0]
    assert metrics.consensus_distance(peers) == close(3.0)
    assert metrics.consensus_distance(np.tile([[0.1, 0.7]], (7, 3, 1))) == 0.0


# Scores without pooling.


@each_score
@pytest.mark.parametrize("seed", range(5))
def test_scores_equal_those_of_the_pooled_rows(score, seed):
    X, labels, groups = sample(seed)
    expected = close(SCORES[score](X, labels))
    assert score(X, labels) == expected
    assert score(X, labels, groups=groups) == expected
    parties = [np.flatnonzero(groups == g) for g in range(5)]
    assert score([X[i] for i in parties], [labels[i] for i in parties]) == expected
    assert score(tuple(X[i] for i in parties), tuple(labels[i] for i in parties)) == expected
    by_name = dict(enumerate(parties))
    own = {g: labels[i] for g, i in reversed(by_name.items())}
    assert score({g: X[i] for g, i in by_name.items()}, own) == expected


@each_score
def test_scores_of_real_data(score):
    X, y = load_iris(return_X_y=True)
    assert score(X, y, groups=np.arange(150) % 7) == close(SCORES[score](X, y))


@pytest.mark.parametrize("seed", range(5))
def test_davies_bouldin_equals_scikit_learn_where_no_cluster_is_a_point(seed):
    X, labels, groups = sample(seed, k=5)
    X, labels, groups = X[labels < 4], labels[labels < 4], groups[labels < 4]
    expected = close(pooled.davies_bouldin_score(X, labels))
    assert metrics.davies_bouldin(X, labels, groups=groups) == expected
    assert plain_davies_bouldin(X, labels) == expected


@each_score
@given(seed=st.integers(0, 10**6), n_parties=st.integers(1, 6))
def test_weights_repeat_rows(score, seed, n_parties):
    X, labels, _ = sample(seed, n=30)
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 4, len(X))
    weights[:4] = np.maximum(weights[:4], 1)
    repeated = np.repeat(np.arange(len(X)), weights)
    groups = rng.integers(0, n_parties, len(X))
    expected = close(SCORES[score](X[repeated], labels[repeated]))
    assert score(X, labels, groups=groups, sample_weight=weights) == expected


@each_score
def test_large_offsets_cost_no_precision(score):
    rng = np.random.default_rng(1)
    X = rng.integers(-4096, 4096, size=(200, 4)) / 1024  # so that moving the rows is exact
    labels = rng.integers(0, 3, 200)
    X[:, 0] += 3.0 * labels
    groups = rng.integers(0, 8, 200)
    there = score(X + 1e6, labels, groups=groups)
    assert there == close(SCORES[score](X, labels))


@each_score
def test_close_clusters_far_from_the_rest_cost_no_precision(score):
    X, labels, groups = sample(2)
    X, labels = np.concatenate([X, X[:2] + 1e6]), np.append(labels, [9, 9])
    groups = np.append(groups, [0, 1])
    assert score(X, labels, groups=groups) == close(SCORES[score](X, labels))


@each_score
def test_scores_do_not_depend_on_the_unit(score):
    X, labels, groups = sample(3)
    assert score(X * 2.0**-40, labels, groups=groups) == close(score(X, labels))


@each_score
def test_party_order_and_split_change_rounding_only(score):
    X, labels, groups = sample(4)
    one = score(X, labels, groups=groups)
    assert score(X, labels, groups=groups) == one
    assert score(X, labels, groups=4 - groups) == close(one)
    assert score(X, labels, groups=np.arange(len(X))) == close(one)


def test_rows_at_one_place():
    X = np.full((6, 2), 0.1)
    labels = [0, 0, 0, 1, 1, 1]
    assert metrics.silhouette(X, labels) == 0.0
    assert metrics.calinski_harabasz(X, labels) == 1.0
    assert metrics.davies_bouldin(X, labels) == 0.0


def test_clusters_with_one_centre():
    """Two crossed pairs: scikit-learn, too, counts a pair of equal centres as 0."""
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    labels = np.array([0, 0, 1, 1])
    assert metrics.davies_bouldin(X, labels) == pooled.davies_bouldin_score(X, labels) == 0.0
    for score, reference in SCORES.items():
        assert score(X, labels) == close(reference(X, labels))


def test_singletons_have_silhouette_zero():
    assert metrics.silhouette([[0.0], [1.0], [9.0]], [0, 0, 1]) == close(
        ((81 - 1) / 81 + (64 - 1) / 64 + 0) / 3
    )


# Forms of input.


@each_score
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_are_matched_by_name(score, frame):
    X, labels, _ = sample()
    columns = ["a", "b", "c"]
    expected = close(SCORES[score](X, labels))
    assert score(frame(dict(zip(columns, X.T, strict=True))), labels) == expected
    first = frame(dict(zip(columns, X[:40].T, strict=True)))
    second = frame(dict(zip(columns[::-1], X[40:].T[::-1], strict=True)))
    assert score([first, second], [labels[:40], labels[40:]]) == expected
    assert score({"x": first, "y": second}, {"x": labels[:40], "y": labels[40:]}) == expected


def test_columns_of_pandas_and_series_for_everything():
    X, labels, groups = sample()
    table = pd.DataFrame(X, index=np.arange(len(X))[::-1])
    series = pd.Series(labels.astype(str)), pd.Series(groups), pd.Series(np.ones(len(X)))
    value = metrics.silhouette(table, series[0], groups=series[1], sample_weight=series[2])
    assert value == close(metrics.silhouette(X, labels))


def test_a_list_of_rows_is_one_table_and_nested_lists_are_parties():
    rows, labels = [[0.0, 0.0], [0.0, 1.0], [5.0, 5.0], [5.0, 6.0]], [0, 0, 1, 1]
    one = metrics.silhouette(rows, labels)
    assert metrics.silhouette(np.array(rows), labels) == one
    assert metrics.silhouette([rows[:2], rows[2:]], [labels[:2], labels[2:]]) == one
    assert metrics.silhouette([np.array(row) for row in rows], labels, groups=[0, 0, 1, 1]) == one


def test_labels_may_be_strings_that_some_parties_lack():
    X, labels, _ = sample()
    words = np.array(["ash", "beech", "cedar", "doum palm"])[labels]
    order = np.argsort(labels, kind="stable")
    parts = np.split(order, [20, 50])
    value = metrics.davies_bouldin([X[i] for i in parts], [words[i] for i in parts])
    assert value == close(plain_davies_bouldin(X, labels))


# Refusals.

A, B = np.eye(3), np.eye(3) + 5
OWN = [0, 0, 1]
NAN = np.full((3, 3), np.nan)


def named(table):
    return pd.DataFrame(table, columns=list("abc"))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.accuracy([0, 1], [0, 1], match="any"), "match='any' is unknown"),
        (lambda: metrics.accuracy([0, 1], [0, 1, 1]), r"labels has the shape \(3,\)"),
        (lambda: metrics.purity([], []), "y is empty"),
        (lambda: metrics.purity([[0, 1]], [0, 1]), r"y has the shape \(1, 2\)"),
        (lambda: metrics.purity([[0, 1], [0]], [0, 1]), "y is not an array of labels"),
        (lambda: metrics.purity([0, None], [0, 1]), "y contains NaN or another missing value"),
        (lambda: metrics.nmi(np.array([0, "a"], dtype=object), [0, 1]), "cannot be compared"),
        (lambda: metrics.accuracy([0, 1], ["a", np.nan]), "labels contains NaN or another"),
        (lambda: metrics.center_distance([[1e200]], [[0.0]]), "values beyond 1e.150"),
        (lambda: metrics.nmi([0, np.nan], [0, 1]), "y contains NaN"),
        (lambda: metrics.center_distance(np.eye(2), np.eye(3)), "2 columns but true_centers 3"),
        (lambda: metrics.center_distance([1.0], [1.0]), r"centers has the shape \(1,\)"),
        (lambda: metrics.center_distance(NAN, A), "centers contains NaN"),
        (lambda: metrics.consensus_distance(A), r"peer_centers has the shape \(3, 3\)"),
        (lambda: metrics.consensus_distance(np.zeros((0, 2, 2))), "none of them empty"),
    ],
)
def test_bad_input(call, words):
    refuses(call, words)


@each_score
@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((A, [0, 1]), {}, r"labels has shape \(2,\), but 3 rows need"),
        ((A, [0, 0, 0]), {}, r"labels name 1 cluster\(s\): a score needs at least 2"),
        ((A, [0, 1, 2]), {}, "3 rows for 3 clusters"),
        ((A, OWN), {"sample_weight": [1, 1, 0]}, r"labels name 1 cluster\(s\)"),
        ((A, OWN), {"sample_weight": [0, 0, 0]}, "Every sample_weight is zero"),
        ((A, OWN), {"sample_weight": [0.3, 0.3, 0.3]}, "weights count rows"),
        ((A, OWN), {"sample_weight": [1, -1, 1]}, "Party 0 has the weight -1"),
        ((A, OWN), {"sample_weight": [1, np.inf, 1]}, "Party 0 has the weight inf"),
        ((A, OWN), {"sample_weight": [1, 1]}, r"sample_weight has shape \(2,\)"),
        ((A, OWN), {"groups": [0, 1]}, r"groups has shape \(2,\)"),
        ((A, OWN), {"groups": [0.0, 1.0, np.nan]}, "groups has a missing value"),
        ((A, OWN), {"groups": [0, 1, 1], "sample_weight": [1, 1]}, "sample_weight has shape"),
        ((A, OWN), {"groups": "aab"}, "groups='aab' would be a column's name"),
        ((A, [0, 0, None]), {}, "labels has a missing value"),
        ((A, np.array([0, 0, "a"], dtype=object)), {}, "cannot be compared"),
        ((A, OWN), {"sample_weight": [1e300] * 3}, "Party 0 has the weight 1e.300"),
        ((A[0], OWN), {}, r"X has shape \(3,\), but a table"),
        ((A[None], OWN), {}, r"X has shape \(1, 3, 3\), but a table"),
        (([], []), {}, r"X has shape \(0,\)"),
        (({}, {}), {}, "X has no parties"),
        (([["a"], ["b"]], [0, 1]), {}, "could not convert"),
        (([[1.0], [1.0, 2.0]], [0, 1]), {}, "cannot be read as a table of numbers"),
        (([A, NAN], [OWN, OWN]), {}, "Party 1 has a NaN in column 0"),
        (
            ({"north": A, "south": NAN}, {"north": OWN, "south": OWN}),
            {},
            "Party south has a NaN in column 0",
        ),
        (
            (np.vstack([A, NAN]), OWN + OWN),
            {"groups": list("aaabbb")},
            "Party b has a NaN in column 0",
        ),
        (([A, B], [OWN, [0, 1]]), {}, r"labels of party 1 has shape \(2,\)"),
        (([A, B], [OWN]), {}, "labels must come in the same container as X, .* 2 parties"),
        (([A, B], np.array(OWN + OWN)), {}, "labels must come in the same container"),
        (({"a": A}, {"b": OWN}), {}, "labels must come in the same container"),
        (([A, B], [OWN, OWN]), {"groups": OWN}, "groups goes with one table"),
        (
            ([A, B], [OWN, OWN]),
            {"sample_weight": [1, 1, 1]},
            "sample_weight must come in the same container",
        ),
        (
            ([A, B], [OWN, OWN]),
            {"sample_weight": [[1, 1, 1], [1, -2, 1]]},
            "Party 1 has the weight -2",
        ),
        (([A, B[:, :2]], [OWN, OWN]), {}, "Party 1 has 2 columns but party 0 has 3"),
        (([A, B[:0]], [OWN, []]), {}, "Party 1 has no rows"),
        (
            (
                [pd.DataFrame(A, columns=list("abc")), pd.DataFrame(B, columns=list("abd"))],
                [OWN] * 2,
            ),
            {},
            "Party 1 lacks the column 'c'",
        ),
        (([named(A), B], [OWN, OWN]), {}, "Only one of party 0 and party 1 names its columns"),
        (([A, named(B)], [OWN, OWN]), {}, "Only one of party 0 and party 1 names its columns"),
    ],
)
def test_bad_input_to_scores(score, arguments, options, words):
    refuses(lambda: score(*arguments, **options), words)
