"""A party behind a network: the same question again, another one under its name, lost memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.conformance.toys import Mean
from tests.sentences import refuses
from unpooled.data.parties import Parties
from unpooled.errors import InputError, MalformedMessage, PolicyRefusal, ProtocolError
from unpooled.messages.codec import Encoded, decode, encode
from unpooled.messages.message import Ask, Reply
from unpooled.privacy.policy import DEPLOYMENT, STUDY, Deployment, Policy
from unpooled.protocols.star.feca import FeCA
from unpooled.protocols.star.federated import FederatedKMeans
from unpooled.protocols.star.one_shot import OneShotKMeans
from unpooled.runtime.agreement import Agreement
from unpooled.runtime.idempotent import IdempotentParty
from unpooled.runtime.party import PartyRuntime

ROWS = np.random.default_rng(0).normal(size=(40, 2))


def party(rows: np.ndarray = ROWS, policy: Policy = STUDY) -> IdempotentParty:
    return IdempotentParty(
        PartyRuntime(Mean(), Parties.of([rows], names=["West"])[0], (5, 0), policy)
    )


def question(number: int, shift: float = 0.0) -> Encoded:
    ask = Ask("sums", {"shift": np.full(2, shift)}, number)
    return Encoded(ask, encode(ask))


def test_a_question_again_gets_the_same_bytes_and_costs_nothing() -> None:
    own = party()
    first = own.answer(question(0), 0)
    counted, kept = len(own.runtime.ledger.entries), own.memory
    assert own.answer(question(0), 0) == first
    assert len(own.runtime.ledger.entries) == counted
    assert own.memory == kept
    assert own.answered == 1


def test_a_later_process_goes_on_where_the_last_one_stopped() -> None:
    whole, answers = party(), []
    kept = None
    for number in range(4):
        expected = whole.answer(question(number), number).data
        later = party()
        if kept is not None:
            later.remember(kept)
            assert later.answer(question(number - 1), number - 1).data == answers[-1]
        answers.append(later.answer(question(number), number).data)
        assert answers[-1] == expected
        kept = later.memory
    assert kept == whole.memory
    assert decode(answers[-1]).body["asked"] == 4.0


def test_another_question_under_a_name_that_was_used_gets_none() -> None:
    own = party()
    own.answer(question(0), 0)
    refuses(lambda: own.answer(question(0, 1.0), 0), "West has answered 'sums'", ProtocolError)
    own.answer(question(1), 1)
    refuses(lambda: own.answer(question(0), 0), "repeats only its last answer", ProtocolError)
    assert own.answered == 2


def test_what_was_refused_has_not_been_answered() -> None:
    own = party(policy=Deployment(kinds=("moments",)))
    before = own.memory
    for _ in range(2):
        with pytest.raises(PolicyRefusal, match="West does not send 'sums'"):
            own.answer(question(0), 0)
    assert own.memory == before
    assert own.answered == 0


def test_what_is_no_question_is_refused() -> None:
    own = party()
    before = own.memory
    reply = Reply("sums", {"shift": np.zeros(2)})
    with pytest.raises(MalformedMessage):
        own.answer(Encoded(reply, encode(reply)), 0)
    assert own.memory == before


def test_other_rows_than_at_the_beginning_are_refused() -> None:
    own = party()
    own.answer(question(0), 0)
    for rows in (ROWS[::-1], ROWS + 1e-9, ROWS[:-1], ROWS.reshape(-1, 4)):
        refuses(
            lambda rows=rows: party(rows).remember(own.memory),  # type: ignore[misc]
            "rows of party West are not those",
            ProtocolError,
        )


def test_a_party_that_is_its_cells_goes_on_with_the_same_rows_only() -> None:
    own = party(policy=DEPLOYMENT)
    own.answer(question(0), 0)
    again = party(ROWS[::-1], DEPLOYMENT)  # cells do not depend on the order of rows
    again.remember(own.memory)
    assert again.answer(question(1), 1).data == own.answer(question(1), 1).data
    for rows in (ROWS + 1e-9, ROWS[:-1]):
        refuses(
            lambda rows=rows: party(rows, DEPLOYMENT).remember(own.memory),  # type: ignore[misc]
            "rows of party West are not those",
            ProtocolError,
        )


def test_broken_memory_is_refused() -> None:
    own = party()
    with pytest.raises(MalformedMessage):
        party().remember(own.memory[:-8])
    with pytest.raises(MalformedMessage, match="nothing under"):
        party().remember(encode_site(own))


def encode_site(own: IdempotentParty) -> bytes:
    from unpooled.messages.codec import encode_state

    return encode_state(own.runtime.memory)


RUN = Agreement(FederatedKMeans(OneShotKMeans(3, 3), max_rounds=5), 3, ("x", "y"), 7)


def test_the_same_agreement_has_the_same_digest() -> None:
    assert RUN.digest == replace(RUN, protocol=replace(RUN.protocol)).digest  # type: ignore[type-var]
    start = np.arange(6.0).reshape(3, 2)
    for same in (start.copy(), np.asfortranarray(start), start.astype(">f8")):
        one, other = (Agreement(FederatedKMeans(own), 3, 2) for own in (start, same))
        assert one.digest == other.digest
    assert Agreement(FeCA(np.int64(3), 3), 3, 2).digest == Agreement(FeCA(3, 3), 3, 2).digest  # type: ignore[arg-type]


def test_another_agreement_has_another_digest() -> None:
    start = np.arange(6.0).reshape(3, 2)
    others = [
        RUN,
        replace(RUN, seed=8),
        replace(RUN, n_parties=4),
        replace(RUN, columns=("y", "x")),
        replace(RUN, columns=2),
        replace(RUN, protocol=FederatedKMeans(OneShotKMeans(3, 3), max_rounds=6)),
        replace(RUN, protocol=FederatedKMeans(OneShotKMeans(3, 4), max_rounds=5)),
        replace(RUN, protocol=FederatedKMeans(start)),
        replace(RUN, protocol=FederatedKMeans(start.reshape(2, 3))),
        replace(RUN, protocol=FederatedKMeans(np.nextafter(start, 9))),
        replace(RUN, protocol=FeCA(3, 3)),
        replace(RUN, protocol=FeCA(3, 3, merge=False)),
        replace(RUN, protocol=OneShotKMeans(3, 3)),
        replace(RUN, protocol=Mean()),
    ]
    assert len({other.digest for other in others}) == len(others)


def test_what_cannot_be_compared_is_refused() -> None:
    @dataclass(frozen=True)
    class Odd(Mean):
        how: object = print

    refuses(lambda: Agreement(Odd(), 2, 2).digest, "'mean' cannot be compared", InputError)
    refuses(lambda: Agreement(Mean(), 0, 2), "n_parties=0")
    refuses(lambda: Agreement(Mean(), 2, ()), "columns=0")
    refuses(lambda: Agreement(Mean(), 2, 2, -1), "seed=-1")
