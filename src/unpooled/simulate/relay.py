"""Runs a star without a coordinator: along a spanning tree of the parties.

The root of the tree plays the coordinator beside its own part. Its questions go from parent to
child, answers from child to parent, unchanged, up to the root. Neither side of the protocol knows
the difference, and the result is the star's, bit for bit; what differs is who sends how much, and
that is counted here:

- a question is sent by every party that has children and was reached, once per child, whether the
  child is up or not;
- an answer is sent by its party to its parent, and by every party in between, up to the root;
- what the root says to itself costs nothing, though its policy is asked all the same, because its
  later questions tell others of its answers.

A question takes ``height`` hops down (parties at depth h send in hop h), answers as many up (the
deepest first, each party once it has heard all below it), so there are at most 2 ``height``
exchanges in which anybody sends.

Parties on the way see the answers of all parties below them. What they pass on is not theirs: it
does not go through their policy, and does not count against their caps.

A party that is down, or a lost link of the tree, cuts off everybody below for that question. As in
a star, faults are timed by questions: exchange n is all the hops of question n.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from unpooled.errors import InputError
from unpooled.graphs.trees import SpanningTree
from unpooled.messages.codec import body_size
from unpooled.messages.message import Ask
from unpooled.privacy.traffic import Entry
from unpooled.runtime.party import DIRECT, Route
from unpooled.simulate.faults import Faults
from unpooled.types import Body, BoolArray, IntArray, PartyId


class Relay:
    """The way along a tree."""

    def __init__(self, tree: SpanningTree, names: tuple[PartyId, ...]) -> None:
        if len(tree) != len(names):
            raise InputError(
                f"The tree spans {len(tree)} parties but there are {len(names)}; make it from a "
                "graph with one node per party."
            )
        self.entries: list[tuple[IntArray, Entry]] = []
        """What parties passed on beside questions to them and answers of their own."""
        self.tree = tree
        self._numbers = {name: i for i, name in enumerate(names)}

    def route(self, party: int) -> Route:
        """The party's own end of it."""
        height, depth = self.tree.height, int(self.tree.depths[party])
        return Route(DIRECT.copies if depth else 0 * DIRECT.copies, 2 * height, 2 * height - depth)

    def reached(self, faults: Faults, question: int) -> BoolArray:
        """Which parties hear this question and can answer it."""
        everybody = np.arange(len(self.tree))
        linked = faults.carries(question, everybody, self.tree.parents)
        return self.tree.reached(faults.awake(question) & linked)

    def carry(
        self, ask: Ask, replies: Mapping[PartyId, Body], reached: BoolArray, question: int
    ) -> None:
        """Counts what is passed on: the question to those reached, these replies back.

        That a question arrived, and that a party sent its own answer, its ledger has counted.
        """
        tree = self.tree
        inner = reached & (tree.n_children > 0)
        for depth in range(tree.height):
            senders = np.flatnonzero(inner & (tree.depths == depth))
            hop = question * 2 * tree.height + depth
            self._count(ask, ask.body, "up", hop, senders, tree.n_children[senders])
        for name, body in replies.items():
            _, *above = tree.path(self._numbers[name])
            for party in above[:-1]:
                hop = self.route(party).exchange(question)
                self._count(ask, body, "up", hop, np.array([party]))
            self._count(ask, body, "down", 0, np.array(above, dtype=np.int64))

    def _count(
        self,
        ask: Ask,
        body: Body,
        way: Literal["up", "down"],
        exchange: int,
        parties: IntArray,
        copies: IntArray | None = None,
    ) -> None:
        if len(parties) == 0:
            return
        floats = sum(value.size for value in body.values())
        times = np.ones(len(parties), dtype=np.int64) if copies is None else copies
        size = body_size(ask.kind, body)
        self.entries.append(
            (parties, Entry(ask.kind, ask.round, exchange, way, size, floats, times))
        )
