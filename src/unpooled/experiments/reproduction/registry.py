"""Every table and figure by its name: what it shows, how long it takes, what it needs.

Modules are imported when they are run, so that the list is quick.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from unpooled.errors import InputError

if TYPE_CHECKING:
    from unpooled.experiments.reproduction.tasks import Experiment


@dataclass(frozen=True)
class Paper:
    """A paper."""

    short: str
    citation: str


DGC = Paper(
    "DGC",
    "A. Armacki, D. Bajović, D. Jakovetić, S. Kar: *A Unified Framework for Gradient-based "
    "Clustering of Distributed Data* (2024).",
)
DKMC = Paper(
    "DKM+C",
    "A. Armacki, H. Sharma, D. Bajović, D. Jakovetić, M. Chakraborty, S. Kar: *Distributed "
    "Gradient Clustering: Convergence and the Effect of Initialization* (2024).",
)
KERNEL = Paper(
    "kernel",
    "Anonymous authors: *A Communication Efficient Federated Kernel k-Means* (under review at "
    "ICLR 2021).",
)
FECA = Paper(
    "FeCA",
    "J. Xu, H.-Y. Chen, W.-L. Chao, Y. Zhang: *Jigsaw Game: Federated Clustering* "
    "(2024, arXiv 2407.12764).",
)
DEEP = Paper("DeepFeCA", FECA.citation)
OURS = Paper("ours", "No paper has this one.")

S_SETS = ("s1", "s2", "s3", "s4")


@dataclass(frozen=True)
class Entry:
    """A table or figure."""

    name: str
    paper: Paper
    shows: str
    minutes: float
    """On two cores, of all that it needs; less if another one has computed a part of it."""
    module: str
    data: tuple[str, ...] = ()
    """Files beside what comes with scikit-learn: ``NAME.npz`` where UNPOOLED_DATA says."""
    deep: bool = False
    """Whether it needs PyTorch."""

    def experiment(self) -> Experiment:
        """What is run."""
        try:
            module = import_module(f"unpooled.experiments.{self.module}")
        except ImportError as error:  # an extra that is not installed
            raise InputError(f"{self.name} cannot be run: {error}") from error
        found: Experiment = module.EXPERIMENT
        return found


ENTRIES = {
    entry.name: entry
    for entry in (
        Entry("dgc-table-2", DGC, "how far apart users end, over rho", 1, "dgc.table_2"),
        Entry(
            "dgc-table-3",
            DGC,
            "accuracy on images: MNIST 0-6, CIFAR3, CIFAR8",
            10,
            "dgc.table_3",
            ("mnist", "cifar10_20k"),
        ),
        Entry("dgc-table-4", DGC, "accuracy on Iris, beside pooled and isolated", 1, "dgc.table_4"),
        Entry("dgc-table-5", DGC, "accuracy on Iris, over rho", 2, "dgc.table_5"),
        Entry("dgc-table-6", DGC, "accuracy on Iris, over inner steps B", 2, "dgc.table_6"),
        Entry("dgc-figure-2", DGC, "cost per round, over rho", 1, "dgc.figure_2"),
        Entry("dgc-figure-3", DGC, "cost per round, over inner steps B", 1, "dgc.figure_3"),
        Entry("dgc-figure-5", DGC, "how fast the cost settles, over rho", 1, "dgc.figure_5"),
        Entry("dkmc-figure-2", DKMC, "how much the start matters", 1, "dkmc.figure_2"),
        Entry("dkmc-figure-3", DKMC, "accuracy over the rounds of DKM+C", 1, "dkmc.figure_3"),
        Entry(
            "kernel-figure-1",
            KERNEL,
            "how fast DSPGD converges",
            7,
            "kernel.figure_1",
            ("mushrooms", "mnist"),
        ),
        *(
            Entry(
                f"kernel-figure-{number}",
                KERNEL,
                shows,
                minutes,
                f"kernel.figure_{number}",
                ("mushrooms", "mnist", "covtype_100k"),
            )
            for number, shows, minutes in (
                (2, "numbers sent per iteration, with CEM and without", 6),
                (3, "NMI against numbers sent, of all kernel methods", 13),
                (4, "Lanczos steps per iteration, with CEM and without", 6),
                (5, "the estimate's rank per iteration", 6),
            )
        ),
        Entry("feca-table-1", FECA, "distance to true centres", 6, "feca.table_1", S_SETS),
        Entry(
            "feca-table-2",
            FECA,
            "purity and NMI on features of images",
            4,
            "feca.table_2",
            ("cifar10_efflite0_features",),
        ),
        *(
            Entry(
                f"feca-table-{number}", FECA, shows, minutes, f"feca.table_{number}", S_SETS[:sets]
            )
            for number, shows, sets, minutes in (
                (4, "purity and NMI on the S-sets", 4, 5),
                (5, "without the removal of one-fit-many centroids", 1, 1),
                (6, "the theoretical radius", 1, 1),
                (7, "k-FED over k'", 1, 1),
                (8, "over the number of parties, 5 % of the rows each", 1, 1),
                (9, "over the number of parties that share all rows", 1, 1),
                (10, "other k than the true one", 1, 1),
            )
        ),
        *(
            Entry(
                f"feca-figure-{number}",
                FECA,
                shows,
                minutes,
                f"feca.figure_{number}",
                S_SETS[:sets],
            )
            for number, shows, sets, minutes in (
                (3, "Table 1, drawn", 4, 4),
                (4, "where the centres are", 4, 1),
                (5, "how well radii cover centroids", 1, 1),
                (10, "local solutions of pooled k-means", 4, 1),
                (12, "Tables 8 and 9, drawn", 1, 1),
            )
        ),
        Entry(
            "deepfeca-table-3",
            DEEP,
            "what features learnt without pooling are worth",
            60,
            "deep.table_3",
            ("cifar10_20k",),
            deep=True,
        ),
        Entry(
            "comparison",
            OURS,
            "every method on twelve data sets and four splits",
            35,
            "comparison.experiment",
            (*S_SETS, "mnist", "mushrooms", "cifar10_efflite0_features", "heart_4sites"),
        ),
    )
}

ALIASES = {
    "dgc-iris": ("dgc-table-2", "dgc-table-4", "dgc-table-5"),
    "feca-ssets": ("feca-table-1", "feca-table-4", "feca-table-6"),
    "kernel-paper": ("kernel-figure-1", "kernel-figure-2"),
    "kernel-compare": ("kernel-figure-3",),
    "deep-table": ("deepfeca-table-3",),
}
"""Other names, and what they stand for."""

OWN = {
    "cells": ("cells", "what it costs that others see means over ten rows"),
    "deep-digits": ("deep.digits", "DeepFeCA on digits, beside raw pixels"),
    "deep-paper": ("deep.paper", "DeepFeCA as in the paper, by a plan"),
    "gossip-faults": ("gossip.faults", "GossipKMeans when users and messages are lost"),
    "gossip-pictures": ("gossip.pictures", "GossipKMeans, drawn"),
    "gossip-quality": ("gossip.quality", "how good GossipKMeans' clusterings are"),
    "gossip-rho": ("gossip.rho", "GossipKMeans with a finite rho, beside DGC"),
    "gossip-table": ("gossip.table", "exchanges, numbers sent and cost of GossipKMeans"),
    "held-out": ("held_out", "costs of our defaults on data as sites have them"),
    "kernel-shapes": ("kernel.shapes", "KernelKMeans on clusters that no line parts"),
    "oneshot-costs": ("feca.costs", "costs of one-shot methods beside pooled k-means"),
}
"""Experiments of our own: modules whose ``report(runs)`` yields lines."""


def chosen(name: str) -> list[Entry]:
    """The tables and figures that a name stands for; "all" stands for all of them."""
    if name == "all":
        return list(ENTRIES.values())
    return [ENTRIES[one] for one in ALIASES.get(name, (name,))]
