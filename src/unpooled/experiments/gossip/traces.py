"""A run of a peer-to-peer method, recorded exchange by exchange."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unpooled import checks
from unpooled.data.parties import Parties
from unpooled.experiments.gossip.setting import TREE_KINDS
from unpooled.graphs.topology import Topology
from unpooled.messages.message import Message, Note
from unpooled.simulate import Options, run_mesh
from unpooled.types import FloatArray, IntArray


@dataclass(frozen=True)
class Trace:
    """Users' centres (users, K, d) from the start on, and what had been sent by then.

    The start comes first, then the centres after every round (of GossipKMeans: every cycle).
    """

    centers: list[FloatArray]
    exchanges: IntArray
    """So far, without those that find the tree."""
    floats: FloatArray
    """Numbers sent so far by a user, on average."""
    messages: FloatArray


def trace(model: Any, parties: Parties, network: Topology, seed: int) -> Trace:
    """Runs an estimator's protocol as a fit does whose ``random_state`` is ``seed``."""
    kinds: list[str] = []
    starts: list[FloatArray] = []
    seen: list[tuple[int, FloatArray]] = []

    def watch(_: str, message: Message) -> None:
        kinds.append(message.kind)
        if "centers" in message.body and not seen:
            sent = np.array(message.body["centers"])
            # Merged centres come from the tree's root, user 0; other users have them only once the
            # last exchange of the start is over.
            merged = "place" in message.body
            starts.append(np.broadcast_to(sent[:1], sent.shape) if merged else sent)

    def observe(note: Note) -> None:
        seen.append((len(kinds), np.array(note.body["centers"])))

    run = run_mesh(
        model.planned(parties),
        parties,
        network,
        seed=checks.seed(seed),
        options=Options(watch=watch),
        observe=observe,
    )
    if not starts:  # centres that all users know are not sent
        starts.append(np.broadcast_to(model.init, seen[0][1].shape))
    place = [first_round(kinds), *(count for count, _ in seen)]
    sent = {
        name: np.concatenate(
            [[0], np.cumsum([line[name] for line in run.traffic.by_round.values()])]
        )
        for name in ("floats_up", "messages")
    }
    by_tree = np.concatenate([[0], np.cumsum([kind in TREE_KINDS for kind in kinds])])
    return Trace(
        centers=[starts[-1], *(centers for _, centers in seen)],
        exchanges=np.array([at - by_tree[at] for at in place]),
        floats=sent["floats_up"][place] / len(parties),
        messages=sent["messages"][place] / len(parties),
    )


def first_round(kinds: list[str]) -> int:
    """How many exchanges there were before the rounds, the last kind of them all."""
    return kinds.index(kinds[-1])
