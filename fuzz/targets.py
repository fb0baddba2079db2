"""The targets by name: functions of bytes that raise if, and only if, something is wrong.

None of this needs a fuzzer: the test suite runs every file of the corpus through its target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fuzz import cells, files, links, meshes, samples, seeds, stars, states, wires


@dataclass(frozen=True)
class Target:
    """A target, and what a fuzzer should know of it."""

    one: Callable[[bytes], None]
    seeds: Callable[[], Iterator[tuple[str, bytes]]]
    """Valid samples, by label."""
    longest: int = 4096
    """Bytes of an input."""
    words: tuple[str, ...] = ()
    """What inputs are likely to be made of."""


_TOML = (
    *("method", "columns", "releases", "seed", "quorum", "round_timeout", "patience"),
    *("standardise", "edges", "[parameters]", "[coordinator]", "[parties.", "[peers."),
    *("endpoint", "fingerprint", "sha256:", "n_clusters", "init", "max_rounds", "tol", "rho"),
    *("loss", "OneShotKMeans", "FederatedKMeans", "DGC", "FuzzyCMeans", "KFED", "FeCA"),
    *("ADMMKMeans", "KarSwenson", "CoresetKMeans", "MatchedAveraging", "centroids", "sums"),
    *("limits", "centers", "start", "coreset", "true", "false", "nan", "inf", "1979-05-27"),
    *("07:32:00", "0x", "1e400", '"""', "[[", "]]", "{", "}", "127.0.0.1:7447", "auto", " = "),
)
_OWN = (
    *(
        "data",
        "weights",
        "id",
        "person",
        "columns",
        "memory",
        "keys",
        "to",
        "[policy]",
        "name",
        "deployment",
        "study",
        "min_count",
    ),
    *("allow", "network-weights", "least_parties", "deployment-cms", "deployment-datashield"),
    *("kinds", "max_rounds", "max_floats", "true", "nan", "inf", "0x", " = ", "[", "{", "1e400"),
)
_MODEL = (
    *(
        '"format"',
        '"unpooled model 1"',
        '"unpooled model 2"',
        '"model"',
        '"object"',
        '"array"',
        '"tuple"',
        '"dict"',
    ),
    *('"bregman"', '"vectors"', '"scalar"', '"objects"', '"sparse"', '"graph"', '"unpooled"'),
    *('"unpooled.losses"', '"unpooled.privacy"', '"DGC"', '"OneShotKMeans"', '"Mahalanobis"'),
    *('"Graph"', '"cluster_centers_"', '"metric"', "NaN", "Infinity", "1e400", "[", "{", "null"),
)
_NPY = ("'descr'", "'<f8'", "'fortran_order'", "'shape'", "True", "False", "\\x93NUMPY", "(2, 2)")
_CSV = ("x,y,w", "1e308", "NaN", "inf", '"', "\\x0a", "true")
_JSON = ('"exchange"', '"parts"', '"asleep"', '"started"', '"plan"', '"name"', "null", "[", "{")
_STORE = ('"origin"', '"settled"', '"held_back"', '"columns"', '"mapping"', '"min_count"', '"salt"')

TARGETS = {
    "message": Target(wires.message, seeds.message),
    "state": Target(wires.state, seeds.state),
    "shapes": Target(wires.shapes, seeds.shapes),
    "link": Target(links.receive, seeds.link),
    "node": Target(links.node, seeds.node),
    "coordinator": Target(stars.coordinator, seeds.coordinator, 512),
    "party": Target(stars.party, seeds.party, 512),
    "peer": Target(meshes.peer, seeds.peer, 512),
    "memory": Target(states.memory, seeds.memory, 2048),
    "journal": Target(states.journal, seeds.journal, words=_JSON),
    "ledger": Target(states.ledger, seeds.ledger, words=_JSON),
    "words": Target(states.words, seeds.words, words=_JSON),
    "resume": Target(states.resume, seeds.resume, words=_JSON),
    "cells": Target(cells.cells, cells.seeds, 8192, words=_STORE),
    "plan": Target(files.plan, samples.plan, words=_TOML),
    "own": Target(files.own, samples.own, words=_OWN),
    "npz": Target(files.npz, samples.npz, words=_NPY),
    "csv": Target(files.csv, samples.csv, words=_CSV),
    "parquet": Target(files.parquet, samples.parquet, 256),
    "certificate": Target(files.certificate, samples.certificate),
    "request": Target(files.request, samples.request),
    "key": Target(files.key, samples.key),
    "model": Target(files.model, samples.model, 16384, words=(*_MODEL, *_NPY)),
}
