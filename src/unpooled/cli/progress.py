"""Shows a run on a network: one live line on a terminal, JSON lines in a pipe."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from unpooled.text import printable

_PAUSE = 0.1
"""Seconds between two pictures of the live line."""


class Screen(logging.Handler):
    """Shows events and warnings; ``name`` is whose they are."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.WARNING)
        self.name = name
        self._live = sys.stdout.isatty()
        self._next = 0.0
        self._open = False

    def show(self, event: Mapping[str, Any]) -> None:
        """Shows one event."""
        if not self._live:
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            print(json.dumps({"time": time, "name": self.name, **event}), flush=True)
        elif event["event"] in ("round", "answered"):
            now = monotonic()
            if now >= self._next:
                self._next = now + _PAUSE
                self._line(_sentence(event))
        else:
            self._say(_sentence(event))

    def emit(self, record: logging.LogRecord) -> None:
        """Shows a warning."""
        self.show({"event": "warning", "text": record.getMessage()})

    def _line(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        sys.stdout.write("\r\x1b[K" + printable(f"{self.name}: {text}")[:width])
        sys.stdout.flush()
        self._open = True

    def _say(self, text: str) -> None:
        if self._open:
            sys.stdout.write("\n")
            self._open = False
        print(printable(f"{self.name}: {text}"), flush=True)


def _sentence(event: Mapping[str, Any]) -> str:
    kind = event["event"]
    if kind == "waiting":
        return f"waiting for {', '.join(event['for'])}"
    if kind == "warning":
        return f"warning: {event['text']}"
    if kind == "cells":
        return f"cells are kept in {event['folder']} from now on: keep it as you keep the data"
    if kind == "done":
        took_part = f"{event['took_part']} of {event['of']} took part"
        return f"done; {took_part}; {', '.join(event['files'])} are in {event['to']}"
    if kind == "answered":
        return f"answered {event['answered']} {event['round']} with {event['bytes']} bytes"
    place = (
        f"exchange {event['exchange']}"
        if "exchange" in event
        else f"{event['kind']} {event['round']}"
    )
    parts = [place, f"present: {', '.join(event['present']) or 'nobody'}"]
    if event["missing"]:
        missing = event["missing"]
        parts.append(f"missing: {missing if isinstance(missing, int) else ', '.join(missing)}")
    if "cost" in event["note"]:
        parts.append(f"cost {event['note']['cost']:.6g}")
    parts.append(f"{_amount(event['sent'])} sent")
    return ", ".join(parts)


def _amount(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
