"""The star role: a coordinator that asks, and parties that answer.

The coordinator is a generator: it yields an :class:`unpooled.messages.Ask`, is sent the answers as
``{party: body}`` in party order, and returns its result. It reads top to bottom, and a run that was
cut short resumes by replaying the recorded answers. No two questions of a run have the same kind
and round: that is what names an exchange.

A party is a set of pure steps, one per kind of question: ``(data, state, body, rng) -> (reply,
state)``. The reply is named arrays. Steps are handed rows with weights and need not know what these
are: under the ``deployment`` policy they are means of cells, and sums of squares add
``data.scatter``. A party's process may die between two
messages, so what it remembers is in ``state``, named arrays like everything else, and its random
numbers are made afresh for every question, from the seed, the party's number and the question's
name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from math import inf
from typing import Any, ClassVar, TypeAlias

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.messages.message import Ask, Note
from unpooled.messages.release import COLUMNS, AtMost, Release
from unpooled.types import Body, FloatArray

Answer: TypeAlias = tuple[Body, Body]
Step: TypeAlias = Callable[[PartyData, Body, Body, np.random.Generator], Answer]
Coordinator: TypeAlias = Generator[Ask | Note, Any, Body]
"""Is sent ``{party: body}``, or an :class:`unpooled.messages.aggregate.Aggregate` where the release
of the replies says how they add up."""


class StarProtocol(ABC):
    """An algorithm with a coordinator: its parameters, both sides, what parties may release."""

    name: ClassVar[str]
    version: ClassVar[int] = 1
    """Rises whenever a party of the old and a coordinator of the new one could not talk."""
    needs_rows: ClassVar[bool] = False
    """Whether nothing comes of it but from the rows themselves (networks that learn from them): a
    policy with a minimum count refuses it then, unless the party's owner allows it by name."""
    on_cells: ClassVar[str] = ""
    """What to expect where rows are means of cells, if that is not what it does on rows."""

    @property
    @abstractmethod
    def releases(self) -> tuple[Release, ...]:
        """Everything that may leave a party, with these parameters."""

    @property
    @abstractmethod
    def asks(self) -> tuple[Release, ...]:
        """Everything that the coordinator may send to the parties."""

    @abstractmethod
    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        """The coordinator's side."""

    @property
    @abstractmethod
    def steps(self) -> Mapping[str, Step]:
        """The party's side: what it does for each kind of question."""

    @property
    def shared(self) -> Release:
        """What parties get of the result: what they need to label their rows."""
        shapes = {"centers": (AtMost(inf), COLUMNS)}
        return Release("result", ("centers",), ("model",), "the centres", shapes=shapes)

    def shown(self, result: Body) -> Body:
        """That part of a result."""
        return {name: result[name] for name in self.shared.fields}

    def embedded(self, rows: FloatArray, result: Body) -> FloatArray:
        """The rows as points of the space in which the result's centres lie."""
        return rows

    def in_columns(self, result: Body) -> FloatArray | None:
        """The centres in the columns' own units; None if they lie in another space."""
        return result["centers"]
