"""The pooled references, against the eigenvectors of the whole kernel matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from tests.sentences import refuses
from unpooled.baselines import ExactKernelKMeans, NystromKMeans
from unpooled.baselines.base import mean_distance
from unpooled.kernels.linalg.features import KERNELS

BOTH = [ExactKernelKMeans, NystromKMeans]
both = pytest.mark.parametrize("estimator", BOTH)
each_kernel = pytest.mark.parametrize("kernel", KERNELS)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tables are small here: on a busy machine threads would only wait for one another."""
    with threadpool_limits(1):
        yield


def blobs(n: int = 90, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    corners = np.array([[0.0, 0.0, 1.0], [4.0, 0.0, 2.0], [0.0, 5.0, -1.0]])
    return corners[np.arange(n) % 3] + rng.normal(size=(n, 3)) * [0.5, 0.6, 0.7]


def rings(n: int = 150) -> tuple[np.ndarray, np.ndarray]:
    angles = np.random.default_rng(0).uniform(0, 2 * np.pi, n)
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.concatenate([ring, 4 * ring]), np.repeat([0, 1], n)


def plain_kernel(kernel: str, gamma: float, x: np.ndarray, y: np.ndarray) -> float:
    return {
        "gaussian": lambda: np.exp(-gamma * ((x - y) ** 2).sum()),
        "laplacian": lambda: np.exp(-gamma * abs(x - y).sum()),
        "cauchy": lambda: np.prod([1 / (1 + gamma * step**2) for step in x - y]),
        "polynomial": lambda: (gamma * x @ y + 1) ** 3,
        "exponential": lambda: np.exp(gamma * x @ y),
    }[kernel]()


def plain(kernel: str, gamma: float, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    return np.array([[plain_kernel(kernel, gamma, x, y) for y in others] for x in rows])


def eigenpairs(matrix: np.ndarray, s: int) -> tuple[np.ndarray, np.ndarray]:
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1][:s], vectors[:, ::-1][:, :s]


def same_up_to_signs(found: np.ndarray, expected: np.ndarray, atol: float = 1e-8) -> None:
    signs = np.sign(np.vecdot(found, expected, axis=0))
    np.testing.assert_allclose(found * signs, expected, atol=atol)


@each_kernel
def test_exact_is_the_root_of_the_leading_part(kernel: str) -> None:
    rows, new = blobs(), blobs(7, seed=1)
    model = ExactKernelKMeans(3, kernel=kernel, gamma=0.15, n_components=4, random_state=0)
    model.fit(rows)
    values, vectors = eigenpairs(plain(kernel, 0.15, rows, rows), 4)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-9)
    same_up_to_signs(model.embedding_, vectors * np.sqrt(values))
    mapped = plain(kernel, 0.15, new, rows) @ (vectors / np.sqrt(values))
    same_up_to_signs(model.transform(new), mapped)
    np.testing.assert_allclose(model.transform(rows), model.embedding_, atol=1e-8)
    assert model.gamma_ == 0.15


@each_kernel
def test_nystrom_is_the_root_of_the_leading_part_of_its_matrix(kernel: str) -> None:
    rows, new = blobs(), blobs(7, seed=1)
    options: dict[str, Any] = {"kernel": kernel, "gamma": 0.15, "n_components": 3}
    model = NystromKMeans(3, n_landmarks=20, random_state=0, **options).fit(rows)
    landmarks = model.anchors_
    assert landmarks.shape == (20, 3)
    assert len({tuple(row) for row in landmarks} & {tuple(row) for row in rows}) == 20
    c, w = plain(kernel, 0.15, rows, landmarks), plain(kernel, 0.15, landmarks, landmarks)
    values, vectors = eigenpairs(c @ np.linalg.pinv(w, rcond=1e-13, hermitian=True) @ c.T, 3)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-6)
    same_up_to_signs(model.embedding_, vectors * np.sqrt(values), atol=1e-5)
    np.testing.assert_allclose(model.transform(rows), model.embedding_, atol=1e-8)
    # For a landmark, what is approximated is exact: h(x) · h(y) = k(x, y) with all components.
    full = NystromKMeans(3, n_landmarks=20, random_state=0, **{**options, "n_components": 20})
    full.fit(rows)
    assert np.array_equal(full.anchors_, landmarks)
    products = full.transform(landmarks) @ full.transform(new).T
    np.testing.assert_allclose(products, plain(kernel, 0.15, landmarks, new), rtol=1e-5, atol=1e-5)


@each_kernel
def test_nystrom_with_all_rows_is_exact(kernel: str) -> None:
    rows, new = blobs(), blobs(7, seed=1)
    options: dict[str, Any] = {"kernel": kernel, "random_state": 0}
    exact = ExactKernelKMeans(3, **options).fit(rows)
    for n_landmarks in (90, None):
        model = NystromKMeans(3, n_landmarks=n_landmarks, **options).fit(rows)
        assert np.array_equal(model.anchors_, rows)
        np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, rtol=1e-8)
        np.testing.assert_allclose(model.embedding_, exact.embedding_, atol=1e-6)
        np.testing.assert_allclose(model.transform(new), exact.transform(new), atol=1e-6)
        assert adjusted_rand_score(model.labels_, exact.labels_) == 1
        assert model.inertia_ == pytest.approx(exact.inertia_)


def test_more_landmarks_come_nearer() -> None:
    rows = blobs(400)
    exact = np.sum(ExactKernelKMeans(3, gamma=0.3, n_components=6).fit(rows).eigenvalues_)
    left = [
        exact
        - NystromKMeans(3, n_landmarks=c, gamma=0.3, n_components=6, random_state=0)
        .fit(rows)
        .eigenvalues_.sum()
        for c in (10, 40, 160)
    ]
    # F F' is never more than K, so neither are its eigenvalues.
    assert left[0] > left[1] > left[2] > 0
    assert left[2] < 0.001 * exact


@pytest.mark.parametrize("n_components", [3, 61])
def test_an_iterative_solver_finds_the_same(n_components: int) -> None:
    rows = blobs(600)  # more than are left to the dense solver, unless many pairs are wanted
    model = ExactKernelKMeans(3, gamma=0.1, n_components=n_components, n_init=1, random_state=0)
    model.fit(rows)
    squared = ((rows[:, None] - rows) ** 2).sum(axis=2)
    values, vectors = eigenpairs(np.exp(-0.1 * squared), 3)
    np.testing.assert_allclose(model.eigenvalues_[:3], values, rtol=1e-10)
    same_up_to_signs(model.embedding_[:, :3], vectors * np.sqrt(values))
    if n_components == 3:
        again = clone(model).fit(rows)
        assert np.array_equal(again.embedding_, model.embedding_)
        assert np.array_equal(again.labels_, model.labels_)


def test_gamma_from_the_mean_distance() -> None:
    rows = blobs(40)
    squared = sum(((x - y) ** 2).sum() for x in rows for y in rows)
    gamma = 40**2 / (2 * squared)
    assert mean_distance(rows) == pytest.approx(gamma)
    assert mean_distance(rows + 1e7) == pytest.approx(gamma, rel=1e-6)
    assert ExactKernelKMeans(2).fit(rows).gamma_ == pytest.approx(gamma)
    laplacian = NystromKMeans(2, kernel="laplacian").fit(rows)
    assert laplacian.gamma_ == pytest.approx(np.sqrt(gamma / 3))


@both
@each_kernel
def test_fitted_rows_are_labelled_again_as_they_were(estimator: Any, kernel: str) -> None:
    rows = blobs(150)
    model = estimator(3, kernel=kernel, n_init=3, random_state=0).fit(rows)
    assert np.array_equal(model.predict(rows), model.labels_)
    assert np.array_equal(clone(model).fit_predict(rows), model.labels_)
    squared = ((model.embedding_[:, None] - model.cluster_centers_) ** 2).sum(axis=2)
    assert np.array_equal(squared.argmin(axis=1), model.labels_)
    assert model.inertia_ == pytest.approx(squared.min(axis=1).sum())


@both
def test_attributes(estimator: Any) -> None:
    frame = pd.DataFrame(blobs(60), columns=list("abc"))
    model = estimator(3, n_components=5, random_state=0).fit(frame)
    assert model.embedding_.shape == (60, 5)
    assert model.cluster_centers_.shape == (3, 5)
    assert model.labels_.shape == (60,)
    assert model.labels_.dtype == np.int64
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == list("abc")
    assert (np.diff(model.eigenvalues_) < 0).all()
    np.testing.assert_allclose((model.embedding_**2).sum(axis=0), model.eigenvalues_)
    assert len(model.get_feature_names_out()) == 5
    # Every column's largest coordinate is positive.
    assert (model.embedding_.max(axis=0) == np.abs(model.embedding_).max(axis=0)).all()
    assert estimator(3).fit(frame).embedding_.shape == (60, 3)


@both
def test_two_rings_come_apart(estimator: Any) -> None:
    rows, ring = rings()
    options = {"n_landmarks": 60} if estimator is NystromKMeans else {}
    model = estimator(2, gamma=0.2, random_state=0, **options).fit(rows)
    assert adjusted_rand_score(ring, model.labels_) == 1
    new = rings(40)[0] * 1.02
    assert adjusted_rand_score(np.repeat([0, 1], 40), model.predict(new)) == 1
    in_the_plane = KMeans(2, n_init=10, random_state=0).fit(rows).labels_
    assert adjusted_rand_score(ring, in_the_plane) < 0.1


@both
def test_columns_beyond_the_rank_are_zero(estimator: Any) -> None:
    rows = np.random.default_rng(0).normal(size=(600, 1))
    model = estimator(3, kernel="polynomial", n_components=6, random_state=0).fit(rows)
    assert (model.eigenvalues_ > 0).tolist() == [True] * 4 + [False] * 2
    for values in (model.eigenvalues_[4:], model.embedding_[:, 4:], model.map_[:, 4:]):
        assert not values.any()
    # (γ x y + 1)³ has rank 4 on one column, so nothing is missing.
    kernel = (model.gamma_ * rows @ rows.T + 1) ** 3
    np.testing.assert_allclose(model.embedding_ @ model.embedding_.T, kernel, rtol=1e-8, atol=1e-8)


@both
def test_anchors_do_not_follow_the_callers_table(estimator: Any) -> None:
    rows, new = blobs(50), blobs(9, seed=1)
    before = rows.copy()
    model = estimator(3, random_state=0).fit(rows)
    assert np.array_equal(rows, before)
    labels = model.predict(new)
    rows[:] = 0
    assert np.array_equal(model.predict(new), labels)


@both
def test_random_state_in_any_form(estimator: Any) -> None:
    rows = blobs()
    for make in (lambda: 3, lambda: np.random.RandomState(3), lambda: np.random.default_rng(3)):
        first, second = (estimator(3, random_state=make()).fit(rows) for _ in range(2))
        assert np.array_equal(first.embedding_, second.embedding_)
        assert np.array_equal(first.labels_, second.labels_)
    refuses(lambda: estimator(random_state="x").fit(rows), "random_state='x' cannot seed")


@both
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gamma": 0}, "gamma=0 must be a finite number greater than 0"),
        ({"gamma": -1.5}, "gamma=-1.5 must be"),
        ({"gamma": float("nan")}, "gamma=nan must be"),
        ({"gamma": float("inf")}, "gamma=inf must be"),
        ({"gamma": "scale"}, "gamma='scale' is not known"),
        ({"gamma": None}, "gamma=None must be"),
        ({"kernel": "rbf"}, "kernel='rbf' is not known; give 'gaussian' or 'laplacian'"),
        ({"kernel": None}, "kernel=None is not known"),
        ({"n_clusters": 0}, "n_clusters=0 must be a whole number of at least 1"),
        ({"n_clusters": 2.5}, "n_clusters=2.5 must be a whole number"),
        ({"n_clusters": 31}, "n_clusters=31 is more than the 30 distinct rows"),
        ({"n_components": 0}, "n_components=0 must be a whole number"),
        ({"n_components": 31}, "n_components=31 is more than the 30 rows; ask for at most 30"),
        ({"n_init": 0}, "n_init=0 must be"),
        ({"kernel": "exponential", "gamma": 1e3}, "overflows on these rows; give a smaller gamma"),
        ({"kernel": "polynomial", "gamma": 1e60}, "overflows on these rows; give a smaller gamma"),
    ],
)
def test_bad_options(estimator: Any, options: dict[str, Any], words: str) -> None:
    model = estimator(**{"n_clusters": 3, **options})
    refuses(lambda: model.fit(blobs(30)), words)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_landmarks": 31}, "n_landmarks=31 is more than the 30 rows; draw at most 30"),
        ({"n_landmarks": 0}, "n_landmarks=0 must be a whole number"),
        ({"n_landmarks": "all"}, "n_landmarks='all' must be a whole number"),
        ({"n_landmarks": 2}, "n_landmarks=2 is fewer than the 3 components wanted"),
        (
            {"n_landmarks": 5, "n_components": 6},
            "n_landmarks=5 is fewer than the 6 components wanted; draw more landmarks",
        ),
    ],
)
def test_bad_landmarks(options: dict[str, Any], words: str) -> None:
    model = NystromKMeans(3, **options)
    refuses(lambda: model.fit(blobs(30)), words)
    assert not [name for name in vars(model) if name.endswith("_")]


@both
def test_bad_rows(estimator: Any) -> None:
    equal = np.full((20, 2), 0.1)
    refuses(lambda: estimator(1).fit(equal), "gamma cannot be found .* add up to 0; give a number")
    far = np.array([[-1e200], [1e200]])
    refuses(lambda: estimator(2).fit(far), "gamma cannot be found .* add up to inf; give a number")
    near = np.array([[0.0], [1e-160]])
    refuses(lambda: estimator(2).fit(near), "gamma cannot be found .* give a number")
    refuses(lambda: estimator(2).fit(equal), "n_clusters=2 is more than the 1 distinct rows")
    with pytest.raises(ValueError, match="NaN"):
        estimator(2).fit([[0.0], [np.nan], [1.0]])
    model = estimator(2, random_state=0)
    with pytest.raises(NotFittedError):
        model.predict(blobs(5))
    model.fit(blobs(30))
    with pytest.raises(ValueError, match="2 features"):
        model.transform(blobs(5)[:, :2])
    # A refusal leaves what an earlier fit found.
    labels = model.labels_
    refuses(lambda: model.fit(equal), "n_clusters=2 is more than")
    assert model.n_features_in_ == 3
    assert np.array_equal(model.labels_, labels)


def test_one_cluster_of_equal_rows() -> None:
    for model in (ExactKernelKMeans(1, gamma=1.0), NystromKMeans(1, gamma=1.0)):
        assert not model.fit(np.ones((5, 2))).labels_.any()
        assert model.inertia_ == pytest.approx(0, abs=1e-12)


def test_new_rows_may_overflow_too() -> None:
    model = ExactKernelKMeans(2, kernel="exponential", gamma=0.1).fit(blobs(30))
    refuses(lambda: model.predict([[1e9, 0.0, 0.0]]), "exponential kernel of gamma=0.1 overflows")


def test_too_many_rows_for_a_matrix() -> None:
    rows = np.arange(30_001.0)[:, None]
    refuses(
        lambda: ExactKernelKMeans(2).fit(rows),
        r"matrix of 30001 rows would take 7\.2 GB; for more than 30000 rows use NystromKMeans",
    )
    model = NystromKMeans(2, n_landmarks=50, n_init=1, random_state=0).fit(rows)
    assert adjusted_rand_score(rows[:, 0] > 15_000, model.labels_) > 0.99


# Two starts are as good as ten for what these checks look at.
@parametrize_with_checks([estimator(n_init=2) for estimator in BOTH])
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)
