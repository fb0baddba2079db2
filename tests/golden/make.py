"""Runs every sample of every method and keeps what came of it: the golden results.

python -m tests.golden.make FILE [--tls]

``FILE`` is an .npz. Without ``--tls`` everything runs in one process; with it, every protocol also
runs over TLS, and the digests of everybody's ledger are kept too.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

from tests import tables
from tests.conformance.test_protocols import BESIDE
from tests.network.site import Authority
from tests.network.test_equal import _parties
from tests.network.tls import over_tls
from tests.processors.fits import models
from unpooled.errors import UnpooledError
from unpooled.messages.codec import encode
from unpooled.network.storage.ledger_file import LEDGER, read_ledger
from unpooled.privacy.policy import DEPLOYMENT, STUDY
from unpooled.testing.conformance import _World

TABLE = {**{f"beside: {name}": own for name, own in BESIDE.items()}, **tables.protocols()}

SIZES = {"study": (9, 4, 14, 6, 2), "deployment": (120, 80, 100, 90, 60)}


def in_process() -> dict[str, np.ndarray]:
    """Results, traffic and messages of every protocol, under both policies."""
    found: dict[str, np.ndarray] = {}
    for name, protocol in TABLE.items():
        for policy, how in (("study", STUDY), ("deployment", DEPLOYMENT)):
            world, said = _World(protocol), list[tuple[str, Any]]()
            key = f"{name} | {policy}"
            try:
                run, _ = world.run(world.parties(SIZES[policy]), said=said, policy=how)
            except UnpooledError as refusal:
                found[f"{key} | refusal"] = np.array(str(refusal))
            else:
                found |= _kept(key, run.result, run.traffic)
            messages = b"".join(encode(message) for _, message in said)
            found[f"{key} | digest"] = np.array(sha256(messages).hexdigest())
    return found


def estimators() -> dict[str, np.ndarray]:
    """Labels, centres and traffic of every estimator on four blobs at five parties."""
    found: dict[str, np.ndarray] = {}
    X, _ = make_blobs(600, 5, centers=4, random_state=0)
    groups = np.random.default_rng(0).permutation(np.arange(len(X)) % 5)
    for name, model in models().items():
        model.set_params(n_clusters=4, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, groups=groups)
        centers = getattr(model, "peer_centers_", model.cluster_centers_)
        result = {"labels": model.labels_, "centers": centers, "rounds": model.n_rounds_}
        found |= _kept(f"{name} | fit", result, model.traffic_)
    return found


def deep() -> dict[str, np.ndarray]:
    """The same of DeepFeCA, of which bits are the same on one machine only."""
    from tests.deep.test_estimator import IMAGES, OWNERS, model

    found = model().fit(IMAGES, groups=OWNERS)
    result = {"labels": found.labels_, "centers": found.cluster_centers_}
    return _kept("DeepFeCA | fit", result, found.traffic_)


def of_networks() -> dict[str, np.ndarray]:
    """Results of every protocol over TLS, and what everybody's ledger says has left."""
    found: dict[str, np.ndarray] = {}
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority.new(Path(folder) / "keys")
        for i, (name, protocol) in enumerate(TABLE.items()):
            network = over_tls(Path(folder) / str(i), authority, protocol, _parties())
            try:
                network.finish()
            finally:
                network.close()
            for who, result in network.results.items():
                lines = read_ledger(network.folder / who / LEDGER)
                digests = [line["digest"] for line in lines if "again" not in line]
                key = f"{name} | tls {who}"
                found |= {f"{key} | {field}": np.array(value) for field, value in result.items()}
                found[f"{key} | ledger"] = np.array("\n".join(digests))
            found[f"{name} | tls | traffic"] = network.traffic.table
    return found


def _kept(key: str, result: Any, traffic: Any) -> dict[str, np.ndarray]:
    kinds = sorted((kind, sorted(own.items())) for kind, own in traffic.by_kind.items())
    return {
        **{f"{key} | {field}": np.array(value) for field, value in result.items()},
        f"{key} | traffic": traffic.table,
        f"{key} | kinds": np.array(repr(kinds)),
    }


if __name__ == "__main__":
    everything = {**in_process(), **estimators()}
    if "--tls" in sys.argv:
        everything |= {**deep(), **of_networks()}
    np.savez_compressed(sys.argv[1], **everything)
