"""Parties with a valid certificate that do not keep to the rules, and state that was tampered with.

Nothing they send makes another party crash, hang or grow; it is refused, counted and logged, and
those who do keep to the rules get what they would have got without it.
"""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.network.hub import Hub
from tests.network.site import Authority, hash_of, identity_of, until
from tests.network.threads import Network
from tests.sentences import refuses
from unpooled.data.parties import Parties
from unpooled.errors import ProtocolError, QuorumLost, StateError
from unpooled.graphs.reading import topology
from unpooled.messages.codec import Limits, decode, encode
from unpooled.messages.message import Ask, Message, Post, Reply
from unpooled.network.handshake import HELLO
from unpooled.network.identity import Identity, fingerprint
from unpooled.network.link import Link, Received, Up
from unpooled.network.mesh import MeshPeer
from unpooled.network.node import Node, encode_text
from unpooled.network.star_kinds import COORDINATOR
from unpooled.network.star_party import _wrong_result
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.storage.journal import JOURNAL, Journal
from unpooled.network.storage.ledger_file import LEDGER, read_ledger
from unpooled.network.timing import Timing
from unpooled.network.zenoh import ZenohTransport
from unpooled.network.zenoh_config import Place
from unpooled.protocols.mesh.base import MeshProtocol
from unpooled.protocols.mesh.dgc import DGC
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters
from unpooled.protocols.prepare.kernel import GAMMA, MAP, SEED, Kernel
from unpooled.protocols.prepare.kernel_map import KernelMap
from unpooled.protocols.prepare.krylov import BlockKrylov
from unpooled.protocols.prepare.standardise import MEAN, SCALE, Standardise
from unpooled.protocols.prepare.then import Then
from unpooled.protocols.star.base import StarProtocol
from unpooled.protocols.star.federated import FederatedKMeans
from unpooled.protocols.star.one_shot import OneShotKMeans
from unpooled.runtime.party import PartyRuntime
from unpooled.simulate import run_mesh, run_star

NAMES = ("P1", "P2", "P3", "P4")
STAR = FederatedKMeans(OneShotKMeans(3, 3), max_rounds=3, tol=0.0)
MESH = DGC(InitialCenters(3, np.array([[1.0, 1.0], [4.0, 4.0], [8.0, 2.0]])), max_rounds=8, tol=0.0)
PLAN = hash_of("plan")
FLOOD = 10_000
LIMITS = Limits(max_bytes=2**16)
Tap = Callable[[Node, str, Message, int], None]
Log = pytest.LogCaptureFixture


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority.new(tmp_path_factory.mktemp("keys"))
    for name in (COORDINATOR, *NAMES, "stranger"):
        authority.admit(name)
    return authority


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
def make(
    authority: Authority, hub: Hub, tmp_path: Path, caplog: Log
) -> Iterator[Callable[..., Network]]:
    """Makes networks in memory."""
    made = []
    caplog.set_level(logging.WARNING, "unpooled.network")

    def network(protocol: StarProtocol | MeshProtocol, **more: Any) -> Network:
        parties = _parties()
        ring = topology("ring", parties.names) if isinstance(protocol, MeshProtocol) else None
        names = (COORDINATOR, *NAMES)
        identities = {name: identity_of(authority.folder, name) for name in names}
        made.append(
            Network(
                tmp_path / f"run{len(made)}",
                protocol,
                parties,
                hub.wire,
                identities,
                ring,
                limits=LIMITS,
                **{"plan": PLAN, "timing": Timing(20.0, 60.0), **more},
            )
        )
        return made[-1]

    yield network
    for one in made:
        one.close()


def _parties() -> Parties:
    rng = np.random.default_rng(2)
    corners = np.array([[1.0, 1.0], [4.0, 4.0], [8.0, 2.0]])
    own = [corners[np.arange(n) % 3] + rng.uniform(size=(n, 2)) for n in (30, 36, 42, 33)]
    return Parties.of(own, names=NAMES)


class Tapped(Node):
    """Sends what it is told to, and more."""

    tap: Tap | None = None

    def send(self, name: str, message: Message | bytes, exchange: int) -> bool:
        if self.tap is not None and self.up(name):
            said = decode(message) if isinstance(message, bytes) else message
            tap, self.tap = self.tap, None
            try:
                tap(self, name, said, exchange)
            finally:
                self.tap = tap
        return super().send(name, message, exchange)


def tapped(network: Network, name: str, tap: Tap) -> None:
    """Has one party of the network send more than it should."""
    plain = network.node

    def node(called: str, state: StateDirectory) -> Node:
        own = plain(called, state)
        if called == name:
            own.__class__ = Tapped
            own.tap = tap  # type: ignore[attr-defined]
        return own

    network.node = node  # type: ignore[method-assign]


def raw(node: Node, hub: Hub, name: str, data: bytes) -> None:
    """Sends bytes under the link's own key, past everything that seals."""
    runs = node._links[name].runs
    for run in runs:
        hub.put(f"unpooled/{run}/{node.me.name}/{name}", data)


def same_star(network: Network) -> None:
    """Everybody has what they would have had without the disturbance."""
    network.join(timeout=150)
    assert network.errors == {}
    expected = run_star(network.protocol, network.parties, seed=network.seed)  # type: ignore[arg-type]
    for name in network.names:
        np.testing.assert_array_equal(
            network.results[name]["centers"], expected.result["centers"], err_msg=name
        )
    assert network.traffic.bytes_up == expected.traffic.bytes_up


def same_mesh(network: Network) -> None:
    network.join(timeout=150)
    assert network.errors == {}
    assert network.topology is not None
    expected = run_mesh(
        network.protocol,  # type: ignore[arg-type]
        network.parties,
        network.topology,
        seed=network.seed,
    )
    for i, name in enumerate(network.names):
        np.testing.assert_array_equal(
            network.results[name]["centers"][0], expected.result["centers"][i], err_msg=name
        )


def malformed(message: Message) -> dict[str, bytes | Message]:
    """Things that look like the message, more or less."""
    make = type(message)
    key, value = next(iter(message.body.items()))
    others = {
        "not a number": np.full_like(value, np.nan),
        "infinite": np.full_like(value, -np.inf),
        "wrong shape": np.zeros((*value.shape, 2)),
        "wrong type": value.astype(np.float32),
        "no axes": np.zeros(()),
        "empty": np.zeros((0, 0)),
        "bits": np.zeros(value.shape, dtype=bool),
    }
    bodies = {what: {**message.body, key: other} for what, other in others.items()}
    bodies["missing"] = {k: v for k, v in message.body.items() if k != key}
    bodies["undeclared field"] = {**message.body, "row": np.zeros(2)}
    bodies["nothing"] = {}
    changed: dict[str, bytes | Message] = {}
    for what, body in bodies.items():
        changed[what] = make(kind=message.kind, body=body, round=message.round)
    for number in (-1, message.round + 1, 2**62, -(2**63)):
        body = dict(message.body)
        changed[f"round {number}"] = make(kind=message.kind, body=body, round=number)
    changed["undeclared kind"] = make(kind="rows", body=dict(message.body), round=message.round)
    for other in {Ask, Reply, Post} - {make}:
        changed[other.__name__] = other(kind=message.kind, body=message.body, round=message.round)
    whole = encode(message)
    changed["cut off"] = whole[:-1]
    changed["continued"] = whole + bytes(8)
    changed["no message"] = b"\x00" * 100
    changed["no bytes"] = b""
    return changed


ODD_NUMBERS = [
    np.array([], dtype=np.int64),
    np.array([-1]),
    np.array([2**62, 2**62, 1, 0]),
    np.array([-(2**63), 0, 0, 0]),
    np.array([0, 2**62, 0, 0]),
    np.array([np.nan, 0.0, 0.0, 0.0]),
    np.zeros((4, 4), dtype=np.int64),
]
CONTROLS = ("_run", "_ready", "_here", "_result", "_status", "_seen", "_nothing")


def control(*kinds: str) -> Iterator[Message]:
    """Messages between drivers with fields that make no sense."""
    for kind in kinds:
        yield Post(kind, -7, {})
        for numbers in ODD_NUMBERS:
            yield Post(kind, 2**62, {"place": numbers, "run": numbers, "why": numbers})
        yield Ask(kind, {"place": np.zeros(1000)}, 0, 3)
        yield Reply(kind, {}, 1)


# Against a coordinator


def test_malformed_answers_change_nothing(
    make: Callable[..., Network], hub: Hub, caplog: Log
) -> None:
    network = make(STAR)
    sent = []

    def tap(node: Node, name: str, message: Message, exchange: int) -> None:
        if isinstance(message, Reply):
            for what, other in malformed(message).items():
                node.send(name, other, exchange)
                sent.append(what)

    tapped(network, "P2", tap)
    network.start()
    same_star(network)
    refused = network.refused(COORDINATOR)
    assert refused["P2", "does not fit"] + refused["P2", "malformed"] == len(sent)
    assert {who for who, _ in refused} == {"P2"}
    assert "The coordinator refuses what P2 sent" in caplog.text
    assert "holds a NaN" in caplog.text


def test_control_messages_without_sense_change_nothing(make: Callable[..., Network]) -> None:
    network = make(STAR)
    done: set[int] = set()

    def tap(node: Node, name: str, message: Message, exchange: int) -> None:
        if exchange not in done:
            done.add(exchange)
            for odd in control(*CONTROLS):
                for number in (exchange, -1, -(2**63), 2**63 - 1):
                    node.send(name, odd, number)

    tapped(network, "P3", tap)
    network.start()
    same_star(network)
    assert {who for who, _ in network.refused(COORDINATOR)} == {"P3"}


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda body: {k: -np.abs(v) for k, v in body.items()}, id="negative"),
        pytest.param(lambda body: {k: 0 * v for k, v in body.items()}, id="zero"),
        pytest.param(lambda body: {k: 0 * v + 1e140 for k, v in body.items()}, id="huge"),
        pytest.param(lambda body: {k: 0 * v + 5e-324 for k, v in body.items()}, id="tiny"),
    ],
)
def test_answers_that_fit_but_cannot_be_end_in_a_result_or_a_sentence(
    make: Callable[..., Network], spoil: Callable[[Any], Any]
) -> None:
    network = make(STAR, timing=Timing(2.0, 4.0))
    send = Node.send

    def lie(node: Node, name: str, message: Message | bytes, exchange: int) -> bool:
        said = decode(message) if isinstance(message, bytes) else message
        if node.me.name == "P1" and isinstance(said, Reply):
            message = Reply(said.kind, spoil(said.body), said.round)
        return send(node, name, message, exchange)

    network.start()
    for name in network.names:
        network.roles[name].node.send = lie.__get__(network.roles[name].node)  # type: ignore[method-assign]
    network.join()
    error = network.errors.get(COORDINATOR)
    assert error is None or isinstance(error, ProtocolError | QuorumLost), repr(error)


# Bytes that are not of this link


def test_bytes_of_other_runs_parties_and_plans_are_refused(
    make: Callable[..., Network], authority: Authority, hub: Hub, caplog: Log
) -> None:
    first = make(STAR)
    first.start()
    same_star(first)
    old = [(key, data) for key, data in hub.carried if key.endswith("/P2/" + COORDINATOR)]
    assert len(old) > 5
    second = make(STAR)
    keys = identity_of(authority.folder, "stranger")

    def tap(node: Node, name: str, message: Message, exchange: int) -> None:
        mine = f"/{node.me.name}/{name}"
        again = [data for key, data in hub.carried if key.endswith(mine)]
        for _, data in old:  # of the last run, hellos too
            raw(node, hub, name, data)
        for data in again[-4:]:  # of this one, once more
            raw(node, hub, name, data)
        sealed = again[-1]
        for place in (5, 40, 60, len(sealed) - 1):  # run, plan, incarnation, seal
            changed = bytearray(sealed)
            changed[place] ^= 1
            raw(node, hub, name, bytes(changed))
        for data in (b"", b"UNL1", sealed[:50], sealed[:-1], b"UNL1" + bytes(10**5), bytes(300)):
            raw(node, hub, name, data)
        for identity, plan in (
            (Identity("P2", keys.certificate, keys.key), PLAN),
            (node.me, hash_of("another plan")),
        ):
            other = Link(identity, name, plan, "", 100)
            hub.put(f"unpooled/{HELLO}{mine}", other.hello)
        hub.put(f"unpooled/{HELLO}{mine}", Link(node.me, name, PLAN, "", 0).hello)
        for kind in ("accept", "hello", "farewell"):
            hub.put(f"unpooled/{HELLO}{mine}", encode(Post(kind, 1, {})))

    tapped(second, "P2", tap)
    second.start()
    same_star(second)
    refused = second.refused(COORDINATOR)
    assert {who for who, _ in refused} == {"P2"}
    assert {why for _, why in refused} == {
        "another run",
        "another plan",
        "another certificate",
        "older incarnation",
        "replayed",
        "bad seal",
        "malformed",
        "oversized",
        "out of place",
    }
    for words_ in ("compare the two files", "a certificate with", "a message of another run"):
        assert words_ in caplog.text


def test_a_greeting_in_anothers_name_does_not_end_a_link(
    make: Callable[..., Network], hub: Hub
) -> None:
    """Certificates are public: whoever could speak under another's key could show one."""
    network = make(STAR)
    certificate = network.identities["P1"].certificate
    stolen = Identity("P1", certificate, network.identities["P2"].key)
    print_ = fingerprint(network.identities[COORDINATOR].certificate)

    def tap(node: Node, name: str, message: Message, exchange: int) -> None:
        forged = Link(stolen, name, PLAN, print_, 50)
        hub.put(f"unpooled/{HELLO}/P1/{name}", forged.hello)
        theirs = [data for key, data in hub.carried if key == f"unpooled/{HELLO}/{name}/P1"]
        for data in theirs[-2:]:
            forged.receive(data, monotonic())
        for _, data in forged.outbox:
            hub.put(f"unpooled/{HELLO}/P1/{name}", data)

    tapped(network, "P2", tap)
    network.start()
    same_star(network)
    assert network.refused(COORDINATOR).get(("P1", "bad signature"), 0) > 0
    assert json.loads((network.folder / COORDINATOR / "known").read_bytes())["P1"][0] == 1


# Floods


def test_a_flood_is_counted_logged_sparsely_and_keeps_nothing(
    make: Callable[..., Network], hub: Hub, caplog: Log
) -> None:
    network = make(STAR)
    flooded = []

    def tap(node: Node, name: str, message: Message, exchange: int) -> None:
        if isinstance(message, Reply) and not flooded:
            flooded.append(True)
            for _ in range(FLOOD):
                raw(node, hub, name, b"UNL1" + bytes(200))

    tapped(network, "P4", tap)
    network.start()
    same_star(network)
    assert network.refused(COORDINATOR) == {("P4", "another run"): FLOOD}
    assert len(caplog.records) < 20
    node = network.roles[COORDINATOR].node
    assert len(node._events) <= 1
    assert len(node._listening) <= 3 * len(NAMES)
    assert all(not link.outbox for link in node._links.values())


def test_sealed_floods_change_nothing(make: Callable[..., Network], hub: Hub, caplog: Log) -> None:
    network = make(STAR)
    flooded = []

    def tap(node: Node, name: str, message: Message, exchange: int) -> None:
        if isinstance(message, Reply) and not flooded:
            flooded.append(True)
            for i in range(FLOOD):
                node.send(name, Reply(message.kind, {}, message.round + i % 2), exchange + i)

    tapped(network, "P4", tap)
    network.start()
    same_star(network)
    assert network.refused(COORDINATOR) == {("P4", "does not fit"): FLOOD}
    assert len(caplog.records) < 20


def test_a_flood_of_greetings_leaves_nothing_behind(
    make: Callable[..., Network], authority: Authority, hub: Hub, tmp_path: Path
) -> None:
    """Each makes a key and a place to listen at, of which only the last one is kept."""
    network = make(STAR)
    me = identity_of(authority.folder, "P1")
    network.start(COORDINATOR)
    node = network.roles[COORDINATOR].node
    for i in range(FLOOD // 10):
        hello = Link(me, COORDINATOR, PLAN, "", 1 + i).hello
        hub.put(f"unpooled/{HELLO}/P1/{COORDINATOR}", hello)
    sent = f"unpooled/{HELLO}/{COORDINATOR}/P1"
    answers = 2 * (FLOOD // 10)  # hello and accept
    assert until(lambda: sum(key == sent for key, _ in hub.carried[:]) >= answers, 120)
    assert len(node._listening) <= len(NAMES) + 2
    assert not node.up("P1")
    network.start(*NAMES)
    same_star(network)


def test_nobody_is_kept_from_keeping_time_by_a_flood(hub: Hub, tmp_path: Path) -> None:
    """What is refused does not put off the end of a wait."""
    state = StateDirectory(tmp_path / "A", PLAN.hex(), "A")
    wire = hub.wire("A")
    node = Node(Identity("A"), {"B": fingerprint(b"")}, PLAN, state, wire)
    endless = wire.next

    def flood(timeout: float, expected: str | None = None) -> Any:
        hub.put(f"unpooled/{HELLO}/B/A", b"nothing")
        return endless(0.0)

    wire.next = flood  # type: ignore[method-assign]
    began = monotonic()
    assert node.poll(monotonic() + 0.2) is None
    assert monotonic() - began < 20.0
    assert node.refused["B", "malformed"] > 1
    state.close()


class Payload(bytes):
    """As Zenoh hands it over."""

    def to_bytes(self) -> bytes:  # type: ignore[override]
        return bytes(self)


def test_greetings_that_nobody_looks_at_are_bounded() -> None:
    transport = ZenohTransport(Place("A", "", {"B": ""}), None)
    key = f"unpooled/{HELLO}/B/A"
    try:
        for _ in range(FLOOD):
            transport._greeted(SimpleNamespace(payload=Payload(10), key_expr=key))
        assert transport._inbox.qsize() <= 1024
        while transport.next(0.0) is not None:
            pass
        transport._greeted(SimpleNamespace(payload=Payload(10**6), key_expr=key))
        assert transport.next(0.0) is None
    finally:
        transport.close()


# A coordinator that does not keep to the rules


class Intruder:
    """Somebody with a valid certificate and intentions of its own."""

    def __init__(self, network: Network, name: str) -> None:
        self.node = network.node(name, network.state(name))
        self.heard: list[Received] = []

    def meet(self, name: str) -> None:
        """Waits for the link."""
        end = monotonic() + 60.0
        while not self.node.up(name):
            assert monotonic() < end
            self.node.poll(monotonic() + 0.1)

    def say(self, name: str, message: Message | bytes, exchange: int = 0) -> None:
        """Sends."""
        assert self.node.send(name, message, exchange)

    def hear(self, seconds: float = 0.3) -> list[Message]:
        """What comes back before it is quiet."""
        said = []
        while (event := self.node.poll(monotonic() + seconds)) is not None:
            if isinstance(event, Received):
                said.append(event.message)
        return said

    def answer(self, name: str, message: Message | bytes, exchange: int = 0) -> Message:
        """The next that comes back."""
        self.say(name, message, exchange)
        end = monotonic() + 60.0
        while monotonic() < end:
            event = self.node.poll(end)
            if isinstance(event, Received):
                return event.message
        raise AssertionError(f"{name} does not answer")


RUN = Post("_run", 0, {"run": np.arange(16, dtype=np.uint8)})


@pytest.fixture
def victim(make: Callable[..., Network]) -> Iterator[tuple[Network, Intruder]]:
    """A party that has met a coordinator, which is none."""
    network = make(STAR)
    network.start("P1")
    coordinator = Intruder(network, COORDINATOR)
    coordinator.meet("P1")
    assert coordinator.answer("P1", RUN).kind == "_ready"
    yield network, coordinator
    coordinator.say("P1", Post("_leaving", 0, {"why": encode_text("it is over")}))
    network.join()


def first_ask(network: Network) -> Ask:
    """What a coordinator would ask first, and what it would get."""
    assert isinstance(network.protocol, StarProtocol)
    asked = network.protocol.coordinator(np.random.default_rng([5, 4])).send(None)  # type: ignore[arg-type]
    assert isinstance(asked, Ask)
    return asked


def refused_by(network: Network, name: str = "P1") -> int:
    return sum(network.refused(name).values())


def test_a_question_is_answered_once_whatever_it_says(
    victim: tuple[Network, Intruder], caplog: Log
) -> None:
    network, coordinator = victim
    ask = first_ask(network)
    site = PartyRuntime(STAR, network.parties[0], (network.seed, 0), network.policy)
    expected = site.answer(ask, 0)
    assert expected is not None
    reply = coordinator.answer("P1", ask)
    assert encode(reply) == encode(expected)
    assert encode(coordinator.answer("P1", ask)) == encode(reply)
    centers = Ask("lloyd" if "lloyd" in STAR.steps else list(STAR.steps)[-1], _lloyd_body(), 1)
    counted = coordinator.answer("P1", centers, 1)
    assert isinstance(counted, Reply)
    shifted = {name: value + 1e-3 for name, value in centers.body.items()}
    refusal = coordinator.answer("P1", Ask(centers.kind, shifted, centers.round), 1)
    assert refusal.kind == "_refusal"
    assert "has answered" in refusal.body["why"].tobytes().decode()
    assert coordinator.answer("P1", ask).kind == "_refusal"  # only its last answer is repeated
    assert encode(coordinator.answer("P1", centers, 1)) == encode(counted)
    lines = list(read_ledger(network.folder / "P1" / LEDGER))
    assert sum("refused" in line for line in lines) == 2
    assert [line.get("again", False) for line in lines if "digest" in line] == [
        False,
        True,
        False,
        True,
    ]
    assert refused_by(network) == 2
    assert "has answered" in caplog.text


def _lloyd_body() -> dict[str, np.ndarray]:
    (release,) = (ask for ask in STAR.asks if ask.kind == list(STAR.steps)[-1])
    assert tuple(release.fields) == ("centers",)
    return {"centers": np.array([[1.0, 1.0], [4.0, 4.0], [8.0, 2.0]])}


def test_questions_that_make_no_sense_are_not_answered(
    victim: tuple[Network, Intruder], caplog: Log
) -> None:
    network, coordinator = victim
    ask = Ask(list(STAR.steps)[-1], _lloyd_body(), 1)
    for what, other in malformed(ask).items():
        if what not in ("round 2", f"round {2**62}"):  # these two could be
            coordinator.say("P1", other, 0)
    for message in control(*(kind for kind in CONTROLS if kind != "_here")):
        coordinator.say("P1", message, -1)
    said = coordinator.hear(1.0)
    assert {message.kind for message in said} <= {"_refusal", "_ready"}
    assert not any(isinstance(message, Reply) for message in said)
    assert refused_by(network) > 20
    assert network.refused("P1")[COORDINATOR, "malformed"] >= 4
    reply = coordinator.answer("P1", first_ask(network))
    assert isinstance(reply, Reply)
    assert (network.folder / "P1" / "run").stat().st_size == 16


@pytest.mark.parametrize(
    "result",
    [
        {"centers": np.full((3, 2), np.nan)},
        {"centers": np.zeros((3, 5))},
        {"centers": np.zeros(2)},
        {"centers": np.zeros((0, 2))},
        {"centers": np.zeros((3, 2), dtype=np.float32)},
        {"mean": np.zeros(2)},
        {"centers": np.zeros((3, 2)), "mean": np.zeros(3), "scale": np.ones(2)},
        {"centers": np.zeros((3, 2)), "mean": np.zeros(2), "scale": np.zeros(2)},
        {"centers": np.zeros((3, 2)), "rows": np.zeros((9, 2))},
    ],
    ids=["nan", "columns", "axes", "none", "type", "other", "mean", "scale", "undeclared"],
)
def test_a_result_that_cannot_be_one_is_not_taken(
    victim: tuple[Network, Intruder], result: dict[str, np.ndarray]
) -> None:
    network, coordinator = victim
    coordinator.say("P1", Post("_result", 0, result))
    assert isinstance(coordinator.answer("P1", first_ask(network)), Reply)
    assert network.refused("P1") == {(COORDINATOR, "does not fit"): 1}
    assert network.results == {}


def test_a_result_that_rows_cannot_be_embedded_by_is_wrong() -> None:
    inner = OneShotKMeans(3, 3)
    scaled = {"centers": np.zeros((3, 2)), MEAN: np.zeros(2), SCALE: np.ones(2)}
    assert _wrong_result(Then(Standardise(), inner), scaled, 2) is None
    for other in ({SCALE: np.array([1.0, 0.0])}, {SCALE: -np.ones(2)}, {MEAN: np.zeros(3)}):
        assert _wrong_result(Then(Standardise(), inner), {**scaled, **other}, 2)
    kernel = Kernel("gaussian", 6)
    told = {GAMMA: np.ones(1), SEED: np.zeros(1, np.int64), MAP: np.zeros((6, 2))}
    protocol = Then(KernelMap(kernel, None, BlockKrylov(kernel, 2, 3), 2), inner)
    known = {"centers": np.zeros((3, 2)), **told}
    assert _wrong_result(protocol, known, 2) is None
    for other in ({GAMMA: np.zeros(1)}, {SEED: -np.ones(1, np.int64)}, {MAP: np.zeros((5, 2))}):
        assert _wrong_result(protocol, {**known, **other}, 2)


def test_another_run_of_a_plan_gets_no_answers(victim: tuple[Network, Intruder]) -> None:
    """Answers to both could be subtracted from each other."""
    network, coordinator = victim
    assert isinstance(coordinator.answer("P1", first_ask(network)), Reply)
    other = Post("_run", 0, {"run": np.arange(1, 17, dtype=np.uint8)})
    assert coordinator.answer("P1", other).kind == "_refusal"
    coordinator.hear()  # that it leaves
    network.join("P1")
    assert isinstance(network.errors["P1"], StateError)


def test_a_flood_of_questions_is_survived(victim: tuple[Network, Intruder], caplog: Log) -> None:
    network, coordinator = victim
    for _ in range(FLOOD):
        coordinator.say("P1", Ask("rows", {}, 0))
    assert until(lambda: refused_by(network) >= FLOOD, 120)
    assert len(caplog.records) < 20
    assert isinstance(coordinator.answer("P1", first_ask(network)), Reply)


# A peer that does not keep to the rules


def test_malformed_posts_change_nothing(
    make: Callable[..., Network], hub: Hub, caplog: Log
) -> None:
    network = make(MESH)
    done: set[int] = set()

    def tap(node: Node, name: str, message: Message, exchange: int) -> None:
        if not message.kind.startswith("_") and exchange in (0, 1, 4) and exchange not in done:
            done.add(exchange)
            for number in (exchange, exchange - 1):  # not ahead: that would be believed
                for other in malformed(message).values():
                    # Nor without a field: a neighbour may have nothing to say.
                    if isinstance(other, bytes) or other.body:
                        node.send(name, other, number)
            for number in (-1, -(2**63), 10**9, 2**63 - 1):
                node.send(name, message, number)
            raw(node, hub, name, b"UNL1" + bytes(300))

    tapped(network, "P2", tap)
    network.start()
    same_mesh(network)
    refused = network.refused("P1") | network.refused("P3")
    assert {who for who, _ in refused} == {"P2"}
    assert {why for _, why in refused} == {
        "does not fit",
        "malformed",
        "undeclared",
        "out of round",
        "another run",
    }
    assert all(len(peer.neighbours["P2"].posts) <= 3 for peer in neighbours_of(network, "P2"))
    assert network.refused("P4") == {}
    assert "refuses what P2 sent in exchange" in caplog.text


def neighbours_of(network: Network, name: str) -> list[MeshPeer]:
    return [
        role
        for role in network.roles.values()
        if isinstance(role, MeshPeer) and name in role.neighbours
    ]


def test_words_between_peers_that_make_no_sense_change_nothing(
    make: Callable[..., Network],
) -> None:
    network = make(MESH)
    done: set[int] = set()

    def tap(node: Node, name: str, message: Message, exchange: int) -> None:
        if exchange not in done:
            done.add(exchange)
            for odd in control("_status", "_run", "_result", "_nothing"):
                node.send(name, odd, exchange)
            for last in (-2, 10**9, 2**62, -(2**63)):
                node.send(name, Post("_bye", 0, {"place": np.array([last, -1])}), exchange)
            bad = {"place": np.array([exchange, -1]), "words": np.arange(50, dtype=np.uint8)}
            node.send(name, Post("_bye", 0, bad), exchange)

    tapped(network, "P2", tap)
    network.start()
    same_mesh(network)
    for name in ("P1", "P3"):
        assert {who for who, _ in network.refused(name)} <= {"P2"}
    assert sum(map(len, (network.refused(name) for name in ("P1", "P3")))) > 0


def test_floods_between_peers_change_nothing(
    make: Callable[..., Network], hub: Hub, caplog: Log
) -> None:
    network = make(MESH)
    done: set[str] = set()

    def tap(node: Node, name: str, message: Message, exchange: int) -> None:
        if not message.kind.startswith("_") and name not in done:
            done.add(name)
            nothing = np.array([exchange, exchange - 1, 0, 0])
            for i in range(FLOOD // 4):
                raw(node, hub, name, b"UNL1" + bytes(300))
                node.send(name, Post("rows", i, {}), exchange)
                node.send(name, Post(message.kind, i, {"row": np.zeros(2)}), exchange - i % 2)
                node.send(name, Post("_status", 0, {"place": nothing}), exchange)

    tapped(network, "P2", tap)
    network.start()
    same_mesh(network)
    for peer in neighbours_of(network, "P2"):
        assert len(peer.neighbours["P2"].posts) <= 3
        assert len(peer._posts) <= 3
        lines = list(read_ledger(network.folder / peer.name / LEDGER))
        assert len(lines) < 1000  # not one for every time it was asked where it is
    assert len(caplog.records) < 150


def test_one_who_says_that_it_has_nothing_to_say_is_there_and_not_heard(
    make: Callable[..., Network],
) -> None:
    network = make(MESH)

    def tap(node: Node, name: str, message: Message, exchange: int) -> None:
        if not message.kind.startswith("_"):
            node.send(name, Post(message.kind, message.round, {}), exchange)

    tapped(network, "P2", tap)
    network.start()
    network.join(timeout=150)
    assert network.errors == {}
    for name in ("P1", "P3"):
        assert network.refused(name) == {}
        assert network.roles[name].participation["not_heard"] == {}  # type: ignore[union-attr]
    table = network.traffic.table
    assert table["bytes_down"].tolist() == [
        b // 2 if i in (0, 2) else b for i, b in enumerate(table["bytes_up"])
    ]


def test_one_who_says_that_all_is_over_is_believed_and_it_shows(
    make: Callable[..., Network],
) -> None:
    """A neighbour may claim to be far ahead: those who believe it sleep, end, and say so."""
    network = make(MESH, timing=Timing(1.0, 3.0))
    network.start("P1", "P3", "P4")
    hostile = Intruder(network, "P2")
    for name in ("P1", "P3"):
        hostile.meet(name)
        place = np.array([10**9 - 1, -1, 0, 0])
        hostile.say(name, Post("_status", 0, {"place": place}), 0)
    network.join(timeout=120)
    assert network.errors == {}
    for name in ("P1", "P3", "P4"):
        assert np.isfinite(network.results[name]["centers"]).all()
    asleep = [role.participation["asleep"] for role in neighbours_of(network, "P2")]
    assert all(asleep)


# State that was tampered with


def test_everything_on_disk_is_for_its_owner_alone(make: Callable[..., Network]) -> None:
    network = make(STAR)
    network.start()
    same_star(network)
    found = [path for path in network.folder.rglob("*") if path.is_file()]
    assert {path.name for path in found} >= {LEDGER, JOURNAL, "known", "memory", "run", "lock"}
    for path in found:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    for folder in network.folder.iterdir():
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder


def test_an_older_process_is_refused_and_a_newer_one_is_not(
    authority: Authority, hub: Hub, tmp_path: Path
) -> None:
    me, other = (identity_of(authority.folder, name) for name in ("P1", "P2"))
    prints = {name: fingerprint(who.certificate) for name, who in (("P1", me), ("P2", other))}

    def node(who: Identity, folder: str) -> tuple[Node, StateDirectory]:
        state = StateDirectory(tmp_path / folder, PLAN.hex(), who.name)
        others = {name: print_ for name, print_ in prints.items() if name != who.name}
        return Node(who, others, PLAN, state, hub.wire(who.name)), state

    def meet(a: Node, b: Node, seconds: float) -> int:
        ups, end = 0, monotonic() + seconds
        while monotonic() < end and not ups:
            ups += isinstance(a.poll(monotonic() + 0.01), Up)
            b.poll(monotonic() + 0.01)
        return ups

    one, state = node(me, "P1")
    for number in (1, 2):  # the second process goes on in the first one's directory
        two, mine = node(other, "P2")
        assert mine.incarnation == number
        assert meet(one, two, 60.0) == 1
        two.close()
        mine.close()
    copy, mine = node(other, "copy")  # starts counting anew
    assert meet(one, copy, 1.0) == 0
    assert one.refused["P2", "older incarnation"] > 0
    one.close()
    state.close()
    one, state = node(me, "P1")  # remembers it in its next process too
    assert meet(one, copy, 1.0) == 0
    assert one.refused["P2", "older incarnation"] > 0
    for done in (state, mine):
        done.close()
    one.close()
    copy.close()


def test_a_journal_that_does_not_fit_is_refused(make: Callable[..., Network]) -> None:
    network = make(MESH)
    network.start()
    same_mesh(network)
    network.close()
    path = network.folder / "P1" / JOURNAL
    journal = Journal(path)
    fourth = journal.records[3]
    journal.close()
    path.unlink()
    journal = Journal(path)
    journal.append(*fourth)
    journal.close()
    again = network.role("P1")
    refuses(again.run, "has exchange 3 where 0 is due", StateError)
    again.close()
    again.node.close()
