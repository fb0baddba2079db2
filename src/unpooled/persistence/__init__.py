"""Keeps models in files, without pickle: ``unpooled.save`` and ``unpooled.load``."""

from unpooled.persistence.file import load, save

__all__ = ["load", "save"]
