"""Estimators, and records such as losses, metrics, policies and traffic, in a model's file.

Files name a class by what it is and what it is called ("method", "KFED"), never by a module, so
that they outlive moves inside the package. Classes are made by their constructors, which check what
they get.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from importlib import import_module
from typing import Any

from sklearn.base import BaseEstimator

from unpooled import catalog
from unpooled.losses import Bregman, Euclidean, Mahalanobis
from unpooled.persistence.values import Attribute, Unreadable, ValueKind

_HOMES = {
    "method": "unpooled",
    "baseline": "unpooled.baselines",
    "deep": "unpooled.deep",
    "loss": "unpooled.losses",
    "preparation": "unpooled.preprocessing",
    "privacy": "unpooled.privacy",
}
"""What a file calls the kinds of things it may hold, and where these are now."""
_OLDER = {home: kind for kind, home in _HOMES.items()} | {"unpooled.wire": "privacy"}
"""Files of older releases have the module in place of the kind."""


def _kind_of(cls: Any) -> str | None:
    """What a file calls the kind of a class of ours; None for all else."""
    if not isinstance(cls, type):
        return None
    deep = cls.__module__.startswith("unpooled.deep.")  # else torch would be imported for nothing
    kinds = (kind for kind in _HOMES if deep or kind != "deep")
    return next((kind for kind in kinds if _found(kind, cls.__name__) is cls), None)


def _found(kind: str, name: str) -> Any:
    """The class of this name; None if there is none. Methods go by their names in the catalog."""
    if kind == "method":
        return catalog.find(name).estimator if name in catalog.names() else None
    return getattr(import_module(_HOMES[kind]), name, None)


def _arguments(kind: Any) -> list[str] | None:
    """What a class of ours is made from; None for what a file may not hold."""
    if _kind_of(kind) is None:
        return None
    if issubclass(kind, BaseEstimator):
        return list(kind._get_param_names())
    if kind in (Euclidean, Mahalanobis):
        return ["A"] if kind is Mahalanobis else []
    params = getattr(kind, "__dataclass_params__", None)
    if params is None or not params.frozen:
        return None
    return [field.name for field in dataclasses.fields(kind) if field.init]


def is_ours(value: Any) -> bool:
    """Whether this is an estimator or a record of unpooled."""
    return _arguments(type(value)) is not None


def _apart(value: Any) -> list[Any]:
    """The class, what its constructor takes, and what came later: a fit, or a loss's metric.

    All else that a record carries it has worked out by itself.
    """
    kind, held = type(value), vars(value)
    given = set(_arguments(kind) or ()) & set(held)
    later = set(held) - given if isinstance(value, BaseEstimator) else {"metric"} & set(held)

    def attributes(names: set[str]) -> dict[str, Attribute]:
        return {name: Attribute(kind.__name__, name, held[name]) for name in sorted(names)}

    return [_kind_of(kind), kind.__name__, attributes(given), attributes(later)]


def _together(parts: list[Any]) -> Any:
    written, name, given, later = parts
    thing = _OLDER.get(written, written)
    try:
        kind: Any = _found(thing, name) if thing in _HOMES else None
    except ImportError as error:  # what only an extra brings
        raise Unreadable(f"holds a {name!r}, but {error}") from None
    arguments = _arguments(kind)
    if arguments is None:
        raise Unreadable(f"holds the {thing!r} {name!r}, which is not here")
    for unknown in sorted(set(given) - set(arguments)):
        raise Unreadable(f"gives {name} the parameter {unknown!r}, which it does not have here")
    made = kind(**given)  # a parameter younger than the file gets its default
    if isinstance(made, BaseEstimator):
        for hidden in sorted(name for name in later if hasattr(kind, name)):
            raise Unreadable(f"puts a value in place of the method {hidden!r}")
        vars(made).update(later)
        return made
    return made.under(**later) if later else made


_BREGMAN: dict[str, Callable[..., Bregman]] = {
    "squared_euclidean": Bregman.squared_euclidean,
    "mahalanobis": Bregman.mahalanobis,
    "itakura_saito": Bregman.itakura_saito,
    "generalised_kl": Bregman.generalised_kl,
}

KINDS = {
    # Functions cannot be written, but how to get them; a loss of other functions is refused.
    "bregman": ValueKind(
        lambda value: type(value) is Bregman and bool(value.recipe),
        lambda loss: list(loss.recipe),
        lambda recipe: _BREGMAN[recipe[0]](*recipe[1:]),
    ),
    "object": ValueKind(is_ours, _apart, _together),
}
