"""A network on one machine: an authority, keys, plans, data, and the real programs over TLS."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import unpooled
from unpooled.data.parties import Parties
from unpooled.deploy import keys
from unpooled.network.identity import Identity, fingerprint
from unpooled.network.star_kinds import COORDINATOR
from unpooled.network.zenoh_config import TlsFiles

HOST = "127.0.0.1"
COLUMNS = ("x", "y")
TIMEOUT = 240.0
"""Seconds after which a program that should have ended is given up: other work may be going on."""
STUDY = '[policy]\nname = "study"\n'
"""A party's own file that lets everything out."""


@dataclass(frozen=True)
class Authority:
    """Signs certificates; all files are in one folder."""

    folder: Path
    certificate: x509.Certificate
    key: keys.Key

    @classmethod
    def new(cls, folder: Path, name: str = "test CA") -> Authority:
        """A new one."""
        folder.mkdir(parents=True, exist_ok=True)
        key, certificate = keys.new_ca(name)
        (folder / "ca.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
        return cls(folder, certificate, key)

    def admit(self, name: str, folder: Path | None = None, hosts: Sequence[str] = (HOST,)) -> str:
        """Makes NAME.key and NAME.pem, with ca.pem beside them; the fingerprint."""
        folder = folder or self.folder
        folder.mkdir(parents=True, exist_ok=True)
        key, request = keys.new_request(name, hosts)
        asked = keys.Request(name, keys.hosts_of(request), key.public_key())
        certificate = keys.sign(asked, self.certificate, self.key, 2)
        secret = folder / f"{name}.key"
        secret.touch(mode=0o600)
        secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
        (folder / "ca.pem").write_bytes(self.certificate.public_bytes(Encoding.PEM))
        return fingerprint(certificate.public_bytes(Encoding.DER))


def files_of(folder: Path, name: str) -> TlsFiles:
    """What the transport reads."""
    return TlsFiles(folder / f"{name}.key", folder / f"{name}.pem", folder / "ca.pem")


def identity_of(folder: Path, name: str, called: str = "") -> Identity:
    """Who a party is, or says it is."""
    files = files_of(folder, name)
    der = keys.load_certificate(files.certificate).public_bytes(Encoding.DER)
    return Identity(called or name, der, keys.load_key(files.key))


def free_endpoints(n: int) -> list[str]:
    """Places where nothing listens now."""
    sockets = [socket.socket() for _ in range(n)]
    try:
        for one in sockets:
            one.bind((HOST, 0))
        return [f"{HOST}:{one.getsockname()[1]}" for one in sockets]
    finally:
        for one in sockets:
            one.close()


def ring_of(names: Sequence[str]) -> list[list[str]]:
    """Everybody with the next one."""
    return [[a, b] for a, b in zip(names, [*names[1:], names[0]], strict=True)]


def tables(names: Iterable[str], n_rows: int = 60) -> dict[str, np.ndarray]:
    """Three clusters in two columns of unlike scale, in unlike parts at each party."""
    rng = np.random.default_rng(11)
    corners = np.array([[1.0, 20.0], [5.0, 60.0], [9.0, 30.0]])
    own = {}
    for i, name in enumerate(names):
        n = n_rows + 5 * i
        which = rng.permutation(np.arange(n) % 3)
        own[name] = corners[which] + rng.uniform(size=(n, 2)) * (1.0, 8.0)
    return own


def write_plan(path: Path, content: Mapping[str, Any]) -> Path:
    """The plan as TOML, with the releases that its method asks for."""
    known = dict(content)
    known.setdefault("columns", list(COLUMNS))
    if "releases" not in known:
        known["releases"] = releases(known)
    plain = {key: value for key, value in known.items() if not isinstance(value, dict)}
    lines = [f"{key} = {json.dumps(value)}" for key, value in plain.items()]
    for key in ("parameters", "coordinator"):
        if key in known:
            lines.append(f"[{key}]")
            lines += [f"{name} = {json.dumps(value)}" for name, value in known[key].items()]
    for key in ("parties", "peers"):
        for name, table in known.get(key, {}).items():
            lines.append(f"[{key}.{name}]")
            lines += [f"{word} = {json.dumps(value)}" for word, value in table.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def releases(content: Mapping[str, Any]) -> list[str]:
    """The kinds of messages that leave parties in a plan."""
    names = list(content.get("parties") or content["peers"])
    nobody = Parties.of([np.empty((0, len(content["columns"])))] * len(names), names=names)
    model = getattr(unpooled, content["method"])(**content.get("parameters", {}))
    kinds = [release.kind for release in model.planned(nobody).releases]
    return (["moments"] if content.get("standardise") else []) + kinds


@dataclass
class Program:
    """A process with its output in files."""

    name: str
    process: subprocess.Popen[bytes]
    folder: Path
    """Its results."""
    stdout: Path
    stderr: Path

    @property
    def events(self) -> list[dict[str, Any]]:
        """What it has shown so far."""
        lines = self.stdout.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    @property
    def warnings(self) -> str:
        """What it has warned of so far."""
        return "\n".join(event["text"] for event in self.events if event["event"] == "warning")

    @property
    def said(self) -> str:
        """Everything it wrote, for the eyes of whoever reads a failure."""
        return f"--- {self.name}\n{self.stdout.read_text()}{self.stderr.read_text()}"

    def labels(self) -> np.ndarray:
        """From ``labels.csv``."""
        header, *lines = (self.folder / "labels.csv").read_text().split()
        assert header == "label"
        return np.array([int(line) for line in lines])

    def model(self, file: str = "model.unpooled") -> Any:
        """The saved estimator."""
        return unpooled.load(self.folder / file)

    def centers(self) -> np.ndarray:
        """From ``centers.csv``."""
        return np.loadtxt(self.folder / "centers.csv", delimiter=",", skiprows=1, ndmin=2)[:, 1:]

    def manifest(self) -> dict[str, Any]:
        """From ``manifest.json``."""
        content: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text())
        return content


@dataclass
class Site:
    """The programs of one plan."""

    folder: Path
    plan: Path
    data: Mapping[str, np.ndarray]
    star: bool
    keys: Path
    own: str = ""
    beside: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    """Further columns of parties' files, such as names of rows."""
    programs: dict[str, Program] = field(default_factory=dict)

    def start(self, name: str, *more: str, plan: Path | None = None) -> Program:
        """Starts the coordinator, a party or a peer."""
        if name == COORDINATOR:
            words = ["coordinator", str(plan or self.plan)]
        else:
            data = self.folder / f"{name}.npz"
            np.savez(data, X=self.data[name], **self.beside.get(name, {}))
            words = ["party" if self.star else "peer", str(plan or self.plan), "--name", name]
            words += ["--data", str(data)]
            own = self.folder / f"{name}.toml"
            own.write_text(self.own.replace("NAME", name))
            words += ["--own", str(own)]
        to = self.folder / f"{name}.run"
        out, err = self.folder / f"{name}.out", self.folder / f"{name}.err"
        command = [sys.executable, "-m", "unpooled.cli", *words]
        command += ["--keys", str(self.keys), "--to", str(to), *more]
        environment = {**os.environ, "PYTHONWARNINGS": "error", "OMP_NUM_THREADS": "1"}
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(command, stdout=stdout, stderr=stderr, env=environment)
        self.programs[name] = Program(name, process, to, out, err)
        return self.programs[name]

    def start_all(self) -> None:
        """Starts everybody."""
        for name in ([COORDINATOR] if self.star else []) + list(self.data):
            self.start(name)

    def finish(self, *names: str, timeout: float = TIMEOUT) -> None:
        """Waits until these, or all, have ended well."""
        end = monotonic() + timeout
        wanted = [self.programs[name] for name in names or self.programs]
        for program in wanted:
            try:
                code = program.process.wait(max(0.1, end - monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"{program.name} has not ended.\n{self.said}") from None
            assert code == 0, f"{program.name} ended with {code}.\n{self.said}"

    @property
    def said(self) -> str:
        """Everything that all of them wrote."""
        return "\n".join(program.said for program in self.programs.values())

    def stop(self) -> None:
        """Ends all that still run."""
        for program in self.programs.values():
            if program.process.poll() is None:
                program.process.kill()
            program.process.wait()


def until(condition: Any, timeout: float = 60.0, pause: float = 0.05) -> bool:
    """Waits for something to become true; whether it did."""
    end = monotonic() + timeout
    while not condition():
        if monotonic() > end:
            return False
        sleep(pause)
    return True


@contextmanager
def star(
    folder: Path,
    authority: Authority,
    data: Mapping[str, np.ndarray],
    own: str = "",
    **content: Any,
) -> Iterator[Site]:
    """A plan with a coordinator and the keys for it; nothing is started yet."""
    (endpoint,) = free_endpoints(1)
    folder.mkdir(exist_ok=True)
    plan = write_plan(
        folder / "plan.toml",
        {
            **content,
            "coordinator": {
                "endpoint": endpoint,
                "fingerprint": admitted(authority, COORDINATOR),
            },
            "parties": {name: {"fingerprint": admitted(authority, name)} for name in data},
        },
    )
    site = Site(folder, plan, data, True, authority.folder, own)
    try:
        yield site
    finally:
        site.stop()


@contextmanager
def mesh(
    folder: Path,
    authority: Authority,
    data: Mapping[str, np.ndarray],
    own: str = "",
    **content: Any,
) -> Iterator[Site]:
    """A plan for peers on a ring and the keys for it; nothing is started yet."""
    folder.mkdir(exist_ok=True)
    peers = {
        name: {"endpoint": endpoint, "fingerprint": admitted(authority, name)}
        for name, endpoint in zip(data, free_endpoints(len(data)), strict=True)
    }
    plan = write_plan(
        folder / "plan.toml", {**content, "edges": ring_of(list(data)), "peers": peers}
    )
    site = Site(folder, plan, data, False, authority.folder, own)
    try:
        yield site
    finally:
        site.stop()


def admitted(authority: Authority, name: str) -> str:
    """The fingerprint of a party's certificate, made if it has none yet."""
    path = authority.folder / f"{name}.pem"
    if not path.exists():
        return authority.admit(name)
    return fingerprint(keys.load_certificate(path).public_bytes(Encoding.DER))


def hash_of(text: str) -> bytes:
    """What may stand for a plan's hash."""
    return sha256(text.encode()).digest()
