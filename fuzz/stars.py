"""A coordinator and a party of a star, told anything that decodes by somebody with a right key."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np

from fuzz.scratch import Scratch
from fuzz.stage import Clock, Over, StubNode, clock, received, unexpected
from fuzz.tape import Tape, changed
from unpooled import catalog
from unpooled.data.parties import Parties
from unpooled.deploy import results
from unpooled.errors import PolicyRefusal, ProtocolError, QuorumLost, StateError
from unpooled.messages.codec import Encoded, decode, encode
from unpooled.messages.message import Ask, Post, Reply
from unpooled.network.link import Up
from unpooled.network.node import Event
from unpooled.network.star_coordinator import StarCoordinator
from unpooled.network.star_kinds import COORDINATOR
from unpooled.network.star_party import StarParty
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.timing import Timing
from unpooled.privacy.policy import STUDY, Deployment
from unpooled.protocols.prepare.dspgd import CompressedDSPGD
from unpooled.protocols.prepare.kernel import Kernel
from unpooled.protocols.prepare.kernel_map import KernelMap
from unpooled.protocols.prepare.krylov import BlockKrylov
from unpooled.protocols.prepare.standardise import Standardise
from unpooled.protocols.prepare.then import Then
from unpooled.protocols.star import one_shot
from unpooled.protocols.star.base import StarProtocol
from unpooled.protocols.star.coreset import CoresetKMeans
from unpooled.protocols.star.feca import FeCA
from unpooled.protocols.star.federated import FederatedKMeans
from unpooled.protocols.star.fuzzy import FuzzyCMeans
from unpooled.protocols.star.kfed import KFED
from unpooled.protocols.star.matched import MatchedAveraging
from unpooled.protocols.star.one_shot import OneShotKMeans
from unpooled.runtime.coordinator import CoordinatorRuntime
from unpooled.runtime.idempotent import IdempotentParty
from unpooled.runtime.party import PartyRuntime
from unpooled.types import Body

NAMES = ("A", "B", "C")
PARTIES = Parties.of(list(np.random.default_rng(3).normal(size=(3, 14, 2))), names=NAMES)
CENTERS = np.array([[0.0, 0.0], [1.0, 1.0]])
KERNEL, PHASES = Kernel("gaussian", 6), Kernel("gaussian", 3, "independent", "phase")
CHOSEN: tuple[StarProtocol, ...] = (
    FederatedKMeans(CENTERS, max_rounds=3),
    Then(Standardise(), FederatedKMeans(CENTERS, max_rounds=2)),
    OneShotKMeans(2, 2, n_init=1),
    OneShotKMeans(2, 2, n_init=1, refine=True),
    OneShotKMeans(None, None, n_init=1, max_clusters=3),
    OneShotKMeans(2, 2, n_init=1, send="radii"),
    OneShotKMeans(2, 2, n_init=1, trim=0.1),
    KFED(2, 2),
    MatchedAveraging(2),
    FeCA(2, 2, n_init=1),
    FuzzyCMeans(2),
    CoresetKMeans(2, 4),
    # At the end, as what is in the corpus goes by numbers.
    Then(KernelMap(KERNEL, None, BlockKrylov(KERNEL, 2, 3), 2), OneShotKMeans(2, 2, n_init=1)),
    Then(
        KernelMap(PHASES, 0.5, CompressedDSPGD(PHASES, 2, 2, 2, 0.1), 2, 2),
        OneShotKMeans(2, 2, n_init=1),
    ),
)


def protocols() -> tuple[StarProtocol, ...]:
    """Those above, and the samples of the catalog that parties this small can take part in."""
    return (*CHOSEN, *(own for _, own in catalog.samples(PARTIES, "star")))


PROTOCOLS = protocols()
POLICIES = (STUDY, Deployment(min_count=3), Deployment(min_count=3, max_rounds=2))
TIMING = Timing(round_timeout=1.5, patience=4.0)
CONTROL = ("_run", "_ready", "_here", "_refusal", "_leaving", "_result", "_bye", "_seen", "_status")
RUN = b"sixteen bytes ..."[:16]


def coordinator(data: bytes) -> None:
    """Only what says why a run cannot go on comes out of the coordinator, whatever parties say."""
    tape = Tape(data)
    which = tape.below(len(PROTOCOLS))
    quorum = (None, 1, 2)[tape.below(3)]
    with Scratch() as folder, clock() as own, quiet(), few_starts():
        for _ in range(3):  # processes: a later one goes on where the last was stopped
            state = StateDirectory(folder, "plan", COORDINATOR)
            play = _Answering(tape, which)
            node = StubNode(own, play)
            run = StarCoordinator(
                PROTOCOLS[which], NAMES, node, state, 0, TIMING, quorum=quorum, n_columns=2
            )
            play.run = run
            try:
                with np.errstate(over="ignore", invalid="ignore"):
                    run.run()
                    run.terminate()
                break
            except Over:
                if tape.over:
                    break
            except (PolicyRefusal, ProtocolError, QuorumLost):
                break
            finally:
                run.close()
                state.close()


class _Answering:
    """What three parties say to the coordinator."""

    def __init__(self, tape: Tape, which: int) -> None:
        self._tape = tape
        self._which = which
        self._questions: tuple[bytes, ...] = ()
        self._hello: list[Event] = []
        for name in NAMES:
            self._hello += [Up(name, 1), received(name, 0, Post("_ready", 0, {}))]
        releases = PROTOCOLS[which].releases
        self._names = (*dict.fromkeys(f for r in releases for f in r.fields), "why", "other")
        self._kinds = (*CONTROL, *(release.kind for release in releases))

    run: StarCoordinator

    def _asked(self, question: bytes) -> tuple[bytes, ...]:
        """All questions of this run up to this one; those before a restart are not known."""
        if question not in self._questions:
            self._questions = (*self._questions, question)
        return self._questions

    def __call__(self) -> Event | None:
        if self._hello:
            return self._hello.pop(0)
        tape = self._tape
        if tape.over:
            raise Over
        what = tape.below(8)
        opened = self.run._open
        number = self.run.runtime.exchange
        if what < 3 and opened is not None:
            missing = [name for name in NAMES if name not in self.run._done]
            name = (missing or NAMES)[0] if what < 2 else tape.one_of(NAMES)
            due = honest_answer(self._which, NAMES.index(name), self._asked(opened[1]))[0]
            if what == 0:
                return received(name, number, due)
            return received(name, number, changed(tape, due, self._names))
        name = tape.one_of(NAMES)
        return unexpected(tape, what - 3, name, self._kinds, self._names)


def party(data: bytes) -> None:
    """Only what says why a run cannot go on comes out of a party, whatever a coordinator says.

    Of a result that it takes, it can label its rows, or say why not.
    """
    tape = Tape(data)
    which = tape.below(len(PROTOCOLS))
    policy = tape.one_of(POLICIES)
    with Scratch() as folder, clock() as own, quiet():
        for _ in range(3):
            play = _Asking(tape, which)
            one = star_party(folder, which, policy, own, play)
            try:
                with np.errstate(over="ignore", invalid="ignore"):
                    _use(one, PROTOCOLS[which], one.run())
                    one.terminate()
                break
            except Over:
                if tape.over:
                    break
            except (ProtocolError, QuorumLost, StateError):
                break
            finally:
                one.close()
                one._state.close()


def star_party(folder: Path, which: int, policy, own: Clock, play) -> StarParty:
    """The party A of a protocol, in a folder where it may have been before."""
    state = StateDirectory(folder, "plan", "A")
    site = PartyRuntime(PROTOCOLS[which], PARTIES[0], (0, 0), policy)
    return StarParty(PROTOCOLS[which], site, StubNode(own, play), state, TIMING)


def _use(one: StarParty, protocol: StarProtocol, result: Body) -> None:
    """What is done with a result."""
    labels = results.star_labels(protocol, one.runtime.data.rows, result)
    assert labels.shape == (14,)
    results.write_labels(one._state, labels)
    plan = SimpleNamespace(protocol=protocol, columns=("x", "y"))
    results.write_centers(one._state, plan, result)


class _Asking:
    """What a coordinator says to a party."""

    def __init__(self, tape: Tape, which: int) -> None:
        self._tape = tape
        self._asked = 0
        self._due = honest_questions(which)
        asks = PROTOCOLS[which].asks
        fields = (field for release in asks for field in release.fields)
        self._names = (*dict.fromkeys(fields), *PROTOCOLS[which].shared.fields, "run", "why")
        self._kinds = (*CONTROL, *(release.kind for release in asks))
        self._joined = False

    def __call__(self) -> Event | None:
        tape = self._tape
        if tape.over:
            raise Over
        what = tape.below(8)
        if what < 2:
            due = self._next()
            due = changed(tape, due, self._names) if what else due
            return received(COORDINATOR, self._asked, due)
        if what == 2:  # an earlier question, or a later one
            due = tape.one_of(self._due)
            return received(COORDINATOR, tape.whole(), changed(tape, due, self._names))
        return unexpected(tape, what - 3, COORDINATOR, self._kinds, self._names)

    def _next(self) -> Post | Ask:
        """The next thing that a coordinator would say."""
        if not self._joined:
            self._joined = True
            return Post("_run", 0, {"run": np.frombuffer(RUN, np.uint8)})
        self._asked += 1
        return self._due[min(self._asked, len(self._due)) - 1]


@cache
def honest_answer(which: int, number: int, asked: tuple[bytes, ...]) -> tuple[Reply, bytes]:
    """What a party answers to the last of these questions, and its memory after that.

    Where a question came from others' nonsense it may have no answer; then nothing is in it.
    """
    party = IdempotentParty(PartyRuntime(PROTOCOLS[which], PARTIES[number], (0, number), STUDY))
    if asked[:-1]:
        party.remember(honest_answer(which, number, asked[:-1])[1])
    ask = decode(asked[-1])
    try:
        with np.errstate(all="ignore"):
            answer = party.answer(Encoded(ask, asked[-1]), len(asked))
    except ProtocolError:
        answer = None
    reply = answer.message if answer is not None else Reply(ask.kind, {}, ask.round)
    assert isinstance(reply, Reply)
    return reply, party.memory


@cache
def honest_questions(which: int) -> tuple[Ask | Post, ...]:
    """What a coordinator asks if all goes well, and its result."""
    with np.errstate(all="ignore"), quiet(), few_starts():
        conductor = CoordinatorRuntime(PROTOCOLS[which], len(NAMES), 0)
        asked, ask = [], conductor.begin()
        while ask is not None:
            asked.append(ask)
            plain = tuple(map(encode, asked))
            replies = {n: honest_answer(which, i, plain)[0].body for i, n in enumerate(NAMES)}
            ask = conductor.answered(replies)
    return (*asked, Post("_result", 0, PROTOCOLS[which].shown(conductor.result)))


def few_starts():
    """The coordinator's k-means from one start: a hundred, as usual, would be all that is done."""
    return mock.patch.object(one_shot, "_STARTS", (1, 1))


def quiet():
    """No warnings: those of libraries about odd numbers would be most of what is printed."""
    return warnings.catch_warnings(action="ignore")
