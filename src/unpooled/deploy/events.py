"""The events that programs report while they run, as values for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unpooled.network.mesh import Progress
from unpooled.network.star_coordinator import StarProgress


def star_event(progress: StarProgress) -> dict[str, Any]:
    """A round at a coordinator: who replied, who did not, how much travelled."""
    note = {} if progress.note is None else _small(progress.note.body)
    return {
        "event": "round",
        "kind": progress.asked,
        "round": progress.round,
        "present": progress.answered,
        "missing": progress.missing,
        "sent": progress.bytes_out,
        "received": progress.bytes_in,
        "note": note,
    }


def mesh_event(progress: Progress, neighbours: int) -> dict[str, Any]:
    """An exchange at a peer that has so many neighbours."""
    note = {} if progress.note is None else _small(progress.note.body)
    return {
        "event": "round",
        "exchange": progress.exchange,
        "present": progress.present,
        "missing": neighbours - len(progress.present),
        "sent": progress.bytes_out,
        "note": note,
    }


def _small(body: Mapping[str, Any]) -> dict[str, float]:
    """The single numbers of a note; arrays are not shown."""
    return {key: float(value.sum()) for key, value in body.items() if value.size == 1}
