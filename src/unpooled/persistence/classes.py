"""Estimators, and records such as losses, metrics, policies and traffic.

Classes are looked up in unpooled only, by the outermost module that exports them, so that files
outlive moves inside the package. They are made by their constructors, which check what they get.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

from sklearn.base import BaseEstimator

from unpooled.errors import InputError
from unpooled.losses import Bregman, DistanceLoss, Euclidean, Mahalanobis
from unpooled.persistence.kinds import Kind, Unreadable, Unwritable, exactly

# Modules like __main__ do things when imported; those that a file may name begin plainly.
_MODULE = re.compile(r"unpooled(\.[a-z]\w*)*", flags=re.ASCII)


def _home(kind: type) -> list[str]:
    """The module and name of a class of unpooled, nothing for others."""
    path = kind.__module__.split(".")
    for depth in range(1, len(path) + 1):
        module = ".".join(path[:depth])
        here = getattr(sys.modules.get(module), kind.__name__, None)
        if here is kind and _MODULE.fullmatch(module):
            return [module, kind.__name__]
    return []


def _find(module: str, name: str) -> Any:
    found = None
    if _MODULE.fullmatch(module):
        with suppress(ImportError):
            found = getattr(import_module(module), name, None)
    if not isinstance(found, type) or not _home(found):
        raise Unreadable(
            f"holds a {module + '.' + name!r}, which is not here; upgrade unpooled or "
            "install the extra that brings it"
        )
    return found


def home_of_model(kind: type) -> list[str]:
    """The module and name of an estimator's class."""
    home = _home(kind)
    if not home:
        raise InputError(
            f"{kind.__name__} is no class that unpooled brings, so load would not find it; save "
            "an estimator of unpooled, or keep the arrays you need with numpy.savez."
        )
    return home


def model(parts: list[Any]) -> BaseEstimator:
    """The estimator of a class, parameters and all else that it carried."""
    module, name, params, state = parts
    kind = _find(module, name)
    if not issubclass(kind, BaseEstimator):
        raise Unreadable(
            f"has a {name} in place of an estimator; give one that unpooled.save wrote"
        )
    strangers = sorted(set(params) - set(kind._get_param_names()))
    if strangers:
        raise Unreadable(
            f"gives {name} the parameter {strangers[0]!r}, which it does not have here; upgrade "
            "unpooled"
        )
    made = kind(**params)  # a parameter younger than the file gets its default
    vars(made).update(state)
    return made


def _arguments(kind: type[Any]) -> list[str] | None:
    """What a record of unpooled is made from; None for what is no such record."""
    if kind in (Euclidean, Mahalanobis):
        return ["A"] if kind is Mahalanobis else []
    params = getattr(kind, "__dataclass_params__", None)
    if params is None or not params.frozen or not _home(kind):
        return None
    return [field.name for field in dataclasses.fields(kind) if field.init]


def _record_apart(record: Any) -> list[Any]:
    fields = {name: getattr(record, name) for name in _arguments(type(record)) or []}
    metric = vars(record).get("metric") if isinstance(record, DistanceLoss) else None
    return [*_home(type(record)), fields, metric]


def _record(parts: list[Any]) -> Any:
    module, name, fields, metric = parts
    kind = _find(module, name)
    if _arguments(kind) is None:
        raise Unreadable(f"has a {name} in place of a record; give one that unpooled.save wrote")
    made = kind(**fields)
    return made if metric is None else made.under(metric)


# Bregman losses are made of functions, so they are known by the way they were made.

_BREGMAN = ("squared_euclidean", "itakura_saito", "generalised_kl", "mahalanobis")


def _bregman_apart(loss: Bregman) -> list[Any]:
    metric = getattr(loss.grad, "__self__", None)
    for name in _BREGMAN:
        arguments = [metric.A] if isinstance(metric, Mahalanobis) else []
        if bool(arguments) == (name == "mahalanobis"):
            made = getattr(Bregman, name)(*arguments)
            if _recipe(loss) == _recipe(made):
                return [name, *arguments]
    raise Unwritable("a Bregman loss of functions of your own")


def _recipe(loss: Bregman) -> list[Any]:
    """What two losses made in the same way have in common, whoever holds their matrix."""
    functions = [f.func if isinstance(f, partial) else f for f in (loss.psi, loss.hvp)]
    grad = getattr(loss.grad, "__func__", loss.grad)
    return [*functions, grad, loss.beta, loss.domain, loss.name]


def _bregman(parts: list[Any]) -> Bregman:
    name, *arguments = parts
    if name not in _BREGMAN:
        raise Unreadable(f"holds a Bregman loss {name!r}, which is not here; upgrade unpooled")
    made: Bregman = getattr(Bregman, name)(*arguments)
    return made


KINDS = {
    "bregman": Kind(exactly(Bregman), _bregman_apart, _bregman),
    "record": Kind(lambda value: _arguments(type(value)) is not None, _record_apart, _record),
}
