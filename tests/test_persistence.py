"""Models in files: the same model comes back, and nothing else does any harm."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris

import unpooled
from unpooled import losses
from unpooled.baselines import ExactKernelKMeans, NystromKMeans
from unpooled.persistence.file import read, write
from unpooled.preprocessing import StandardScaler
from unpooled.privacy.policy import Deployment, Study

ESTIMATORS = [
    member
    for name in unpooled.__all__
    if isinstance(member := getattr(unpooled, name), type) and hasattr(member, "fit")
] + [StandardScaler]
X = load_iris().data[::3]
GROUPS = np.repeat(["c", "a"], [20, 30])
FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "table": (X, {}),
    "groups": (X, {"groups": GROUPS}),
    "list": ([X[:20], X[20:]], {}),
    "tuple": ((X[:20], X[20:]), {}),
    "dict": ({"North": X[:20], 7: X[20:]}, {}),
    "frame": (pd.DataFrame(X, columns=["long", "wide", "größe", "d"]), {"groups": GROUPS}),
}


def made(estimator: Any, **options: Any) -> Any:
    """The estimator with those of the options that it knows."""
    options = {"n_clusters": 3, "random_state": 0, "max_rounds": 30} | options
    known = estimator._get_param_names()
    return estimator(**{name: value for name, value in options.items() if name in known})


def packed(model: Any) -> bytes:
    file = io.BytesIO()
    write(model, file)
    return file.getvalue()


def again(model: Any) -> Any:
    return read(io.BytesIO(packed(model)))


def same(a: Any, b: Any) -> bool:
    """Equal in value and in type, all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray | np.generic):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype.hasobject:
            return all(map(same, a.ravel().tolist(), b.ravel().tolist()))
        return bool(np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes())
    if isinstance(a, dict):
        return same([*a.items()], [*b.items()])
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return repr(a) == repr(b)
    if sp.issparse(a):
        return a.shape == b.shape and a.dtype == b.dtype and abs(a - b).sum() == 0
    if isinstance(a, nx.Graph):
        return same([*a.nodes(data=True)], [*b.nodes(data=True)]) and nx.utils.graphs_equal(a, b)
    if isinstance(a, losses.Bregman):
        rows = np.array([[0.5, 0.2, 1.0, 3.0]])
        values = [(loss.value(rows, rows + 1), loss.gradient(rows, rows + 1)) for loss in (a, b)]
        return a.name == b.name and same(a.recipe, b.recipe) and same(*values)
    if isinstance(a, BaseEstimator | losses.Loss | losses.Metric) or is_dataclass(a):
        names = sorted(vars(a))
        return names == sorted(vars(b)) and all(same(vars(a)[n], vars(b)[n]) for n in names)
    return bool(a == b)


def kind(value: Any) -> str:
    """What a test of the value is called, the same in every process."""
    return type(value).__name__


def test_same_tells_things_apart() -> None:
    apart = [1, 1.0, True, np.int64(1), np.int32(1), np.array(1), "1", (1,), [1], {1: 1}, {"1": 1}]
    for i, a in enumerate(apart):
        assert [same(a, b) for b in apart] == [i == j for j in range(len(apart))]
    assert not same(losses.Huber(1.0), losses.Huber(2.0))
    assert not same(losses.Huber(), losses.Huber().under(losses.Euclidean()))


def comes_back(model: Any, form: str, folder: Path) -> None:
    """What was fitted on that form of data is the same after a file, and does the same."""
    data, options = FORMS[form]
    model.fit(data, **options)
    unpooled.save(model, folder / "model.npz")
    found = unpooled.load(folder / "model.npz")
    assert same(model, found)
    assert [path.name for path in folder.iterdir()] == ["model.npz"]
    for method in ("predict", "transform", "score"):
        if hasattr(model, method) and (method != "score" or form == "table"):
            assert same(getattr(model, method)(data), getattr(found, method)(data))
    assert packed(found) == packed(model)
    assert same(clone(found).fit(data, **options), model)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_comes_back(estimator: Any, form: str, tmp_path: Path) -> None:
    comes_back(made(estimator), form, tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "dspgd", "max_rounds": 2, "n_features": 20, "threshold": 0.5},
        {"solver": "dspgd", "max_rounds": 2, "n_features": 21, "compress": False},
        {"kernel": "laplacian", "gamma": np.float32(0.5), "final": "lloyd"},
        {"kernel": "polynomial", "form": "phase", "normalise": True, "power": 0.25},
    ],
    ids=str,
)
def test_ways_of_kernel_k_means_come_back(options: dict[str, Any], tmp_path: Path) -> None:
    comes_back(unpooled.KernelKMeans(3, random_state=0, **options), "groups", tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"averaging": "tree", "loss": "huber"},
        {"topology": "private", "metric": losses.Mahalanobis(np.eye(4))},
        {"rho": 100.0, "loss": losses.Fair(2.0)},
        {"init": X[[0, 20, 40]], "loss": losses.Bregman.squared_euclidean(), "graph": "path"},
        {"policy": Deployment(least_parties=1), "n_init": 2},
        {"policy": Deployment(3, least_parties=2, allow=("network-weights",)), "n_init": 2},
    ],
    ids=lambda options: " ".join(options),
)
def test_ways_of_gossip_come_back(options: dict[str, Any], tmp_path: Path) -> None:
    model = unpooled.GossipKMeans(3, random_state=0, max_rounds=30, **options)
    comes_back(model, "groups", tmp_path)


@pytest.mark.parametrize("estimator", [ExactKernelKMeans, NystromKMeans])
def test_pooled_references_come_back(estimator: Any, tmp_path: Path) -> None:
    comes_back(estimator(3, gamma=0.2, random_state=0), "table", tmp_path)
    model = estimator(3, random_state=0).fit(FORMS["frame"][0])
    assert same(again(model), model)
    assert same(again(estimator()), estimator())


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_unfitted_ones_too(estimator: Any) -> None:
    model = made(estimator, n_clusters=np.int64(4))
    assert same(again(model), model)
    assert same(again(estimator()), estimator())
    assert same(again(estimator()).get_params(), estimator().get_params())


def test_what_set_output_asked_for_stays() -> None:
    model = made(unpooled.DGC).set_output(transform="pandas").fit(pd.DataFrame(X))
    frame = again(model).transform(pd.DataFrame(X))
    pd.testing.assert_frame_equal(frame, model.transform(pd.DataFrame(X)))


@pytest.mark.parametrize(
    ("loss", "metric"),
    [
        ("huber", "euclidean"),
        (losses.SquaredEuclidean(), losses.Mahalanobis(np.diag([1.0, 2.0, 3.0, 4.0]))),
        (losses.Huber(0.3), losses.Euclidean()),
        (losses.Fair(c=2), "euclidean"),
        (losses.Logistic(), losses.Mahalanobis(np.eye(4))),
        (losses.Huber(2.0).under(losses.Mahalanobis(np.eye(4) + 0.5)), "euclidean"),
        (losses.Bregman.squared_euclidean(), "euclidean"),
        (losses.Bregman.itakura_saito(), "euclidean"),
        (losses.Bregman.generalised_kl(), "euclidean"),
        (losses.Bregman.mahalanobis(np.eye(4) + 0.1), "euclidean"),
    ],
    ids=kind,
)
def test_losses_and_metrics(loss: Any, metric: Any) -> None:
    model = unpooled.DGC(3, loss=loss, metric=metric, random_state=0, max_rounds=10)
    model.fit(X + 0.1, groups=GROUPS)
    found = again(model)
    assert same(found, model)
    assert same(found.transform(X + 1), model.transform(X + 1))
    assert same(found.fit(X + 0.1, groups=GROUPS).peer_centers_, model.peer_centers_)


def test_a_recipe_stays_with_its_functions() -> None:
    loss = losses.Bregman.mahalanobis(np.diag([1.0, 2.0]))
    assert same(clone(unpooled.DGC(loss=loss)).loss.recipe, loss.recipe)
    assert replace(loss, beta=9.0).recipe == ()
    assert losses.Bregman.itakura_saito() == losses.Bregman.itakura_saito()
    assert "recipe" not in repr(loss)


MULTI = nx.MultiGraph([("a", "b"), ("a", "b"), ("b", ("c", 1))])
FROZEN = nx.freeze(nx.karate_club_graph())


@pytest.mark.parametrize(
    "graph",
    [
        None,
        nx.relabel_nodes(nx.path_graph(2), {0: "North", 1: "7"}),
        nx.DiGraph([(1, 0)], name="arrows"),
        MULTI,
        nx.MultiDiGraph([(0, 1, {"weight": np.float32(2.5)})]),
        FROZEN,
        nx.subgraph_view(FROZEN, filter_node=lambda node: node < 5),
        np.ones((2, 2)),
        [[0, 1], [1, 0]],
        sp.csr_array(np.eye(3, dtype=np.float32)),
        sp.csr_matrix([[0, 1], [1, 0]]),
        sp.csr_array((0, 4)),
    ],
    ids=kind,
)
def test_graphs_and_matrices(graph: Any) -> None:
    assert same(again(unpooled.DGC(graph=graph)).graph, graph)


@pytest.mark.parametrize("suffix", ["array", "matrix"])
@pytest.mark.parametrize("form", ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"])
def test_sparse_matrices_come_back_by_rows(form: str, suffix: str) -> None:
    dense = np.array([[0.0, 1.0, 0.0], [2.0, 0.0, -1.5]])
    found = again(unpooled.DGC(graph=getattr(sp, f"{form}_{suffix}")(dense))).graph
    assert type(found) is getattr(sp, f"csr_{suffix}")
    assert same(found.toarray(), dense)


def test_a_graph_of_ones_own_fits_as_before() -> None:
    data, _ = FORMS["dict"]
    graph = nx.relabel_nodes(nx.path_graph(2), {0: "North", 1: "7"})
    model = made(unpooled.DGC, graph=graph).fit(data)
    assert same(again(model).fit(data), model)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**4000), 2**4000)
    | st.floats()
    | st.text()
    | st.text(st.characters(categories=["Cs"]), max_size=2)
    | st.just("\ud800\udc00")  # in escaped JSON, these two would become one
)
KEYS = SCALARS | st.tuples(SCALARS, SCALARS) | st.builds(np.int32, st.integers(0, 9))
DTYPES = (
    hnp.scalar_dtypes()
    | hnp.unicode_string_dtypes()
    | hnp.byte_string_dtypes()
    | hnp.array_dtypes(allow_subarrays=False)
)
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, min_side=0, max_side=3))
VALUES = st.recursive(
    SCALARS | ARRAYS | ARRAYS.map(lambda a: a.ravel()[0] if a.size else a),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.lists(inner, max_size=3).map(lambda items: np.fromiter(items, object, len(items)))
    ),
    max_leaves=8,
)


@given(VALUES)
def test_every_nested_value_comes_back(value: Any) -> None:
    model = unpooled.DGC(init=value)
    model.found_ = value
    assert same(again(model), model)


@pytest.mark.parametrize(
    "value",
    [
        Study(),
        Deployment(max_rounds=5),
        Deployment(memory="memory", allow=("network-weights",), kinds=("sums",)),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(6)[::-2],
        np.arange(3, dtype=">i2"),
        np.array([["a", None], [1, (2, 3)]], dtype=object),
        np.array("x", dtype=object),
        np.empty((0, 4)),
        [np.arange(3), np.arange(0), np.arange(5)],
        [np.arange(3), np.arange(3.0)],
        [np.arange(3, dtype=">i4"), np.arange(3, dtype=">i4")],
        (np.zeros(2, bool), np.ones(2, bool)),
        unpooled.DGC(2, random_state=1),
    ],
    ids=kind,
)
def test_single_values(value: Any) -> None:
    found = again(unpooled.DGC(init=value)).init
    assert same(found, value)
    if isinstance(value, np.ndarray):
        assert found.flags.f_contiguous >= value.flags.f_contiguous


def test_a_mapped_array_becomes_one_in_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(4.0))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert same(again(unpooled.DGC(init=mapped)).init, np.arange(4.0))


def test_numpy_opens_the_file(tmp_path: Path) -> None:
    model = made(unpooled.DGC).fit(X)
    unpooled.save(model, str(tmp_path / "model"))
    with np.load(tmp_path / "model") as arrays:
        assert same(arrays["arrays/cluster_centers_"], model.cluster_centers_)
        head = json.loads(arrays["model.json"])
    assert head["format"] == "unpooled model 3"
    assert head["unpooled"] == unpooled.__version__


@pytest.mark.long
def test_same_model_same_bytes_in_every_process(tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np, unpooled; X = np.arange(40.0).reshape(20, 2);"
        "unpooled.save(unpooled.DGC(2, random_state=0).fit({'a': X[:9], 'b': X[9:]}), sys.argv[1])"
    )
    for seed in "12":
        path = str(tmp_path / seed)
        env = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code, path], check=True, env=env)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_a_class_goes_by_what_it_is_and_never_by_a_module() -> None:
    head = packed(unpooled.DGC(loss=losses.Huber()))
    assert b'["method", "DGC"' in head
    assert b'["loss", "Huber"' in head
