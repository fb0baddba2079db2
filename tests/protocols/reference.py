"""The algorithms once more, as plain loops over users, clusters and rows.

Nothing is shared with the library: losses are written out for one centre and one row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Vector = np.ndarray


@dataclass(frozen=True)
class PlainLoss:
    value: Callable[[Vector, Vector], float]
    gradient: Callable[[Vector, Vector], Vector]
    smoothness: float


def distance_loss(name: str, parameter: float = 1.0, A: Vector | None = None) -> PlainLoss:
    def t(x: Vector, y: Vector) -> float:
        return float(np.sqrt((x - y) @ (x - y if A is None else A @ (x - y))))

    def value(x: Vector, y: Vector) -> float:
        d = t(x, y)
        if name == "kmeans":
            return d * d / 2
        if name == "huber":
            return d * d / 2 if d <= parameter else parameter * d - parameter**2 / 2
        if name == "logistic":
            return float(np.log(1 + np.exp(d * d)))
        return float(2 * parameter**2 * (d / parameter - np.log(1 + d / parameter)))

    def gradient(x: Vector, y: Vector) -> Vector:
        d = t(x, y)
        if name == "kmeans":
            gamma = 1.0
        elif name == "huber":
            gamma = 1.0 if d <= parameter else parameter / d
        elif name == "logistic":
            gamma = 2 / (1 + np.exp(-d * d))
        else:
            gamma = 2 / (1 + d / parameter)
        return gamma * (x - y if A is None else A @ (x - y))

    beta = {"kmeans": 1.0, "huber": 1.0, "logistic": 2.60163893001175, "fair": 2.0}[name]
    return PlainLoss(value, gradient, beta * (1 if A is None else np.linalg.eigvalsh(A)[-1]))


def itakura_saito(low: float, high: float) -> PlainLoss:
    return PlainLoss(
        lambda x, y: float(np.sum(y / x - np.log(y / x) - 1)),
        lambda x, y: (x - y) / x**2,
        (2 * high - low) / low**3,
    )


def generalised_kl(low: float, high: float) -> PlainLoss:
    return PlainLoss(
        lambda x, y: float(np.sum(y * np.log(y / x) - y + x)),
        lambda x, y: (x - y) / x,
        high / low**2,
    )


def assign(loss: PlainLoss, rows: Vector, centers: Vector) -> list[int]:
    return [int(np.argmin([loss.value(x, y) for x in centers])) for y in rows]


def bound_on_lambda(adjacency: Vector) -> float:
    degree = adjacency.sum(axis=0)
    m = len(adjacency)
    return max(
        [degree[i] + degree[j] for i in range(m) for j in range(m) if adjacency[i, j]], default=0.0
    )


def dgc(
    loss: PlainLoss,
    rows: Sequence[Vector],
    weights: Sequence[Vector],
    adjacency: Vector,
    start: Vector,
    *,
    rho: float,
    rounds: int,
    inner_steps: int = 1,
    step_size: float | None = None,
) -> tuple[Vector, list[float]]:
    """Centres after ``rounds`` rounds, and J_rho after each."""
    m, K, _ = start.shape
    x = start.copy()
    if step_size is None:
        largest = max(w.sum() for w in weights)
        step_size = 1 / (loss.smoothness * largest / rho + bound_on_lambda(adjacency))
    costs = []
    for _ in range(rounds):
        labels = [assign(loss, rows[i], x[i]) for i in range(m)]
        for _ in range(inner_steps):
            new = x.copy()
            for i in range(m):
                for k in range(K):
                    direction = np.zeros_like(x[i, k])
                    for j in range(m):
                        if adjacency[i, j]:
                            direction += x[i, k] - x[j, k]
                    for r, y in enumerate(rows[i]):
                        if labels[i][r] == k:
                            direction += weights[i][r] * loss.gradient(x[i, k], y) / rho
                    new[i, k] = x[i, k] - step_size * direction
            x = new
        costs.append(j_rho(loss, rows, weights, adjacency, x, labels, rho))
    return x, costs


def j_rho(
    loss: PlainLoss,
    rows: Sequence[Vector],
    weights: Sequence[Vector],
    adjacency: Vector,
    x: Vector,
    labels: Sequence[Sequence[int]],
    rho: float,
) -> float:
    cost = 0.0
    for i in range(len(x)):
        for r, y in enumerate(rows[i]):
            cost += weights[i][r] * loss.value(x[i, labels[i][r]], y) / rho
        for j in range(i):
            if adjacency[i, j]:
                cost += float(np.sum((x[i] - x[j]) ** 2)) / 2
    return cost


def kar_swenson(
    rows: Sequence[Vector],
    weights: Sequence[Vector],
    adjacency: Vector,
    start: Vector,
    *,
    rho: float,
    rounds: int,
) -> Vector:
    m, K, _ = start.shape
    loss = distance_loss("kmeans")
    degree = adjacency.sum(axis=0)
    largest = max(w.sum() for w in weights)
    alpha = degree.min() / (largest / rho + bound_on_lambda(adjacency)) if m > 1 else 1.0
    x = start.copy()
    for _ in range(rounds):
        new = x.copy()
        for i in range(m):
            labels = np.array(assign(loss, rows[i], x[i]))
            for k in range(K):
                own = labels == k
                direction = sum(
                    (x[i, k] - x[j, k] for j in range(m) if adjacency[i, j]), np.zeros_like(x[i, k])
                )
                direction = (
                    direction + (weights[i][own, None] * (x[i, k] - rows[i][own])).sum(0) / rho
                )
                stiffness = weights[i][own].sum() / rho + degree[i]
                if stiffness > 0:
                    new[i, k] = x[i, k] - alpha / stiffness * direction
        x = new
    return x


def admm(
    rows: Sequence[Vector],
    weights: Sequence[Vector],
    adjacency: Vector,
    start: Vector,
    *,
    eta: float,
    rounds: int,
) -> Vector:
    """With one dual per side of an edge, v[i, j], as the method is derived."""
    m, K, d = start.shape
    loss = distance_loss("kmeans")
    x, v = start.copy(), np.zeros((m, m, K, d))
    for _ in range(rounds):
        new = x.copy()
        for i in range(m):
            labels = np.array(assign(loss, rows[i], x[i]))
            neighbours = [j for j in range(m) if adjacency[i, j]]
            for j in neighbours:
                v[i, j] += eta * (x[i] - x[j])
            for k in range(K):
                own = labels == k
                target = (weights[i][own, None] * rows[i][own]).sum(axis=0)
                for j in neighbours:
                    target = target - v[i, j, k] + eta * (x[i, k] + x[j, k])
                mass = weights[i][own].sum() + 2 * eta * len(neighbours)
                if mass > 0:
                    new[i, k] = target / mass
        x = new
    return x
