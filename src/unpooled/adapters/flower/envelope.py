"""A question, and what is said to it, in Flower's messages: one record each, and no pickle."""

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
    """The coordinator has answers that the party does not remember."""


@dataclass(frozen=True)
class Question:
    """A question to a party."""

    agreement: str
    """What the coordinator takes the run for: a digest."""
    exchange: int
    """The question's number in the run."""
    answered: list[int]
    """How many answers the coordinator has from each party."""
    question: bytes


@dataclass(frozen=True)
class Word:
    """What a party says: its answer, or in one sentence why there is none."""

    number: int
    """-1 if the party does not know."""
    party: PartyId
    status: str
    """answer, withheld, refused (by its policy), outdated (its memory is), or failed."""
    answer: bytes = b""
    text: str = ""


_TYPES: dict[type, dict[str, type]] = {
    Question: {"agreement": str, "exchange": int, "answered": list, "question": bytes},
    Word: {"number": int, "party": str, "status": str, "answer": bytes, "text": str},
}


def agreement_of(agreed: Agreed, context: Context) -> Agreement:
    """What this side takes the run for."""
    return agreed(context) if callable(agreed) else agreed


def record(said: Question | Word) -> RecordDict:
    """Ready to be sent."""
    return RecordDict({KEY: ConfigRecord(asdict(said))})


def question_of(message: Message) -> Question:
    """The question that has arrived."""
    found = Question(**_fields(message, Question))
    if not all(type(count) is int for count in found.answered):
        raise MalformedMessage("A question over Flower counts answers in something else than ints.")
    return found


def word_of(message: Message) -> Word:
    """What a party says."""
    found = _fields(message, Word)
    for name in ("party", "text"):  # they go to people and logs
        found[name] = printable(" ".join(found[name].split()), LONGEST)
    return Word(**found)


def _fields(message: Message, kind: type) -> dict[str, Any]:
    """The fields of what has arrived, if all are there and of their types."""
    found = message.content.get(KEY) if message.has_content() else None
    fields = dict(found) if isinstance(found, ConfigRecord) else {}
    if {name: type(value) for name, value in fields.items()} != _TYPES[kind]:
        raise MalformedMessage(
            f"A message over Flower is no {kind.__name__}; have both sides run the same version."
        )
    return fields
