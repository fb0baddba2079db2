"""Attacks over a network, on sites that have stores: every method, by what arrives over TLS."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest

from tests.network.site import STUDY as STUDY_FILE
from tests.network.site import Authority, star
from tests.network.threads import Network
from tests.network.tls import over_tls
from tests.protocols.test_attacks import FIRST, NOT_READ, OTHERS, assert_in_vain, clusters, sample
from unpooled.data.parties import Parties
from unpooled.messages.codec import decode
from unpooled.messages.message import Ask, Post, Reply
from unpooled.network.link import Received
from unpooled.network.node import CONTROL, Event, Node
from unpooled.network.star_kinds import COORDINATOR
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.storage.journal import JOURNAL, Records
from unpooled.privacy.policy import STUDY, Deployment, Policy
from unpooled.protocols.prepare.standardise import MEAN, SCALE
from unpooled.testing.attacks.differencing import across, recovered_of
from unpooled.testing.attacks.outcome import Outcome
from unpooled.testing.attacks.prominent import outlier
from unpooled.testing.attacks.rerun import gives_away, one_patient
from unpooled.testing.attacks.sent_rows import sent_rows
from unpooled.testing.attacks.target import Said, Target, Transcript
from unpooled.testing.attacks.visits import ten_visits


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.new(tmp_path_factory.mktemp("keys"))


@dataclass
class Overheard(Network):
    """A network in which everything that arrives anywhere is taken down."""

    arrived: list[Received] = field(default_factory=list)

    def node(self, name: str, state: StateDirectory) -> Node:
        node = super().node(name, state)
        poll = node.poll

        def listen(until: float, expected: str | None = None) -> Event | None:
            event = poll(until, expected)
            if isinstance(event, Received) and not event.message.kind.startswith(CONTROL):
                self.arrived.append(event)
            return event

        node.poll = listen  # type: ignore[method-assign]
        return node

    @property
    def transcript(self) -> Transcript:
        """What left the parties, each message once."""
        found, seen = Transcript.empty(self.parties), set()
        asked = {
            (event.message.kind, event.exchange): event.message.body
            for event in self.arrived
            if isinstance(event.message, Ask)
        }
        for event in self.arrived:
            message, key = event.message, (event.sender, event.exchange)
            if not isinstance(message, Reply | Post) or key in seen:
                continue
            seen.add(key)
            body, question = message.body, asked.get((message.kind, event.exchange), {})
            if isinstance(message, Post):
                body = {name: value[0] for name, value in body.items()}
            found.by_party[event.sender].append(Said(message.kind, message.round, body, question))
        return found


@dataclass(frozen=True)
class OverTLS(Target):
    """A method that is run over a network; whoever attacks it has all that arrived."""

    folder: Path = Path()
    authority: Authority | None = None

    def overheard_of(
        self, parties: Parties, policy: Policy, *, seed: int = 0, **parameters: Any
    ) -> Transcript:
        assert self.authority is not None
        parties = replace(parties, names=tuple(f"P{name}" for name in parties.names))
        protocol, folder = self.protocol(parties, **parameters), Path(mkdtemp(dir=self.folder))
        options: dict[str, Any] = {"kind": Overheard, "policy": policy, "seed": seed}
        network = over_tls(folder, self.authority, protocol, parties, **options)
        assert isinstance(network, Overheard)
        try:
            network.finish()
        finally:
            network.close()
        return network.transcript


def three_k(target: Target, tables: Sequence[np.ndarray], policy: Policy) -> Outcome:
    """Runs for several numbers of clusters, on one store."""
    return across(target, tables, policy, [{"n_clusters": k} for k in (3, 4, 5)], "k sweep")


ON_A_NETWORK = (three_k, one_patient, outlier, ten_visits, sent_rows)


@pytest.mark.long
@pytest.mark.parametrize("name", [*FIRST, *OTHERS])
def test_every_method_keeps_its_rows_over_tls(
    name: str, authority: Authority, tmp_path: Path
) -> None:
    """Runs for several k, one with an outlier, one with ten visits of a patient, and the same plan
    after a patient was added, removed and corrected."""
    target = OverTLS(sample(name).make, folder=tmp_path, authority=authority)

    tables = clusters((45, 30, 40))
    if name not in NOT_READ:
        assert any(attack(target, tables, STUDY).rows_recovered for attack in ON_A_NETWORK)
    for number, attack in enumerate(ON_A_NETWORK):
        kept = Deployment(memory=tmp_path / f"memory {number}")
        assert_in_vain(attack(target, tables, kept))


def heard_by_coordinator(folder: Path, party: str) -> list[Said]:
    """What the coordinator has of a party on disk, with what it had asked, as far as it matters.

    Of the moments it makes the origin of its next question, and then the units of all others.
    """
    said, known = [], dict[str, np.ndarray]()
    for header, parts in Records(folder / JOURNAL):
        bodies = {name: decode(raw).body for name, raw in parts.items()}
        said.append(Said(header["kind"], header["round"], bodies[party], dict(known)))
        if header["kind"] == "moments":
            total = {
                field: np.sum([body[field] for body in bodies.values()], axis=0)
                for field in bodies[party]
            }
            shift = total["sums"] / total["weight"]
            if "squares" not in total:
                known = {"origin": shift}
                continue
            variance = total["squares"] / total["weight"] - shift**2
            known = {MEAN: known["origin"] + shift, SCALE: np.sqrt(variance)}
    return said


def run_over_tls(
    folder: Path, authority: Authority, tables: Mapping[str, Named], own: str
) -> list[Said]:
    """One run of the plan with real programs; what the coordinator heard of the first party."""
    rows = {name: table.rows for name, table in tables.items()}
    plan: dict[str, Any] = {
        "method": "FederatedKMeans",
        "parameters": {"n_clusters": 3},
        "standardise": True,
        "seed": 7,
        "round_timeout": 60,
        "patience": 200,
    }
    with star(folder, authority, rows, own, **plan) as site:
        site.start(COORDINATOR)
        for name, table in tables.items():
            site.start(name, "--data", str(table.written(folder / f"{name}.csv")))
        site.finish()
        return heard_by_coordinator(folder / f"{COORDINATOR}.run", next(iter(rows)))


@dataclass(frozen=True)
class Named:
    """A site's rows, each with the name that it keeps when it is corrected."""

    rows: np.ndarray
    names: tuple[str, ...]

    def written(self, path: Path) -> Path:
        """The table as a file, to the last digit."""
        lines = [f"{name},{x!r},{y!r}" for name, (x, y) in zip(self.names, self.rows.tolist())]  # noqa: B905
        path.write_text("\n".join(["visit,x,y", *lines]) + "\n")
        return path


NEW, BY = np.array([4.321, 5.678]), np.array([1.234, -0.987])
CHANGES: dict[str, Callable[[Named], tuple[Named, np.ndarray]]] = {
    "added": lambda t: (Named(np.vstack([t.rows, NEW]), (*t.names, "new")), NEW),
    "removed": lambda t: (Named(t.rows[1:], t.names[1:]), t.rows[0]),
    "corrected": lambda t: (Named(np.vstack([t.rows[:1] + BY, t.rows[1:]]), t.names), BY),
}
"""What happens at the first site between two runs; and what this must not give away of a row."""


@pytest.mark.long
@pytest.mark.parametrize("policy", ["study", "deployment"])
def test_one_patient_after_the_other_changed_over_tls(policy: str, tmp_path: Path) -> None:
    """The same plan again and again, with a store; the attacker has all of the journals."""
    authority = Authority.new(tmp_path / "keys")
    tables = {
        name: Named(rows, tuple(f"v{i}" for i in range(len(rows))))
        for name, rows in zip(("North", "East", "South"), clusters((60, 50, 55)), strict=True)
    }
    own = 'id = "visit"\n' + (
        STUDY_FILE if policy == "study" else f'memory = "{tmp_path}/NAME.memory"\n'
    )
    said = run_over_tls(tmp_path / "first", authority, tables, own)
    before, secret = tables["North"].rows, []
    for change, changed in CHANGES.items():
        tables["North"], wanted = changed(tables["North"])
        secret.append(wanted)
        heard = run_over_tls(tmp_path / change, authority, tables, own)
        assert heard, "what was refused would have been no test"
        said += heard
    everything = np.vstack([before, NEW, tables["North"].rows])
    found = [gives_away(said, wanted, before) for wanted in secret]
    if policy == "study":
        assert all(found)
        sums = [one for one in said if one.kind == "sums"]
        assert all(gives_away(sums, wanted, before) for wanted in secret)  # in the right units
    else:
        assert not any(found)
        assert not recovered_of(said, everything).any()
