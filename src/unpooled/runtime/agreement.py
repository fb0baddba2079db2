"""What both sides of a star must agree on before anything is asked: method, parties, columns, seed.

Each side has its own idea of the run; :attr:`Agreement.digest` travels with every question, and a
party does not answer those of a run that it does not mean to take part in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf

from unpooled.checks import whole
from unpooled.errors import InputError
from unpooled.protocols.star.base import StarProtocol
from unpooled.runtime.identity import run_identity


@dataclass(frozen=True)
class Agreement:
    """The run: parties are numbered from 0 to ``n_parties`` - 1."""

    protocol: StarProtocol
    n_parties: int
    columns: int | tuple[str, ...]
    """The columns that every party brings, by name and in this order; or only how many."""
    seed: int = 0

    def __post_init__(self) -> None:
        whole("n_parties", self.n_parties, 1)
        whole("columns", self.n_columns, 1)
        whole("seed", self.seed, 0, inf)

    @property
    def n_columns(self) -> int:
        """How many columns every party brings."""
        return len(self.columns) if isinstance(self.columns, tuple) else self.columns

    @cached_property
    def digest(self) -> str:
        """What tells this run from others, the protocol's parameters included."""
        content = (self.protocol, self.n_parties, self.columns, self.seed)
        try:
            return run_identity(content, self.protocol).hex()
        except TypeError as error:
            raise InputError(
                f"The parameters of {self.protocol.name!r} cannot be compared between parties "
                f"({error}); use numbers, words, arrays, and dataclasses of these."
            ) from None
