"""Table 3: accuracy on images. Which classes CIFAR3 has is not said: see ``TRIPLES``."""

from __future__ import annotations

import numpy as np

from unpooled.experiments.dgc.images import COLUMNS, TEN_STARTS, image_key, image_tasks
from unpooled.experiments.reproduction.page import Cell, Claim, Claims, Page, Plain, Table
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task
from unpooled.experiments.reproduction.verdicts import AGREEING, printed
from unpooled.types import FloatArray

TABLE_3 = {
    "MNIST": ("73.68±0.16", "73.57±0.53", "62.98±3.11", "73.32±1.08", "74.36±1.30", "70.98±1.64"),
    "CIFAR3": ("50.55±0.43", "50.06±0.41", "41.41±4.44", "51.21±1.99", "49.14±4.23", "46.02±3.61"),
    "CIFAR8": ("21.19±0.09", "21.42±0.32", "16.71±0.46", "20.92±0.41", "21.54±0.88", "20.62±0.45"),
}
"""As printed, in per cent, over COLUMNS."""

CIFAR_CLASSES = (
    "airplane automobile bird cat deer dog frog horse ship truck".split()  # noqa: SIM905
)
FIRST_THREE = (0, 1, 2)
TRIPLES = (
    (0, 1, 8),
    (0, 4, 7),
    (0, 5, 6),
    (0, 5, 7),
    (0, 7, 8),
    (2, 3, 9),
    (3, 4, 9),
    (3, 5, 8),
    (3, 5, 9),
    (3, 8, 9),
    (4, 5, 8),
    (4, 7, 9),
)
"""Of all 120 triples, those on which k-means of the pooled images (their first 60 principal
components, four starts) has an accuracy of 50.0 to 51.2, near the printed 50.55."""
CIFAR3 = (0, 5, 7)
"""The triple that fits all six printed values best; the next ones are hardly worse."""

DATA = {
    "MNIST": ("mnist", tuple(range(7))),
    "CIFAR3": ("cifar10_20k", CIFAR3),
    "CIFAR8": ("cifar10_20k", tuple(range(8))),
}
NOTES = {
    "CIFAR3": (
        "The paper does not say which classes. These were chosen from the scan below because they "
        "fit the six printed numbers, so that agreement here is partly by choice."
    )
}
MATCHINGS_OF = {
    "Sklearn KM++": ("best",),
    TEN_STARTS: ("best",),
    "CGC-KM": ("identity", "best"),
}
THREE = ("identity", "best", "joint")


def runs_of(name: str, scale: Scale) -> int:
    """Fewer runs of larger data: of ten, five of CIFAR3, three of CIFAR8, two of other triples."""
    share = {"MNIST": 10, "CIFAR3": 5, "CIFAR8": 3, "triples": 2}[name]
    return max(1, scale.runs * share // 10)


def _triples(scale: Scale) -> tuple[tuple[int, ...], ...]:
    return (FIRST_THREE, CIFAR3) if scale.quick else (FIRST_THREE, *TRIPLES)


def tasks(scale: Scale) -> list[Task]:
    """All columns of the three data sets, and of other triples for CIFAR3."""
    wanted = []
    for triple in _triples(scale):
        wanted += image_tasks("cifar10_20k", triple, runs_of("triples", scale), scale.quick)
    for name, (data, classes) in DATA.items():
        runs = runs_of(name, scale)
        wanted += image_tasks(data, classes, runs, scale.quick, ten_starts=True)
    found = {task.key: task for task in wanted}
    return list(found.values())


def page(scale: Scale, results: Results) -> Page:
    """The table, the paper's comparisons, and what other triples give."""
    tables = [_table(name, scale, results) for name in TABLE_3]
    ranked = sorted(_triples(scale), key=lambda triple: min(_misfits(triple, scale, results)))
    claims = _claims(scale, results)
    counts = []
    for matching in THREE:
        judged = [
            value
            for table in tables
            for cell, value in zip(table.cells, table.verdicts(), strict=True)
            if cell.where[-1] == matching
        ]
        counts.append(f"{matching} {sum(v in AGREEING for v in judged)} of {len(judged)}")
    conclusion = (
        f"Printed accuracies that agree or are close, by the matching of clusters and classes: "
        f"{', '.join(counts)}. Of the triples that were tried for CIFAR3, {_named(ranked[0])} "
        f"fits the six printed values best (root mean square of the differences "
        f"{min(_misfits(ranked[0], scale, results)):.2f} points; the first three classes "
        f"{min(_misfits(FIRST_THREE, scale, results)):.2f}, the runner-up "
        f"{min(_misfits(ranked[1], scale, results)):.2f}); over so few runs that is a guess. "
        f"{sum(claim.holds for claim in claims.claims)} of {len(claims.claims)} of the paper's "
        "comparisons hold."
    )
    return Page([*tables, claims, _scan(ranked, scale, results)], conclusion)


def _matchings(column: str) -> tuple[str, ...]:
    return MATCHINGS_OF.get(column, THREE)


def _ours(name: str, column: str, matching: str, scale: Scale, results: Results) -> FloatArray:
    return results.runs(image_key(*DATA[name], column), matching, runs_of(name, scale))


def _table(name: str, scale: Scale, results: Results) -> Table:
    cells = []
    text_of = dict(zip(COLUMNS, TABLE_3[name], strict=True))
    for column, text in ({TEN_STARTS: text_of["Sklearn KM++"]} | text_of).items():
        means = {
            matching: _ours(name, column, matching, scale, results).mean()
            for matching in _matchings(column)
        }
        for matching in means:
            others = [f"{other} {means[other]:.2f}" for other in means if other != matching]
            said = f"By another matching: {', '.join(others)}. " if others else ""
            if column == "Sklearn KM++":
                said = "One start of k-means++, the default since scikit-learn 1.4. "
            ours = _ours(name, column, matching, scale, results)
            cells.append(Cell((column, matching), printed(text), ours, said + _because(name)))
    rows = {"MNIST": "digits 0 to 6", "CIFAR3": _named(CIFAR3), "CIFAR8": "the first eight classes"}
    title = f"{name} ({rows[name]}), accuracy in per cent, {runs_of(name, scale)} runs"
    return Table(title, ("method", "matching"), cells, 2, "high", NOTES.get(name, ""))


def _because(name: str) -> str:
    if name == "MNIST":
        return (
            "Which images the paper drew is not known: an independent implementation had 75.0 "
            "for scikit-learn, 74.1, 75.2 and 74.1 for DGC and 69.6 for LGC (best matching)."
        )
    if name == "CIFAR3":
        return "Which classes is not said; the scan below has what other triples give."
    return (
        "Which thousand images a class is not known; an independent implementation had 20.96 for "
        "scikit-learn on the first thousand."
    )


def _misfits(triple: tuple[int, ...], scale: Scale, results: Results) -> list[float]:
    """The root mean square of the differences to the six printed values, by each matching."""
    found = []
    for matching in THREE:
        apart = []
        for column, text in zip(COLUMNS, TABLE_3["CIFAR3"], strict=True):
            known = _matchings(column)
            name = matching if matching in known and len(known) > 2 else "best"
            key = image_key("cifar10_20k", triple, column)
            ours = results.runs(key, name, runs_of("triples", scale)).mean()
            apart.append(ours - printed(text).value)
        found.append(float(np.sqrt(np.mean(np.square(apart)))))
    return found


def _named(triple: tuple[int, ...]) -> str:
    return "-".join(CIFAR_CLASSES[one] for one in triple)


def _scan(ranked: list[tuple[int, ...]], scale: Scale, results: Results) -> Plain:
    rows = [["classes", "matching", *COLUMNS, "misfit"]]
    rows.append(["the paper", "not said", *TABLE_3["CIFAR3"], "-"])
    for triple in ranked:
        misfits = _misfits(triple, scale, results)
        place = int(np.argmin(misfits))
        shown = []
        for column in COLUMNS:
            name = THREE[place] if len(_matchings(column)) > 2 else "best"
            key = image_key("cifar10_20k", triple, column)
            shown.append(f"{results.runs(key, name, runs_of('triples', scale)).mean():.2f}")
        rows.append([_named(triple), THREE[place], *shown, f"{misfits[place]:.2f}"])
    note = (
        f"{runs_of('triples', scale)} runs each, by the matching that fits best (the best one for "
        "the pooled methods), in the order of their misfit, the root mean square of the six "
        "differences. Beside the first three classes, those triples were tried on which k-means "
        "of the pooled images comes near the printed 50.55."
    )
    return Plain("Which three classes?", rows, note)


def _claims(scale: Scale, results: Results) -> Claims:
    def mean(name: str, column: str, matching: str) -> float:
        known = _matchings(column)
        matching = matching if matching in known else "best"
        return float(_ours(name, column, matching, scale, results).mean())

    found = []
    rivals = (TEN_STARTS, *COLUMNS)  # the stronger form of scikit-learn's k-means counts too
    for name, ahead in (("MNIST", "DGC-HL"), ("CIFAR8", "DGC-HL"), ("CIFAR3", "DGC-KM")):
        order = {
            matching: sorted(rivals, key=lambda column: -mean(name, column, matching))
            for matching in ("best", "joint")
        }
        words = "; ".join(
            f"{matching}: {first[0]} {mean(name, first[0], matching):.2f}, then {first[1]} "
            f"{mean(name, first[1], matching):.2f}; {ahead} {mean(name, ahead, matching):.2f}"
            for matching, first in order.items()
        )
        holds = all(first[0] == ahead for first in order.values())
        why = (
            f"It is not first by both matchings over {runs_of(name, scale)} runs; scikit-learn's "
            "k-means with ten starts counts among the others."
        )
        found.append(Claim(f"{ahead} is best on {name}", words, holds, why))
    others = [column for column in COLUMNS if column != "LGC-KM"]
    poorest = {
        (matching, name): min(others, key=lambda column: mean(name, column, matching))
        for matching in ("best", "joint")
        for name in TABLE_3
    }
    gaps = {
        (matching, name): mean(name, column, matching) - mean(name, "LGC-KM", matching)
        for (matching, name), column in poorest.items()
    }
    words = "; ".join(
        f"{matching}: {', '.join(f'{name} {gaps[matching, name]:+.2f}' for name in TABLE_3)}"
        for matching in ("best", "joint")
    )
    poorer = ", ".join(
        f"{poorest[matching, name]} on {name} ({matching})"
        for (matching, name), gap in gaps.items()
        if gap <= 0
    )
    says = "clustering in isolation (LGC) is the poorest everywhere"
    why = f"As poor or poorer is {poorer}, by the matching in brackets."
    said = f"points that the next poorest is ahead, {words}"
    found.append(Claim(says, said, not poorer, why))
    note = (
        "A claim holds if it does so by both matchings, best and joint; pooled methods count by "
        "their best one in both."
    )
    return Claims("Comparisons", found, note)


EXPERIMENT = Experiment(
    title="DGC, Table 3: accuracy on images",
    setting=(
        "MNIST's digits 0 to 6, three classes (CIFAR3) and the first eight (CIFAR8) of CIFAR-10; "
        "1,000 training images a class, pixels over 255; a ring of ten users with equal shares of "
        "every class, dealt out at random. Users start from one random image of their own per "
        "class. rho = 10 on MNIST, 100 on CIFAR; weights 1, B = 1, Huber's delta 5, the largest "
        "step by which the cost never rises. At most 4,000 rounds; they end earlier when no row "
        "changes cluster and no centre has further to go than 1e-4 of the largest spread of a "
        "user's rows. CGC is gradient clustering of the pooled rows, LGC of every user's in "
        "isolation; scikit-learn's KMeans starts once or ten times, its default now and until 1.3. "
        "Accuracy on a user's own rows, "
        'averaged over users, with "cluster k is class k" (identity), the best matching for each '
        "user (best), or one best matching for all (joint): the paper does not say which. Larger "
        "data have fewer runs, as said above each table; seeds are 0, 1, ..."
    ),
    runs=10,
    quick_runs=1,
    tasks=tasks,
    page=page,
)
