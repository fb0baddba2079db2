"""Every method on twelve data sets and four splits: the comparison that no paper has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unpooled.experiments.comparison import tables
from unpooled.experiments.comparison.advice import MARGINS, class_gain, decision_table, statements
from unpooled.experiments.comparison.data import DATA_SETS
from unpooled.experiments.comparison.pareto import WATCHED, Standing, draw_fronts, standing
from unpooled.experiments.comparison.ranks import LEVEL, draw_ranks, friedman, mean_ranks
from unpooled.experiments.comparison.summary import Summary
from unpooled.experiments.comparison.tasks import compared_files, comparison_tasks, summary_of
from unpooled.experiments.reproduction.page import Page, Plain
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task

ADVICE = "Which method to use when"
KERNEL_METHOD = "KernelKMeans"


def tasks(scale: Scale) -> list[Task]:
    """Every fit."""
    return comparison_tasks(scale, compared_files(scale))


def page(scale: Scale, results: Results) -> Page:
    """All tables, and what follows from them."""
    return page_of(scale, results, compared_files(scale))


def page_of(scale: Scale, results: Results, files: Sequence[str]) -> Page:
    """The page of these data sets."""
    summary = summary_of(scale, results, files)
    found = statements(summary)
    return Page(
        [
            advice_part(summary),
            tables.overall(summary),
            Plain("Do ranks differ by more than chance?", note=ranks_in_words(summary)),
            tables.standings(watched_standings(summary)),
            *(tables.of_data_set(summary, file) for file in files),
            tables.at_centres(summary),
            tables.deployed(summary),
        ],
        conclusion=_conclusion(summary),
        caption=_CAPTIONS,
        files={
            "decision.md": decision_table(found),
            "comparison-times.md": tables.times(scale, results, summary),
        },
    )


def advice_part(summary: Summary) -> Plain:
    """The statements, in words."""
    said = [*(one.says for one in statements(summary)), class_gain(summary, KERNEL_METHOD).says]
    rows = [["statement"], *([text] for text in said)]
    return Plain(ADVICE, rows, _ADVICE)


def watched_standings(summary: Summary) -> list[Standing]:
    """Of our methods on every data set: among all, and of a mesh method among its kind."""
    found = []
    for method in WATCHED:
        for file in summary.files:
            found.append(standing(summary, file, method))
            if method == "GossipKMeans":
                found.append(standing(summary, file, method, "mesh"))
    return found


def ranks_in_words(summary: Summary) -> str:
    """Friedman's test and Nemenyi's critical difference, over cases and over data sets."""
    cases, sets = summary.means["cost"], summary.per_file("cost")
    test = friedman(cases)
    text = (
        f"Friedman's test over {len(cases)} cases and {cases.shape[1]} methods: chi² = "
        f"{test.statistic:.1f}, p = {test.p:.1e}. Nemenyi's critical difference of mean ranks at "
        f"the level {LEVEL:g} is {test.critical_difference:.2f}. "
    )
    if len(sets) > 1:
        few = friedman(sets)
        text += (
            "Cases of one data set are not independent of each other; with one case for each of "
            f"the {len(sets)} data sets (costs averaged over splits) chi² = {few.statistic:.1f}, "
            f"p = {few.p:.1e}, and the critical difference is {few.critical_difference:.2f}."
        )
    return text


def draw(scale: Scale, results: Results) -> dict[str, Any]:
    """The critical difference diagram, and cost against bytes."""
    summary = summary_of(scale, results, compared_files(scale))
    cost = summary.means["cost"]
    difference = friedman(cost).critical_difference
    return {
        "ranks": draw_ranks(summary.methods, mean_ranks(cost), difference),
        "front": draw_fronts(summary),
    }


def _conclusion(summary: Summary) -> str:
    ranks = mean_ranks(summary.means["cost"])
    order = [summary.methods[i] for i in np.argsort(ranks, kind="stable")]
    found = watched_standings(summary)

    def fronts(method: str, among: str) -> str:
        here = [one.on_front for one in found if (one.method, one.among) == (method, among)]
        return f"{sum(here)} of {len(here)}"

    return (
        f"Over {len(summary.blocks)} cases of {len(summary.files)} data sets, {order[0]}, "
        f"{order[1]} and {order[2]} have the lowest mean ranks by cost, {order[-1]} the highest. "
        "Of bytes against cost, OneShotKMeans is on the front of "
        f"{fronts('OneShotKMeans', 'all')} data sets, its refined variant on "
        f"{fronts('OneShotKMeans, refined', 'all')}. {_why_not(summary, found)}"
        "GossipKMeans is on the front of "
        f"{fronts('GossipKMeans', 'mesh')} data sets among methods without a coordinator, and of "
        f"{fronts('GossipKMeans', 'all')} among all methods: having no coordinator costs bytes. "
        "Defaults of ours were chosen on some of these data, so this is no held-out test. "
        "Which method to use when is said below, and in short in [decision.md](decision.md); how "
        "long fits take, in [comparison-times.md](comparison-times.md)."
    )


def _why_not(summary: Summary, found: Sequence[Standing]) -> str:
    """Where OneShotKMeans is not on the front: what is, and what that takes."""
    off = [one for one in found if one.method == "OneShotKMeans" and not one.on_front]
    said = []
    for one in off:
        where = summary.files.index(one.file), list(summary.methods).index(one.by)
        said.append(
            f"on {DATA_SETS[one.file].title} {one.by} sends {one.times:.1f} times fewer bytes in "
            f"{summary.per_file('rounds')[where]:.0f} rounds, for a cost lower by "
            f"{100 * one.cheaper:.3f} %"
        )
    if not said:
        return ""
    text = "; ".join(said)
    return (
        f"Where it is not: {text}. One round has to send more than k clusters of each party, and "
        "where k is small and rounds are few, all rounds together send less. "
    )


_ADVICE = (
    "Found by the program in the tables below. Of the methods that a situation allows: those whose "
    f"mean cost over its cases is at most {100 * MARGINS['cost']:g} % of pooled k-means' above the "
    f"lowest (for classes: whose mean NMI is at most {MARGINS['nmi']:g} below the highest), and of "
    "these the one with the smallest geometric mean of bytes per party. Bytes and rounds are "
    "medians over cases. Methods with a coordinator are those whose parties send no rows, unless "
    "said otherwise."
)

_CAPTIONS = {
    "ranks": (
        "Mean ranks by cost over all cases, 1 is best. Bars join methods whose ranks differ by "
        "less than Nemenyi's critical difference."
    ),
    "front": (
        "Cost over that of pooled k-means against the bytes that all parties send, means over "
        "splits and seeds, both axes logarithmic; what is at most 0.001 % above pooled, or below, "
        "is drawn at the lower edge. The line is the front: no other method is better in both. "
        "The dotted line is that of methods without a coordinator."
    ),
}

_SETTING = """
**Data.** S1 to S4, Iris and Mushrooms (112 columns of 0 and 1) as they are, and the features of
CIFAR-10 images (EfficientNet-Lite0) too; wine, breast cancer and heart standardised, missing
entries of heart set to the column's median before; pixels of digits and MNIST divided by their
maximum. Heart is healthy or sick (two classes). A run takes at most 5,000 rows, drawn by its seed;
2,000 of MNIST and of the CIFAR-10 features, for all methods alike, since a fit of ADMMKMeans on
5,000 rows of MNIST takes a minute.

**Parties.** Ten: rows dealt out at random (iid), or each class by shares from Dirichlet(1.0), (0.3)
or (0.1); a draw that leaves a party empty is made again, and parties may have a single row. Heart
has a fifth split beside these, its four hospitals.

**Methods.** Every estimator but DeepFeCA, with its defaults, the number of classes as `n_clusters`
and the seed as `random_state`; those without a coordinator on a ring. Policy "study", and for one
table "deployment". One variant: OneShotKMeans with `refine=True`.

**No held-out test.** Defaults of OneShotKMeans and GossipKMeans, and the start, rho and solver of
DGC, KarSwenson and ADMMKMeans, were chosen in trials on Iris, S4, MNIST, Mushrooms and Covertype.
The finer summaries where k is small, and the principal components that they are made in, were added
after heart, wine, breast cancer, digits and the CIFAR-10 features had been measured (`unpooled
reproduce held-out`), and the S-sets serve other experiments of ours. So none of the twelve is
certain to be new to our methods, and the comparison may lean towards them.

**Measures.** *Cost* is that of the partition: the squared distances of rows to the means of their
clusters, over the same of scikit-learn's `KMeans(n_init=10)` on all rows. It is the one definition
that fits all methods, since those with a kernel have no centres among the rows; it judges labels,
not centres, and spares a method the error of its centres. The cost at centres has a table of its
own. *Accuracy* is by the best matching of clusters and classes. *Bytes* are what parties send
(`traffic_.bytes_up`), *numbers sent* the same in numbers of any type, *rounds* the exchanges in
which any party sends. *Time* is the CPU time of the fit on one thread, all parties together.
± is the standard deviation over seeds.
"""

EXPERIMENT = Experiment(
    title="Every method on twelve data sets and four splits",
    setting=_SETTING,
    runs=10,
    quick_runs=1,
    tasks=tasks,
    page=page,
    draw=draw,
    seeds="0 to {last}, of sets with more than 2,000 rows at most 0 to 2",
)
