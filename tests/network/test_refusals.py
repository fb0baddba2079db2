"""Who may not take part, and what those who may are not allowed to do: over real connections.

Every attempt comes to nothing, and somebody who reads the log of the other side sees it.
"""

from __future__ import annotations

import json
import logging
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest
import zenoh

import unpooled
from tests.network.site import (
    COLUMNS,
    Authority,
    Program,
    Site,
    files_of,
    free_endpoints,
    hash_of,
    identity_of,
    star,
    tables,
    until,
    write_plan,
)
from tests.sentences import refuses
from unpooled.deploy.credentials import load_credentials
from unpooled.deploy.plan_file import read_plan
from unpooled.messages.message import Post
from unpooled.network.handshake import HELLO
from unpooled.network.identity import Identity, fingerprint
from unpooled.network.link import Received
from unpooled.network.node import Node
from unpooled.network.star_kinds import COORDINATOR
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.zenoh import ZenohTransport
from unpooled.network.zenoh_config import Place, TlsFiles, configuration
from unpooled.network.zenoh_log import relay
from unpooled.privacy.policy import Deployment

Log = pytest.LogCaptureFixture
PLAN = hash_of("plan")
PARTIES = ("North", "South")
ELSEWHERE = zenoh.Locality.REMOTE
MODES = ("peer", "client", "router")
modes = pytest.mark.parametrize(
    "mode", [MODES[0], *(pytest.param(mode, marks=pytest.mark.long) for mode in MODES[1:])]
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Of North, South, A, B and C, and of an outsider that no plan knows."""
    authority = Authority.new(tmp_path_factory.mktemp("keys"))
    for name in (COORDINATOR, *PARTIES, "A", "B", "C", "Outsider"):
        authority.admit(name)
    return authority


@pytest.fixture(scope="module")
def rival(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Another authority, which vouches for the same names."""
    authority = Authority.new(tmp_path_factory.mktemp("rival"), "another CA")
    for name in (COORDINATOR, *PARTIES):
        authority.admit(name)
    return authority


@contextmanager
def session(
    endpoint: str, files: TlsFiles | None, mode: str = "client", **more: Any
) -> Iterator[zenoh.Session | None]:
    """Somebody's own session with Zenoh, bound by no rules of ours; None if it has no link."""
    content = configuration(Place("any", "", {"victim": endpoint}), files)
    content.pop("access_control", None)
    content |= {"mode": mode, **more}
    if mode == "router":
        content["listen"]["endpoints"] = [f"tls/{free_endpoints(1)[0]}"]
    content["connect"] |= {"timeout_ms": 2000, "exit_on_failure": True}
    try:
        own = zenoh.open(zenoh.Config.from_json5(json.dumps(content)))
    except zenoh.ZError:
        yield None
        return
    try:
        yield own
    finally:
        own.close()  # type: ignore[no-untyped-call]


# Against a program


@pytest.fixture(scope="module")
def site(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A coordinator that waits for its parties."""
    folder = tmp_path_factory.mktemp("site")
    plan = {"method": "OneShotKMeans", "parameters": {"n_clusters": 3}, "patience": 400}
    own = "[policy]\nleast_parties = 2\n"
    with star(folder, authority, tables(PARTIES), own, **plan) as made:
        made.start(COORDINATOR)
        endpoint = endpoint_of(made)
        assert until(lambda: listens(endpoint), 120), made.said
        yield made


def endpoint_of(site: Site) -> str:
    plan = read_plan(site.plan)
    assert plan.coordinator is not None
    return plan.coordinator.endpoint


def listens(endpoint: str) -> bool:
    host, _, port = endpoint.partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True


def warned(program: Program, *words: str) -> bool:
    """Whether it comes to say so."""
    return until(lambda: all(word in program.warnings for word in words), 30)


def test_a_certificate_of_another_authority_is_refused(site: Site, rival: Authority) -> None:
    with session(endpoint_of(site), files_of(rival.folder, "North")) as own:
        assert own is None
    mixed = TlsFiles(*_key_and_certificate(rival.folder, "North"), site.keys / "ca.pem")
    with session(endpoint_of(site), mixed) as own:
        assert own is None
    assert warned(site.programs[COORDINATOR], "Zenoh refuses a connection", "UnknownIssuer")


def _key_and_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    files = files_of(folder, name)
    return files.key, files.certificate


def test_nobody_without_a_certificate_is_let_in(site: Site) -> None:
    content = configuration(
        Place("any", "", {"victim": endpoint_of(site)}), files_of(site.keys, "North")
    )
    tls = content["transport"]["link"]
    tls["tls"] = {"root_ca_certificate": str(site.keys / "ca.pem"), "enable_mtls": False}
    with session(
        endpoint_of(site), files_of(site.keys, "North"), transport=content["transport"]
    ) as own:
        assert own is None
    assert warned(site.programs[COORDINATOR], "peer sent no certificates")


def test_plain_connections_are_refused(site: Site) -> None:
    with session(endpoint_of(site), None) as own:
        assert own is None
    host, _, port = endpoint_of(site).partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with suppress(ConnectionResetError):
            while plain.recv(1000):
                pass
    assert warned(site.programs[COORDINATOR], "received corrupt message")


@modes
def test_one_who_is_in_no_plan_gets_and_does_nothing(site: Site, mode: str) -> None:
    gains_nothing(site, "Outsider", mode, neighbour=False)
    assert warned(site.programs[COORDINATOR], "Outsider is connected to coordinator")


@modes
def test_a_party_in_anothers_place_gets_and_does_nothing(site: Site, mode: str) -> None:
    gains_nothing(site, "South", mode, neighbour=True)


def gains_nothing(site: Site, who: str, mode: str, *, neighbour: bool) -> None:
    """Whoever it is tries to be North, in vain, and the coordinator notices and goes on."""
    with session(endpoint_of(site), files_of(site.keys, who), mode) as own:
        assert own is not None
        attempts = Attempts(own, "North", COORDINATOR, neighbour=neighbour)
        attempts.make()
        assert attempts.gained == Counter()
    program = site.programs[COORDINATOR]
    assert warned(program, "which its sender has no right to send")
    assert program.process.poll() is None


def test_afterwards_the_run_is_what_it_would_have_been(site: Site) -> None:
    """All of the above has been tried on this coordinator, and it is in good health."""
    for name in PARTIES:
        site.start(name)
    site.finish()
    policy = Deployment(least_parties=2)
    expected = unpooled.OneShotKMeans(3, policy=policy, random_state=0).fit(site.data)
    found = site.programs[COORDINATOR].model().cluster_centers_
    np.testing.assert_array_equal(found, expected.cluster_centers_)
    for name in PARTIES:
        remarks = [f"{name}: {said}." for said in expected.remarks_.get(name, [])]
        assert site.programs[name].warnings == "\n".join(remarks)
        assert site.programs[name].stderr.read_text() == ""
    assert site.programs[COORDINATOR].stderr.read_text() == ""


def test_a_party_refuses_a_coordinator_of_another_authority(
    authority: Authority, rival: Authority, tmp_path: Path
) -> None:
    with star(
        tmp_path,
        authority,
        tables(PARTIES),
        method="OneShotKMeans",
        parameters={"n_clusters": 3},
    ) as site:
        place = Place(COORDINATOR, endpoint_of(site), dict.fromkeys(PARTIES, ""))
        false = ZenohTransport(place, files_of(rival.folder, COORDINATOR))
        try:
            party = site.start("North")
            assert until(lambda: "Zenoh cannot connect" in party.warnings, 90), site.said
            assert "UnknownIssuer" in party.warnings
        finally:
            false.close()


class Attempts:
    """What somebody with a session of its own may try, between ``victim`` and ``other``."""

    def __init__(
        self,
        own: zenoh.Session,
        other: str,
        victim: str,
        runs: tuple[str, ...] = (),
        *,
        neighbour: bool,
    ) -> None:
        self.gained: Counter[str] = Counter()
        """What came of it."""
        self._own = own
        self._other = other
        self._victim = victim
        self._runs = (HELLO, *runs)
        tokens = [f"unpooled/live/{name}/alive" for name in (other, victim)]
        self._known = tokens if neighbour else tokens[:1]
        """That its own, false token is there, and who its neighbours are, is no secret to it."""
        self._held: list[Any] = []

    def listen(self) -> None:
        """Wants to hear what others say, and to be asked in their place."""
        own, victim, other = self._own, self._victim, self._other
        keys = ["**", "unpooled/**", f"unpooled/*/{victim}/*", "@/**"]
        keys += [f"unpooled/{run}/{victim}/{other}" for run in self._runs]
        for key in keys:
            heard = self._heard("sample")
            self._held.append(own.declare_subscriber(key, heard, allowed_origin=ELSEWHERE))
        self._held += [
            own.declare_queryable(
                "**", lambda query: self._count("query"), allowed_origin=ELSEWHERE
            ),
            own.liveliness().declare_subscriber("**", self._heard("token"), history=True),
            own.liveliness().declare_token(f"unpooled/live/{other}/alive"),
        ]

    def speak(self, data: bytes = b"nothing") -> None:
        """Puts and takes away in the other's name."""
        for run in self._runs:
            key = f"unpooled/{run}/{self._other}/{self._victim}"
            self._own.put(key, data)
            self._own.delete(key)
        self._own.put("unpooled/**", data)
        self._own.put(f"unpooled/*/{self._other}/{self._victim}", data)
        self._own.put("@/*/peer/config/access_control/enabled", "false")

    def ask(self) -> None:
        """Asks everybody everything."""
        for selector in ("**", "unpooled/**", "@/**", "@/*/peer/**"):
            for _ in self._own.get(selector, timeout=0.5, allowed_destination=ELSEWHERE):
                self._count("reply")
        for reply in self._own.liveliness().get("unpooled/live/*/alive", timeout=0.5):
            if reply.ok and str(reply.ok.key_expr) not in self._known:
                self._count("presence")

    def make(self) -> None:
        """All of it."""
        self.listen()
        self.speak()
        self.ask()
        sleep(0.3)

    def _heard(self, what: str) -> Any:
        def heard(sample: zenoh.Sample) -> None:
            if str(sample.key_expr) not in self._known:
                self._count(f"{what} {sample.key_expr}")

        return heard

    def _count(self, what: str) -> None:
        self.gained[what] += 1


# Between threads


class Meeting:
    """Nodes in this process, over TLS; each is where ``endpoints`` has it."""

    def __init__(self, folder: Path, authority: Authority, stack: ExitStack) -> None:
        self.folder = folder
        self.authority = authority
        self.nodes: dict[str, Node] = {}
        self.endpoints = dict(zip("ABC", free_endpoints(3), strict=True))
        self.heard: list[Received] = []
        self._stack = stack

    def node(
        self,
        name: str,
        others: str,
        *,
        keys: Path | None = None,
        identity: Identity | None = None,
        plan: bytes = PLAN,
        state: str = "",
    ) -> Node:
        """Somebody on the network."""
        known = self.authority.folder
        prints = {o: fingerprint(identity_of(known, o).certificate) for o in others}
        own = StateDirectory(self.folder / (state or name), plan.hex(), name)
        self._stack.callback(own.close)
        place = Place(name, self.endpoints[name], {o: self.endpoints[o] for o in others})
        transport = ZenohTransport(place, files_of(keys or known, name))
        made = Node(identity or identity_of(keys or known, name), prints, plan, own, transport)
        self._stack.callback(made.close)
        self.nodes[state or name] = made
        return made

    def poll(self, seconds: float = 0.3) -> None:
        """Lets everybody do what they have to."""
        end = monotonic() + seconds
        while monotonic() < end:
            for node in self.nodes.values():
                event = node.poll(monotonic() + 0.02)
                if isinstance(event, Received):
                    self.heard.append(event)

    def wait(self, condition: Any, seconds: float = 60.0) -> bool:
        """Whether it becomes true."""
        end = monotonic() + seconds
        while not condition():
            if monotonic() > end:
                return False
            self.poll(0.05)
        return True

    def meet(self, a: str, b: str) -> None:
        """Waits for the link between two of them."""
        assert self.wait(lambda: self.nodes[a].up(b) and self.nodes[b].up(a))


@pytest.fixture
def meeting(authority: Authority, tmp_path: Path, caplog: Log) -> Iterator[Meeting]:
    caplog.set_level(logging.WARNING, "unpooled.network")
    with ExitStack() as stack:
        yield Meeting(tmp_path, authority, stack)


@modes
def test_a_neighbour_cannot_hear_or_speak_for_another(meeting: Meeting, mode: str) -> None:
    """C is B's neighbour as A is; it knows the name of the run between A and B."""
    a, b = meeting.node("A", "B"), meeting.node("B", "AC")
    meeting.meet("A", "B")
    (run,) = b._links["A"].runs
    files = files_of(meeting.authority.folder, "C")
    recorded: list[tuple[str, bytes]] = []
    put = a._transport.put
    a._transport.put = lambda key, data: (recorded.append((key, data)), put(key, data))[1]  # type: ignore[method-assign, assignment, func-returns-value]
    with session(meeting.endpoints["B"], files, mode) as own:
        assert own is not None
        attempts = Attempts(own, "A", "B", (run,), neighbour=True)
        attempts.listen()
        for i in range(5):
            a.send("B", Post("question", i, {"x": np.zeros(3)}), i)
            b.send("A", Post("answer", i, {"x": np.ones(3)}), i)
            meeting.poll(0.1)
        before = b.bytes_in, dict(b.refused)
        for _, data in recorded:
            attempts.speak(data)  # what A has said, said once more by C
        attempts.ask()
        meeting.poll(0.5)
        assert (b.bytes_in, dict(b.refused)) == before
        assert attempts.gained == Counter()
        assert [event.exchange for event in meeting.heard if event.sender == "A"] == [*range(5)]
        assert [event.exchange for event in meeting.heard if event.sender == "B"] == [*range(5)]
        meeting.nodes.pop("A").close()
        assert meeting.wait(lambda: "A" not in b._here), "a false token keeps A alive"


def test_a_session_cannot_take_over_anothers_connection(meeting: Meeting) -> None:
    """Zenoh tells sessions apart by a number that their neighbours know."""
    a, b = meeting.node("A", "B"), meeting.node("B", "AC")
    meeting.meet("A", "B")
    (run,) = b._links["A"].runs
    number = str(a._transport._session.zid())  # type: ignore[attr-defined]
    files = files_of(meeting.authority.folder, "C")
    for mode in MODES:
        with session(meeting.endpoints["B"], files, mode, id=number) as own:
            if own is not None:
                Attempts(own, "A", "B", (run,), neighbour=True).speak()
            meeting.poll(0.3)
    assert dict(b.refused) == {}
    a.send("B", Post("question", 0, {}), 7)
    assert meeting.wait(lambda: any(event.exchange == 7 for event in meeting.heard))


def test_another_certificate_in_the_same_name_is_refused(
    meeting: Meeting, authority: Authority, tmp_path: Path, caplog: Log
) -> None:
    """The authority has admitted A twice; the plan has the first certificate."""
    authority.admit("A", tmp_path / "again")
    meeting.node("A", "B", keys=tmp_path / "again")
    b = meeting.node("B", "AC")
    assert meeting.wait(lambda: b.refused["A", "another certificate"] > 0)
    assert not b.up("A")
    assert "B refuses a certificate with sha256:" in caplog.text


@modes
def test_a_certificate_under_anothers_name_says_nothing(meeting: Meeting, mode: str) -> None:
    """C calls itself A, in every key that it uses."""
    b = meeting.node("B", "A")
    stolen = identity_of(meeting.authority.folder, "C", called="A")
    node = _calling_itself_a(meeting, stolen, mode)
    meeting.poll(2.0)
    assert not b.up("A")
    assert "A" not in b._here
    assert (b.bytes_in, node.bytes_in) == (0, 0)


def _calling_itself_a(meeting: Meeting, stolen: Identity, mode: str) -> Node:
    own = StateDirectory(meeting.folder / "stolen", PLAN.hex(), "A")
    files = files_of(meeting.authority.folder, "C")
    transport = ZenohTransport(Place("A", "", {"B": meeting.endpoints["B"]}), files)
    content = json.loads(transport._content)
    content.pop("access_control")
    content["mode"] = mode
    transport._content = json.dumps(content)
    transport.reopen()
    prints = {"B": fingerprint(identity_of(meeting.authority.folder, "B").certificate)}
    made = Node(stolen, prints, PLAN, own, transport)
    meeting._stack.callback(own.close)
    meeting._stack.callback(made.close)
    meeting.nodes["stolen"] = made
    return made


def test_one_who_listens_in_anothers_place_is_told_nothing(meeting: Meeting, caplog: Log) -> None:
    """A dials B, and finds C there, with a certificate for the same host."""
    files = files_of(meeting.authority.folder, "C")
    place = Place("C", meeting.endpoints["A"], {"B": ""})
    false = ZenohTransport(place, files)
    heard: list[str] = []
    try:
        own = false._session
        own.declare_subscriber("unpooled/**", lambda sample: heard.append(str(sample.key_expr)))
        b = meeting.node("B", "A")
        assert meeting.wait(lambda: "C is connected to B" in caplog.text)
        meeting.poll(1.0)
        assert not b.up("A")
        assert heard == []
    finally:
        false.close()


def test_another_plan_is_refused_on_both_sides(meeting: Meeting, caplog: Log) -> None:
    a = meeting.node("A", "B", plan=hash_of("another plan"))
    b = meeting.node("B", "A")
    assert meeting.wait(lambda: a.refused["B", "another plan"] and b.refused["A", "another plan"])
    assert not a.up("B")
    assert not b.up("A")
    for name in "AB":
        assert f"{name} refuses a plan whose hash is" in caplog.text


def test_what_was_said_in_the_last_run_is_refused_in_this_one(
    meeting: Meeting, caplog: Log
) -> None:
    """By the one who said it, under its own name, in its own place."""
    a, b = meeting.node("A", "B"), meeting.node("B", "A")
    meeting.meet("A", "B")
    heard: list[bytes] = []
    take = b._take
    b._take = lambda arrived: (heard.append(arrived.data), take(arrived))[1]  # type: ignore[method-assign, func-returns-value]
    for i in range(5):
        a.send("B", Post("question", i, {"x": np.arange(4.0)}), i)
    assert meeting.wait(lambda: len(meeting.heard) == 5)
    sealed = [data for data in heard if data.startswith(b"UNL1")]
    assert len(sealed) == 5
    for node in (meeting.nodes.pop("A"), meeting.nodes.pop("B")):
        node.close()
    meeting._stack.pop_all().close()
    meeting._stack = ExitStack()
    meeting.heard.clear()
    with meeting._stack:
        a, b = meeting.node("A", "B"), meeting.node("B", "A")
        meeting.meet("A", "B")
        (run,) = b._links["A"].runs
        for data in sealed:
            a._transport.put(f"unpooled/{run}/A/B", data)
        assert meeting.wait(lambda: b.refused["A", "another run"] == 5)
        assert meeting.heard == []
        assert "B refuses a message of another run, from A" in caplog.text
        a.send("B", Post("question", 0, {}), 0)
        assert meeting.wait(lambda: len(meeting.heard) == 1)


def test_keys_that_are_not_the_plans_are_refused_before_anything_is_sent(
    authority: Authority, rival: Authority, tmp_path: Path
) -> None:
    def plan(**prints: str) -> Any:
        own = {n: fingerprint(identity_of(authority.folder, n).certificate) for n in PARTIES}
        head = identity_of(authority.folder, COORDINATOR).certificate
        content = {
            "method": "OneShotKMeans",
            "columns": list(COLUMNS),
            "parameters": {"n_clusters": 3},
            "coordinator": {"endpoint": "127.0.0.1:7447", "fingerprint": fingerprint(head)},
            "parties": {name: {"fingerprint": print_} for name, print_ in (own | prints).items()},
        }
        return read_plan(write_plan(tmp_path / "plan.toml", content))

    def load(folder: Path, made: Any) -> None:
        load_credentials(folder, made.members["North"], made)

    load(authority.folder, plan())
    refuses(lambda: load(rival.folder, plan()), "has the fingerprint")
    other = fingerprint(identity_of(authority.folder, "South").certificate)
    refuses(lambda: load(authority.folder, plan(North=other)), "has the fingerprint")
    swapped = tmp_path / "swapped"
    swapped.mkdir()
    for name, source in (("North.key", "North.key"), ("North.pem", "South.pem")):
        (swapped / name).write_bytes((authority.folder / source).read_bytes())
    (swapped / "North.key").chmod(0o600)
    (swapped / "ca.pem").write_bytes((authority.folder / "ca.pem").read_bytes())
    refuses(lambda: load(swapped, plan()), "is the certificate of South")
    (swapped / "North.pem").write_bytes((authority.folder / "North.pem").read_bytes())
    (swapped / "ca.pem").write_bytes((rival.folder / "ca.pem").read_bytes())
    refuses(lambda: load(swapped, plan()), "was not signed by")


def test_what_zenoh_writes_of_refusals_is_logged_sparsely(caplog: Log) -> None:
    intercepted = "TRACE {} ThreadId(15) zenoh::net::routing::interceptor: Msg intercepted!\n"
    refused = " WARN acc-0 ThreadId(05) zenoh_link_tls::unicast: peer sent no certificates. Hint: x"
    nobody = (
        "DEBUG net-0 ThreadId(03) zenoh::net::runtime::orchestrator: Unable to connect to "
        "configured peer tls/127.0.0.1:1! Can not create a new TLS link bound to X: {} at /x.rs:1."
    )
    with caplog.at_level(logging.WARNING, "unpooled.network"):
        relay([intercepted.format("acc-0"), "anything\n", "", nobody.format("Connection refused")])
        assert caplog.text == ""
        relay([intercepted.format(" rx-0")] * 1000)
        assert len(caplog.records) < 15
        assert "has no right to send. (512 times so far)" in caplog.text
        relay([refused, nobody.format("invalid peer certificate: UnknownIssuer")])
        assert "Zenoh refuses a connection: peer sent no certificates. (1" in caplog.text
        assert "invalid peer certificate: UnknownIssuer. (1 times so far)" in caplog.text
        odd = [
            f" WARN acc-0 ThreadId(05) zenoh_link_tls::unicast: {i} \x1b[2J" for i in range(5000)
        ]
        caplog.clear()
        relay(odd)
        assert len(caplog.records) < 150
        assert "\x1b" not in caplog.text
