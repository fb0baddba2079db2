"""Opens a party's state directory and its place on the network, and closes both in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from unpooled.data.parties import PartyData
from unpooled.data.sources import OwnRows
from unpooled.deploy.admission import admitted, new_store
from unpooled.deploy.check import RunSetting, identified, refuse_place, refuse_rows
from unpooled.deploy.members import Member
from unpooled.deploy.method import declared_messages
from unpooled.deploy.own import Own
from unpooled.deploy.plan import Plan
from unpooled.errors import StateError, UnpooledError
from unpooled.messages.codec import LIMITS, Limits
from unpooled.messages.conform import largest_size
from unpooled.network.node import Node, telling_others
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.zenoh import ZenohTransport
from unpooled.network.zenoh_config import Place
from unpooled.types import PartyId


@contextmanager
def connected(
    plan: Plan,
    member: Member,
    setting: RunSetting,
    *,
    why: Callable[[UnpooledError], str] | None = None,
) -> Iterator[tuple[StateDirectory, Node]]:
    """The state directory and the node, closed in the end, whatever happens.

    Whoever fails in between sends the others notice; ``why`` makes the sentence of an error.
    """
    with ExitStack() as stack:
        state = StateDirectory(setting.to, plan.hash.hex(), member.name)
        stack.callback(state.close)
        node = _node(plan, member, state, setting)
        stack.callback(node.close)
        with telling_others(node, why):
            try:
                yield state, node
            except OSError as error:
                raise StateError(
                    f"{member.name} cannot write to {state.path} ({error.strerror}); make room or "
                    "give it the rights, then start it again: what it knows is kept."
                ) from error


@contextmanager
def connected_with_rows(
    plan: Plan,
    name: PartyId,
    own: Own,
    read: Callable[[], OwnRows],
    setting: RunSetting,
    *,
    star: bool,
) -> Iterator[tuple[StateDirectory, Node, OwnRows, PartyData]]:
    """The same with the rows of a party or peer, once they and its policy go with the plan.

    Last is what the plan's protocol is given of them.
    """
    member = refuse_place(plan, name, setting, star=star)
    with connected(plan, member, setting) as (state, node):
        # Only now: if the rows cannot be used, the others learn that they need not wait.
        rows = read()
        refuse_rows(plan, name, own, rows)
        begun = new_store(name, own)
        data = admitted(plan, name, own, rows, state)
        if begun is not None:
            setting.report({"event": "cells", "folder": str(begun.absolute())})
        if data.remark:
            setting.report({"event": "warning", "text": f"{name}: {data.remark}."})
        yield state, node, rows, data


def _node(plan: Plan, member: Member, state: StateDirectory, setting: RunSetting) -> Node:
    others = plan.neighbours(member.name)
    identity, files = identified(plan, member, setting)
    place = Place(member.name, member.endpoint, {n: o.endpoint for n, o in others.items()})
    limits = message_limits(plan)
    transport = ZenohTransport(place, files, largest=limits.max_bytes)
    fingerprints = {name: other.fingerprint for name, other in others.items()}
    return Node(identity, fingerprints, plan.hash, state, transport, limits, plan.parts)


def message_limits(plan: Plan) -> Limits:
    """Twice the largest message that the plan's protocol declares, if it can be known."""
    users, n_columns = None if plan.coordinator else 1, len(plan.columns)
    declared = declared_messages(plan.protocol)
    sizes = [largest_size(release, n_columns, users) for release in declared]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return LIMITS
    return replace(LIMITS, max_bytes=min(LIMITS.max_bytes, max(2**20, 2 * max(known))))
