"""The coordinator's side without a driver: quorum, journal, questions in order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.conformance.toys import Mean
from tests.sentences import refuses
from unpooled.data.parties import Parties
from unpooled.errors import PolicyRefusal, ProtocolError, QuorumLost, UndeclaredRelease
from unpooled.messages.message import Ask, Note
from unpooled.privacy.policy import STUDY
from unpooled.protocols.star.base import Coordinator, StarProtocol
from unpooled.protocols.star.federated import FederatedKMeans
from unpooled.protocols.star.one_shot import OneShotKMeans
from unpooled.runtime.coordinator import CoordinatorRuntime, Exchange, question_digest
from unpooled.runtime.party import PartyRuntime
from unpooled.runtime.serving import serving
from unpooled.types import Body

RNG = np.random.default_rng(0)
PARTIES = Parties.of([RNG.normal(size=(200, 2)) + 0.5 * i for i in range(3)])
PROTOCOL = FederatedKMeans(OneShotKMeans(3, 3), max_rounds=4, tol=0.0)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with serving():
        yield


def sites(protocol: StarProtocol) -> list[PartyRuntime]:
    return [PartyRuntime(protocol, PARTIES[i], (5, i), STUDY) for i in range(len(PARTIES))]


def played(
    conductor: CoordinatorRuntime, own: list[PartyRuntime], ask: Ask | None
) -> list[Exchange]:
    """Plays a run to its end; what a journal would have of it."""
    journal = []
    while ask is not None:
        exchange = conductor.exchange
        replies = {site.data.name: site.answer(ask, exchange).body for site in own}  # type: ignore[union-attr]
        journal.append(Exchange(question_digest(ask), replies))
        ask = conductor.answered(replies)
    return journal


def test_a_run_goes_on_from_its_journal() -> None:
    whole = CoordinatorRuntime(PROTOCOL, 3, 5)
    journal = played(whole, sites(PROTOCOL), whole.begin())
    assert len(journal) == 5
    for known in range(6):
        own = sites(PROTOCOL)
        first = CoordinatorRuntime(PROTOCOL, 3, 5)
        ask = first.begin()
        for _ in range(known):
            assert ask is not None
            answers = {site.data.name: site.answer(ask, 0).body for site in own}  # type: ignore[union-attr]
            ask = first.answered(answers)
        notes: list[Note] = []
        later = CoordinatorRuntime(PROTOCOL, 3, 5, notes.append)
        rest = played(later, own, later.begin(journal[:known]))
        assert len(rest) == 5 - known
        assert np.array_equal(whole.result["centers"], later.result["centers"])
        assert whole.answerers == later.answerers
        assert [note.round for note in notes if "cost" in note.body] == [0, 1, 2, 3]


def test_a_journal_of_another_run_is_refused() -> None:
    whole = CoordinatorRuntime(PROTOCOL, 3, 5)
    journal = played(whole, sites(PROTOCOL), whole.begin())
    refuses(
        lambda: CoordinatorRuntime(PROTOCOL, 3, 6).begin(journal),
        "Question 1 in the journal",
        ProtocolError,
    )
    refuses(
        lambda: CoordinatorRuntime(PROTOCOL, 3, 5).begin([*journal, journal[-1]]),
        "Question 5 in the journal",
        ProtocolError,
    )


class Half(Mean):
    """Asks once, and needs two of the three."""

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        replies = yield Ask("sums", {"shift": np.zeros(2)}, quorum=2)
        return {"answers": np.array(len(replies))}


BODY: Body = {"total": np.zeros(2)}


def test_a_quorum_is_enough() -> None:
    conductor = CoordinatorRuntime(Half(), 3, 0)
    conductor.begin()
    assert conductor.answered({"0": BODY, "2": BODY}, [PolicyRefusal("No.")]) is None
    assert conductor.result["answers"] == 2
    assert list(conductor.answerers.values()) == [("0", "2")]


def test_less_than_a_quorum_is_not() -> None:
    conductor = CoordinatorRuntime(Half(), 3, 0)
    conductor.begin()
    refuses(lambda: conductor.answered({"0": BODY}), "1 of 3 parties answered", QuorumLost)
    with pytest.raises(PolicyRefusal, match="first"):
        conductor.answered({"0": BODY}, [PolicyRefusal("first"), PolicyRefusal("second")])
    all_needed = CoordinatorRuntime(PROTOCOL, 3, 0)
    all_needed.begin()
    with pytest.raises(QuorumLost, match="2 of 3"):
        all_needed.answered({"0": BODY, "1": BODY})


def test_nothing_is_answered_before_it_is_asked() -> None:
    conductor = CoordinatorRuntime(Half(), 3, 0)
    refuses(lambda: conductor.answered({}), "no question is open", ProtocolError)
    refuses(lambda: conductor.result, "no result yet", ProtocolError)


class Forgetful(Mean):
    """Asks the same question twice."""

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        yield Ask("sums", {"shift": np.zeros(2)})
        yield Ask("sums", {"shift": np.zeros(2)})
        return {}


class Talkative(Mean):
    """Asks about something that it did not declare."""

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        yield Ask("sums", {"secret": np.zeros(2)})
        return {}


def test_no_question_is_asked_twice() -> None:
    conductor = CoordinatorRuntime(Forgetful(), 3, 0)
    with pytest.raises(ProtocolError, match="asked before"):
        played(conductor, sites(Forgetful()), conductor.begin())


def test_no_question_leaves_undeclared() -> None:
    with pytest.raises(UndeclaredRelease, match="secret"):
        CoordinatorRuntime(Talkative(), 3, 0).begin()
