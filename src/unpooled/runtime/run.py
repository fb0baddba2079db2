"""What came of a run, whatever carried its messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from unpooled.privacy.ledger import Remark
from unpooled.privacy.traffic import Traffic
from unpooled.types import Body, PartyId


@dataclass(frozen=True)
class Run:
    """What came of a run: the protocol's result (in a mesh with users in order) and the traffic."""

    result: Body
    traffic: Traffic
    remarks: Mapping[PartyId, tuple[Remark, ...]] = field(default_factory=dict)
    """What parties held back, from their own ledgers."""
    elapsed: int = 0
    """In a mesh, the exchanges that it took, those included in which lost messages were repeated.
    """

    @property
    def remarks_in_words(self) -> dict[PartyId, list[str]]:
        """The remarks, as the estimators' ``remarks_`` have them."""
        return {party: list(map(str, said)) for party, said in self.remarks.items()}
