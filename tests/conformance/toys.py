"""Small protocols: some that keep the rules, and others that each break one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.messages.message import Ask, Note, Post
from unpooled.messages.release import COLUMNS, Release, Size
from unpooled.protocols.mesh.base import Block, MeshProtocol, Peer
from unpooled.protocols.mesh.shared.max_consensus import max_consensus
from unpooled.protocols.star.base import Coordinator, StarProtocol, Step
from unpooled.types import Body


@dataclass(frozen=True)
class Mean(StarProtocol):
    """The mean of all rows from sums, asked for twice; parties remember how often."""

    name = "mean"

    @property
    def releases(self) -> tuple[Release, ...]:
        shapes: dict[str, tuple[Size, ...]]
        shapes = {"total": (COLUMNS,), "count": (1,), "asked": (1,)}
        return (Release("sums", tuple(shapes), ("sums",), "sums of all rows", shapes=shapes),)

    @property
    def asks(self) -> tuple[Release, ...]:
        why, shapes = "what to add to each row", {"shift": (COLUMNS,)}
        return (Release("sums", ("shift",), ("model",), why, shapes=shapes),)

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        for number in range(2):
            replies = yield Ask("sums", {"shift": np.full(2, float(number))}, number)
            total = sum(reply["total"] for reply in replies.values())
            count = sum(reply["count"] for reply in replies.values())
            yield Note(number, {"count": np.asarray(count)})
        asked = np.array([reply["asked"][0] for reply in replies.values()])
        return {"mean": np.asarray(total / np.maximum(count, 1.0)), "asked": asked}

    @property
    def shared(self) -> Release:
        shapes: dict[str, tuple[Size, ...]] = {"mean": (COLUMNS,)}
        return Release("result", ("mean",), ("model",), "the mean", shapes=shapes)

    @property
    def steps(self) -> Mapping[str, Step]:
        return {"sums": self.sums}

    def sums(
        self, data: PartyData, state: Body, body: Body, rng: np.random.Generator
    ) -> tuple[Body, Body]:
        asked = state.get("asked", np.zeros(1)) + 1.0
        total = (data.weights[:, None] * (data.rows + body["shift"])).sum(axis=0)
        reply = {"total": total, "count": np.array([data.weights.sum()]), "asked": asked}
        return reply, {"asked": asked}


@dataclass(frozen=True)
class Largest(MeshProtocol):
    """Every user learns the largest number of rows."""

    name = "largest"

    @property
    def releases(self) -> tuple[Release, ...]:
        shapes = {"largest": (1,)}
        return (Release("size", ("largest",), ("counts",), "number of rows", shapes=shapes),)

    def peer(self, block: Block) -> Peer[Body]:
        sizes = block.parties.sizes[:, None].astype(float)
        return {"largest": (yield from max_consensus(block, "size", sizes))}


class Heaviest(Largest):
    """Every user learns the largest sum of somebody's rows, which may round either way."""

    def peer(self, block):  # type: ignore[no-untyped-def]
        parties = block.parties
        spans = zip(parties.offsets[:-1], parties.offsets[1:], strict=True)
        sums = [parties.rows[start:end].sum(axis=0).max(keepdims=True) for start, end in spans]
        return {"largest": (yield from max_consensus(block, "size", np.array(sums)))}


class RandomStar(Mean):
    """Answers with fresh randomness that no seed controls."""

    def sums(self, data, state, body, rng):  # type: ignore[no-untyped-def]
        reply, state = super().sums(data, state, body, rng)
        return {**reply, "total": reply["total"] + np.random.default_rng().normal()}, state


class Unweighted(Mean):
    """Counts every row once, whatever its weight."""

    def sums(self, data, state, body, rng):  # type: ignore[no-untyped-def]
        alike = replace(data, weights=np.ones(len(data.weights)))
        return super().sums(alike, state, body, rng)


class SharedStar(Mean):
    """Parties leave notes for each other behind the protocol's back."""

    seen: ClassVar[list[float]] = []

    def sums(self, data, state, body, rng):  # type: ignore[no-untyped-def]
        self.seen.append(float(len(data.rows)))
        reply, state = super().sums(data, state, body, rng)
        return {**reply, "total": reply["total"] + self.seen[-5:][0]}, state


class ObjectState(Mean):
    """Keeps something in its state that cannot be written down."""

    def sums(self, data, state, body, rng):  # type: ignore[no-untyped-def]
        reply, _ = super().sums(data, {}, body, rng)
        return reply, {"friend": np.array([object()], dtype=object)}


class WritesRows(Mean):
    """Shifts its rows where they are, which not all rows allow."""

    def sums(self, data, state, body, rng):  # type: ignore[no-untyped-def]
        rows = data.rows
        rows += body["shift"]
        reply, state = super().sums(data, state, {"shift": np.zeros(2)}, rng)
        rows -= body["shift"]
        return reply, state


class EmptyCrash(Mean):
    """Divides by a party's number of rows."""

    def sums(self, data, state, body, rng):  # type: ignore[no-untyped-def]
        reply, state = super().sums(data, state, body, rng)
        return {
            **reply,
            "total": reply["total"] * np.float64(1) / np.float64(len(data.rows)),
        }, state


class Undeclared(Largest):
    """Sends a field that it does not declare."""

    def peer(self, block):  # type: ignore[no-untyped-def]
        sizes = block.parties.sizes[:, None].astype(float)
        heard = yield Post("size", 0, {"largest": sizes, "secret": sizes})
        return {"largest": heard.largest("largest")}


class Repeater(Largest):
    """Gives two exchanges the same name."""

    def peer(self, block):  # type: ignore[no-untyped-def]
        sizes = block.parties.sizes[:, None].astype(float)
        if len(block.neighbourhood.links.indices):
            yield Post("size", 0, {"largest": sizes})
        heard = yield Post("size", 0, {"largest": sizes})
        return {"largest": heard.largest("largest")}


class WideAnswer(Mean):
    """Counts for each column what it declares to count once."""

    def sums(self, data, state, body, rng):  # type: ignore[no-untyped-def]
        reply, state = super().sums(data, state, body, rng)
        return {**reply, "count": np.repeat(reply["count"], 2)}, state


class WideQuestion(Mean):
    """Asks with a shift for every row and column."""

    def coordinator(self, rng):  # type: ignore[no-untyped-def]
        replies = yield Ask("sums", {"shift": np.zeros((1, 2))})
        return {"mean": sum(reply["total"] for reply in replies.values())}


class WidePost(Largest):
    """Says everything twice."""

    def peer(self, block):  # type: ignore[no-untyped-def]
        sizes = np.repeat(block.parties.sizes[:, None].astype(float), 2, axis=1)
        return {"largest": (yield from max_consensus(block, "size", sizes))}


class Unknown(Largest):
    """Sends what is no number as long as nothing is known."""

    def peer(self, block):  # type: ignore[no-untyped-def]
        heard = yield Post("size", 0, {"largest": np.full((len(block), 1), np.nan)})
        return {"largest": np.nan_to_num(heard.largest("largest"))}


class Loner(Largest):
    """Cannot be alone."""

    def peer(self, block):  # type: ignore[no-untyped-def]
        if len(block.neighbourhood.outer) + len(block) < 2:
            raise ZeroDivisionError
        return (yield from super().peer(block))


class HostAware(Largest):
    """Mixes up the users that happen to share a host."""

    def peer(self, block):  # type: ignore[no-untyped-def]
        sizes = np.full((len(block), 1), float(block.parties.sizes.sum()))
        return {"largest": (yield from max_consensus(block, "size", sizes))}
