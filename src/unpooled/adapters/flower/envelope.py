"""A question and a party's reply in Flower's messages: one record each, and no pickle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict

from unpooled.errors import MalformedMessage, ProtocolError
from unpooled.runtime.agreement import Agreement
from unpooled.text import printable
from unpooled.types import PartyId

Agreed: TypeAlias = Agreement | Callable[[Context], Agreement]

ACTION = "unpooled"
MESSAGE_TYPE = f"{MessageType.QUERY}.{ACTION}"
KEY = "unpooled"
LONGEST = 1000
"""Letters of a sentence or a name that are kept."""


class Outdated(ProtocolError):
    """The coordinator has replies that the party's memory does not have."""


@dataclass(frozen=True)
class Question:
    """A question to a party."""

    agreement: str
    """The digest of the coordinator's agreement."""
    exchange: int
    """The question's number in the run."""
    answered: list[int]
    """How many replies the coordinator has from each party."""
    question: bytes


@dataclass(frozen=True)
class PartyReply:
    """A party's reply: its answer, or in one sentence why there is none."""

    number: int
    """-1 if the party does not know."""
    party: PartyId
    status: str
    """answer, withheld, refused (by its policy), outdated (its memory is), or failed."""
    answer: bytes = b""
    text: str = ""


_NAMES: dict[type, str] = {Question: "question of a coordinator", PartyReply: "reply of a party"}
_TYPES: dict[type, dict[str, type]] = {
    Question: {"agreement": str, "exchange": int, "answered": list, "question": bytes},
    PartyReply: {"number": int, "party": str, "status": str, "answer": bytes, "text": str},
}


def agreement_of(agreed: Agreed, context: Context) -> Agreement:
    """What this side takes to be agreed on."""
    return agreed(context) if callable(agreed) else agreed


def record(message: Question | PartyReply) -> RecordDict:
    """The message as Flower sends it."""
    return RecordDict({KEY: ConfigRecord(asdict(message))})


def question_of(message: Message) -> Question:
    """The question that has arrived."""
    found = Question(**_fields(message, Question))
    if not all(type(count) is int for count in found.answered):
        raise MalformedMessage("A question over Flower counts replies in something else than ints.")
    return found


def party_reply_of(message: Message) -> PartyReply:
    """The reply that has arrived."""
    found = _fields(message, PartyReply)
    for name in ("party", "text"):  # they are printed and logged
        found[name] = printable(" ".join(found[name].split()), LONGEST)
    return PartyReply(**found)


def _fields(message: Message, kind: type) -> dict[str, Any]:
    """The fields of what has arrived, if all are there and of their types."""
    found = message.content.get(KEY) if message.has_content() else None
    fields = dict(found) if isinstance(found, ConfigRecord) else {}
    if {name: type(value) for name, value in fields.items()} != _TYPES[kind]:
        raise MalformedMessage(
            f"A message over Flower is no {_NAMES[kind]}; have both sides run the same version."
        )
    return fields
