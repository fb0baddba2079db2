"""Small settings of every method."""

from __future__ import annotations

from typing import Any

CORNERS = [[1.0, 2.0], [5.0, 6.0]]
SAMPLES: dict[str, dict[str, dict[str, Any]]] = {
    "DGC": {
        "dgc": {"max_rounds": 40},
        "dgc, huber, B=3, random start": {
            "loss": "huber",
            "init": "random",
            "inner_steps": 3,
            "max_rounds": 10,
        },
        "dgc, logistic, given start": {
            "n_clusters": 2,
            "loss": "logistic",
            "init": CORNERS,
            "max_rounds": 10,
            "tol": 0.0,
        },
        "dgc, fair, k-means++": {"loss": "fair", "init": "k-means++", "max_rounds": 10},
        "dgc, tree start": {"init": "tree", "max_rounds": 10},
        "dgc, dkm+c aligned": {"align": True, "max_rounds": 10},
        "dgc, nesterov": {"solver": "nesterov", "max_rounds": 40},
    },
    "GossipKMeans": {
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
    "KarSwenson": {"kar-swenson": {"max_rounds": 20}},
    "ADMMKMeans": {"admm": {"max_rounds": 20}},
    "FeCA": {
        "feca": {"n_init": 2},
        "feca, literal, theoretical": {
            "local_clusters": 4,
            "radius": "theoretical",
            "merge": False,
            "n_init": 1,
        },
    },
    "OneShotKMeans": {
        "one-shot": {"local_clusters": 3, "n_init": 2},
        "one-shot, refined": {"local_clusters": 5, "refine": True, "n_init": 2},
        "one-shot, k unknown": {"n_clusters": "auto", "max_clusters": 5, "n_init": 1},
    },
    "KFED": {"k-fed": {"local_clusters": 2, "n_init": 2}},
    "MatchedAveraging": {"matched averaging": {"n_init": 2}},
    "FuzzyCMeans": {
        "fuzzy c-means": {"n_init": 2},
        "fuzzy c-means, average": {"merge": "average", "local_steps": 1, "n_init": 2},
    },
    "FederatedKMeans": {
        "federated k-means": {},
        "federated k-means, given start": {"n_clusters": 2, "init": [[1.0, 2.0], [50.0, 60.0]]},
        "federated k-means, drawn starts": {"init": "random", "n_init": 2, "max_rounds": 5},
    },
    "CoresetKMeans": {
        "coreset": {"coreset_size": 20, "n_init": 2},
        "coreset, k-median": {"coreset_size": 20, "objective": "kmedian", "n_init": 2},
    },
    "KernelKMeans": {
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
    "RandomFeatureKMeans": {"random features": {"n_features": 9, "coreset_size": 12, "n_init": 1}},
    "KernelPCAKMeans": {
        "kernel PCA": {
            "n_features": 9,
            "n_points": 10,
            "sketch": 5,
            "width": 8,
            "coreset_size": 12,
            "n_init": 1,
        }
    },
}
