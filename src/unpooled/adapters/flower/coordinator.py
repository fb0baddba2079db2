"""The coordinator as Flower's ServerApp."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import numpy as np
from flwr.app import Context, Message
from flwr.serverapp import Grid, ServerApp

from unpooled.adapters.flower.envelope import (
    MESSAGE_TYPE,
    Agreed,
    PartyReply,
    Question,
    agreement_of,
    party_reply_of,
    record,
)
from unpooled.checks import number as a_number
from unpooled.errors import (
    MalformedMessage,
    PolicyRefusal,
    ProtocolError,
    UnpooledError,
    WireError,
)
from unpooled.messages.codec import decode, encode, encoded_size
from unpooled.messages.message import Ask, Note, Post, Reply
from unpooled.privacy.traffic import Entry, Traffic
from unpooled.runtime.agreement import Agreement
from unpooled.runtime.coordinator import CoordinatorRuntime, Outcome
from unpooled.runtime.serving import serving
from unpooled.types import Body, IntArray, PartyId

_POLL = 0.25
"""Seconds between two looks at what has arrived."""
_TRIES, _PAUSE = 3, 2.0
"""How often a party is asked whose reply went missing on the way, and seconds in between."""
_ONCE = np.ones(1, dtype=np.int64)
_ERRORS = {
    1: "its app cannot be loaded",
    2: "its app raised an exception",
    3: "the question did not reach it in time",
    4: "its answer was lost",
    5: "its SuperNode is gone",
    7: "its SuperNode does not trust the app",
    8: "its app crashed",
}


def server_app(
    agreed: Agreed,
    on_result: Callable[[Outcome, Context], None],
    *,
    timeout: float | Callable[[Context], float] = 600.0,
    observe: Callable[[Note], None] | None = None,
) -> ServerApp:
    """The coordinator as a ServerApp; ``on_result`` is called with the outcome of the run.

    ``timeout``, in seconds, is how long to wait for all parties to be there, and then for the
    replies to each question; who has not replied by then is left out if the quorum allows it.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        seconds = timeout(context) if callable(timeout) else timeout
        agreement = agreement_of(agreed, context)
        on_result(run_star(grid, agreement, timeout=seconds, observe=observe), context)

    return app


def run_star(
    grid: Grid,
    agreement: Agreement,
    *,
    timeout: float = 600.0,
    observe: Callable[[Note], None] | None = None,
) -> Outcome:
    """Runs the coordinator, for a ServerApp of your own."""
    questioner = _Questioner(grid, agreement, a_number("timeout", timeout, above=0.0))
    coordinator = CoordinatorRuntime(
        agreement.protocol, agreement.n_parties, agreement.seed, observe
    )
    with serving():
        questioner.wait()
        ask = coordinator.begin()
        while ask is not None:
            replies, refusals = questioner.ask_all(ask, coordinator)
            ask = coordinator.answered(replies, refusals)
    return Outcome(coordinator.result, questioner.traffic, answerers=coordinator.answerers)


class _NoReply(ProtocolError):
    """There is no reply, but there might be if the party is asked again."""


class _Questioner:
    """Asks whoever is there, and counts what was sent."""

    def __init__(self, grid: Grid, agreement: Agreement, timeout: float) -> None:
        self._grid = grid
        self._agreement = agreement
        self._timeout = timeout
        self._names: dict[int, PartyId] = {}
        self._answered = [0] * agreement.n_parties
        self._entries: list[tuple[IntArray, Entry]] = []

    @property
    def traffic(self) -> Traffic:
        """The questions that arrived, as far as there was a reply, and the replies."""
        names = (self._names.get(i, str(i)) for i in range(self._agreement.n_parties))
        return Traffic.of(tuple(names), self._entries)

    def wait(self) -> None:
        """Waits for all parties to be there; if some never are, the quorum decides."""
        deadline = time.monotonic() + self._timeout
        while len(list(self._grid.get_node_ids())) < self._agreement.n_parties:
            if time.monotonic() > deadline:
                return
            time.sleep(_POLL)

    def ask_all(
        self, ask: Ask, coordinator: CoordinatorRuntime
    ) -> tuple[dict[PartyId, Body], list[UnpooledError]]:
        """The replies in party order, and why others did not reply."""
        exchange = coordinator.exchange
        round = _Round(time.monotonic() + self._timeout, self._agreement.n_parties)
        nodes = list(self._grid.get_node_ids())
        for _ in range(_TRIES):
            self._ask(ask, exchange, nodes, round)
            nodes = [node for node, why in round.failures.items() if isinstance(why, _NoReply)]
            if not nodes or round.over:
                break
            time.sleep(_PAUSE)
        replies: dict[PartyId, Body] = {}
        refusals: list[UnpooledError] = []
        for number, arrived in sorted(round.replies.items()):
            self._recognise(arrived)
            self._count(ask, exchange, number, "down")
            try:
                reply = _answer_in(arrived, ask, coordinator, self._agreement.n_columns)
            except UnpooledError as refusal:
                refusals.append(refusal)
                continue
            if reply is not None:
                self._count(reply, exchange, number, "up")
                self._answered[number] += 1
                replies[arrived.party] = reply.body
        return replies, [*refusals, *round.failures.values()]

    def _ask(self, ask: Ask, exchange: int, nodes: list[int], round: _Round) -> None:
        """Asks these nodes, and waits until all have replied or the round is over."""
        question = Question(self._agreement.digest, exchange, list(self._answered), encode(ask))
        group, left = f"{ask.kind} {ask.round}", max(round.deadline - time.monotonic(), 1.0)
        messages = [
            Message(record(question), node, MESSAGE_TYPE, ttl=left, group_id=group)
            for node in nodes
        ]
        sent = list(self._grid.push_messages(messages)) if messages else []
        waiting = {name: node for name, node in zip(sent, nodes, strict=False) if name}
        while waiting and not round.over:
            for message in self._grid.pull_messages(list(waiting)):
                # Errors of Flower's own come from node 1: only this shows whose they are.
                node = waiting.pop(message.metadata.reply_to_message_id, None)
                if node is not None:
                    round.take(message, node, ask)
            if waiting:
                time.sleep(_POLL)

    def _recognise(self, reply: PartyReply) -> None:
        """Refuses a party with the name of another, or with another than before."""
        if self._names.setdefault(reply.number, reply.party) != reply.party or (
            len(set(self._names.values())) < len(self._names)
        ):
            raise _identity_taken(reply)

    def _count(
        self, message: Ask | Reply, exchange: int, number: int, way: Literal["up", "down"]
    ) -> None:
        floats = sum(value.size for value in message.body.values())
        size = encoded_size(message)
        entry = Entry(message.kind, message.round, exchange, way, size, floats, _ONCE)
        self._entries.append((np.array([number]), entry))


class _Round:
    """What has arrived in reply to one question so far."""

    def __init__(self, deadline: float, n_parties: int) -> None:
        self.deadline = deadline
        self.replies: dict[int, PartyReply] = {}
        """By the parties' numbers."""
        self.failures: dict[int, UnpooledError] = {}
        """What is wrong with the others, by their nodes."""
        self._n_parties = n_parties

    @property
    def over(self) -> bool:
        """Whether nobody is left to wait for, or no time."""
        return len(self.replies) == self._n_parties or time.monotonic() > self.deadline

    def take(self, message: Message, node: int, ask: Ask) -> None:
        """Notes what came from a node."""
        self.failures.pop(node, None)
        try:
            reply = _party_reply(message, node, ask, self._n_parties)
        except UnpooledError as failure:
            self.failures[node] = failure
            return
        if reply.number in self.replies:
            raise _identity_taken(reply)
        self.replies[reply.number] = reply


def _identity_taken(reply: PartyReply) -> ProtocolError:
    return ProtocolError(
        f"Party {reply.number}, which calls itself {reply.party}, has the number or the name of "
        "another; give every SuperNode a partition-id and a name of its own."
    )


def _party_reply(message: Message, node: int, ask: Ask, n_parties: int) -> PartyReply:
    """A party's reply, if it is a party and Flower brought one."""
    if message.has_error():
        code = message.error.code
        raise _NoReply(
            f"Node {node} did not answer {ask.kind!r} of round {ask.round}: "
            f"{_ERRORS.get(code, f'Flower reports error {code}')}; see the log of its SuperNode."
        )
    try:
        reply = party_reply_of(message)
    except MalformedMessage as error:
        raise MalformedMessage(f"Node {node} did not answer {ask.kind!r}: {error}") from None
    if reply.status == "outdated":
        # Flower may bring the next question before it has put away what the last one left.
        raise _NoReply(reply.text)
    if not 0 <= reply.number < n_parties:
        raise ProtocolError(reply.text)
    return reply


def _answer_in(
    reply: PartyReply, ask: Ask, coordinator: CoordinatorRuntime, n_columns: int
) -> Reply | None:
    """The answer in a party's reply, None if it is withheld; its refusal is raised."""
    if reply.status == "refused":
        raise PolicyRefusal(reply.text)
    if reply.status == "withheld":
        return None
    if reply.status != "answer":
        raise ProtocolError(reply.text)
    try:
        answer = decode(reply.answer)
    except WireError as error:
        raise MalformedMessage(f"Party {reply.party} sent no message: {error}") from None
    wrong = _misfit(answer, ask, coordinator, n_columns)
    if wrong is not None:
        raise MalformedMessage(
            f"Party {reply.party} did not answer {ask.kind!r} of round {ask.round}, since {wrong}; "
            "have both sides run the same version."
        )
    return answer  # type: ignore[return-value]


def _misfit(
    reply: Ask | Reply | Post, ask: Ask, coordinator: CoordinatorRuntime, n_columns: int
) -> str | None:
    """What is wrong with an answer, as a clause."""
    if not isinstance(reply, Reply) or (reply.kind, reply.round) != (ask.kind, ask.round):
        return f"what it sent is no answer to it, but {reply.kind!r} of round {reply.round}"
    return coordinator.misfit(reply, n_columns)
