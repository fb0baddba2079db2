"""Keeps models in files, without pickle: ``unpooled.save`` and ``unpooled.load``."""

from unpooled.persistence.file import load, read, save, write

__all__ = ["load", "read", "save", "write"]
