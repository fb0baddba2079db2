"""A party's own file, which never leaves it: its data, its keys and its policy.

All of it is optional, and the command line's options win over it::

    data = "north.csv"
    weights = "w"                # a column with a weight for each row
    id = "visit"                 # a column that names each row: labels.csv then has it too
    person = "patient"           # a column that names each row's person (default: a row, a person)
    columns = ["age", "pressure"]  # what cells are made of (default: the first plan's columns)
    memory = "north.memory"      # the folder of the site's cells, for this and every later run
    keys = "keys"                # the folder with NAME.key, NAME.pem and ca.pem
    to = "north.run"             # the state directory, where results are written too

    [policy]
    name = "deployment"          # or -datashield, -cms; "study" for trials with nothing to protect
    min_count = 10
    least_parties = 3
    allow = []                   # or ["network-weights"], for DeepFeCA
    kinds = ["moments", "centroids"]
    max_rounds = 1000
    max_floats = 1000000
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from unpooled.data.sources import Naming
from unpooled.deploy.plan import Plan
from unpooled.deploy.toml_file import read_toml
from unpooled.errors import InputError, UnpooledError
from unpooled.privacy.policy import DEPLOYMENT, POLICIES, Deployment, Policy, RunRequest
from unpooled.types import PartyId

_PATHS, _NAMED = ("data", "memory", "keys", "to"), ("weights", "id", "person")
_LISTS = ("allow", "kinds")
_SETTINGS = tuple(own.name for own in fields(Deployment) if own.name not in ("memory", "one_party"))


@dataclass(frozen=True)
class Own:
    """What the file has; its paths are relative to the folder it is in."""

    data: Path | None = None
    naming: Naming = Naming()  # noqa: RUF009 (frozen)
    columns: tuple[str, ...] | None = None
    memory: Path = Path("site.memory")
    keys: Path | None = None
    to: Path | None = None
    policy: Policy = DEPLOYMENT
    rows_changed: bool = False
    """Whether the owner says that most rows may be gone or have other values: no key of the file,
    since it is true of one run only."""


def read_own(path: Path | None, data: Path | None = None) -> Own:
    """A party's own file; without one, everything is as if it were empty.

    ``data`` takes the place of the file's. Where the file does not say where cells are kept, that
    is beside it, or beside the data where there is none, and not where the program is started: they
    must be found again.
    """
    if path is None:
        return Own(data, memory=(data or Path("site")).with_suffix(".memory"))
    content, source = read_toml(path, "party's own file"), f"The party's own file {path}"
    known = (*_PATHS, *_NAMED, "columns", "policy")
    for key, value in content.items():
        if key not in known:
            raise InputError(f"{source} has {key!r}; it takes {', '.join(known)}.")
        if key not in ("columns", "policy") and not isinstance(value, str):
            raise InputError(f"{source} has {key} = {value!r}; give text in quotes.")
    given = {key: Path(content[key]).expanduser() for key in _PATHS if key in content}
    places: dict[str, Any] = {key: path.parent / place for key, place in given.items()}
    places.setdefault("memory", path.with_suffix(".memory"))
    if data is not None:
        places["data"] = data
    naming = Naming(**{key: content[key] for key in _NAMED if key in content})
    columns = _names(content, "columns", source)
    policy = _read_policy(content.get("policy", {}), source)
    return Own(**places, naming=naming, columns=columns, policy=policy)


def _names(table: Mapping[str, Any], key: str, source: str) -> tuple[str, ...] | None:
    """A list of names; None if there is none."""
    names = table.get(key)
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{source} has {key} = {names!r}; give a list of names.")
    return tuple(names)


def _read_policy(table: Any, source: str) -> Policy:
    if not isinstance(table, dict):
        raise InputError(f"{source} has policy = {table!r}; write a table [policy].")
    rest = dict(table)
    name = rest.pop("name", "deployment")
    if not isinstance(name, str) or name not in POLICIES:
        raise InputError(f"{source} has the policy {name!r}; give {' or '.join(POLICIES)}.")
    if name == "study" and rest:
        raise InputError(f"{source} sets {next(iter(rest))!r}, but the policy study has no limits.")
    for key in rest:
        if key not in _SETTINGS:
            raise InputError(f"{source} has {key!r} in [policy]; it takes {', '.join(_SETTINGS)}.")
    rest |= {key: _names(rest, key, source) for key in _LISTS if key in rest}
    try:
        return POLICIES[name].with_own(**rest) if rest else POLICIES[name]
    except UnpooledError as error:
        raise InputError(f"{source}: {error}") from None


def refuse_beyond(plan: Plan, name: PartyId, policy: Policy) -> None:
    """Refuses a plan that asks for more than the policy allows, before any number leaves."""
    policy.preflight(
        RunRequest(
            name,
            plan.protocol.releases,
            n_columns=len(plan.columns),
            copies=len(plan.neighbours(name)),
            rounds=getattr(plan.estimator, "max_rounds", None),
            n_parties=len(plan.names),
        )
    )
