"""Losses: values, gradients and smoothness, by finite differences."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from unpooled import losses
from unpooled.errors import InputError

A = np.array([[2.0, 0.3], [0.3, 0.7]])
LOSSES = {
    "k-means": losses.SquaredEuclidean(),
    "huber": losses.Huber(0.6),
    "logistic": losses.Logistic(),
    "fair": losses.Fair(0.6),
    "k-means, A": losses.SquaredEuclidean().under(losses.Mahalanobis(A)),
    "huber, A": losses.Huber(0.6).under(losses.Mahalanobis(A)),
    "logistic, A": losses.Logistic().under(losses.Mahalanobis(A)),
    "fair, A": losses.Fair(0.6).under(losses.Mahalanobis(A)),
    "bregman, euclidean": losses.Bregman.squared_euclidean(),
    "bregman, A": losses.Bregman.mahalanobis(A),
    "itakura-saito": losses.Bregman.itakura_saito(),
    "generalised kl": losses.Bregman.generalised_kl(),
}
LOW, HIGH = np.array([0.5, 1.0]), np.array([3.0, 2.0])


def points(seed: int, n: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.uniform(LOW, HIGH, size=(n, 2)), rng.uniform(LOW, HIGH, size=(n, 2))


@pytest.mark.parametrize("name", LOSSES)
def test_gradient_is_the_derivative_of_the_value(name: str) -> None:
    loss = LOSSES[name]
    x, y = points(0)
    gradient = loss.gradient(x, y)
    for column in range(2):
        h = np.zeros(2)
        h[column] = 1e-5
        slope = (loss.value(x + h, y) - loss.value(x - h, y)) / 2e-5
        np.testing.assert_allclose(gradient[:, column], slope, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_smoothness_bounds_the_curvature_and_is_tight(name: str) -> None:
    loss = LOSSES[name]
    x, y = points(1, 60_000)
    bound = loss.smoothness(LOW, HIGH)
    hessian = np.empty((len(x), 2, 2))
    for column in range(2):
        h = np.zeros(2)
        h[column] = 1e-6
        hessian[:, column] = (loss.gradient(x + h, y) - loss.gradient(x - h, y)) / 2e-6
    curvature = np.linalg.eigvalsh((hessian + hessian.transpose(0, 2, 1)) / 2)[:, -1].max()
    assert curvature <= bound * (1 + 1e-5)
    assert curvature >= 0.75 * bound


@pytest.mark.parametrize("name", LOSSES)
def test_values_are_zero_at_the_row_only(name: str) -> None:
    loss = LOSSES[name]
    x, y = points(2, 100)
    floor = np.log(2) if "logistic" in name else 0.0
    np.testing.assert_allclose(loss.value(y, y), floor, atol=1e-12)
    assert (loss.value(x, y) > floor).all()
    np.testing.assert_allclose(loss.gradient(y, y), 0.0, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_assignment_orders_centres_as_the_value_does(name: str) -> None:
    loss = LOSSES[name]
    x, y = points(3, 200)
    other, _ = points(4, 200)
    by_value = loss.value(x, y) < loss.value(other, y)
    assert np.array_equal(by_value, loss.dissimilarity(x, y) < loss.dissimilarity(other, y))


@pytest.mark.parametrize("name", LOSSES)
def test_losses_can_be_pickled(name: str) -> None:
    x, y = points(5, 50)
    again = pickle.loads(pickle.dumps(LOSSES[name]))
    assert np.array_equal(again.gradient(x, y), LOSSES[name].gradient(x, y))


def test_logistic_does_not_overflow() -> None:
    far = np.array([[1e3, 0.0]])
    assert losses.Logistic().value(far, np.zeros((1, 2)))[0] == pytest.approx(1e6)
    assert losses.Logistic().gradient(far, np.zeros((1, 2)))[0, 0] == pytest.approx(2e3)


def test_two_is_too_small_for_the_logistic_loss() -> None:
    x = np.array([[np.sqrt(1.9803582578431742), 0.0]])
    h = np.array([1e-6, 0.0])
    zero = np.zeros((1, 2))
    loss = losses.Logistic()
    curvature = (loss.gradient(x + h, zero) - loss.gradient(x - h, zero))[0, 0] / 2e-6
    assert curvature == pytest.approx(loss.beta, rel=1e-6)


def test_itakura_saito_is_undefined_at_zero_and_kl_is_not() -> None:
    rows = np.array([[0.0, 1.0], [1.0, 1.0], [-1.0, 1.0]])
    assert losses.Bregman.itakura_saito().accepts(rows).tolist() == [False, True, False]
    assert losses.Bregman.generalised_kl().accepts(rows).tolist() == [True, True, False]
    assert losses.Bregman.generalised_kl().inside(rows).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: losses.Huber(0.0), "Huber needs a finite delta > 0, not 0.0"),
        (lambda: losses.Fair(-1.0), "Fair needs a finite c > 0"),
        (lambda: losses.Huber(np.inf), "Huber needs a finite delta"),
        (lambda: losses.Mahalanobis(np.ones((2, 3))), "square"),
        (lambda: losses.Mahalanobis([[1.0, 2.0], [0.0, 1.0]]), "symmetric"),
        (lambda: losses.Mahalanobis([[1.0, 2.0], [2.0, 1.0]]), "smallest eigenvalue is -1"),
        (lambda: losses.Mahalanobis([[np.nan]]), "finite"),
        (lambda: losses.Mahalanobis(np.array([[2, 1], [0, 2]]) * 1e-9), "symmetric"),
        (lambda: losses.Mahalanobis("x"), "matrix of numbers"),
        (lambda: losses.Mahalanobis(np.zeros((0, 0))), "square"),
        (lambda: losses.Huber("a"), "Huber needs a finite delta > 0, not 'a'"),
        (lambda: losses.Fair(1e300), "Fair needs a finite c"),
        (lambda: losses.resolve("hubert"), "loss='hubert' is not known"),
        (lambda: losses.resolve("kmeans", "manhattan"), "metric='manhattan' is not known"),
        (
            lambda: losses.resolve(losses.Bregman.generalised_kl(), losses.Mahalanobis(A)),
            "Bregman has its own geometry",
        ),
    ],
)
def test_bad_losses_are_refused_in_one_sentence(make: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()  # type: ignore[operator]
