"""Preparing rows that cannot be pooled."""

from unpooled.preprocessing.scaling import StandardScaler

__all__ = ["StandardScaler"]
