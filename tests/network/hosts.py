"""Hosts on one machine, whose links lose, lag, slow down and break; and a plan run on them.

A host is a network namespace with an address on a switch that is a namespace of its own: nothing of
the machine's own network is touched. That takes root, iproute2 and nftables.

As a program this is a relay that delays bytes, started by :meth:`Hosts.delay`:

    python tests/network/hosts.py PORT HOST PORT SECONDS
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
PORT = 7447
_RELAYS = 9000
_MARK = 1
"""On what a relay itself sends, so that it is not led back to the relay."""


def obstacle() -> str | None:
    """Why there can be no hosts here; None if there can."""
    for program, package in (("ip", "iproute2"), ("tc", "iproute2"), ("nft", "nftables")):
        if shutil.which(program) is None:
            return f"{program} is missing: install {package} (make test-deps)"
    name = f"unpooled-{secrets.token_hex(3)}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if tried.returncode == 0:
        tried = subprocess.run(
            ["ip", "netns", "exec", name, "nft", "list", "ruleset"], capture_output=True, text=True
        )
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
    if tried.returncode == 0:
        return None
    return f"network namespaces are not permitted here, which takes root: {tried.stderr.strip()}"


class Hosts:
    """Hosts by name, each reachable by every other until something is done to a link."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._run = f"unpooled-{secrets.token_hex(3)}"
        self._cut: set[frozenset[str]] = set()
        self._loss: dict[frozenset[str], int] = {}
        self._relays: dict[frozenset[str], tuple[int, subprocess.Popen[bytes]]] = {}

    def __enter__(self) -> Hosts:
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def address(self, name: str) -> str:
        """The host's address."""
        return f"10.77.0.{self.names.index(name) + 1}"

    def command(self, name: str, *words: str) -> list[str]:
        """The words of a command that runs on this host."""
        return ["ip", "netns", "exec", self._space(name), *words]

    # What can be done to links

    def cut(self, a: str, b: str) -> None:
        """Nothing passes between these two from now on."""
        self._cut.add(frozenset((a, b)))
        self._tell(a, b)

    def heal(self, a: str, b: str) -> None:
        """It does again."""
        self._cut.discard(frozenset((a, b)))
        self._tell(a, b)

    def lose(self, a: str, b: str, percent: int) -> None:
        """Each packet between these two is lost with this probability."""
        self._loss[frozenset((a, b))] = percent
        self._tell(a, b)

    def limit(self, name: str, kbit: int) -> None:
        """The host sends so many kilobits a second at most."""
        shape = f"tbf rate {kbit}kbit burst 4kb latency 200ms"
        _do(
            "tc", "-n", self._space(name), "qdisc", "replace", "dev", "eth0", "root", *shape.split()
        )

    def delay(self, a: str, b: str, seconds: float) -> None:
        """Bytes between these two take so long, each way, on connections made from now on."""
        near, far = max(a, b), min(a, b)  # the one whose name sorts later dials
        port = _RELAYS + len(self._relays)
        arguments = [str(port), self.address(far), str(PORT), str(seconds)]
        process = subprocess.Popen(
            self.command(near, sys.executable, __file__, *arguments), stdout=subprocess.PIPE
        )
        self._relays[frozenset((a, b))] = port, process
        assert process.stdout is not None
        process.stdout.readline()  # it listens
        self._tell(near)

    def close(self) -> None:
        """Takes everything away again."""
        for _, process in self._relays.values():
            process.kill()
            process.communicate()
        self._relays.clear()
        for name in (*self.names, "switch"):
            subprocess.run(["ip", "netns", "del", self._space(name)], capture_output=True)

    def _space(self, name: str) -> str:
        return f"{self._run}-{name}"

    def _make(self) -> None:
        switch = self._space("switch")
        _do("ip", "netns", "add", switch)
        _do("ip", "-n", switch, "link", "add", "switch", "type", "bridge")
        _do("ip", "-n", switch, "link", "set", "switch", "up")
        for i, name in enumerate(self.names):
            own, plug = self._space(name), f"port{i}"
            _do("ip", "netns", "add", own)
            pair = ("type", "veth", "peer", "name", "eth0", "netns", own)
            _do("ip", "-n", switch, "link", "add", plug, *pair)
            _do("ip", "-n", switch, "link", "set", plug, "master", "switch", "up")
            _do("ip", "-n", own, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
            _do("ip", "-n", own, "link", "set", "lo", "up")
            _do("ip", "-n", own, "link", "set", "eth0", "up")

    def _tell(self, *names: str) -> None:
        """Has hosts drop what their links lose."""
        for name in names:
            drops = [f"ip saddr {self.address(o)} drop" for o in self._others(name, self._cut)]
            for other in self._others(name, self._loss):
                share = self._loss[frozenset((name, other))]
                chance = f"numgen random mod 100 < {share}"
                drops.append(f"ip saddr {self.address(other)} {chance} drop")
            leads = [f"meta mark {_MARK} accept"]
            for other in self._others(name, self._relays):
                port, _ = self._relays[frozenset((name, other))]
                where = f"ip daddr {self.address(other)} tcp dport {PORT}"
                leads.append(f"{where} redirect to :{port}")
            rules = "\n".join(
                [
                    "flush ruleset",
                    "table ip links {",
                    "chain input { type filter hook input priority 0;",
                    *drops,
                    "}",
                    "chain output { type nat hook output priority -100;",
                    *leads,
                    "}",
                    "}",
                    "",
                ]
            )
            _do(*self.command(name, "nft", "-f", "-"), text=rules)

    def _others(self, name: str, links: Any) -> list[str]:
        return [other for other in self.names if frozenset((name, other)) in links]


def _do(*words: str, text: str | None = None) -> None:
    done = subprocess.run(words, input=text, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")


# A plan and its programs


@dataclass(frozen=True)
class Line:
    """A line that a program printed."""

    time: float
    """Seconds since the epoch."""
    event: Mapping[str, Any]


class Program:
    """One of unpooled's programs on a host: started again and again, its output kept."""

    def __init__(self, hosts: Hosts, name: str, words: Sequence[str], folder: Path) -> None:
        self.name = name
        self.to = folder / f"{name}.run"
        """The directory of its state and results."""
        self.lives: list[list[Line]] = []
        """What each of its processes has printed, as far as it was read."""
        self._words = [*words, "--to", str(self.to)]
        self._hosts = hosts
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._at = 0

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def code(self) -> int | None:
        """How the last process ended; None if it runs, or none was started."""
        return None if self._process is None else self._process.poll()

    @property
    def progress(self) -> int:
        """How many exchanges or questions it has gone through, in all of its processes."""
        if not self.lives:
            return 0
        self.read()
        rounds = [line.event for life in self.lives for line in life if "present" in line.event]
        return max((event.get("exchange", i) + 1 for i, event in enumerate(rounds)), default=0)

    def start(self, *more: str, how: Sequence[str] = ("-m", "unpooled.cli")) -> None:
        """Starts a process of it; ``how`` is what Python is told to run."""
        assert not self.running
        if self.lives:
            self.read()
        self.lives.append([])
        self._at, self._rest = 0, b""
        with self._file("out").open("wb") as out, self._file("err").open("wb") as err:
            self._process = subprocess.Popen(
                self._hosts.command(self.name, sys.executable, *how, *self._words, *more),
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                cwd=self._folder,
            )

    def signal(self, which: signal.Signals) -> None:
        """Sends its process a signal, if it has one."""
        if self.running:
            os.kill(self.pid, which)

    def kill(self) -> None:
        """Ends it as a power cut would."""
        if self._process is not None:
            if self.running:
                self._process.kill()
            self._process.wait()

    def wait(self, seconds: float) -> int:
        """How it ended; TimeoutExpired if it does not."""
        assert self._process is not None
        return self._process.wait(max(0.0, seconds))

    def errors(self) -> str:
        """What its last process wrote to the error stream."""
        return self._file("err").read_text(errors="replace")

    def read(self) -> None:
        """Reads what it has printed since."""
        with self._file("out").open("rb") as stream:
            stream.seek(self._at)
            fresh = stream.read()
        self._at += len(fresh)
        *lines, self._rest = (self._rest + fresh).split(b"\n")
        for raw in lines:
            event = json.loads(raw)
            moment = time_of(event["time"])
            self.lives[-1].append(Line(moment, event))

    def _file(self, ending: str) -> Path:
        return self._folder / f"{self.name}.{len(self.lives) - 1}.{ending}"

    def centers(self) -> np.ndarray:
        """The centres that it has written, to the last bit."""
        with (self.to / "centers.csv").open() as stream:
            rows = list(csv.reader(stream))[1:]
        return np.array([[float(value) for value in row[1:]] for row in rows])

    def labels(self) -> np.ndarray:
        """The labels that it has written."""
        return np.array((self.to / "labels.csv").read_text().split()[1:], dtype=np.int64)

    def manifest(self) -> dict[str, Any]:
        """What it says of the run."""
        manifest: dict[str, Any] = json.loads((self.to / "manifest.json").read_text())
        return manifest


def time_of(text: str) -> float:
    """Seconds since the epoch of a line's time."""
    return datetime.fromisoformat(text).timestamp()


def prepare(
    hosts: Hosts,
    folder: Path,
    content: Mapping[str, Any],
    rows: Mapping[str, np.ndarray],
    own: str = "",
) -> dict[str, Program]:
    """Keys, plan and data in a folder, and the programs to be started, one on each host.

    ``rows`` has the parties or peers in order; with a host called "coordinator" it is a star.
    ``own`` is the content of everybody's own file.
    """
    star = "coordinator" in hosts.names
    listening = ("coordinator",) if star else tuple(rows)
    prints = make_keys(
        folder / "keys",
        {name: [hosts.address(name)] if name in listening else [] for name in hosts.names},
    )
    members = {
        name: {
            **({"endpoint": f"{hosts.address(name)}:{PORT}"} if name in listening else {}),
            "fingerprint": prints[name],
        }
        for name in hosts.names
    }
    width = next(iter(rows.values())).shape[1]
    top = {"columns": [f"x{j}" for j in range(width)], **content}
    tables = {"parameters": top.pop("parameters")}
    if star:
        tables["coordinator"] = members.pop("coordinator")
    tables |= {f"{'parties' if star else 'peers'}.{name}": members[name] for name in rows}
    plan = folder / "plan.toml"
    plan.write_text("\n".join(_toml(top, tables)))
    programs = {}
    common = (str(plan), "--keys", str(folder / "keys"))
    for name in hosts.names:
        if name == "coordinator":
            programs[name] = Program(hosts, name, ("coordinator", *common), folder)
            continue
        data = folder / f"{name}.npz"
        np.savez(data, X=rows[name])
        kind, own_file = "party" if star else "peer", folder / f"{name}.toml"
        own_file.write_text(own)
        words = (kind, *common, "--name", name, "--data", str(data), "--own", str(own_file))
        programs[name] = Program(hosts, name, words, folder)
    return programs


def _toml(top: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for key, value in top.items():
        yield f"{key} = {json.dumps(value)}"
    for name, table in tables.items():
        yield f"[{name}]"
        for key, value in table.items():
            yield f"{key} = {json.dumps(value)}"
    yield ""


def make_keys(folder: Path, hosts: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Keys for parties with their hosts, signed by one authority; their fingerprints."""
    from cryptography.hazmat.primitives import serialization as form

    from unpooled.deploy import keys
    from unpooled.network.identity import fingerprint

    folder.mkdir()
    ca_key, ca = keys.new_ca("test authority")
    (folder / "ca.pem").write_bytes(ca.public_bytes(form.Encoding.PEM))
    prints = {}
    for name, own in hosts.items():
        key, asked = keys.new_request(name, own)
        request = keys.Request(name, keys.hosts_of(asked), key.public_key())
        certificate = keys.sign(request, ca, ca_key, 30)
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(form.Encoding.PEM))
        secret = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
        (folder / f"{name}.key").touch(0o600)
        (folder / f"{name}.key").write_bytes(secret)
        prints[name] = fingerprint(certificate.public_bytes(form.Encoding.DER))
    return prints


def ring(names: Sequence[str]) -> list[list[str]]:
    """The edges of a ring."""
    return [[a, b] for a, b in zip(names, [*names[1:], names[0]], strict=True)]


def all_links(names: Sequence[str]) -> list[tuple[str, str]]:
    """Every pair."""
    return list(combinations(names, 2))


@contextlib.contextmanager
def ended(programs: Mapping[str, Program]) -> Iterator[None]:
    """Whatever happens, none of the programs runs on afterwards."""
    try:
        yield
    finally:
        for program in programs.values():
            program.kill()


def until(condition: Any, seconds: float, what: str) -> None:
    """Waits for something to become true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come within {seconds:g} seconds")
        time.sleep(0.01)


# The relay


async def relay(port: int, host: str, to: int, seconds: float) -> None:
    """Carries bytes between whoever connects and a host, each way so many seconds later."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other = socket.socket()
        other.setblocking(False)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, _MARK)
        try:
            await asyncio.get_running_loop().sock_connect(other, (host, to))
        except OSError:
            other.close()
            writer.close()
            return
        back, forth = await asyncio.open_connection(sock=other)
        await asyncio.gather(
            carried(reader, forth, seconds), carried(back, writer, seconds), return_exceptions=True
        )

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    print("listening", flush=True)
    await server.serve_forever()


async def carried(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float
) -> None:
    """One way of a relay."""
    loop = asyncio.get_running_loop()
    held: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(1000)

    async def take() -> None:
        data = b"."
        while data:
            try:
                data = await reader.read(2**16)
            except OSError:
                data = b""
            await held.put((loop.time() + seconds, data))

    taking = asyncio.create_task(take())
    try:
        while True:
            due, data = await held.get()
            await asyncio.sleep(due - loop.time())
            if not data:
                break
            writer.write(data)
            await writer.drain()
    finally:
        taking.cancel()
        writer.close()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(relay(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
