"""Bad input is refused in one clear sentence that names the party and the value."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from tests.sentences import refuses
from unpooled import DGC, ADMMKMeans, GossipKMeans, KarSwenson, losses
from unpooled.errors import DomainError, GraphError, InputError

RNG = np.random.default_rng(0)
A, B, C = (RNG.uniform(1, 2, size=(n, 3)) for n in (6, 5, 4))
GOOD = {"north": A, "south": B, "west": C}


def spoilt(table: np.ndarray, value: float, column: int = 2) -> np.ndarray:
    table = table.copy()
    table[1, column] = value
    return table


def refused(
    error: type[Exception], words: str, data: Any = GOOD, fit: Any = None, **options: Any
) -> None:
    """The whole message is one sentence, and nothing half-done is left."""
    model = DGC(**{"n_clusters": 2, "random_state": 0, **options})
    refuses(lambda: model.fit(data, **(fit or {})), words, error)
    assert not [name for name in vars(model) if name.endswith("_")]


def frame(table: np.ndarray, columns: str = "xyz") -> pd.DataFrame:
    return pd.DataFrame(table, columns=list(columns))


class Scalar(losses.Loss):
    """Gives one number where a number per row is needed."""

    def value(self, x, y):  # type: ignore[no-untyped-def]
        return 0.0

    gradient = value

    def smoothness(self, low, high):  # type: ignore[no-untyped-def]
        return 1.0


DATA = {
    "NaN in a dict": (
        {**GOOD, "south": spoilt(B, np.nan)},
        {},
        "Party south has a NaN in column 2",
    ),
    "inf in a list": (
        [A, B, spoilt(C, np.inf, 0)],
        {},
        r"Party 2 has an infinity \(inf\) in column 0",
    ),
    "NaN in a frame": ([frame(A), frame(spoilt(B, np.nan))], {}, "Party 1 has a NaN in column 'z'"),
    "NaN with groups": (
        np.concatenate([A, spoilt(B, np.nan)]),
        {"groups": ["x"] * 6 + ["y"] * 5},
        "Party y has a NaN in column 2",
    ),
    "widths": ([A, B[:, :2]], {}, "Party 1 has 2 columns but party 0 has 3"),
    "missing column": ([frame(A), frame(B, "xyw")], {}, "Party 1 lacks the column 'z'"),
    "names here and not there": ([frame(A), B], {}, "Only one of party 0 and party 1 names"),
    "extra column": (
        [frame(A), frame(np.hstack([B, B[:, :1]]), "xyzw")],
        {},
        "Party 1 has a column 'w' that others lack",
    ),
    "empty party": ([A, B[:0]], {}, "Party 1 has no rows"),
    "party that is no table": ([A, B[0]], {}, "Party 1 is a ndarray, not a 2-D table"),
    "text": ([A, [["a", "b", "c"]]], {}, "Party 1 cannot be read as a table of numbers"),
    "no parties": ({}, {}, "X has no parties"),
    "same names": ({"1": A, 1: B}, {}, "Two parties have the same name"),
    "groups too short": (A, {"groups": [0, 1]}, r"groups has shape \(2,\)"),
    "groups missing": (A, {"groups": [0, 1, None, 0, 1, 0]}, "groups has a missing value"),
    "groups of text with NaN": (A, {"groups": ["a"] * 5 + [np.nan]}, "groups has a missing value"),
    "groups with NA": (
        A,
        {"groups": pd.Series(["a"] * 5 + [None], dtype="string")},
        "groups has a missing value",
    ),
    "groups with NaT": (
        A,
        {"groups": np.array(["2020"] * 5 + ["NaT"], dtype="M8[D]")},
        "groups has a missing value",
    ),
    "groups of two kinds": (
        A,
        {"groups": np.array([1, 1, 1, "a", "a", "a"], dtype=object)},
        "groups mixes names that cannot be sorted",
    ),
    "masked": (np.ma.array(A, mask=A > 1.5), {}, "X has masked values"),
    "dates": (pd.DataFrame({"a": pd.date_range("2020", periods=3)}), {}, "X cannot be read as"),
    "a huge whole number": ([[10**400, 1], [1, 2]], {}, "X cannot be read as a table of numbers"),
    "huge values": ([A, 1e160 * B], {}, "Party 1 has the value 1[.0-9]*e.160 in column 0; rescale"),
    "no extent": ([1e-170 * A, 1e-170 * B], {}, "extend over .* only"),
    "integer labels that differ": (
        [pd.DataFrame(A, columns=[4, 5, 6]), pd.DataFrame(B, columns=[4, 5, 7])],
        {},
        "Party 1 lacks the column 6",
    ),
    "complex weights": (A, {"sample_weight": 1j * np.ones(6)}, "sample_weight is not a plain list"),
    "groups twice": (GOOD, {"groups": [0, 1]}, "groups goes with one table"),
    "negative weight": (
        [A, B],
        {"sample_weight": [np.ones(6), np.array([1, 1, -0.5, 1, 1])]},
        "Party 1 has the weight -0.5",
    ),
    "NaN weight": (A, {"sample_weight": [1, 1, np.nan, 1, 1, 1]}, "Party 0 has the weight nan"),
    "no weight": (A, {"sample_weight": np.zeros(6)}, "Every sample_weight is zero"),
    "weights too short": (A, {"sample_weight": [1.0]}, r"sample_weight has shape \(1,\)"),
    "weights in another container": (GOOD, {"sample_weight": [1.0]}, "same container as X"),
    "weights of text": (A, {"sample_weight": list("abcdef")}, "sample_weight is not a plain list"),
    "not a table": (A[0], {}, r"X has shape \(3,\), but a table of rows and columns is needed"),
}


@pytest.mark.parametrize("case", DATA)
def test_bad_data(case: str) -> None:
    data, fit, words = DATA[case]
    refused(InputError, words, data, fit)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rho": 0}, "rho=0 must be a finite number greater than 0"),
        ({"rho": -1.0}, "rho=-1.0 must be"),
        ({"rho": np.nan}, "rho=nan must be"),
        ({"rho": "large"}, "rho='large' must be"),
        ({"loss": "hinge"}, "loss='hinge' is not known; give one of 'kmeans'"),
        ({"loss": None}, "loss=None is not known"),
        ({"metric": "cosine"}, "metric='cosine' is not known"),
        ({"metric": losses.Mahalanobis(np.eye(2))}, "matrix is 2x2 but rows have 3 columns"),
        ({"n_clusters": 0}, "n_clusters=0 must be a whole number of at least 1"),
        ({"n_clusters": 2.5}, "n_clusters=2.5 must be"),
        ({"n_clusters": True}, "n_clusters=True must be"),
        ({"init": "best"}, "init='best' is not known"),
        ({"init": np.zeros((2, 2))}, r"init has shape \(2, 2\); it must be \(2, 3\) for all"),
        ({"init": np.zeros((2, 2, 3))}, r"or \(3, 2, 3\), one slice per party"),
        ({"init": np.zeros((3, 3))}, r"init has shape \(3, 3\)"),
        ({"init": np.full((2, 3), np.nan)}, "init has a value that is NaN"),
        ({"init": [["a"]]}, "init is a list that is no array"),
        ({"init_rounds": -1}, "init_rounds=-1 must be a whole number of at least 0"),
        ({"inner_steps": 0}, "inner_steps=0 must be a whole number of at least 1"),
        ({"step_size": "big"}, "step_size='big' is not known"),
        ({"step_size": 0.0}, "step_size=0.0 must be a finite number greater than 0"),
        ({"max_rounds": 0}, "max_rounds=0 must be"),
        ({"tol": -1e-3}, "tol=-0.001 must be a finite number of at least 0"),
        ({"rho": 10**400}, "must be a finite number greater than 0"),
        ({"random_state": -1}, "random_state=-1 cannot seed a generator"),
        ({"random_state": "x"}, "random_state='x' cannot seed a generator"),
        ({"metric": np.eye(3)}, "metric is a ndarray; give 'euclidean'"),
        ({"init": 1j * np.ones((2, 3))}, "init is a ndarray that is no array of numbers"),
        ({"init": np.full((2, 3), 1e200)}, "init has a value that is NaN or beyond"),
        ({"loss": losses.Bregman.mahalanobis(np.eye(2))}, "cannot be evaluated on rows of 3"),
        ({"loss": Scalar()}, r"Scalar gives values and gradients of shapes \(\) and \(\)"),
        ({"n_clusters": 16}, "n_clusters=16 is more than the 15 distinct rows of all parties"),
    ],
)  # fmt: skip
def test_bad_options(options: dict[str, Any], words: str) -> None:
    refused(InputError, words, **options)


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        ("circle", "graph='circle' is not known"),
        (nx.cycle_graph(4), "The graph has 4 nodes but there are 3 parties"),
        (
            nx.Graph([("north", "south"), ("west", "west")]),
            "disconnected: party 'west' has no path",
        ),
    ],
)
def test_bad_graphs(graph: Any, words: str) -> None:
    refused(GraphError, words, graph=graph)


def test_more_clusters_than_distinct_rows_of_all_parties_together() -> None:
    rows = np.array([[0.0, 1.0], [2.0, 3.0]])
    parties = [np.repeat(rows, 40, axis=0), rows]
    refused(InputError, "n_clusters=3 is more than the 2 distinct rows", parties, n_clusters=3)
    DGC(2).fit(parties)
    refused(InputError, "n_samples=2", rows, n_clusters=3)


def test_rows_outside_a_losses_domain() -> None:
    loss = losses.Bregman.itakura_saito()
    bad = {**GOOD, "south": spoilt(B, 0.0)}
    refused(
        DomainError, "Party south has the value 0 in column 2, where Itakura-Saito", bad, loss=loss
    )
    bad = {**GOOD, "south": spoilt(B, -1.0)}
    refused(
        DomainError,
        "Party south has the value -1 in column 2, where Generalised KL",
        bad,
        loss=losses.Bregman.generalised_kl(),
    )


def test_the_value_outside_the_domain_is_the_one_named() -> None:
    bad = {**GOOD, "south": np.array([[0.0, -1.0, 1.0]])}
    loss = losses.Bregman.generalised_kl()
    refused(DomainError, "Party south has the value -1 in column 1", bad, loss=loss)


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_set_output_goes_with_one_table(output: str) -> None:
    model = DGC(2, random_state=0).set_output(transform=output).fit(GOOD)
    assert list(model.transform(A).columns) == ["dgc0", "dgc1"]
    for data in (GOOD, [A, B], (A, B)):
        with pytest.raises(InputError, match="goes with one table"):
            model.transform(data)


def test_a_numpy_generator_seeds() -> None:
    first, second = (
        DGC(2, random_state=np.random.default_rng(3)).fit(GOOD).peer_centers_ for _ in range(2)
    )
    assert np.array_equal(first, second)


def test_sparse_data_is_refused() -> None:
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        DGC(2).fit(sp.csr_array(A))


@pytest.mark.parametrize("estimator", [KarSwenson, ADMMKMeans])
def test_the_others_check_their_options_too(estimator: Any) -> None:
    for option in ("tol", "max_rounds", "n_clusters", "init_rounds"):
        with pytest.raises(InputError, match=f"{option}=-1 must be"):
            estimator(**{option: -1}).fit(GOOD)
    name = "rho" if estimator is KarSwenson else "eta"
    with pytest.raises(InputError, match=f"{name}=0 must be"):
        estimator(2, **{name: 0}).fit(GOOD)


def test_new_rows_must_look_like_the_fitted_ones() -> None:
    model = DGC(2, random_state=0).fit([frame(A), frame(B)])
    for method in (model.predict, model.transform):
        with pytest.raises(InputError, match="X has 2 features, but DGC is expecting 3 features"):
            method(A[:, :2])
        with pytest.raises(InputError, match="X lacks the column 'z'"):
            method(frame(A, "xyw"))
        with pytest.raises(InputError, match="Party b has a NaN in column 'y'"):
            method({"a": frame(A), "b": frame(spoilt(B, np.nan, 1))})
        with pytest.raises(InputError, match="Party 1 has no rows"):
            method([A, B[:0]])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topology": "open"}, "topology='open' is not known; give 'shared' or 'private'"),
        ({"topology": None}, "topology=None is not known"),
        ({"averaging": "mean"}, "averaging='mean' is not known; give 'gossip' or 'tree'"),
        ({"averaging": True}, "averaging=True is not known"),
        ({"init": "random"}, "init='random' is not known; give 'tree'"),
        ({"init": "dkm+c"}, "init=.* is not known; give 'tree'"),
        ({"init": np.zeros((2, 2))}, r"init has shape \(2, 2\); it must be \(2, 3\)"),
        ({"init": np.zeros((3, 2, 3))}, r"init has shape \(3, 2, 3\); it must be \(2, 3\)"),
        ({"init": np.full((2, 3), np.nan)}, "init has a value that is NaN"),
        ({"init": None}, "init"),
        ({"rho": 0}, "rho=0 must be a finite number greater than 0"),
        ({"rho": -1.0}, "rho=-1.0 must be"),
        ({"rho": "large"}, "rho='large' must be"),
        ({"rho": np.inf}, "rho=inf must be"),
        ({"loss": "hinge"}, "loss='hinge' is not known"),
        ({"loss": Scalar()}, "GossipKMeans takes losses of the distance and Bregman losses"),
        ({"loss": losses.Bregman.itakura_saito(), "rho": 1.0}, "losses of the distance, and Itak"),
        ({"metric": losses.Mahalanobis(np.eye(2))}, "matrix is 2x2 but rows have 3 columns"),
        ({"n_init": 0}, "n_init=0 must be a whole number of at least 1"),
        ({"n_init": 2.5}, "n_init=2.5 must be"),
        ({"max_rounds": 0}, "max_rounds=0 must be"),
        ({"tol": -1.0}, "tol=-1.0 must be a finite number of at least 0"),
        ({"n_clusters": 0}, "n_clusters=0 must be"),
        ({"n_clusters": 16}, "n_clusters=16 is more than the 15 distinct rows"),
        ({"random_state": -1}, "random_state=-1 cannot seed"),
    ],
)  # fmt: skip
def test_bad_options_of_gossip(options: dict[str, Any], words: str) -> None:
    model = GossipKMeans(**{"n_clusters": 2, "random_state": 0, **options})
    refuses(lambda: model.fit(GOOD), words)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize("loss", [losses.Bregman.itakura_saito(), losses.Bregman.generalised_kl()])
def test_rows_outside_a_losses_domain_for_gossip(loss: losses.Bregman) -> None:
    bad = {**GOOD, "south": spoilt(B, -1.0)}
    refuses(
        lambda: GossipKMeans(2, loss=loss).fit(bad),
        "Party south has the value -1 in column 2",
        DomainError,
    )
