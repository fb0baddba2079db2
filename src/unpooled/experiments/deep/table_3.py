"""Table 3 of the FeCA paper on a scale of minutes: what features learnt without pooling are worth.

CIFAR-10 here has 10,000 training images (the paper: 50,000), held by ten parties, iid or each class
by Dirichlet(0.3) or Dirichlet(0.1); a ConvNet of four convolutions (the paper: ResNet-18), 12
rounds of one epoch (150 of five) with batches of 16, views of 24 x 24 pixels, 128 prototypes for
training. All that differs between rows is how parties' centroids become common ones. k-FED has
k' = 13, the least that makes 128 at ten parties (its authors advise the root of k, 11); fuzzy
c-means has one round, as in the paper, of at most 30 steps in a party.

Linear evaluation and nearest neighbours learn from the features of all training images and their
classes, and are tested on the test images. NMI is of as many clusters of training images as there
are classes. Untrained is the same network before the first round.

Options, and the ridge of the linear evaluation, were chosen with OneShotKMeans on the iid and (0.3)
splits of run 0, by the accuracy on test images; none was tuned for another method. So runs are
numbered from 1 on. Scores are kept to one decimal of a per cent, as they are printed: all runs take
an hour on two cores, so results that an earlier run printed can be taken over as they are. Such
results say so ("taken_over"), and the page does too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from unpooled import KFED, FuzzyCMeans, image_sets
from unpooled.deep import (
    Augmentation,
    ConvNet,
    DeepCluster,
    DeepFeCA,
    knn_accuracy,
    linear_accuracy,
)
from unpooled.errors import DataUnavailable
from unpooled.experiments.reproduction.page import Cell, Claim, Claims, Page, Plain, Table
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task
from unpooled.experiments.reproduction.verdicts import AGREEING, Printed
from unpooled.experiments.splits import SPLITS, split
from unpooled.metrics import nmi
from unpooled.types import FloatArray


@dataclass(frozen=True)
class ImageSet:
    """A set of images, and what is used of it."""

    name: str
    classes: int
    most: int
    """Training images of each class."""
    prototypes: int
    local_clusters: int
    """k' of k-FED: the least that makes enough prototypes at ten parties."""


IMAGE_SETS = {
    "CIFAR-10": ImageSet("cifar10", 10, 1000, 128, 13),
    "CIFAR-100": ImageSet("cifar100", 100, 100, 128, 13),
    "Tiny-ImageNet": ImageSet("tiny-imagenet", 200, 50, 200, 20),
}
TABLE_3 = {
    "CIFAR-10": {
        "M-Avg": "53.6 48.2 45.1",
        "FFCM v1": "44.6 48.5 45.5",
        "FFCM v2": "47.7 50.1 49.1",
        "k-FED": "46.8 50.0 47.1",
        "DeepFeCA": "55.3 63.7 59.9",
        "Centralized": "80.9 80.9 80.9",
    },
    "CIFAR-100": {
        "M-Avg": "25.2 24.8 23.6",
        "FFCM v1": "22.5 25.0 25.9",
        "FFCM v2": "21.9 22.9 22.9",
        "k-FED": "27.5 28.9 29.7",
        "DeepFeCA": "35.3 34.9 35.2",
        "Centralized": "50.1 50.1 50.1",
    },
    "Tiny-ImageNet": {
        "M-Avg": "16.4 15.1 13.5",
        "FFCM v1": "12.1 16.9 12.5",
        "FFCM v2": "14.9 14.1 14.0",
        "k-FED": "15.3 18.9 23.4",
        "DeepFeCA": "26.7 26.4 26.1",
        "Centralized": "36.6 36.6 36.6",
    },
}
"""Top-1 accuracy in per cent, as printed: iid, (0.3), (0.1)."""
UNTRAINED, POOLED_DEEP = "untrained", "pooled DeepCluster"
DEEP_ROWS = {
    "DeepFeCA": "DeepFeCA",
    "DeepFeCA, OneShotKMeans": "",
    "M-Avg": "M-Avg",
    "k-FED": "k-FED",
    "FFCM v1, 1 round": "FFCM v1",
    "FFCM v2, 1 round": "FFCM v2",
    UNTRAINED: "",
    POOLED_DEEP: "Centralized",
}
"""Our rows, and the paper's name for each."""
_QUICK_ROWS = ("DeepFeCA", "DeepFeCA, OneShotKMeans", UNTRAINED, POOLED_DEEP)
_QUICK_IMAGES = 6
TABLE_VIEWS = Augmentation(large_size=0.75, large_scale=(0.3, 1.0), colour=0.4)


def colour_convnet() -> ConvNet:
    """The small network."""
    return ConvNet(3, width=16)


def tiny_convnet() -> ConvNet:
    """A smaller one, to see that all works."""
    return ConvNet(3, width=2)


TABLE_OPTIONS: dict[str, Any] = {
    "encoder": colour_convnet,
    "rounds": 12,
    "batch_size": 16,
    "learning_rate": 0.02,
    "head": "trained",
    "augmentation": TABLE_VIEWS,
}
QUICK_OPTIONS: dict[str, Any] = {**TABLE_OPTIONS, "encoder": tiny_convnet, "rounds": 1}


def deep_model(title: str, images: ImageSet, quick: bool = False) -> DeepFeCA:
    """The model of a row."""
    options = dict(QUICK_OPTIONS if quick else TABLE_OPTIONS)
    options["n_prototypes"] = images.classes if quick else images.prototypes
    aggregations: dict[str, Any] = {
        "DeepFeCA": "feca",
        "DeepFeCA, OneShotKMeans": "one-shot",
        "M-Avg": "matched",
        "k-FED": KFED(local_clusters=images.local_clusters, n_init=3),
        "FFCM v1, 1 round": FuzzyCMeans(merge="average", max_rounds=1, local_steps=30),
        "FFCM v2, 1 round": FuzzyCMeans(merge="kmeans", max_rounds=1, local_steps=30),
        UNTRAINED: "one-shot",
    }
    if title == POOLED_DEEP:
        return DeepCluster(images.classes, **options)
    if title == UNTRAINED:
        options["rounds"] = 0
    return DeepFeCA(images.classes, aggregation=aggregations[title], **options)


def loaded_images(images: ImageSet, quick: bool) -> tuple[Bunch, Bunch]:
    """Training and test set; quick: few of both."""
    train, test = image_sets.load_images(images.name, most=_QUICK_IMAGES if quick else images.most)
    if quick:
        every = max(1, len(test.y) // 100)
        test = Bunch(images=test.images[::every], y=test.y[::every])
    return train, test


def feature_scores(
    data: str, title: str, how: str, seed: int, quick: bool = False
) -> dict[str, float]:
    """One fit, and what its features are worth: in per cent, to one decimal."""
    images = IMAGE_SETS[data]
    train, test = loaded_images(images, quick)
    model = deep_model(title, images, quick).set_params(random_state=seed)
    model.fit(train.images, groups=split(train.y, how, seed))
    learnt = (model.features(train.images), train.y, model.features(test.images), test.y)
    return {
        "linear": round(100 * linear_accuracy(*learnt), 1),
        "knn": round(100 * knn_accuracy(*learnt), 1),
        "nmi": round(100 * nmi(train.y, np.asarray(model.labels_)), 1),
    }


def sets_at_hand() -> list[str]:
    """The sets whose files are there."""
    there = []
    for title, images in IMAGE_SETS.items():
        try:
            image_sets.load_images(images.name, most=1)
        except DataUnavailable:
            continue
        there.append(title)
    return there


def deep_key(data: str, title: str, how: str) -> str:
    """The key of these runs, without the seed; pooled and untrained rows know no split."""
    return f"deepfeca-table-3/{data}/{title}/{how if title in split_rows() else 'iid'}"


def split_rows() -> list[str]:
    """The rows that depend on the split."""
    return [title for title in DEEP_ROWS if title not in (UNTRAINED, POOLED_DEEP)]


def _rows(scale: Scale) -> list[str]:
    return [title for title in DEEP_ROWS if not scale.quick or title in _QUICK_ROWS]


def _splits(scale: Scale) -> tuple[str, ...]:
    return SPLITS[1:2] if scale.quick else SPLITS


def _seeds(scale: Scale) -> range:
    return range(1, scale.runs + 1)


def tasks(scale: Scale) -> list[Task]:
    """Every row and split on the sets that are there; runs from 1 on."""
    keys = dict.fromkeys(
        deep_key(data, title, how)
        for data in sets_at_hand()
        for how in _splits(scale)
        for title in _rows(scale)
    )
    made = []
    for key in keys:
        _, data, title, how = key.split("/")
        given = {"data": data, "title": title, "how": how, "quick": scale.quick}
        made += [
            Task(f"{key}/{seed}", feature_scores, {**given, "seed": seed}) for seed in _seeds(scale)
        ]
    return made


def page(scale: Scale, results: Results) -> Page:
    """Accuracies, the paper's claims, the other measures; and how to get sets that are missing."""
    parts: list[Table | Claims | Plain] = []
    there = sets_at_hand()
    for data in there:
        parts += [
            _table(data, scale, results),
            _claims(data, scale, results),
            _others(data, scale, results),
        ]
    parts += [_missing(data) for data in IMAGE_SETS if data not in there]
    return Page(parts, _conclusion(parts, there, scale, results))


def _runs(
    data: str, title: str, how: str, scale: Scale, results: Results, name: str = "linear"
) -> FloatArray:
    return results.runs(deep_key(data, title, how), name, _seeds(scale))


def _table(data: str, scale: Scale, results: Results) -> Table:
    cells = []
    for title in _rows(scale):
        depends = title in split_rows()
        for how in _splits(scale) if depends else _splits(scale)[:1]:
            row = DEEP_ROWS[title]
            text = TABLE_3[data][row].split()[SPLITS.index(how)] if row else ""
            cells.append(
                Cell(
                    (title, how if depends else "any"),
                    Printed(text, runs=3) if text else None,
                    _runs(data, title, how, scale, results),
                    _why(data, scale, results),
                )
            )
    title = f"{data}: linear accuracy in per cent"
    return Table(title, ("method", "split"), cells, digits=1, better="high")


def _why(data: str, scale: Scale, results: Results) -> str:
    how = _splits(scale)[0]
    untrained = _runs(data, UNTRAINED, how, scale, results).mean()
    pooled = _runs(data, POOLED_DEEP, how, scale, results).mean()
    there = TABLE_3[data]["Centralized"].split()[0]
    return (
        "The scale is another one (a ConvNet for a ResNet-18, 12 epochs for 750, a fifth of the "
        f"images): here the whole range from an untrained network to pooled training is "
        f"{untrained:.1f} to {pooled:.1f}, where the paper's pooled training has {there}."
    )


def _claims(data: str, scale: Scale, results: Results) -> Claims:
    claims = []
    others = [t for t in _rows(scale) if DEEP_ROWS[t] not in ("", "DeepFeCA", "Centralized")]
    for how in _splits(scale):
        own = _runs(data, "DeepFeCA", how, scale, results)
        pooled = _runs(data, POOLED_DEEP, how, scale, results)
        claims.append(
            Claim(
                f"Pooled training is well ahead of DeepFeCA, {how}",
                f"{pooled.mean():.1f} and {own.mean():.1f}",
                bool(pooled.min() > own.max()),
                "Single runs overlap.",
            )
        )
        if others:
            best = max(others, key=lambda t: _runs(data, t, how, scale, results).mean())
            gap = own - _runs(data, best, how, scale, results)
            claims.append(
                Claim(
                    f"DeepFeCA is ahead of all baselines, {how}",
                    f"{own.mean():.1f}; the best baseline is {best} with "
                    f"{own.mean() - gap.mean():.1f}",
                    bool(gap.mean() > 0),
                    f"{best} is ahead by {-gap.mean():.1f} points in {len(gap)} runs of this "
                    "small scale, in which all aggregations are within a few points.",
                )
            )
    return Claims(f"{data}: what the paper says", claims)


def _others(data: str, scale: Scale, results: Results) -> Plain:
    """Nearest neighbours, NMI, and gaps to both of ours in the same runs."""
    ours = [t for t in ("DeepFeCA", "DeepFeCA, OneShotKMeans") if t in _rows(scale)]
    rows = [["method", "split", "kNN", "NMI", *(f"linear below {title}" for title in ours)]]
    for title in _rows(scale):
        for how in _splits(scale) if title in split_rows() else _splits(scale)[:1]:
            scores = (_runs(data, title, how, scale, results, name) for name in ("knn", "nmi"))
            gaps = (
                (_runs(data, own, how, scale, results) - _runs(data, title, how, scale, results))
                for own in ours
            )
            rows.append(
                [
                    title,
                    how if title in split_rows() else "any",
                    *(f"{own.mean():.1f}" for own in scores),
                    *(f"{gap.mean():+.1f}" for gap in gaps),
                ]
            )
    return Plain(f"{data}: nearest neighbours, NMI, and gaps in the same runs", rows)


def _missing(data: str) -> Plain:
    try:
        image_sets.load_images(IMAGE_SETS[data].name, most=1)
    except DataUnavailable as error:
        return Plain(data, note=f"Not run: {_without_folder(str(error))}")
    return Plain(data)


def _without_folder(text: str) -> str:
    """The sentence of an error without the path of this machine."""
    remedy = text.partition("; ")[2].replace(" there ", " into a folder ", 1)
    return f"the files are not there; {remedy}"


def _conclusion(
    parts: list[Table | Claims | Plain], there: list[str], scale: Scale, results: Results
) -> str:
    judged = [v for part in parts if isinstance(part, Table) for v in part.verdicts()]
    judged = [v for v in judged if v != "not printed"]
    claims = [c for part in parts if isinstance(part, Claims) for c in part.claims]
    first = [c for c in claims if "all baselines" in c.says]
    text = (
        f"On a small scale, {sum(v in AGREEING for v in judged)} of {len(judged)} accuracies agree "
        "or are close, which says little: network, images and rounds are not the paper's, and all "
        "means here lie between those of an untrained network and of pooled training. On digits, "
        "clusters of raw pixels by OneShotKMeans are as good as those of learnt features where "
        "parties lack classes (`unpooled reproduce deep-digits`, docs/results/deep/digits.txt). "
    )
    if first:
        held = sum(claim.holds for claim in first)
        text += f"DeepFeCA is ahead of all baselines in {held} of {len(first)} splits. "
    for data in there:
        ours = [
            _runs(data, title, how, scale, results).mean()
            for title in split_rows()
            if title in _rows(scale)
            for how in _splits(scale)
        ]
        untrained = _runs(data, UNTRAINED, "iid", scale, results).mean()
        text += (
            f"{data}: all aggregations lie between {min(ours):.1f} and {max(ours):.1f} %, an "
            f"untrained network has {untrained:.1f} %. "
        )
    return text + _origin(there, scale, results)


def _origin(there: list[str], scale: Scale, results: Results) -> str:
    """Whether results were taken over from what an earlier run printed."""
    keys = [
        f"{deep_key(data, title, how)}/{seed}"
        for data in there
        for title in _rows(scale)
        for how in _splits(scale)
        for seed in _seeds(scale)
    ]
    taken = {key for key in keys if results[key].get("taken_over")}
    if not taken:
        return "All of it was computed by this command."
    return (
        f"{len(taken)} of {len(set(keys))} results were taken over from what an earlier run of the "
        "same options printed, to one decimal (docs/results/deep/table.txt); the versions below "
        "are those that made this page, not those of that run."
    )


EXPERIMENT = Experiment(
    title="FeCA, Table 3: features by DeepFeCA",
    setting=(__doc__ or "").partition("\n\n")[2],
    runs=2,
    quick_runs=1,
    tasks=tasks,
    page=page,
    seeds="1, 2, ...: run 0 was used to choose options",
)
