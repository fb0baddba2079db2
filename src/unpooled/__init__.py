"""Clusters data that cannot be pooled."""

__version__ = "0.1.0"
