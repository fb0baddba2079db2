"""Every method in one line: its name, where it is, small settings of it, and what it sends.

Exports, plans, saved models, the tables of the conformance suite, scikit-learn's checks, attacks
and fuzzers, and the README's tables all come from here. Nothing is imported before it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from unpooled.errors import InputError

CORNERS = ((1.0, 2.0), (5.0, 6.0))
"""Given centres for samples of two columns."""

AS_PUBLISHED: dict[str, Any] = {"rho": 10.0, "init": "dkm+c", "solver": "plain"}
"""DGC as in Armacki et al. (2024); our defaults are other ones."""

DRAWS_ROWS = {
    "check_sample_weight_equivalence_on_dense_data": (
        "the start draws rows at random, so a row of weight 2 and the same row twice use up "
        "different random numbers; the draws agree in distribution, not one by one"
    )
}


@dataclass(frozen=True)
class Method:
    """A method: ``unpooled.<name>`` is its estimator, which ``module`` defines."""

    name: str
    module: str
    role: str
    """"star" (with a coordinator) or "mesh" (peer to peer)."""
    discloses: tuple[str, ...]
    """What can be read from what parties send, in the terms of releases; of all its samples."""
    samples: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Small settings, by a name: parameters of the estimator, for two columns and 3 clusters."""
    expected_failures: Mapping[str, str] = field(default_factory=dict)
    """Checks of scikit-learn that fail, and why."""
    about: str = ""
    """What it does, for the README."""
    costs: tuple[str, ...] = ()
    """For the README: rounds and what a party sends, or for a mesh how far users agree."""
    first_to_try: bool = False
    extra: str = ""
    """What of the optional dependencies it needs."""

    @property
    def class_name(self) -> str:
        """The estimator's own name, without the submodule that exports it."""
        return self.name.rpartition(".")[2]

    @property
    def estimator(self) -> Any:
        """The class."""
        return getattr(import_module(self.module), self.class_name)

    def protocols(self, parties: Any) -> dict[str, Any]:
        """The protocols of its samples, for these parties."""
        return {
            name: self.estimator(**{"n_clusters": 3, **options}).planned(parties)
            for name, options in self.samples.items()
        }


# One line for each method; samples are kept small, since every table of tests has all of them.
METHODS: list[Method] = [
    Method(
        "OneShotKMeans",
        "unpooled.estimators.one_shot",
        "star",
        ("sums", "counts"),
        samples={
            "one-shot": {"local_clusters": 3, "n_init": 2},
            "one-shot, refined": {"local_clusters": 5, "refine": True, "n_init": 2},
            "one-shot, k unknown": {"n_clusters": "auto", "max_clusters": 5, "n_init": 1},
        },
        about=(
            "local centroids and counts, clustered again with many restarts; the first thing "
            'to try. Also k unknown (`"auto"`), outliers (`trim`), radii instead of counts, '
            "one round of refinement"
        ),
        costs=("1 or 2", "up to max(3 k, 64) (d + 1)"),
        first_to_try=True,
    ),
    Method(
        "FederatedKMeans",
        "unpooled.estimators.federated",
        "star",
        ("sums", "counts"),
        samples={
            "federated k-means": {},
            "federated k-means, given start": {"n_clusters": 2, "init": ((1.0, 2.0), (50.0, 60.0))},
            "federated k-means, drawn starts": {"init": "random", "n_init": 2, "max_rounds": 5},
        },
        about="exact Lloyd from sums and counts: equal to pooled k-means from the same start",
        costs=("until it converges", "k (d + 2) a round"),
    ),
    Method(
        "FeCA",
        "unpooled.estimators.feca",
        "star",
        ("sums",),
        samples={
            "feca": {"n_init": 2},
            "feca, literal, theoretical": {
                "local_clusters": 4,
                "radius": "theoretical",
                "merge": False,
                "n_init": 1,
            },
        },
        expected_failures=DRAWS_ROWS,
        about="refined local centroids grouped by radii, as printed or mended (Xu et al. 2024)",
        costs=("1", "up to k (d + 1)"),
    ),
    Method(
        "KFED",
        "unpooled.estimators.kfed",
        "star",
        ("sums",),
        samples={
            "k-fed": {"local_clusters": 2, "n_init": 2},
        },
        expected_failures=DRAWS_ROWS,
        about="for parties that hold few of the clusters (Dennis et al. 2021)",
        costs=("1", "k' d"),
    ),
    Method(
        "MatchedAveraging",
        "unpooled.estimators.matched",
        "star",
        ("sums",),
        samples={
            "matched averaging": {"n_init": 2},
        },
        expected_failures=DRAWS_ROWS,
        about="means of centroids paired by optimal matching",
        costs=("1", "k d"),
    ),
    Method(
        "FuzzyCMeans",
        "unpooled.estimators.fuzzy",
        "star",
        ("sums", "counts"),
        samples={
            "fuzzy c-means": {"n_init": 2},
            "fuzzy c-means, average": {"merge": "average", "local_steps": 1, "n_init": 2},
        },
        about="fuzzy c-means, both merges (Stallmann & Wilbik 2022)",
        costs=("any", "k (d + 1) a round"),
    ),
    Method(
        "CoresetKMeans",
        "unpooled.estimators.coreset",
        "star",
        ("rows", "sums", "counts"),
        samples={
            "coreset": {"coreset_size": 20, "n_init": 2},
            "coreset, k-median": {"coreset_size": 20, "objective": "kmedian", "n_init": 2},
        },
        expected_failures=DRAWS_ROWS,
        about=(
            "k-means or k-median of a weighted sample of rows, also along a spanning tree of "
            "a graph (Balcan et al. 2013); sends rows"
        ),
        costs=("2", "its share of the sample"),
    ),
    Method(
        "KernelKMeans",
        "unpooled.estimators.kernel",
        "star",
        ("rows", "sums", "counts"),
        samples={
            "kernel k-means": {"n_features": 16, "n_init": 1},
            "kernel k-means, lloyd": {
                "n_features": 16,
                "gamma": 0.1,
                "power": 0.2,
                "normalise": True,
                "final": "lloyd",
                "n_init": 1,
            },
            "kernel k-means, dspgd": {
                "solver": "dspgd",
                "n_features": 9,
                "max_rounds": 2,
                "coreset_size": 12,
                "n_init": 1,
            },
            "kernel k-means, dspgd, not compressed": {
                "solver": "dspgd",
                "compress": False,
                "gamma": 0.1,
                "n_features": 9,
                "max_rounds": 2,
                "coreset_size": 12,
                "n_init": 1,
            },
        },
        about=(
            "clusters of any shape: k-means in the space of a kernel, by random features "
            'whose s main directions are found together; ours (`"block-krylov"`) or as '
            'published (`"dspgd"`)'
        ),
        costs=("4 or 5", "about 2.5 D s"),
        first_to_try=True,
    ),
    Method(
        "RandomFeatureKMeans",
        "unpooled.estimators.random_features",
        "star",
        ("rows", "sums", "counts"),
        samples={
            "random features": {"n_features": 9, "coreset_size": 12, "n_init": 1},
        },
        expected_failures=DRAWS_ROWS,
        about="k-means on random features (Chitta et al. 2012); sends features of rows",
        costs=("3", "its share of a sample, D wide"),
    ),
    Method(
        "KernelPCAKMeans",
        "unpooled.estimators.kernel_pca",
        "star",
        ("rows", "sums", "counts"),
        samples={
            "kernel PCA": {
                "n_features": 9,
                "n_points": 10,
                "sketch": 5,
                "width": 8,
                "coreset_size": 12,
                "n_init": 1,
            },
        },
        expected_failures=DRAWS_ROWS,
        about="distributed kernel PCA, then k-means (Balcan et al. 2016); sends rows",
        costs=("9", "see its docstring"),
    ),
    Method(
        "deep.DeepFeCA",
        "unpooled.deep",
        "star",
        ("sums", "counts", "rows", "network-weights"),
        expected_failures=DRAWS_ROWS,
        about=(
            "learns features of images together with their clusters, by any PyTorch encoder; "
            "centroids are put together by FeCA (Xu et al. 2024) or another of these methods "
            "that clusters rows as they are"
        ),
        costs=("any", "a network and k (d + 1) a round"),
        first_to_try=True,
        extra="deep",
    ),
    Method(
        "GossipKMeans",
        "unpooled.estimators.gossip",
        "mesh",
        ("sums", "counts", "model"),
        samples={
            "gossip": {"n_init": 2},
            "gossip, private, huber": {
                "loss": "huber",
                "topology": "private",
                "n_init": 2,
                "max_rounds": 6,
            },
            "gossip, tree": {"averaging": "tree", "n_init": 2},
            "gossip, given start": {"n_clusters": 2, "init": CORNERS},
            "gossip, finite rho": {"rho": 100.0, "n_init": 2, "max_rounds": 40},
        },
        about=(
            "pooled Lloyd with nobody in charge: a start merged along a tree, then steps by "
            "sums that neighbours average; the first thing to try. k-means, Huber, logistic, "
            "fair and Bregman losses, both metrics. With a finite `rho`, DGC's problem by a "
            "second-order method"
        ),
        costs=("exact; to O(1/rho) with a finite `rho`",),
        first_to_try=True,
    ),
    Method(
        "DGC",
        "unpooled.estimators.dgc",
        "mesh",
        ("rows", "sums", "counts", "model"),
        samples={
            "dgc": {**AS_PUBLISHED, "max_rounds": 40},
            "dgc, defaults": {"max_rounds": 40},
            "dgc, huber, B=3, random start": {
                **AS_PUBLISHED,
                "loss": "huber",
                "init": "random",
                "inner_steps": 3,
                "max_rounds": 10,
            },
            "dgc, logistic, given start": {
                **AS_PUBLISHED,
                "n_clusters": 2,
                "loss": "logistic",
                "init": CORNERS,
                "max_rounds": 10,
                "tol": 0.0,
            },
            "dgc, fair, k-means++": {
                **AS_PUBLISHED,
                "loss": "fair",
                "init": "k-means++",
                "max_rounds": 10,
            },
            "dgc, tree start": {**AS_PUBLISHED, "init": "tree", "max_rounds": 10},
            "dgc, dkm+c aligned": {**AS_PUBLISHED, "align": True, "max_rounds": 10},
            "dgc, nesterov": {**AS_PUBLISHED, "solver": "nesterov", "max_rounds": 40},
        },
        about=(
            "gradient clustering over a graph of users; k-means, Huber, logistic, fair and "
            "Bregman losses or your own; Euclidean or Mahalanobis metric (Armacki et al. "
            "2024)"
        ),
        costs=("to O(1/rho)",),
    ),
    Method(
        "KarSwenson",
        "unpooled.estimators.kar_swenson",
        "mesh",
        ("rows", "sums", "counts", "model"),
        samples={
            "kar-swenson": {"rho": 10.0, "init": "dkm+c", "max_rounds": 20},
            "kar-swenson, defaults": {"max_rounds": 20},
        },
        about="the k-means special case with a step per user and cluster (Kar & Swenson 2019)",
        costs=("to O(1/rho)",),
    ),
    Method(
        "ADMMKMeans",
        "unpooled.estimators.admm",
        "mesh",
        ("rows", "sums", "counts", "model"),
        samples={
            "admm": {"init": "dkm+c", "max_rounds": 20},
            "admm, defaults": {"max_rounds": 20},
        },
        about="k-means by ADMM (Forero et al. 2011)",
        costs=("exact",),
    ),
]


def names() -> list[str]:
    """The methods whose estimators ``unpooled`` itself exports."""
    return [method.name for method in METHODS if "." not in method.name]


def find(name: str) -> Method:
    """The method of this name."""
    for method in METHODS:
        if method.name == name:
            return method
    raise InputError(f"There is no method {name!r}; give one of {', '.join(names())}.")


def samples(parties: Any, role: str | None = None) -> Iterator[tuple[str, Any]]:
    """The protocols of all samples, by their names; of one role, or of both."""
    for method in METHODS:
        if role in (None, method.role):
            yield from method.protocols(parties).items()
