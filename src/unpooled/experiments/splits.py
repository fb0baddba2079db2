"""How the FeCA paper deals rows out to parties."""

from __future__ import annotations

from unpooled import partition
from unpooled.types import IntArray

SPLIT_PARTIES = 10
SPLITS = ("iid", "(0.3)", "(0.1)")
FEATURE_SPLITS = ("iid", "(1.0)", "(0.3)", "(0.1)")
"""Those of Table 2."""


def split(y: IntArray, how: str, seed: int, parties: int = SPLIT_PARTIES) -> IntArray:
    """The party of each row: at random, or each class by Dirichlet(alpha)."""
    if how == "iid":
        return partition.iid(len(y), n_parties=parties, random_state=seed)
    alpha = float(how.strip("()"))
    return partition.dirichlet(y, n_parties=parties, alpha=alpha, random_state=seed)


def spelled(how: str) -> str:
    """The split in words."""
    return how if how == "iid" else f"Dirichlet{how}"
