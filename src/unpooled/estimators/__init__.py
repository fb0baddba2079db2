"""The scikit-learn front door: one thin estimator over each method of the catalog."""

from typing import Any

from unpooled import catalog

__all__ = catalog.names()


def __getattr__(name: str) -> Any:
    if name not in catalog.names():
        raise AttributeError(f"module 'unpooled.estimators' has no attribute {name!r}")
    found = globals()[name] = catalog.find(name).estimator
    return found
