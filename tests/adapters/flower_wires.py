"""Flower without its servers: messages and contexts go through their bytes, in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from tests.conformance.toys import Mean
from unpooled.adapters.flower import Agreement, client_app, coordinator
from unpooled.adapters.flower.envelope import Question, record
from unpooled.data.parties import Parties
from unpooled.messages.codec import encode
from unpooled.messages.message import Ask
from unpooled.privacy.policy import Policy

# isort: split
from flwr.app import Context, Error, Message, RecordDict, UserConfig
from flwr.clientapp import ClientApp
from flwr.common.serde import (
    context_from_proto,
    context_to_proto,
    recorddict_from_proto,
    recorddict_to_proto,
)
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

RUN_ID = 7
NAMES = ("West", "East", "North")
RNG = np.random.default_rng(0)
TABLES = [RNG.normal(size=(60, 2)) + 3 * RNG.integers(3, size=(60, 1)) for _ in NAMES]
WEIGHTS = [RNG.uniform(0.5, 2.0, size=60) for _ in NAMES]
PARTIES = Parties.of(TABLES, weights=WEIGHTS, names=NAMES)
AGREED = Agreement(Mean(), 3, 2, 5)


@pytest.fixture
def flower(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Flower's own programs set, and no waiting."""
    for name, value in (("_run_id", RUN_ID), ("_node_id", 1), ("_task_id", 3)):
        monkeypatch.setattr(TaskIdentity, name, value)
    monkeypatch.setattr(coordinator, "_POLL", 0.001)
    monkeypatch.setattr(coordinator, "_PAUSE", 0.001)


def load(context: Context) -> Any:
    number = int(context.node_config["partition-id"])
    return TABLES[number], WEIGHTS[number]


def question(
    number: int = 0, shift: float = 0.0, agreed: Agreement = AGREED, known: int = 0, **other: Any
) -> RecordDict:
    """A question of the toy's, with some fields as they should not be."""
    asked = Ask("sums", {"shift": np.full(2, shift)}, number)
    return record(replace(Question(agreed.digest, number, [known] * 3, encode(asked)), **other))


@dataclass
class Node:
    """A SuperNode: what it keeps of a run, and what it runs for every message."""

    app: ClientApp
    config: UserConfig
    context: Context = field(init=False)
    before: Callable[[Message], Message | None] = lambda message: None
    """What goes wrong: an answer in the app's place, or an exception to say nothing at all."""

    def __post_init__(self) -> None:
        self.context = Context(RUN_ID, 0, self.config, RecordDict(), {})

    def answer(self, message: Message) -> Message:
        """The app's answer; the context is kept the way Flower keeps it."""
        instead = self.before(message)
        if instead is not None:
            return instead
        context = context_from_proto(context_to_proto(self.context))
        reply = self.app(message, context)
        self.context = context_from_proto(context_to_proto(context))
        return reply


def nodes(agreed: Agreement, policy: str | Policy = "study") -> dict[int, Node]:
    """One node for each party, in no order, with ids as long as Flower's."""
    app = client_app(agreed, load, policy)
    return {
        2**63 + 11 * (5 - i): Node(app, {"partition-id": i, "name": name})
        for i, name in enumerate(NAMES)
    }


def of(number: int, all_nodes: dict[int, Node]) -> Node:
    """The party's node."""
    return next(n for n in all_nodes.values() if n.config["partition-id"] == number)


class Lost(Exception):
    """Nothing comes back."""


class Wires(Grid):
    """Carries messages to nodes and back; the last to be asked answers first."""

    def __init__(self, nodes: dict[int, Node]) -> None:
        self.nodes = nodes
        self.sent: list[Message] = []
        self._replies: dict[str, Message] = {}

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        names = []
        for message in messages:
            name = f"message {len(self.sent)}"
            message.metadata.__dict__["_message_id"] = name
            message.content = _copied(message.content)
            self.sent.append(message)
            names.append(name)
            try:
                reply = self.nodes[message.metadata.dst_node_id].answer(message)
            except Lost:
                continue
            if reply.has_content():
                reply.content = _copied(reply.content)
            self._replies[name] = reply
        return names

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        found = [name for name in message_ids if name in self._replies]
        return [self._replies.pop(name) for name in reversed(found)]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        raise NotImplementedError

    def set_run(self, run: Run) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Run:
        raise NotImplementedError

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        raise NotImplementedError


def error_reply(message: Message, code: int) -> Message:
    """An error as SuperLinks make them: from node 1, whoever was asked."""
    reply = Message(Error(code, "<class 'ValueError'>:<'3.14 is secret'>"), reply_to=message)
    reply.metadata.__dict__["_src_node_id"] = 1
    return reply


def _copied(content: RecordDict) -> RecordDict:
    return recorddict_from_proto(recorddict_to_proto(content))
