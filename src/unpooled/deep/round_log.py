"""What is noted of each round of an in-process fit: shown, collected, and written to a file."""

from __future__ import annotations

import numpy as np

from unpooled.deep.checkpoint import Checkpoint
from unpooled.deep.progress import ProgressLine
from unpooled.estimators.history import History
from unpooled.messages.message import Note
from unpooled.types import Array, Body

_HISTORY = ("loss", "clusters")
_PREFIX = "history."


class RoundLog:
    """Observes a run of ``rounds`` rounds; ``file`` is the checkpoint, if there is one."""

    def __init__(self, history: History, rounds: int, file: Checkpoint | None) -> None:
        self._history, self._file = history, file
        self._progress = ProgressLine(rounds)
        self._values: dict[str, list[Array]] = {name: [] for name in _HISTORY}

    def resume(self) -> Body | None:
        """What the checkpoint has, with the history of earlier rounds taken over; None if empty."""
        start = self._file.read() if self._file is not None else None
        if start is None:
            return None
        for name in _HISTORY:
            self._values[name] = list(start[_PREFIX + name])
        for loss, clusters in zip(self._values["loss"], self._values["clusters"], strict=True):
            self._history.record(Note(0, {"loss": loss, "clusters": clusters}))
        return start

    def observe(self, note: Note) -> None:
        """After every round."""
        seen = {name: note.body[name] for name in _HISTORY}
        self._history.record(Note(note.round, seen))
        self._progress.show(note.round + 1, float(note.body["loss"]))
        for name, value in seen.items():
            self._values[name].append(value)
        if self._file is not None:
            past = {_PREFIX + name: np.array(values) for name, values in self._values.items()}
            state = {name: value for name, value in note.body.items() if name not in seen}
            self._file.write({**state, **past})

    def end(self) -> None:
        """After the run, however it ended."""
        self._progress.end()

    @property
    def trained(self) -> bool:
        """Whether any party trained in any round."""
        return not np.isnan([float(loss) for loss in self._values["loss"]]).all()
