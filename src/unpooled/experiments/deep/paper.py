"""The paper's whole configuration (Xu et al. 2024, section 6.2), as a plan: ``paper.toml``.

It takes weeks on two cores and hours on a good GPU (``device = "cuda"`` among the parameters), so
before it starts it works out how long it will take on this machine: it times one batch, with the
plan's network and views. What has been done when it is stopped is in the checkpoint.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from joblib import cpu_count
from sklearn.base import clone

from unpooled.deep import DeepFeCA, knn_accuracy, linear_accuracy
from unpooled.errors import InputError
from unpooled.experiments.splits import split
from unpooled.image_sets import load_images
from unpooled.metrics import nmi
from unpooled.types import Array

PAPER_PLAN = Path(__file__).with_name("paper.toml")
_KEYS = {"data", "split", "parties", "most", "parameters"}


def read_paper_plan(plan: Path) -> dict[str, Any]:
    """The content of the file, with all keys there."""
    try:
        content = tomllib.loads(plan.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"The plan {plan} cannot be read ({error}); give a TOML file.") from None
    for key in set(content) ^ _KEYS:
        raise InputError(f"The plan {plan} must have {', '.join(sorted(_KEYS))}: see {key!r}.")
    return content


@dataclass(frozen=True)
class DurationEstimate:
    """How long a fit will take."""

    training: float
    """Images a second that one core trains on, with all their views."""
    features: float
    """Images a second that it makes features of."""
    seconds: float
    """Of the whole fit."""


def estimated_duration(model: DeepFeCA, images: Array, parties: int) -> DurationEstimate:
    """From one batch, clustered and trained on by one party.

    All images pass the network once in each of ``rounds`` + 1 clusterings, and ``epochs`` times a
    round in training; parties share the cores.
    """
    batch = images[:: max(1, len(images) // model.batch_size)][: model.batch_size]
    few = min(model.n_clusters, len(batch))
    tried = clone(model).set_params(n_clusters=few, epochs=1, checkpoint=None, n_prototypes=None)
    tried.set_params(rounds=0).fit(batch)  # what is slow the first time
    clustered = _timed(lambda: tried.fit(batch))
    once = _timed(lambda: tried.set_params(rounds=1).fit(batch))
    features = _timed(lambda: tried.features(batch))
    training = max(once - clustered - features, 1e-3)
    cores = 1 if str(model.device).startswith("cuda") else min(cpu_count(), parties)
    trained = model.rounds * model.epochs * model.participation
    passes = (model.rounds + 1) * features + trained * training
    seconds = len(images) / len(batch) * passes / cores
    return DurationEstimate(len(batch) / training, len(batch) / features, seconds)


def _timed(call: Callable[[], object]) -> float:
    begin = perf_counter()
    call()
    return perf_counter() - begin


def report(runs: int, plan: Path | None = None, **parameters: Any) -> Iterator[str]:
    """The plan, how long it will take, and what came of it."""
    content = read_paper_plan(plan or PAPER_PLAN)
    train, test = load_images(content["data"], most=content["most"] or None)
    given: Mapping[str, Any] = {**content["parameters"], **parameters}
    yield f"{content['data']}, {content['parties']} parties, {content['split']}: " + ", ".join(
        f"{name} {value}" for name, value in given.items()
    )
    for seed in range(runs):
        model = DeepFeCA(**given, random_state=seed)
        if model.checkpoint is not None:
            file = Path(model.checkpoint)
            model.set_params(checkpoint=file.with_stem(f"{file.stem}-{seed}"))
        expected = estimated_duration(model, train.images, content["parties"])
        yield (
            f"{len(train.images)} images; a core trains on {expected.training:.3g} of them a "
            f"second: this will take about {_duration_in_words(expected.seconds)}"
        )
        begin = perf_counter()
        groups = split(train.y, content["split"], seed, content["parties"])
        model.fit(train.images, groups=groups)
        yield f"it took {_duration_in_words(perf_counter() - begin)}; loss by round:"
        yield " ".join(f"{loss:.3f}" for loss in model.history_["loss"])
        learnt = (model.features(train.images), train.y, model.features(test.images), test.y)
        yield (
            f"linear {100 * linear_accuracy(*learnt):.1f}, kNN {100 * knn_accuracy(*learnt):.1f}, "
            f"NMI {100 * nmi(train.y, np.asarray(model.labels_)):.1f} (in per cent); "
            f"{model.traffic_.floats_up} numbers left the parties"
        )


def _duration_in_words(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} seconds"
