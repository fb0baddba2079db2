"""What a run writes at each party: files that only their owner can read."""

from __future__ import annotations

import csv
import io
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from unpooled import __version__
from unpooled.data.sources import Names
from unpooled.deploy.plan import Plan
from unpooled.errors import ProtocolError
from unpooled.estimators.base import CentersEstimator
from unpooled.kernels.assignment.centers import label
from unpooled.network.storage.directory import StateDirectory
from unpooled.persistence.file import write
from unpooled.preprocessing import StandardScaler
from unpooled.preprocessing.carrying import carry_scaler
from unpooled.protocols.mesh.base import MeshProtocol
from unpooled.protocols.prepare.standardise import MEAN, SCALE
from unpooled.protocols.star.base import StarProtocol
from unpooled.runtime.serving import serving
from unpooled.types import Body, FloatArray, IntArray

MODEL = "model.unpooled"
FILES = (MODEL, "labels.csv", "centers.csv", "ledger.jsonl", "manifest.json")
"""What a run leaves for people and programs, as far as a role has it."""


def star_labels(protocol: StarProtocol, rows: FloatArray, result: Body) -> IntArray:
    """The nearest centre of each row, in the space in which the centres lie."""
    for name in protocol.shared.fields:
        if name not in result:
            raise ProtocolError(
                f"The coordinator's result has no {name!r}, without which no row can be labelled; "
                "see that it runs the same plan with the same release of unpooled."
            )
    with serving():  # so that it is rounded as in the run
        return label(protocol.embedded(rows, result), result["centers"])


def write_labels(state: StateDirectory, labels: IntArray, ids: Names | None = None) -> None:
    """One label per row, in the order of the party's data, after the row's name if it has one."""
    columns = [labels.tolist()] if ids is None else [ids.values, labels.tolist()]
    header = ["label"] if ids is None else [ids.column, "label"]
    _write_csv(state, "labels.csv", header, zip(*columns, strict=True))


def write_centers(state: StateDirectory, plan: Plan, result: Body) -> None:
    """The centres in the columns' own units, or as points of another space if they are that."""
    centers, names = result["centers"], list(plan.columns)
    if isinstance(plan.protocol, StarProtocol):
        in_columns = plan.protocol.in_columns(result)
        if in_columns is None:
            names = [f"component {i}" for i in range(1, centers.shape[1] + 1)]
        else:
            centers = in_columns
    values = ([k, *map(repr, map(float, center))] for k, center in enumerate(centers))
    _write_csv(state, "centers.csv", ["cluster", *names], values)


def write_model(
    state: StateDirectory, plan: Plan, result: Body, *, shared_only: bool = False
) -> None:
    """The fitted estimator for ``unpooled.load``; it takes raw rows, standardised run or not.

    A star party has only what is shared of the result: what it takes to label rows.
    """
    model: CentersEstimator = clone(plan.estimator)
    _with_columns(model, plan)
    model.cluster_centers_ = np.array(result["centers"])
    if isinstance(plan.protocol, MeshProtocol):
        model.peer_centers_ = model.cluster_centers_[None]
        model.loss_ = model._loss()
    else:
        model._keep_embedding(result)
        if not shared_only:
            model._keep(result)
    if plan.standardise:
        scaler = StandardScaler()
        scaler.mean_, scaler.scale_ = np.array(result[MEAN]), np.array(result[SCALE])
        carry_scaler(model, _with_columns(scaler, plan))
    data = io.BytesIO()
    write(model, data)
    state.write(MODEL, data.getvalue())


def manifest(plan: Plan, name: str, result: Body, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What was run, by what, and who took part."""
    small = {key: value.tolist() for key, value in result.items() if value.size == 1}
    return {
        "plan": plan.hash.hex(),
        "name": name,
        "method": plan.content["method"],
        "parameters": plan.content.get("parameters", {}),
        "seed": plan.seed,
        "unpooled": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "result": small,
        **facts,
    }


def write_manifest(state: StateDirectory, content: Mapping[str, Any]) -> None:
    """``manifest.json``, for people and programs."""
    state.write("manifest.json", (json.dumps(content, indent=2) + "\n").encode())


def _with_columns(model: Any, plan: Plan) -> Any:
    model.n_features_in_ = len(plan.columns)
    model.feature_names_in_ = np.asarray(plan.columns, dtype=object)
    return model


def _write_csv(
    state: StateDirectory, file: str, header: Sequence[str], lines: Iterable[Iterable[Any]]
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
    state.write(file, text.getvalue().encode())
