"""The paper's claims about DSPGD and CEM, measured: convergence, and what CEM saves.

**Convergence** (its Figure 1): |K_t - K~|² / N² on Mushrooms, where K_t is the estimate after t
iterations and K~ the exact kernel matrix cut to its s largest eigenvalues. The paper's curve lies
below 0.4/t. Given is the slope of a line through log error over log t, t = 1..50.

**What CEM saves** (its Figure 2: "more than 98 %"): numbers sent for eigenpairs with and without,
and beside them the numbers by Theorem 2, Σ_t Q_t M (D + r_t) and Σ_t Q_t (N + M D).

    unpooled reproduce kernel-paper --runs 3
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse.linalg import eigsh

from unpooled import KernelKMeans
from unpooled.experiments.kernel.setting import (
    KERNEL_PARTIES,
    MNIST_60K,
    MUSHROOMS,
    SETTINGS,
    KernelSetting,
)
from unpooled.kernels.linalg.features import exact
from unpooled.types import FloatArray

LAST = 50
SAVING_ITERATIONS = {MNIST_60K.title: 3}
"""Without CEM MNIST takes long."""


def report(runs: int) -> Iterator[str]:
    """The tables, line by line as they get done."""
    yield f"$ unpooled reproduce kernel-paper --runs {runs}"
    yield ""
    yield f"Recovery error |K_t - K~|² / N² on {MUSHROOMS.title}, {runs} runs"
    yield f"  {'t':>4}{'mean':>12}{'0.4 / t':>12}"
    errors = np.array([recovery_errors(MUSHROOMS, seed, LAST) for seed in range(runs)]).mean(axis=0)
    for t in (1, 2, 5, 10, 20, 30, 40, LAST):
        yield f"  {t:4}{errors[t - 1]:12.2e}{0.4 / t:12.2e}"
    slope = np.polyfit(np.log(np.arange(1, LAST + 1)), np.log(errors), 1)[0]
    yield f"  slope of log error over log t: {slope:.3f}   (ours to reach: -0.9 or less)"
    yield ""
    yield "Numbers sent for eigenpairs, with CEM and without, and by Theorem 2"
    heads = f"{'with':>12}{'Theorem 2':>12}{'without':>14}{'Theorem 2':>14}{'saved':>10}"
    yield f"  {'':12}{'T':>4}{heads}"
    for setting in SETTINGS:
        yield "  " + savings(setting, SAVING_ITERATIONS.get(setting.title, 10))


def recovery_errors(setting: KernelSetting, seed: int, last: int) -> FloatArray:
    """|K_t - K~|² / N² for t = 1..last, from runs of t iterations: t is all they differ by."""
    X, groups = setting.data.X, setting.groups(seed)
    found, errors = None, []
    for t in range(1, last + 1):
        model = setting.paper(seed, max_rounds=t, final="one-shot", n_init=1).fit(X, groups=groups)
        if found is None:
            K = exact("gaussian", model.gamma_, X, X)
            values, vectors = eigsh(K, setting.n_components, v0=np.ones(len(K)))
            found = vectors * np.sqrt(values)
            del K
        H = np.asarray(model.embedding_)
        # |H H' - F F'|² from s x s matrices, without either N x N one.
        apart = sum(sign * np.square(a.T @ b).sum() for sign, a, b in _terms(H, found))
        errors.append(apart / len(X) ** 2)
    return np.array(errors)


def _terms(H: FloatArray, F: FloatArray) -> tuple[tuple[int, FloatArray, FloatArray], ...]:
    return ((1, H, H), (1, F, F), (-2, H, F))


def savings(setting: KernelSetting, iterations: int) -> str:
    """One line of the table."""
    X, groups = setting.data.X, setting.groups(0)
    sent, stated = {}, {}
    for compress in (True, False):
        model = setting.paper(
            0, max_rounds=iterations, compress=compress, final="one-shot", n_init=1
        ).fit(X, groups=groups)
        kinds = ("turn", "product") if compress else ("left", "right")
        sent[compress] = sum(int(model.traffic_.by_kind[kind]["floats_up"]) for kind in kinds)
        stated[compress] = stated_by_theorem(model, setting.n_features, compress, len(X))
    saved = 1 - sent[True] / sent[False]
    return (
        f"{setting.title:12}{iterations:4}{sent[True]:12}{stated[True]:12}{sent[False]:14}"
        f"{stated[False]:14}{saved:10.2%}"
    )


def stated_by_theorem(model: KernelKMeans, n_features: int, compress: bool, n_rows: int) -> int:
    """Theorem 2, from the products that Lanczos took and the ranks before each iteration."""
    products = model.history_["products"]
    if not compress:
        return int(products.sum() * (n_rows + KERNEL_PARTIES * n_features))
    ranks = np.concatenate([[0], model.history_["rank"][:-1]])
    return int((products * KERNEL_PARTIES * (n_features + ranks)).sum())
