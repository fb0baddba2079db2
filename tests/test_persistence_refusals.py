"""What is not written, what is not read, and what a failed save leaves behind."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.pipeline import make_pipeline

import unpooled
from tests.sentences import refuses
from tests.test_persistence import FORMS, SCALARS, kind, made, packed, same
from unpooled import losses
from unpooled.errors import InputError, UnpooledError
from unpooled.persistence import file as model_file
from unpooled.persistence.file import read
from unpooled.privacy import Deployment

# What cannot be written.


class OwnLoss(losses.Huber):
    """A loss of one's own."""


class OwnBregman(losses.Bregman):
    """One made as ours are."""


class OwnDGC(unpooled.DGC):
    """An estimator of one's own."""


@dataclass(frozen=True)
class OwnPolicy:
    """A policy of one's own."""


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ("loss", OwnLoss(), "loss of DGC holds a value of type OwnLoss.*numpy.savez"),
        ("loss", losses.Bregman(abs, abs, max, 1.0), "grad of Bregman holds .* of type builtin"),
        (
            "loss",
            replace(losses.Bregman.mahalanobis(np.eye(2)), psi=abs),
            "grad of Bregman holds a value of type method",
        ),
        ("loss", OwnBregman.itakura_saito(), "loss of DGC holds a value of type OwnBregman"),
        ("policy", OwnPolicy(), "policy of DGC holds a value of type OwnPolicy"),
        ("graph", pd.DataFrame(np.eye(2)), "graph of DGC holds a value of type DataFrame"),
        ("graph", nx.Graph([(0, 1, {"how": len})]), "graph of DGC holds .*builtin_function"),
        ("graph", sp.coo_array(np.arange(3)), "graph of DGC holds a value of type coo_array"),
        ("random_state", np.random.default_rng(0), "type Generator.*a whole number as random"),
        ("random_state", np.random.RandomState(0), "type RandomState.*a whole number as random"),
        ("init", KMeans(), "init of DGC holds a value of type KMeans"),
        ("init", [1, {2: {3, 4}}], "init of DGC holds a value of type set"),
        ("init", np.array([len]), "init of DGC holds a value of type builtin"),
        ("init", np.ma.ones(3), "init of DGC holds a value of type MaskedArray"),
        ("init", np.array(["a"], dtype=np.dtypes.StringDType()), "type ndarray of StringDType"),
        ("init", np.zeros(2, dtype=[("a", object)]), "type ndarray of dtype"),
        ("init", 10**5000, "init of DGC holds a value of type int"),
        ("rho", unpooled.DGC, "rho of DGC holds a value of type"),
    ],
    ids=kind,
)
def test_what_needs_pickle_is_refused(attribute: str, value: Any, words: str) -> None:
    model = unpooled.DGC()
    setattr(model, attribute, value)
    refuses(lambda: packed(model), words)


def test_a_value_within_itself_is_refused() -> None:
    model = unpooled.DGC(init=[])
    model.init.append(model.init)
    refuses(lambda: packed(model), "init of DGC holds a value nested too deeply")


def test_only_our_estimators_are_written(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    refuses(lambda: unpooled.save(KMeans(), path), "that unpooled brings, not a KMeans")
    refuses(lambda: unpooled.save(OwnDGC(), path), "that unpooled brings, not a OwnDGC")
    pipeline = make_pipeline(unpooled.DGC())
    refuses(lambda: unpooled.save(pipeline, path), "not a Pipeline")
    refuses(lambda: unpooled.save(np.eye(2), path), "not a ndarray")
    refuses(lambda: unpooled.save(losses.Huber(), path), "not a Huber")
    refuses(lambda: unpooled.save(unpooled.DGC, path), "not a ABCMeta|not a type")
    assert list(tmp_path.iterdir()) == []


# Places.


def test_a_save_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.npz"
    unpooled.save(unpooled.DGC(3), path)
    before = path.read_bytes()
    refuses(lambda: unpooled.save(unpooled.DGC(loss=OwnLoss()), path), "OwnLoss")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_file.npy, "write_array", full)
    model = unpooled.DGC(init=np.eye(2))
    refuses(lambda: unpooled.save(model, path), "model.npz' cannot be written .No space left")
    monkeypatch.setattr(model_file.npy, "write_array", lambda *_, **__: sys.exit(1))
    with pytest.raises(SystemExit):
        unpooled.save(model, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    unpooled.save(unpooled.DGC(3), tmp_path / "link")
    unpooled.save(unpooled.DGC(4), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert unpooled.load(tmp_path / "target").n_clusters == 4


def test_places_that_are_none(tmp_path: Path) -> None:
    model = unpooled.DGC()
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "no" / "model", tmp_path / "file" / "model"):
        refuses(lambda place=place: unpooled.save(model, place), "cannot be written .* a folder")
        refuses(lambda place=place: unpooled.load(place), "cannot be read .*unpooled.save wrote")
    for nothing in (None, 3.0, "a\0b"):
        refuses(lambda nothing=nothing: unpooled.save(model, nothing), "names no file")
        refuses(lambda nothing=nothing: unpooled.load(nothing), "names no file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# What is not read.


def forged(
    change: Callable[[dict[str, Any]], object] | None = None,
    members: dict[str, bytes] | None = None,
    model: Any = None,
    compression: int = zipfile.ZIP_STORED,
) -> bytes:
    """A model's file with something else in its JSON or its members."""
    with zipfile.ZipFile(io.BytesIO(packed(unpooled.DGC() if model is None else model))) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    head = json.loads(held["model.json"])
    if change is not None:
        head = change(head) or head
    held = {**held, "model.json": json.dumps(head).encode(), **(members or {})}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in held.items():
            archive.writestr(name, data)
    return file.getvalue()


def with_init(value: Any) -> Callable[[dict[str, Any]], None]:
    def change(head: dict[str, Any]) -> None:
        head["model"]["object"][2]["dict"] = [["init"], [value]]

    return change


def test_an_honest_forgery_is_read() -> None:
    assert read(io.BytesIO(forged(with_init({"tuple": [1]})))).init == (1,)
    matrix = read(io.BytesIO(forged(with_init(sparse([2, 2], [7], [0], [0, 0, 1]))))).init
    assert matrix.toarray().tolist() == [[0, 0], [7, 0]]


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


DAMAGED = "is no model file or a damaged one"


def sparse(shape: list[int], *arrays: Any) -> Any:
    """A matrix of coded arrays: data, indices, where each row begins."""
    return {"sparse": [True, {"tuple": shape}, *arrays]}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", DAMAGED),
        (b"no zip at all", DAMAGED),
        (npy(np.eye(2)), DAMAGED),
        (packed(unpooled.DGC())[:-30], DAMAGED),
        (forged(lambda head: ["a list"]), DAMAGED),
        (
            forged(lambda head: head.update(format="unpooled model 4")),
            "has the format 'unpooled model 4', not 'unpooled model 3'; .* or upgrade unpooled",
        ),
        (forged(lambda head: head.update(model=3)), "holds no estimator"),
        (forged(with_init({"later": 1})), DAMAGED),
        (forged(with_init({"tuple": [1], "list": [2]})), DAMAGED),
        (forged(with_init({"dict": [[[1]], [2]]})), DAMAGED),
        (forged(with_init({"array": "arrays/a.npy"})), "lacks the array 'arrays/a.npy'"),
        (forged(with_init({"array": "../../etc/passwd"})), "lacks the array"),
        (
            forged(with_init([{"array": "arrays/a.npy"}] * 2), {"arrays/a.npy": npy([1.0])}),
            "lacks the array",
        ),
        (
            forged(
                with_init({"array": "arrays/a.npy"}),
                {"arrays/a.npy": npy(np.array([1], dtype=object))},
            ),
            DAMAGED,
        ),
        (
            forged(with_init({"array": "arrays/a.npy"}), {"arrays/a.npy": npy([1.0])[:-1]}),
            DAMAGED,
        ),
        (forged(compression=zipfile.ZIP_DEFLATED), "larger than the file or compressed"),
        (forged(with_init({"objects": [{"tuple": [10**9]}, ["a"]]})), DAMAGED),
        (forged(with_init({"graph": ["read_gml", {"dict": [[], []]}, [], []]})), DAMAGED),
        (forged(with_init({"bregman": ["under", 1]})), DAMAGED),
        (forged(with_init({"bregman": ["mahalanobis", [[-1]]]})), DAMAGED),
        (forged(with_init(sparse([2, 2], [1], [5], [0, 1, 1]))), DAMAGED),
        (forged(with_init(sparse([2, 2], [1], [-1], [0, 1, 1]))), DAMAGED),
        (forged(with_init(sparse([2, 2], [1], [0], [0, 9, 1]))), DAMAGED),
        (forged(with_init(sparse([10**12, 2], [1], [0], [0, 1, 1]))), DAMAGED),
        (forged(with_init(sparse([10**12, 2], 10**12, 2))), DAMAGED),
        (forged(with_init(sparse([10**12, 2], [1], {"tuple": [[0], [0]]}))), DAMAGED),
        (
            forged(lambda head: head["model"]["object"][2].update({"dict": [["more"], [1]]})),
            "gives DGC the parameter 'more', which it does not have here; .* upgrade",
        ),
    ],
    ids=kind,
)
def test_bad_files_are_refused(data: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(data)
    refuses(lambda: unpooled.load(tmp_path / "bad"), f"bad' .*{words}")


def record(module: str, name: str, **fields: Any) -> Any:
    held = {"dict": [list(fields), list(fields.values())]}
    return {"object": [module, name, held, {"dict": [[], []]}]}


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("sklearn.cluster", "KMeans"),
        ("unpooledx", "DGC"),
        ("unpooled", "Missing"),
        ("unpooled", "save"),
        ("unpooled.cli.__main__", "main"),
        ("unpooled.estimators.mesh", "BaseEstimator"),
        ("unpooled.persistence.file", "Path"),
        ("unpooled.losses.distance", "Huber"),
        ("unpooled.privacy", "Policy"),
        ("unpooled.losses", "InputError"),
        ("unpooled..losses", "Huber"),
        ("loss", "InputError"),
        ("method", "Huber"),
        ("method", "deep.DeepFeCA"),
        ("nothing", "Huber"),
        ("unpooled.nothing", "Huber"),
        ("unpooled.\nlosses", "Huber"),
    ],
)
def test_classes_from_elsewhere_are_refused(module: str, name: str) -> None:
    def change(head: dict[str, Any]) -> None:
        head["model"]["object"][:2] = [module, name]

    for bad in (forged(change), forged(with_init(record(module, name)))):
        refuses(lambda bad=bad: read(io.BytesIO(bad)), "which is not here; .* or upgrade unpooled")


def test_files_of_older_releases_name_modules() -> None:
    loss = record("unpooled.losses", "Huber", delta=2.0)

    def older(head: dict[str, Any]) -> None:
        head["format"] = "unpooled model 2"
        head["model"]["object"][0] = "unpooled"

    model = read(io.BytesIO(forged(older)))
    assert type(model) is unpooled.DGC
    assert read(io.BytesIO(forged(with_init(loss)))).init == losses.Huber(2.0)
    policy = record("unpooled.wire", "Deployment", min_count=3)
    assert read(io.BytesIO(forged(with_init(policy)))).init == Deployment(min_count=3)


def test_classes_of_ours_go_where_they_belong() -> None:
    loss = record("unpooled.losses", "Huber")
    refuses(
        lambda: read(io.BytesIO(forged(lambda head: head.update(model=loss)))), "holds no estimator"
    )
    bad = forged(with_init(record("unpooled.losses", "Huber", delta=-1.0)))
    refuses(lambda: read(io.BytesIO(bad)), "damaged one .InputError")


def test_indices_that_point_outside_a_matrix_are_refused() -> None:
    matrix = sp.csr_array(np.eye(3))
    matrix.indices[1] = 99
    data = packed(unpooled.DGC(graph=matrix))
    refuses(lambda: read(io.BytesIO(data)), DAMAGED)


def test_overlapping_members_are_refused() -> None:
    data = packed(unpooled.DGC(init=np.zeros(1000)))
    end = data.rindex(b"PK\x05\x06")
    start = data.index(b"PK\x01\x02")
    entries = data[start:end]
    count = 50
    tail = bytearray(data[end:])
    tail[8:12] = 2 * (2 * count).to_bytes(2, "little")
    tail[12:16] = (len(entries) * count).to_bytes(4, "little")
    refuses(
        lambda: read(io.BytesIO(data[:start] + entries * count + bytes(tail))),
        "larger than the file",
    )


def test_older_files_get_newer_parameters_by_default() -> None:
    def change(head: dict[str, Any]) -> None:
        head["model"]["object"][2]["dict"] = [[], []]

    assert same(read(io.BytesIO(forged(change, model=unpooled.DGC(3)))), unpooled.DGC())


# Whatever comes, only our own refusals go.

VALID = packed(
    made(
        unpooled.DGC,
        max_rounds=2,
        loss=losses.Bregman.mahalanobis(np.eye(4)),
        graph=sp.csr_array(np.ones((2, 2))),
    ).fit(FORMS["dict"][0])
)


def opens_or_refuses(data: bytes) -> None:
    with suppress(UnpooledError):
        read(io.BytesIO(data))


@given(st.binary(max_size=300), st.booleans())
def test_fuzz_random_bytes(data: bytes, prefixed: bool) -> None:
    opens_or_refuses(VALID[:200] + data if prefixed else data)


@given(st.integers(0, len(VALID) - 1))
def test_fuzz_truncation(length: int) -> None:
    with pytest.raises(InputError):
        read(io.BytesIO(VALID[:length]))


@given(st.lists(st.integers(0, 8 * len(VALID) - 1), min_size=1, max_size=4))
def test_fuzz_bit_flips(bits: list[int]) -> None:
    data = bytearray(VALID)
    for bit in bits:
        data[bit // 8] ^= 1 << bit % 8
    opens_or_refuses(bytes(data))


@given(st.integers(0, 8 * (len(VALID) - VALID.index(b"PK\x01\x02")) - 1))
def test_fuzz_bit_flips_in_the_directory(bit: int) -> None:
    data = bytearray(VALID)
    data[-1 - bit // 8] ^= 1 << bit % 8
    opens_or_refuses(bytes(data))


TAGS = ["array", *model_file._KINDS]
CODED = st.recursive(
    SCALARS
    | st.sampled_from(["arrays/init.npy", "unpooled", "DGC", "unpooled.losses", "Huber", "csr"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(TAGS), inner, min_size=1, max_size=1)
    ),
    max_leaves=12,
)


@given(CODED)
def test_fuzz_json(coded: Any) -> None:
    opens_or_refuses(forged(with_init(coded), model=unpooled.DGC(init=np.eye(2))))
    opens_or_refuses(forged(lambda head: head.update(model=coded)))
    opens_or_refuses(forged(lambda head: coded))


@pytest.mark.parametrize("depth", [100, 10_000, 1_000_000])
def test_deep_json_is_refused(depth: int) -> None:
    bottomless = b'{"tuple": [' * depth + b"]}" * depth
    head = b'{"format": "unpooled model 3", "model": %s}' % bottomless
    refuses(lambda: read(io.BytesIO(forged(members={"model.json": head}))), "damaged|no estimator")


def test_nothing_imports_pickle() -> None:
    source = Path(unpooled.__file__).parent
    for path in source.rglob("*.py"):
        text = path.read_text()
        assert "import pickle" not in text
        assert "allow_pickle=True" not in text


def test_a_file_does_not_replace_methods(tmp_path: Path) -> None:
    model = unpooled.DGC(2)
    model.predict = 1
    unpooled.save(model, tmp_path / "model")
    refuses(lambda: unpooled.load(tmp_path / "model"), "in place of the method 'predict'")
