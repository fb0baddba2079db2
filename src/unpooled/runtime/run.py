"""What came of a run, whatever carried its messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from unpooled.privacy.traffic import Traffic
from unpooled.types import Body, PartyId


@dataclass(frozen=True)
class Run:
    """What came of a run: the protocol's result (in a mesh with users in order) and the traffic."""

    result: Body
    traffic: Traffic
    remarks: Mapping[PartyId, list[str]] = field(default_factory=dict)
    """What parties left out of their rows, in words."""
    elapsed: int = 0
    """In a mesh, the exchanges that it took, those included in which lost messages were repeated.
    """
