"""The coordinator as Flower's ServerApp: whom it waits for, whom it believes, when it stops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.adapters.flower_wires import (
    AGREED,
    NAMES,
    PARTIES,
    WEIGHTS,
    Lost,
    Wires,
    error_reply,
    flower,
    load,
    nodes,
    of,
    question,
)
from tests.conformance.toys import Mean
from unpooled import simulate
from unpooled.adapters.flower import Agreement, client_app, run_star
from unpooled.adapters.flower.envelope import PartyReply, record
from unpooled.errors import (
    InputError,
    MalformedMessage,
    PolicyRefusal,
    ProtocolError,
    QuorumLost,
    UnpooledError,
)
from unpooled.messages.codec import encode
from unpooled.messages.message import Ask, Reply
from unpooled.privacy.policy import Deployment
from unpooled.protocols.star.base import Coordinator
from unpooled.protocols.star.coreset import CoresetKMeans
from unpooled.protocols.star.federated import FederatedKMeans

# isort: split
from flwr.app import Message, RecordDict, UserConfig

__all__ = ["flower"]
pytestmark = pytest.mark.usefixtures("flower")


class Quorate(Mean):
    """Needs two of the three."""

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        for number in range(2):
            replies = yield Ask("sums", {"shift": np.zeros(2)}, number, quorum=2)
        return {"count": np.array(sum(reply["count"][0] for reply in replies.values()))}


def failing(number: int, before: Callable[[Message], Message | None], agreed: Agreement) -> Wires:
    own = nodes(agreed)
    of(number, own).before = before
    return Wires(own)


def lost(message: Message) -> Message | None:
    raise Lost


TWO = Agreement(Quorate(), 3, 2, 5)


@pytest.mark.parametrize("code", [1, 3, 5, 8, 99])
def test_errors_of_flower_are_those_of_the_party_that_was_asked(code: int) -> None:
    wires = failing(1, lambda message: error_reply(message, code), TWO)
    run = run_star(wires, TWO)
    assert run.answerers == {("sums", 0): ("West", "North"), ("sums", 1): ("West", "North")}
    assert run.result["count"] == pytest.approx(WEIGHTS[0].sum() + WEIGHTS[2].sum())
    assert len(wires.sent) == 2 * (3 + 2)  # the one that failed was asked three times
    with pytest.raises(ProtocolError, match=r"Node \d+ did not answer 'sums' of round 0: ") as no:
        run_star(failing(1, lambda message: error_reply(message, code), AGREED), AGREED)
    assert "secret" not in str(no.value)


def test_who_was_not_heard_is_asked_again() -> None:
    heard: list[Message] = []

    def at_first(message: Message) -> Message | None:
        heard.append(message)
        return error_reply(message, 4) if len(heard) % 2 else None

    run = run_star(failing(1, at_first, AGREED), AGREED)
    assert set(run.answerers.values()) == {NAMES}
    assert len(heard) == 4


def test_an_answer_that_was_lost_is_repeated_not_computed_again() -> None:
    own = nodes(AGREED)
    node, answers = of(1, own), []

    def answered_in_vain(message: Message) -> Message | None:
        if len(answers) == 1:
            return None
        node.before = lambda message: None
        answers.append(node.answer(message))
        node.before = answered_in_vain
        return error_reply(message, 4)

    node.before = answered_in_vain
    run = run_star(Wires(own), AGREED)
    expected = simulate.run_star(Mean(), PARTIES, seed=5)
    assert np.array_equal(run.result["mean"], expected.result["mean"])
    assert run.result["asked"].tolist() == [2.0, 2.0, 2.0]


def test_who_is_silent_is_left_out_if_the_quorum_allows_it() -> None:
    run = run_star(failing(2, lost, TWO), TWO, timeout=1.0)
    assert set(run.answerers.values()) == {("West", "East")}
    assert run.traffic.table["messages"].tolist() == [2, 2, 0]
    with pytest.raises(QuorumLost, match="2 of 3 parties answered 'sums' in round 0"):
        run_star(failing(2, lost, AGREED), AGREED, timeout=1.0)


def test_who_is_not_there_is_left_out_if_the_quorum_allows_it() -> None:
    own = nodes(TWO)
    del own[next(iter(own))]
    run = run_star(Wires(own), TWO, timeout=1.0)
    assert set(run.answerers.values()) == {("East", "North")}
    assert run.traffic.table["party"].tolist() == ["0", "East", "North"]
    with pytest.raises(QuorumLost):
        run_star(Wires({}), TWO, timeout=1.0)


def test_refusals_are_told_in_the_party_s_own_words(tmp_path: Path) -> None:
    agreed = Agreement(CoresetKMeans(3, 20), 3, 2, 5)
    memory = str(tmp_path)
    for policy in (
        Deployment(kinds=("sums",), memory=memory),
        Deployment(least_parties=4, memory=memory),
    ):
        with pytest.raises(PolicyRefusal) as over_flower:
            run_star(Wires(nodes(agreed, policy)), agreed)
        options = simulate.Options(policy=policy)
        with pytest.raises(PolicyRefusal) as at_home:
            simulate.run_star(agreed.protocol, PARTIES, seed=5, options=options)
        assert str(over_flower.value) == str(at_home.value)
    own = nodes(TWO)
    of(0, own).app = client_app(TWO, load, Deployment(kinds=("moments",)))
    run = run_star(Wires(own), TWO)
    assert set(run.answerers.values()) == {("East", "North")}


def test_a_memory_that_comes_late_is_waited_for_and_a_lost_one_is_not() -> None:
    own = nodes(AGREED)
    node = of(1, own)
    kept: list[RecordDict] = []

    def late(message: Message) -> Message | None:
        if len(kept) == 0 and len(node.context.state):
            kept.append(node.context.state)
            node.context.state = RecordDict()
        elif kept:
            node.context.state = kept[0]
        return None

    node.before = late
    assert run_star(Wires(own), AGREED).result["asked"].tolist() == [2.0, 2.0, 2.0]

    def forgetful(message: Message) -> Message | None:
        node.context.state = RecordDict()
        return None

    own = nodes(AGREED)
    node = of(1, own)
    node.before = forgetful
    with pytest.raises(ProtocolError, match="Party East has lost its memory"):
        run_star(Wires(own), AGREED)


@pytest.mark.parametrize("twin", [{"partition-id": 0}, {"partition-id": 1, "name": "West"}])
def test_two_parties_that_take_themselves_for_one_are_refused(twin: UserConfig) -> None:
    own = nodes(AGREED)
    of(1, own).config.update(twin)
    with pytest.raises(ProtocolError, match="has the number or the name of another"):
        run_star(Wires(own), AGREED)


def test_a_party_that_changes_its_name_is_refused() -> None:
    own = nodes(AGREED)
    node = of(1, own)

    def renamed(message: Message) -> None:
        node.context.node_config["name"] = f"East {message.metadata.group_id}"

    node.before = renamed
    with pytest.raises(ProtocolError, match=r"calls itself East sums 1, has the number"):
        run_star(Wires(own), AGREED)


SUMS = {"total": np.zeros(2), "count": np.zeros(1), "asked": np.zeros(1)}


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (RecordDict(), MalformedMessage, r"Node \d+ did not answer 'sums': .* no reply of a party"),
        (question(), MalformedMessage, "no reply of a party"),
        (
            record(PartyReply(1, "East", "answer", b"hello")),
            MalformedMessage,
            "Party East sent no message",
        ),
        (
            record(PartyReply(1, "East", "answer", encode(Ask("sums")))),
            MalformedMessage,
            "no answer to it",
        ),
        (
            record(PartyReply(1, "East", "answer", encode(Reply("sums", SUMS, 9)))),
            MalformedMessage,
            "East did not answer 'sums' of round 0, since .* 'sums' of round 9",
        ),
        (
            record(PartyReply(1, "East", "answer", encode(Reply("sums", {"secret": np.zeros(2)})))),
            MalformedMessage,
            "since field 'secret' is not declared",
        ),
        (record(PartyReply(9, "East", "failed", text="No.")), ProtocolError, "No"),
        (record(PartyReply(1, "East", "thinking", text="Wait.")), ProtocolError, "Wait"),
        (record(PartyReply(1, "East", "refused", text="a\nb " * 1000)), PolicyRefusal, "^a b a b"),
    ],
)
def test_what_is_no_answer_is_not_one(
    content: RecordDict, error: type[UnpooledError], words: str
) -> None:
    def instead(message: Message) -> Message | None:
        return Message(content, reply_to=message)

    with pytest.raises(error, match=words) as refusal:
        run_star(failing(1, instead, AGREED), AGREED)
    assert len(str(refusal.value)) <= 1000
    assert "\n" not in str(refusal.value)
    assert set(run_star(failing(1, instead, TWO), TWO).answerers.values()) == {("West", "North")}


def test_an_answer_of_another_shape_is_not_one() -> None:
    agreed = Agreement(FederatedKMeans(np.zeros((3, 2))), 3, 2, 5)
    of_two = {"sums": np.zeros((2, 2)), "counts": np.zeros(2), "scatter": np.zeros(2)}

    def instead(message: Message) -> Message | None:
        answer = encode(Reply("sums", of_two))
        return Message(record(PartyReply(1, "East", "answer", answer)), reply_to=message)

    with pytest.raises(MalformedMessage, match=r"East did not answer 'sums'.* has shape"):
        run_star(failing(1, instead, agreed), agreed)


def test_a_timeout_is_a_number() -> None:
    with pytest.raises(InputError, match="timeout=0"):
        run_star(Wires({}), AGREED, timeout=0)
