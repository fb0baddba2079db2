"""Compiled rounds against the plain ones: the same labels, the same centres, on any data."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from unpooled import losses
from unpooled.data.parties import Parties
from unpooled.graphs.reading import topology
from unpooled.kernels.assignment.nearest import nearest
from unpooled.kernels.compiled.clusters import Clusters
from unpooled.kernels.compiled.reduced import Reduced, reduce_coordinates
from unpooled.kernels.compiled.steps import StepRule
from unpooled.losses import Loss
from unpooled.messages.message import Note
from unpooled.protocols.mesh import dgc
from unpooled.protocols.mesh.dgc import DGC
from unpooled.protocols.mesh.kar_swenson import KarSwenson
from unpooled.protocols.mesh.shared import compiled_rounds
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters
from unpooled.simulate import Options, Run, run_mesh

A = np.array([[2.0, 0.4, 0.0], [0.4, 1.0, -0.2], [0.0, -0.2, 0.5]])
LOSSES: dict[str, Loss] = {
    "k-means": losses.SquaredEuclidean(),
    "huber": losses.Huber(0.7),
    "huber, far": losses.Huber(100.0),
    "logistic": losses.Logistic(),
    "fair": losses.Fair(0.8),
}
for _name in tuple(LOSSES):
    LOSSES[f"{_name}, mahalanobis"] = LOSSES[_name].under(losses.Mahalanobis(A))


def _blobs(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(90, 3)) + 3 * rng.integers(3, size=(90, 1))


DATA = {
    "blobs": _blobs,
    "ties": lambda rng: rng.integers(-2, 3, size=(90, 3)).astype(float),
    "duplicates": lambda rng: np.repeat(rng.normal(size=(9, 3)), 10, axis=0),
    "on boundaries": lambda rng: np.tile([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]], (30, 1)),
    "on a line": lambda rng: np.repeat(np.arange(90.0)[:, None], 3, axis=1),
    "far from the origin": lambda rng: _blobs(rng) + 1e6,
    "tiny margins": lambda rng: 1e-9 * rng.normal(size=(90, 3)) + rng.integers(2, size=(90, 1)),
    "all equal": lambda rng: np.full((90, 3), 0.3),
    "unlike scales": lambda rng: _blobs(rng) * np.array([1e-6, 1.0, 1e6]),
}


def _parties(name: str, seed: int = 0) -> Parties:
    rng = np.random.default_rng(seed)
    rows = DATA[name](rng)
    weights = rng.choice([0.0, 0.5, 1.0, 1.0, 2.3], size=len(rows))
    ends = [0, 5, 30, 32, 60, 90]
    spans = [slice(*pair) for pair in pairwise(ends)]
    return Parties.of([rows[s] for s in spans], weights=[weights[s] for s in spans])


WAYS: dict[str, dict[str, object]] = {
    "alone": {},
    "watched": {"options": Options(watch=lambda *_: None)},
    "three blocks": {"blocks": 3},
}
"""All rounds at once; one after the other; with users on several hosts."""


@pytest.fixture(params=WAYS)
def how(request: pytest.FixtureRequest) -> dict[str, object]:
    return WAYS[request.param]


def _both(monkeypatch: pytest.MonkeyPatch, protocol: DGC, parties: Parties, *how):  # type: ignore[no-untyped-def]
    """The plain way, and the quick one in each of these ways."""
    graph = topology("ring", parties.names)
    runs, notes = [], []
    for worth, ways in ((np.inf, {}), *((0, own) for own in how)):
        monkeypatch.setattr(dgc, "WORTH_COMPILING", worth)
        said: list[Note] = []
        runs.append(run_mesh(protocol, parties, graph, observe=said.append, **ways))
        notes.append(said)
    return runs, notes


def _same(x: np.ndarray, y: np.ndarray, parties: Parties, loss: Loss) -> None:
    scale = np.maximum(np.abs(parties.rows).max(axis=0), np.abs(x).max(axis=(0, 1)))
    if isinstance(loss.metric, losses.Mahalanobis):
        scale = scale.max()  # which mixes columns, and their rounding errors
    assert (np.abs(x - y) <= 1e-12 * scale).all()


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize(
    "loss",
    [pytest.param(n, marks=pytest.mark.long) if "mahalanobis" in n else n for n in LOSSES],
)
def test_labels_and_centres_are_those_of_the_plain_way(
    monkeypatch: pytest.MonkeyPatch, data: str, loss: str
) -> None:
    parties = _parties(data)
    start = InitialCenters(3, parties.rows[[0, 40, 70]])
    protocol = DGC(start, loss=LOSSES[loss], rho=5.0, max_rounds=60, tol=0.0)
    (plain, *quick), _ = _both(monkeypatch, protocol, parties, *WAYS.values())

    def labels(run: Run) -> np.ndarray:
        centers = run.result["centers"]
        return nearest(parties.rows, parties.owner, centers, LOSSES[loss].dissimilarity)

    for way, run in zip(WAYS, quick, strict=True):
        _same(plain.result["centers"], run.result["centers"], parties, protocol.loss)
        np.testing.assert_array_equal(labels(run), labels(plain), err_msg=way)
        assert run.traffic.bytes_up == plain.traffic.bytes_up
        assert run.traffic.by_round == plain.traffic.by_round


def _wide(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(90, 300)) + rng.integers(3, size=(90, 1))


WIDE = {
    "blobs": _wide,
    "ties": lambda rng: rng.integers(-1, 2, size=(90, 300)).astype(float),
    "duplicates": lambda rng: np.repeat(rng.normal(size=(9, 300)), 10, axis=0),
    "on boundaries": lambda rng: np.tile(np.eye(3, 300), (30, 1)),
    "far from the origin": lambda rng: _wide(rng) + 1e6,
    "tiny margins": lambda rng: 1e-9 * rng.normal(size=(90, 300)) + rng.integers(2, size=(90, 1)),
    "tiny": lambda rng: 1e-60 * _wide(rng),
    "huge": lambda rng: 1e60 * _wide(rng),
    "all equal": lambda rng: np.full((90, 300), 0.3),
    "few columns matter": lambda rng: _wide(rng) * (np.arange(300) % 50 == 0),
    "unlike scales": lambda rng: _wide(rng) * np.logspace(-6, 6, 300),
}
"""Rows of so many columns that there is a copy in single precision, and that centres get fewer
coordinates once no row need be checked for many rounds."""


def _wide_parties(data: str) -> Parties:
    rng = np.random.default_rng(5)
    rows = WIDE[data](rng)
    weights = rng.choice([0.0, 0.5, 1.0, 2.3], size=90)
    spans = [slice(*pair) for pair in pairwise([0, 5, 30, 32, 60, 90])]
    return Parties.of([rows[s] for s in spans], weights=[weights[s] for s in spans])


@pytest.mark.parametrize("data", WIDE)
@pytest.mark.parametrize("loss", ["k-means", "huber", "huber, far", "logistic"])
def test_wide_rows(monkeypatch: pytest.MonkeyPatch, data: str, loss: str) -> None:
    if loss == "logistic" and data == "huge":
        pytest.skip("steps over such distances are nothing")
    parties = _wide_parties(data)
    start = InitialCenters(3, parties.rows[[0, 40, 70]])
    protocol = DGC(start, loss=LOSSES[loss], rho=5.0, max_rounds=60, tol=0.0)
    (plain, quick), notes = _both(monkeypatch, protocol, parties, {})
    _same(plain.result["centers"], quick.result["centers"], parties, protocol.loss)
    _same_notes(notes, parties)


def _count_reductions(monkeypatch: pytest.MonkeyPatch, reductions: list[Reduced]) -> None:
    def reduce(state: Clusters, x: np.ndarray, rule: StepRule) -> Reduced:
        reductions.append(reduce_coordinates(state, x, rule))
        return reductions[-1]

    monkeypatch.setattr(compiled_rounds, "reduce_coordinates", reduce)


@pytest.mark.parametrize(
    "data", ["blobs", "few columns matter", "unlike scales", "far from the origin", "tiny"]
)
def test_rounds_without_a_row_to_check_run_in_fewer_coordinates(
    monkeypatch: pytest.MonkeyPatch, data: str
) -> None:
    parties = _wide_parties(data)
    start = InitialCenters(3, parties.rows[[0, 40, 70]])
    protocol = DGC(start, rho=5.0, max_rounds=800, tol=0.0)
    reductions: list[Reduced] = []
    _count_reductions(monkeypatch, reductions)
    (plain, quick), notes = _both(monkeypatch, protocol, parties, {})
    assert reductions
    _same(plain.result["centers"], quick.result["centers"], parties, protocol.loss)
    _same_notes(notes, parties)


def _same_notes(notes: list[list[Note]], parties: Parties) -> None:
    """The same labels changed, and costs and movements are the same up to rounding."""
    size = np.abs(parties.rows).max() * parties.rows.shape[1]
    for name, scale in {"changed": 0.0, "cost": size**2, "movement": size}.items():
        a, b = (_series(said, name) for said in notes)
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-13 * scale, err_msg=name)


def _series(notes: list[Note], name: str) -> np.ndarray:
    """One number for each round."""
    total = np.max if name == "movement" else np.sum
    return np.concatenate(
        [
            note.body[name] if "consensus" in note.body else [total(note.body[name])]
            for note in notes
        ]
    )


@pytest.mark.bits
@pytest.mark.parametrize("solver", ["plain", "nesterov"])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("loss", ["k-means", "huber", "logistic", "fair"])
def test_the_same_bits_however_users_are_spread(
    monkeypatch: pytest.MonkeyPatch, loss: str, wide: bool, solver: str
) -> None:
    """All rounds at once, some of them a few columns at a time; one by one; on several hosts."""
    parties = _wide_parties("blobs") if wide else _parties("blobs")
    reduces = wide and loss == "k-means" and solver == "plain"
    start, rounds = InitialCenters(3, parties.rows[[0, 40, 70]]), 800 if reduces else 100
    protocol = DGC(start, loss=LOSSES[loss], max_rounds=rounds, solver=solver)
    reductions: list[Reduced] = []
    _count_reductions(monkeypatch, reductions)
    monkeypatch.setattr(dgc, "WORTH_COMPILING", 0)
    graph = topology("ring", parties.names)
    runs = [run_mesh(protocol, parties, graph, **ways) for ways in WAYS.values()]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.result["centers"], runs[0].result["centers"])
        np.testing.assert_array_equal(run.result["rounds"], runs[0].result["rounds"])
    assert bool(reductions) == reduces


@pytest.mark.parametrize("inner_steps", [2, 5])
@pytest.mark.parametrize("loss", LOSSES)
def test_several_steps_to_a_round(
    monkeypatch: pytest.MonkeyPatch, loss: str, inner_steps: int
) -> None:
    parties = _parties("blobs", seed=1)
    start = InitialCenters(3, parties.rows[[0, 40, 70]])
    protocol = DGC(
        start, loss=LOSSES[loss], rho=5.0, max_rounds=20, tol=0.0, inner_steps=inner_steps
    )
    (plain, quick), _ = _both(monkeypatch, protocol, parties, {})
    _same(plain.result["centers"], quick.result["centers"], parties, protocol.loss)


@pytest.mark.parametrize("loss", ["k-means", "huber", "logistic", "k-means, mahalanobis"])
def test_momentum(monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    parties = _parties("blobs", seed=2)
    start = InitialCenters(3, parties.rows[[0, 40, 70]])
    protocol = DGC(start, loss=LOSSES[loss], rho=5.0, max_rounds=40, tol=0.0, solver="nesterov")
    (plain, quick), _ = _both(monkeypatch, protocol, parties, {})
    np.testing.assert_allclose(plain.result["centers"], quick.result["centers"], rtol=1e-9)


def test_kar_swenson(monkeypatch: pytest.MonkeyPatch, how: dict[str, object]) -> None:
    parties = _parties("blobs", seed=3)
    start = InitialCenters(3, parties.rows[[0, 40, 70]])
    protocol = KarSwenson(start, rho=5.0, max_rounds=60, tol=0.0)
    (plain, quick), _ = _both(monkeypatch, protocol, parties, how)
    _same(plain.result["centers"], quick.result["centers"], parties, protocol.loss)


@pytest.mark.parametrize("loss", ["k-means", "huber", "logistic"])
def test_users_stop_in_the_same_round_and_the_history_is_the_same(
    monkeypatch: pytest.MonkeyPatch, loss: str, how: dict[str, object]
) -> None:
    parties = _parties("blobs", seed=4)
    start = InitialCenters(3, parties.rows[[0, 40, 70]])
    protocol = DGC(start, loss=LOSSES[loss], rho=5.0, max_rounds=2000, tol=1e-5)
    (plain, quick), (expected, said) = _both(monkeypatch, protocol, parties, how)
    np.testing.assert_array_equal(plain.result["rounds"], quick.result["rounds"])
    assert not quick.result["running"].any()
    np.testing.assert_allclose(plain.result["centers"], quick.result["centers"], rtol=1e-9)
    _same_notes([expected, said], parties)


@pytest.mark.parametrize("protocol", [DGC, KarSwenson])
@pytest.mark.parametrize("data", ["blobs", "all equal"])
def test_who_is_alone_stops_in_the_same_round(
    monkeypatch: pytest.MonkeyPatch, data: str, protocol: type[DGC]
) -> None:
    table = _parties(data)
    parties = Parties.of([table.rows], weights=[table.weights])
    one = protocol(InitialCenters(3, parties.rows[[0, 40, 70]]), max_rounds=500, tol=1e-6)
    (plain, quick), notes = _both(monkeypatch, one, parties, {})
    np.testing.assert_array_equal(plain.result["rounds"], quick.result["rounds"])
    assert quick.result["rounds"] < 500
    _same(plain.result["centers"], quick.result["centers"], parties, one.loss)
    _same_notes(notes, parties)
