"""What Figure 3 runs: every method over the option by which its numbers sent grow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from sklearn.metrics import normalized_mutual_info_score

from unpooled import KernelKMeans, KernelPCAKMeans, RandomFeatureKMeans
from unpooled.baselines import ExactKernelKMeans, NystromKMeans
from unpooled.experiments.kernel.setting import (
    COVERTYPE,
    LAST,
    MNIST_60K,
    MNIST_SMALL,
    MUSHROOMS,
    QUICK_SWEEP,
    SETTINGS,
    SWEEP,
    KernelSetting,
    dspgd_key,
    dspgd_tasks,
    kernel_fit,
)
from unpooled.experiments.reproduction.tasks import Results, Scale, Task
from unpooled.types import FloatArray

FK, RFK, CE_PCA, OURS = "FK (the paper's)", "RFK", "CE PCA", "ours (block-krylov)"
SWEPT_SETS = (MUSHROOMS, MNIST_SMALL, COVERTYPE, MNIST_60K)
_RUNS = {MUSHROOMS.title: 20, MNIST_SMALL.title: 3, COVERTYPE.title: 3, MNIST_60K.title: 1}
_PAIRED = {MUSHROOMS.title: 40, MNIST_SMALL.title: 3, COVERTYPE.title: 4, MNIST_60K.title: 1}
_POOLED_RUNS = 3

RFK_FEATURES = {"Mushrooms": 200, "MNIST-small": 800, "MNIST": 800, "Covertype": 100}
"""D of RFK k-means, as in the paper."""
PCA_FEATURES = {"Mushrooms": 200, "MNIST-small": 800, "MNIST": 800, "Covertype": 200}
"""D of CE PCA: the most that the paper tries. What is sent does not depend on it."""
POINTS: dict[str, dict[str, tuple[int, ...]]] = {
    FK: {
        **dict.fromkeys(("Mushrooms", "MNIST-small"), SWEEP),
        "Covertype": (2, 10, LAST),
        "MNIST": (LAST,),
    },
    RFK: {
        "Mushrooms": (100, 300, 500, 700),
        "MNIST-small": (100, 500, 900),
        "MNIST": (900,),
        "Covertype": (1000, 3000, 5000),
    },
    CE_PCA: {
        **dict.fromkeys(("Mushrooms", "MNIST-small", "Covertype"), (50, 150, 500)),
        "MNIST": (500,),
    },
    OURS: {
        "Mushrooms": (56, 112, 224, 448),
        "MNIST-small": (196, 392, 784, 1568),
        "MNIST": (1568,),
        "Covertype": (50, 100, 200, 400),
    },
}
"""What is swept: T; rows of the coreset; representative points; features."""
OUR_DEFAULT = {"Mushrooms": 224, "MNIST-small": 1568, "MNIST": 1568, "Covertype": 200}
"""D of KernelKMeans if none is given."""


def _random_features(setting: KernelSetting, size: int, seed: int) -> RandomFeatureKMeans:
    count = RFK_FEATURES[setting.title]
    return RandomFeatureKMeans(
        setting.n_clusters, n_features=count, coreset_size=size, random_state=seed
    )


def _kernel_pca(setting: KernelSetting, n_points: int, seed: int) -> KernelPCAKMeans:
    return KernelPCAKMeans(
        setting.n_clusters,
        n_features=PCA_FEATURES[setting.title],
        n_points=n_points,
        n_components=setting.n_components,
        coreset_size=setting.coreset_size,
        random_state=seed,
    )


def _ours(setting: KernelSetting, n_features: int, seed: int) -> KernelKMeans:
    return KernelKMeans(
        setting.n_clusters,
        n_features=n_features,
        n_components=setting.n_components,
        random_state=seed,
    )


_MAKE: dict[str, Callable[[KernelSetting, int, int], Any]] = {
    RFK: _random_features,
    CE_PCA: _kernel_pca,
    OURS: _ours,
}


def swept_run(title: str, method: str, value: int, seed: int, quick: bool) -> dict[str, Any]:
    """One run of RFK, CE PCA or ours."""
    setting = SETTINGS[title]
    return kernel_fit(_MAKE[method](setting, value, seed), setting, seed, quick)


def pooled_run(title: str, seed: int, quick: bool) -> dict[str, float]:
    """The NMI of kernel k-means on the pooled rows: exact on Mushrooms, else by Nyström."""
    setting = SETTINGS[title]
    kind = ExactKernelKMeans if setting is MUSHROOMS else NystromKMeans
    data = setting.data(quick)
    model = kind(setting.n_clusters, n_components=setting.n_components, random_state=seed)
    return {"nmi": float(normalized_mutual_info_score(data.y, model.fit(data.X).labels_))}


def values_of(setting: KernelSetting, method: str, scale: Scale) -> tuple[int, ...]:
    """The values that are swept."""
    values = POINTS[method][setting.title]
    if not scale.quick:
        return values
    return QUICK_SWEEP[1:] if method == FK else values[:1]


def paired_value(setting: KernelSetting, method: str, scale: Scale) -> int:
    """Of FK or ours, the value at which they are compared in pairs."""
    if scale.quick:
        return values_of(setting, method, scale)[-1]
    return LAST if method == FK else OUR_DEFAULT[setting.title]


def swept_runs(setting: KernelSetting, method: str, value: int, scale: Scale) -> int:
    """How many runs of a point."""
    runs = min(scale.runs, _RUNS[setting.title])
    if method in (FK, OURS) and value == paired_value(setting, method, scale) and not scale.quick:
        return max(runs, min(2 * scale.runs, _PAIRED[setting.title]))
    return runs


def _key(setting: KernelSetting, method: str, value: int) -> str:
    if method == FK:
        return dspgd_key(setting, value)
    return f"kernel/{setting.title}/{method.split(' (')[0]}/{value}"


def sweep_tasks(scale: Scale) -> list[Task]:
    """All methods on all sets."""
    return [task for setting in SWEPT_SETS for task in _tasks_on(setting, scale)]


def _tasks_on(setting: KernelSetting, scale: Scale) -> list[Task]:
    given = {"title": setting.title, "quick": scale.quick}
    found = []
    for method in POINTS:
        for value in values_of(setting, method, scale):
            runs = swept_runs(setting, method, value, scale)
            if method == FK:
                found += dspgd_tasks(setting, [value], runs, scale)
                continue
            key = _key(setting, method, value)
            chosen = given | {"method": method, "value": value}
            found += [
                Task(f"{key}/{seed}", swept_run, chosen | {"seed": seed})
                for seed in setting.seeds(runs)
            ]
    found += [
        Task(f"kernel/{setting.title}/pooled/{seed}", pooled_run, given | {"seed": seed})
        for seed in _pooled_seeds(setting, scale)
    ]
    return found


def _pooled_seeds(setting: KernelSetting, scale: Scale) -> range:
    return setting.seeds(min(scale.runs, _RUNS[setting.title], _POOLED_RUNS))


def pooled_scores(setting: KernelSetting, scale: Scale, results: Results) -> FloatArray:
    """NMI of the pooled reference."""
    return results.runs(f"kernel/{setting.title}/pooled", "nmi", _pooled_seeds(setting, scale))


@dataclass(frozen=True)
class SweptPoint:
    """The runs of a method with one value."""

    value: int
    nmi: FloatArray
    floats: FloatArray
    rounds: FloatArray

    @property
    def mean(self) -> float:
        """Mean NMI."""
        return float(self.nmi.mean())

    @property
    def cost(self) -> float:
        """Mean of numbers sent."""
        return float(self.floats.mean())


def swept(setting: KernelSetting, method: str, scale: Scale, results: Results) -> list[SweptPoint]:
    """The curve of a method, by values."""
    points = []
    for value in values_of(setting, method, scale):
        seeds = setting.seeds(swept_runs(setting, method, value, scale))
        key = _key(setting, method, value)
        runs = (results.runs(key, name, seeds) for name in ("nmi", "floats", "rounds"))
        points.append(SweptPoint(value, *runs))
    return points


def half_interval(values: FloatArray) -> float:
    """Half of Student's 95 % interval of the mean; infinite for a single value."""
    if len(values) < 2:
        return float("inf")
    error = values.std(ddof=1) / np.sqrt(len(values))
    return float(stats.t.ppf(0.975, len(values) - 1) * error)


def paired_difference(one: FloatArray, other: FloatArray) -> tuple[float, float]:
    """The mean of ``one - other`` over the seeds that both have, and half of its interval."""
    shared = min(len(one), len(other))
    apart = one[:shared] - other[:shared]
    return float(apart.mean()), half_interval(apart)
