"""Another name of what is prepared."""

from unpooled.protocols.prepare.then import Finding
from unpooled.protocols.prepare.then import Prepared as Embedded

__all__ = ["Embedded", "Finding"]
