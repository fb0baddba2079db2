"""The method that a plan names: its estimator, its parameters, and the protocol that they run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from unpooled import catalog
from unpooled.data.parties import Parties
from unpooled.errors import InputError
from unpooled.messages.codec import LIMITS
from unpooled.messages.conform import most_bytes
from unpooled.messages.release import Release
from unpooled.protocols.mesh.base import MeshProtocol
from unpooled.protocols.prepare.standardise import Standardise
from unpooled.protocols.prepare.then import Then
from unpooled.protocols.star.base import StarProtocol
from unpooled.types import PartyId

AnyProtocol: TypeAlias = StarProtocol | MeshProtocol

_ELSEWHERE = {
    "policy": "is each party's own: it goes into a party's own file",
    "random_state": "is called seed and stands at the top",
    "graph": "is given by edges",
    "quorum": "stands at the top",
    "verbose": "is for fits in one process: programs show on the screen what they do",
    "checkpoint": "is not needed: every program keeps what it needs to resume",
}
"""Parameters of estimators that a plan does not take, and what stands in their place."""


def _methods() -> dict[str, catalog.Method]:
    """The methods of the catalog, by the names of their classes."""
    return {method.class_name: method for method in catalog.METHODS}


def estimator_class(method: str) -> Any:
    """The class of this name; one of them needs PyTorch, which is imported for nothing else."""
    try:
        return _methods()[method].estimator
    except ImportError as error:
        raise InputError(str(error)) from None


def make_protocol(
    estimator: Any, names: Sequence[PartyId], n_columns: int, *, standardise: bool
) -> AnyProtocol:
    """The protocol that the estimator would run between these parties, whatever their rows."""
    nobody = Parties.of([np.empty((0, n_columns))] * len(names), names=names)
    protocol: AnyProtocol = estimator.planned(nobody)
    if standardise:
        assert isinstance(protocol, StarProtocol)
        protocol = Then(Standardise(), protocol)
    return protocol


def declared_messages(protocol: AnyProtocol) -> tuple[Release, ...]:
    """Every kind of message that the protocol may send, in either direction."""
    asks = protocol.asks if isinstance(protocol, StarProtocol) else ()
    return (*protocol.releases, *asks)


def refuse_method(content: Mapping[str, Any], source: str, *, star: bool) -> None:
    """Refuses a method that does not go with the plan, and parameters that it does not have."""
    method, role = content["method"], "star" if star else "mesh"
    fitting = sorted(name for name, own in _methods().items() if own.role == role)
    if method not in fitting:
        where = "with a coordinator" if star else "without a coordinator"
        raise InputError(
            f"{source} has method = {method!r}; {where} give one of {', '.join(fitting)}."
        )
    given = content.get("parameters", {})
    if not isinstance(given, dict):
        raise InputError(f"{source} has parameters that are no table; write [parameters].")
    allowed = [p for p in estimator_class(method)._get_param_names() if p not in _ELSEWHERE]
    for name in given:
        if name not in allowed:
            unknown = f"is no parameter of {method}; it has {', '.join(allowed)}"
            hint = _ELSEWHERE.get(name, unknown)
            raise InputError(f"{source} has {name!r} in [parameters], which {hint}.")


def refuse_other_releases(protocol: AnyProtocol, content: Mapping[str, Any], source: str) -> None:
    """Refuses a plan whose ``releases`` are not those that its protocol asks for.

    They follow from the method and its parameters. The plan lists them all the same, so that
    whoever agrees to it has read what will leave.
    """
    kinds = [release.kind for release in protocol.releases]
    listed = content["releases"]
    if not isinstance(listed, list) or sorted(map(str, listed)) != sorted(kinds):
        raise InputError(
            f"{source} has releases = {listed!r}, but {content['method']} with these "
            f"parameters asks for others; if that is what everybody agrees to, write releases = "
            f"{json.dumps(kinds)}."
        )


def refuse_too_large(
    protocol: AnyProtocol, content: Mapping[str, Any], n_columns: int, source: str
) -> None:
    """Refuses a plan that may need messages which no codec takes: it could only end half-way."""
    users = None if isinstance(protocol, StarProtocol) else 1  # a peer on a network is one user
    for release in declared_messages(protocol):
        size = most_bytes(release, n_columns, users)
        if size is not None and size > LIMITS.max_bytes:
            given = content.get("parameters", {})
            counts = {name: value for name, value in given.items() if type(value) is int}
            largest = max(counts, key=lambda name: counts[name], default="the number of columns")
            raise InputError(
                f"{source} may need {release.kind!r} messages of {size} bytes, but one holds "
                f"{LIMITS.max_bytes} at most; lower {largest}."
            )
