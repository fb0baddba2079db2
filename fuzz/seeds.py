"""Valid samples for the targets: where a fuzzer begins, and what must go on being read."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from fuzz import meshes, stars, states
from fuzz.scratch import Scratch
from unpooled.messages.codec import encode, encode_state
from unpooled.messages.message import Ask, Post, Reply
from unpooled.network.storage.journal import JOURNAL, Journal
from unpooled.network.storage.ledger_file import LEDGER, LedgerFile

BODY = {
    "x": np.arange(6.0).reshape(3, 2),
    "n": np.array([1, 2, 3]),
    "u": np.frombuffer(b"abc", np.uint8),
}
Seeds = Iterator[tuple[str, bytes]]


def message() -> Seeds:
    """Every type of message, every type of array."""
    yield "ask", encode(Ask("moments", {}, 0, 2))
    yield "reply", encode(Reply("a", BODY, 3))
    kinds = ("f4", "i4", "u8", "u4", "?")
    yield "post", encode(Post("a.b-c", -1, {f"v{k}": np.ones((2, 1), k) for k in kinds[:4]}))
    yield "empty", encode(Post("a", 1, {"x": np.empty((0, 3)), "s": np.array(1.0)}))
    yield "bools", encode(Post("a", 1, {"b": np.array([True, False])}))


def state() -> Seeds:
    """A party's state."""
    yield "plain", encode_state(BODY)
    yield "party", states.honest_memory(0, 1)


def shapes() -> Seeds:
    """Bodies that fit, and one that nearly does."""
    yield "nothing", bytes(3) + encode(Post("a", 0, {}))
    yield "rows", bytes([1, 0, 0]) + encode(Post("a", 0, BODY))
    yield (
        "users",
        bytes([1, 2, 1])
        + encode(Post("a", 0, {"x": np.ones((3, 2, 2)), "n": np.ones((3, 2), np.int64)})),
    )
    fixed = {"x": np.ones(5), "f": np.array(np.inf, np.float32)}
    yield "fixed", bytes([2, 0, 0]) + encode(Post("a", 0, fixed))
    yield "nan", bytes([2, 0, 0]) + encode(Post("a", 0, {**fixed, "x": np.full(5, np.nan)}))


def link() -> Seeds:
    """Greetings in order, then messages; with keys and without; and each way of going wrong."""
    inner = encode(Post("a", 0, BODY))
    for flags in range(8):
        yield f"greeted-{flags}", bytes([flags, 0, 1, 0, 1, 2, 0, 0, 0, 0, 2])
    yield "sealed", bytes([2, 5]) + _block(inner) + bytes([0, 0, 0, 0, 9, 0, 0, 3, 0])
    yield "forged", bytes([2, 5]) + _block(inner) + bytes([0, 0, 0, 0, 9, 0, 0, 3, 7])
    yield "oversized", bytes([2, 5]) + _block(bytes(2000)) + bytes([0, 0, 0, 0, 9, 0, 0, 3, 0])
    yield "changed", bytes([0, 3, 0, 1, 1, 7, 0, 9, 1, 3, 1, 1, 1, 7, 0, 9])
    yield "made-up", bytes([2, 4, 0, 1, 2, 0, 6, 1, 32, 0, 0])
    yield "cut", bytes([2, 6, 2, 1, 40, 0, 0, 6, 0, 1, 9, 0, 1, 255])


def node() -> Seeds:
    """The same under the keys that a node listens to, with greetings in another's name."""
    for flags in (0, 1, 4):
        yield (
            f"greeted-{flags}",
            bytes([flags, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 2, 2]),
        )
    forged = [part for nonce in range(5) for part in (0, 3, 0, 1, 1, 7, 0, nonce)]
    yield "hellos", bytes([1, *forged, *forged])
    yield "unknown", bytes([1, 2, 6, 2, 0, 3, 4])


def coordinator() -> Seeds:
    """All parties answer every question; then one is killed, silent, or says something else."""
    for which in range(len(stars.PROTOCOLS)):
        yield f"well-{which}", bytes([which, 0]) + bytes(20)
    yield "resumed", bytes([0, 0, 0, 0, 0, 5, 0, 5, 0, 0]) + bytes(10)
    yield "quorum", bytes([0, 2, 0, 0, *[3, 0] * 6, 0, *[3, 0] * 6, 0, 0, *[3, 0] * 6])
    yield "lost", bytes([0, 0, 0, 0, *[3, 0] * 12])
    yield "refusals", bytes([0, 1, *[byte for name in range(3) for byte in (7, name, 0, 3, 0, 0)]])
    yield "nan", bytes([0, 0, 1, 1, 1, 7, 0, 13, 0, 0, 0, 0])
    yield "negative", bytes([6, 0, 1, 1, 1, 6, 3, 1, 1, 1, 6, 3, 0, 0, 0])


def party() -> Seeds:
    """A party that is asked everything in order, under each policy; and what goes wrong."""
    for which in range(len(stars.PROTOCOLS)):
        yield f"well-{which}", bytes([which, which % 2]) + bytes(8)
    yield "resumed", bytes([0, 1, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0])
    yield "other-run", bytes([0, 0, 0, 0, 7, 0, 0, 0, 1, 4, 6, 1, 16, 0, 7, 0])
    yield "failed", bytes([0, 0, 7, 0, 4, 0, 1, 5, 6, 1, 3, 0, 33, 0])
    yield "silence", bytes([0, 0, 0, *[3] * 8])
    yield "no-centres", bytes([0, 0, 7, 0, 5, 0, 1, 1, 0, 2, 0, 2, 0, 0, 0])
    yield "no-scale", bytes([1, 0, 7, 0, 5, 0, 1, 5, 0, 1, 2, 0, 0, 0])
    yield "tiny-scale", bytes([1, 0, *[0] * 4, 1, 1, 2, 6, 5])
    yield "share", bytes([11, 0, 0, 0, 1, 1, 2, 6, 9])
    yield "round", bytes([0, 0, 0, 1, 1, 0, 0, 130])


def peer() -> Seeds:
    """A peer whose neighbours say what it says; who sleep, end, or come back."""
    for which in range(len(meshes.PROTOCOLS)):
        yield f"well-{which}", bytes([which, 0]) + bytes(40)
    yield "resumed", bytes([0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 5, 0]) + bytes(12)
    yield "ended", bytes([0, 0, 0, 0, 7, 0, 1, 0, 4, 0, *[0] * 8, 7, 1, 1, 0, 4, 0, *[0] * 8])
    yield "asleep", bytes([0, 0, 0, 0, 7, 0, 0, 7, 4, 0, 0, 0, *[3, 0] * 6, *[0] * 8])
    yield "silent", bytes([0, 0, *[3, 0] * 40])
    yield "ahead", bytes([0, 0, *[byte for place in range(4, 9) for byte in (2, 0, place, 0)]])
    yield "capped", bytes([0, 1]) + bytes(30)


def memory() -> Seeds:
    """What parties remember, as it is and with something else in it."""
    for which in range(0, len(stars.PROTOCOLS), 3):
        yield f"kept-{which}", bytes([which, 1, 1, 0, 0])
    yield "changed", bytes([0, 1, 1, 0, 1, 0, 7, 0, 2])
    yield "bytes", bytes([0, 1, 1, 3]) + _block(states.honest_memory(0, 1))


def journal() -> Seeds:
    """Records as they are written, and the same with right sums around any bytes."""
    raw = _written(JOURNAL)
    yield "whole", b"\1" + raw
    yield "cut", b"\1" + raw[:-3]
    yield "made", bytes([0, 1]) + _block(b'{"exchange": 0, "parts": {"B": 3}}') + _block(b"abc")
    yield "no-parts", bytes([0, 1]) + _block(b'{"exchange": 0}') + _block(b"")
    yield "list", bytes([0, 1]) + _block(b"[]") + _block(b"")
    yield "sizes", bytes([0, 1]) + _block(b'{"parts": {"B": -1, "C": null}}') + _block(b"abc")


def ledger() -> Seeds:
    """Lines as they are written, and the same with right hashes around any bytes."""
    raw = _written(LEDGER)
    yield "whole", b"\1" + raw
    yield "cut", b"\1" + raw[:-3]
    yield "made", b"\0" + _block(b'{"exchange": 0, "digest": "00"') + b"\0" + _block(b"{")
    yield "odd", b"\0" + _block(b'{"exchange": [], "digest": {}') + b"\0"


def words() -> Seeds:
    """The small files, right and wrong."""
    owner = json.dumps({"plan": "plan", "name": "North"}).encode()
    known = json.dumps({"South": [3, "00"]}).encode()
    for label, started in (("right", 3), ("large", 2**64), ("negative", -1), ("text", "x")):
        incarnation = json.dumps({"started": started}).encode()
        yield label, b"".join(b"\1" + _block(part) for part in (owner, incarnation, known))
    yield "none", bytes(3)
    yield "empty", b"\0\1" + _block(b"{}") + b"\1" + _block(b'{"South": 1}')


def resume() -> Seeds:
    """Each role with what it left behind."""
    made = b"\1" + _written(JOURNAL)
    lines = b"\1" + _written(LEDGER)
    for role in range(3):
        yield f"left-{role}", bytes([role, 0, 0]) + _block(made) + b"\0" + _block(lines)
    yield "remembered", bytes([1, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1]) + _block(stars.RUN)
    odd = bytes([0, 1]) + _block(b'{"exchange": 0, "parts": {"Z": 1}}') + _block(b"abc")
    yield "odd", bytes([2, 0, 0]) + _block(odd) + b"\1"


def _block(content: bytes) -> bytes:
    return len(content).to_bytes(2, "little") + content


def _written(file: str) -> bytes:
    """A journal or a ledger."""
    with Scratch() as folder:
        if file == JOURNAL:
            log = Journal(folder / file, to_disk=False)
            said = encode(Post("limits", 0, {"largest": np.ones((1, 3))}))
            log.append({"exchange": 0}, {"B": said, "D": said})
            log.append({"asleep": 2}, {})
            log.append({"ended": "B", "last": 1}, {"words": said})
        else:
            log = LedgerFile(folder / file)
            log.append({"exchange": 0, "kind": "limits", "round": 0, "digest": "00" * 32})
            log.append({"exchange": 1, "kind": "centers", "round": 0, "digest": "11" * 32})
        log.close()
        return (folder / file).read_bytes()
