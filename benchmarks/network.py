"""Rounds per second on a network, against a bare Zenoh loop that sends the same bytes.

Both with mutual TLS on loopback and a process per party. The bare loop has Zenoh's configuration of
`unpooled` and no more: it puts the bytes, waits for those of the others, and counts. Ours is the
whole of it: policy, ledger, journal, seals, checks, and the algorithm.

- mesh, least: the bare loop with a digest and a line of what is sent, a seal for each neighbour, a
  record of what was heard and the mean of it, in as few calls as can be: what the promises cost
  before a line of `unpooled` has run.
- mesh: a ring of four peers that average what they hear, 80 kB a message.
- mesh, DGC: the same with distributed gradient clustering, 10 centres of 1,000 columns and 30 rows
  a peer: what the algorithm itself computes is in it.
- star: a coordinator that asks three parties for 80 kB, question after question.

Each repetition runs the bare loop and ours one after the other; what is reported is the ratio.

    python benchmarks/network.py [--runs 3] [--rounds 1000]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import numpy as np
import zenoh
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from unpooled.data.parties import Parties, PartyData
from unpooled.deploy import keys
from unpooled.graphs.reading import topology
from unpooled.messages.message import Ask, Post
from unpooled.messages.release import Release
from unpooled.network.identity import Identity, fingerprint
from unpooled.network.mesh import MeshPeer
from unpooled.network.node import Node
from unpooled.network.star_coordinator import StarCoordinator
from unpooled.network.star_kinds import COORDINATOR
from unpooled.network.star_party import StarParty
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.timing import Timing
from unpooled.network.zenoh import ZenohTransport
from unpooled.network.zenoh_config import Place, TlsFiles, configuration
from unpooled.privacy.policy import STUDY
from unpooled.protocols.mesh.base import Block, MeshProtocol, Peer
from unpooled.protocols.mesh.dgc import DGC
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters
from unpooled.protocols.star.base import Answer, Coordinator, StarProtocol, Step
from unpooled.runtime.party import PartyRuntime
from unpooled.runtime.peer import PeerRuntime
from unpooled.runtime.serving import serving
from unpooled.types import Body

NUMBERS = 10_000
PEERS = ("N0", "N1", "N2", "N3")
STAR = (COORDINATOR, "P0", "P1", "P2")
PLAN = b"benchmark".ljust(32)
WARM_UP = 20


def others(name: str) -> list[str]:
    """Whom this one talks to."""
    if name in PEERS:
        i = PEERS.index(name)
        return [PEERS[(i - 1) % 4], PEERS[(i + 1) % 4]]
    return list(STAR[1:]) if name == COORDINATOR else [COORDINATOR]


@dataclass(frozen=True)
class Echo(StarProtocol):
    """A coordinator that asks for as much as it sends."""

    questions: int
    name: ClassVar[str] = "echo"

    @property
    def releases(self) -> tuple[Release, ...]:
        return (Release("echo", ("x",), ("sums",), "numbers", shapes={"x": (NUMBERS,)}),)

    @property
    def asks(self) -> tuple[Release, ...]:
        return (Release("echo", ("x",), ("model",), "numbers", shapes={"x": (NUMBERS,)}),)

    @property
    def steps(self) -> Mapping[str, Step]:
        return {"echo": self.echo}

    def echo(self, data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
        """The same, plus one."""
        return {"x": body["x"] + 1.0}, {}

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        x = np.zeros(NUMBERS)
        for number in range(self.questions):
            if number == WARM_UP:
                began = time.perf_counter()
            replies = yield Ask("echo", {"x": x}, number)
            x = np.mean([reply["x"] for reply in replies.values()], axis=0)
        rate = (self.questions - WARM_UP) / (time.perf_counter() - began)
        return {"centers": np.zeros((1, 2)), "rate": np.array(rate)}


@dataclass(frozen=True)
class Average(MeshProtocol):
    """Peers that take the mean of what they and their neighbours say, again and again."""

    rounds: int
    name: ClassVar[str] = "average"

    @property
    def releases(self) -> tuple[Release, ...]:
        return (Release("x", ("x",), ("sums",), "numbers", shapes={"x": (NUMBERS,)}),)

    def peer(self, block: Block) -> Peer[Body]:
        x = np.full((len(block), NUMBERS), float(block.neighbourhood.users[0]))
        for number in range(self.rounds):
            heard = yield Post("x", number, {"x": x})
            x = (x + heard.neighbour_sum("x")) / (1.0 + heard.degrees[:, None])
        return {"x": x}


def place(name: str, ports: dict[str, int]) -> Place:
    """Its endpoint and its neighbours'; star parties only dial."""
    ends = {n: f"127.0.0.1:{port}" for n, port in ports.items() if n[0] != "P"}
    return Place(name, ends.get(name, ""), {other: ends.get(other, "") for other in others(name)})


def files(folder: Path, name: str) -> TlsFiles:
    """Where the keys are."""
    return TlsFiles(folder / f"{name}.key", folder / f"{name}.pem", folder / "ca.pem")


class Nothing:
    """What the bare loop does with its bytes."""

    def __init__(self) -> None:
        self._data = bytes(8 * NUMBERS)

    def said(self, number: int) -> bytes:
        """What everybody is told in this round."""
        return self._data

    def sealed(self, plain: bytes) -> bytes:
        """The same for one of them."""
        return plain

    def heard(self, boxes: list[bytes]) -> None:
        """What everybody said."""


class Least(Nothing):
    """What every message must go through if promises are kept, and no more than that."""

    def __init__(self, folder: Path) -> None:
        self._key = AESGCM(bytes(32))  # one key and one nonce for all: only its time matters here
        self._head = bytes(80)
        self._lines = (folder / "lines").open("wb", buffering=0)
        self._journal = (folder / "journal").open("wb", buffering=0)
        self._x = np.zeros(NUMBERS)

    def said(self, number: int) -> bytes:
        plain = self._x.tobytes()
        self._lines.write(f'{{"round": {number}, "{sha256(plain).hexdigest()}"}}\n'.encode())
        return plain

    def sealed(self, plain: bytes) -> bytes:
        return self._head + self._key.encrypt(self._head[:12], plain, self._head)

    def heard(self, boxes: list[bytes]) -> None:
        plains = [
            self._key.decrypt(self._head[:12], memoryview(box)[80:], box[:80]) for box in boxes
        ]
        os.writev(self._journal.fileno(), [self._head, *plains])
        if self._journal.tell() % 2**22 < 8 * NUMBERS:
            os.posix_fadvise(self._journal.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        one, other = (np.frombuffer(plain) for plain in plains)
        self._x = (self._x + (one + other)) / 3.0


def least(name: str, folder: Path, ports: dict[str, int], rounds: int) -> float:
    """Rounds per second of a mesh that does what must be done."""
    with tempfile.TemporaryDirectory() as tmp:
        return bare(name, folder, ports, rounds, Least(Path(tmp)))


def bare(
    name: str, folder: Path, ports: dict[str, int], rounds: int, work: Nothing | None = None
) -> float:
    """Rounds per second of a loop that puts and waits, and does nothing else."""
    work = work or Nothing()
    config = zenoh.Config.from_json5(
        json.dumps(configuration(place(name, ports), files(folder, name)))
    )
    session = zenoh.open(config)
    heard = {
        run: {
            n: session.declare_subscriber(
                f"unpooled/{run}/{n}/{name}", zenoh.handlers.FifoChannel(256)
            )
            for n in others(name)
        }
        for run in ("hello", "bare")
    }
    say = {
        run: [
            session.declare_publisher(
                f"unpooled/{run}/{name}/{n}",
                congestion_control=zenoh.CongestionControl.BLOCK,
                reliability=zenoh.Reliability.RELIABLE,
                express=True,
            )
            for n in others(name)
        ]
        for run in ("hello", "bare")
    }
    _meet(say["hello"], heard["hello"])
    answers = name[0] == "P"
    for number in range(rounds):
        if number == WARM_UP:
            began = time.perf_counter()
        if not answers:
            _tell(say["bare"], work, number)
        work.heard([own.recv().payload.to_bytes() for own in heard["bare"].values()])
        if answers:
            _tell(say["bare"], work, number)
    rate = (rounds - WARM_UP) / (time.perf_counter() - began)
    time.sleep(1.0)
    session.close()
    return rate


def _tell(publishers: list[Any], work: Nothing, number: int) -> None:
    plain = work.said(number)
    for publisher in publishers:
        publisher.put(work.sealed(plain))


def _meet(say: list[Any], heard: dict[str, Any]) -> None:
    """Says hello until everybody has said it."""
    missing = set(heard)
    end = None
    while end is None or time.monotonic() < end:
        for publisher in say:
            publisher.put(b"hello")
        for name, subscriber in heard.items():
            while subscriber.try_recv() is not None:
                missing.discard(name)
        if not missing and end is None:
            end = time.monotonic() + 0.5
        time.sleep(0.02)


def ours(
    name: str, folder: Path, ports: dict[str, int], rounds: int, *, dgc: bool = False
) -> float:
    """Rounds per second of the real thing."""
    prints = {
        n: fingerprint(keys.load_certificate(folder / f"{n}.pem").public_bytes(Encoding.DER))
        for n in (name, *others(name))
    }
    own = keys.load_certificate(folder / f"{name}.pem").public_bytes(Encoding.DER)
    me = Identity(name, own, keys.load_key(folder / f"{name}.key"))
    with tempfile.TemporaryDirectory() as tmp:
        state = StateDirectory(Path(tmp) / name, PLAN.hex(), name)
        transport = ZenohTransport(place(name, ports), files(folder, name))
        node = Node(me, {n: prints[n] for n in others(name)}, PLAN, state, transport)
        timing = Timing(20, 60)
        try:
            with serving():
                rate_of = partial(_mesh_rate, dgc=dgc) if name in PEERS else _star_rate
                return rate_of(name, node, state, timing, rounds)
        finally:
            node.close()


def _star_rate(name: str, node: Node, state: StateDirectory, timing: Timing, rounds: int) -> float:
    protocol = Echo(rounds)
    if name == COORDINATOR:
        run = StarCoordinator(protocol, STAR[1:], node, state, 0, timing, n_columns=2)
        result = run.run()
        run.terminate()
        return float(result["rate"])
    data = PartyData(name, np.random.default_rng(0).normal(size=(50, 2)), np.ones(50))
    party = StarParty(protocol, PartyRuntime(protocol, data, (0, 0), STUDY), node, state, timing)
    party.run()
    party.terminate()
    return 0.0


def _mesh_rate(
    name: str,
    node: Node,
    state: StateDirectory,
    timing: Timing,
    rounds: int,
    dgc: bool = False,
) -> float:
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(30, 1000)) for _ in PEERS]
    parties = Parties.of(tables, names=PEERS)
    protocol: MeshProtocol = Average(rounds)
    if dgc:
        start = InitialCenters(10, rng.normal(size=(10, 1000)))
        protocol = DGC(start, max_rounds=rounds, tol=0.0, step_size=0.1)
    number = np.array([PEERS.index(name)])
    ring = topology("ring", PEERS)
    block = Block.of(parties.select(number), ring, number, 0, STUDY)
    times: list[float] = []
    peer = MeshPeer(
        PeerRuntime(protocol, block, STUDY),
        PEERS,
        node,
        state,
        timing,
        lambda progress: times.append(time.perf_counter()),
    )
    peer.run()

    peer.terminate()
    return (len(times) - 1 - WARM_UP) / (times[-1] - times[WARM_UP])


def make_keys(folder: Path) -> None:
    """A certificate for everybody."""
    ca_key, ca = keys.new_ca("benchmark")
    (folder / "ca.pem").write_bytes(ca.public_bytes(Encoding.PEM))
    for name in (*PEERS, *STAR):
        key, _ = keys.new_request(name, ["127.0.0.1"])
        request = keys.Request(name, ("127.0.0.1",), key.public_key())
        certificate = keys.sign(request, ca, ca_key, 2)
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / f"{name}.key").write_bytes(secret)
        (folder / f"{name}.key").chmod(0o600)


def rate(what: str, names: tuple[str, ...], folder: Path, rounds: int, port: int) -> float:
    """Starts a process for each and returns what the first one measured."""
    command = [sys.executable, __file__, "--folder", str(folder), "--port", str(port)]
    processes = [
        subprocess.Popen(
            [*command, "--rounds", str(rounds), "--be", what, name],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    return float(outputs[0].split()[-1])


def main() -> None:
    """Compares, and prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--port", type=int, default=17600)
    parser.add_argument("--be", nargs=2)
    options = parser.parse_args()
    if options.be:
        what, name = options.be
        ports = {n: options.port + i for i, n in enumerate((*PEERS, *STAR))}
        work = {"bare": bare, "least": least, "ours": ours, "dgc": partial(ours, dgc=True)}[what]
        print(work(name, options.folder, ports, options.rounds))
        return
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp)
        make_keys(folder)
        port = options.port
        cases = (
            ("mesh, least", PEERS, "least"),
            ("mesh, ring of 4", PEERS, "ours"),
            ("mesh, DGC", PEERS, "dgc"),
            ("star, 1 + 3", STAR, "ours"),
        )
        for title, names, what in cases:
            ratios = []
            for run in range(options.runs):
                port += 20
                there = rate("bare", names, folder, options.rounds, port)
                here = rate(what, names, folder, options.rounds, port + 10)
                ratios.append(here / there)
                line = f"bare {there:.0f} rounds/s, {what} {here:.0f}: {here / there:.2f} of it"
                print(f"{title}, 80 kB, run {run}: {line}", flush=True)
            print(f"{title}: median {median(ratios):.2f}", flush=True)


if __name__ == "__main__":
    main()
