"""The signed reply to a greeting that is refused: whoever may not take part learns why.

It is signed with the key of the certificate that the plan names, over the hash of the very greeting
that it refuses, so that nobody else can send a party away, nor can an old refusal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256

import numpy as np

from unpooled.errors import MalformedMessage
from unpooled.messages.codec import encode
from unpooled.messages.message import Post
from unpooled.network.identity import Identity, fingerprint, signed
from unpooled.text import printable
from unpooled.types import Body, PartyId

REFUSED = "refused"
ANOTHER_PLAN, OLDER = "another plan", "older incarnation"
REASONS = (ANOTHER_PLAN, OLDER)
_MOST_NAMED = 5
_LONGEST = 80


def refusal(
    me: Identity, incarnation: int, hello: bytes, reason: str, parts: Mapping[str, str]
) -> bytes:
    """The reply to a greeting; ``parts`` is our plan in short, for the other side to compare."""
    content = json.dumps([reason, dict(parts)]).encode()
    greeting = sha256(hello).digest()
    signature = me.sign(_signed_part(greeting, content, me.name))
    body = {
        "greeting": np.frombuffer(greeting, np.uint8),
        "said": np.frombuffer(content, np.uint8),
        "certificate": np.frombuffer(me.certificate, np.uint8),
        "signature": np.frombuffer(signature, np.uint8),
    }
    return encode(Post(REFUSED, incarnation, body))


def read_refusal(
    body: Body, hello: bytes, sender: PartyId, known: str, *, trusted: bool
) -> tuple[str, Mapping[str, str]] | None:
    """The reason and the other side's plan in short; None if it is not about our greeting.

    ``known`` is the fingerprint in our plan; ``trusted`` means that there are no keys, as in trials
    on one machine.
    """
    try:
        greeting, content, certificate, signature = (
            body[name].tobytes() for name in ("greeting", "said", "certificate", "signature")
        )
    except KeyError as error:
        raise MalformedMessage(f"A refusal has no {error}.") from None
    if greeting != sha256(hello).digest():
        return None  # of a process before this one
    if not trusted and not (
        fingerprint(certificate) == known
        and signed(certificate, _signed_part(greeting, content, sender), signature)
    ):
        raise MalformedMessage("A refusal is not signed by whom the plan names.")
    try:
        reason, parts = json.loads(content)
        whole = reason in REASONS and all(isinstance(part, str) for part in parts.values())
    except (AttributeError, RecursionError, TypeError, ValueError):
        whole = False
    if not whole:
        raise MalformedMessage("A refusal does not have the content that it should.")
    return reason, parts


def difference(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """What two plans differ in, as a clause."""
    named = [
        f"{printable(key, _LONGEST)} ({printable(ours.get(key, 'nothing'), _LONGEST)} here, "
        f"{printable(theirs.get(key, 'nothing'), _LONGEST)} there)"
        for key in sorted(ours.keys() | theirs.keys())
        if ours.get(key) != theirs.get(key)
    ]
    rest = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return (", ".join(named[:_MOST_NAMED]) or "a part that cannot be named") + rest


def _signed_part(greeting: bytes, content: bytes, name: PartyId) -> bytes:
    return sha256(b"refused" + greeting + sha256(content).digest() + name.encode("ascii")).digest()
