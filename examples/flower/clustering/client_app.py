"""A site: answers with summaries of the csv file that its node config names under ``data``."""

import csv
import logging
from pathlib import Path

import numpy as np
from flwr.app import Context

from clustering.agreed import agreed
from unpooled.adapters.flower import client_app
from unpooled.errors import InputError, ProtocolError

LOG = logging.getLogger("unpooled.flower")


def load(context: Context) -> np.ndarray:
    """The columns of the run, in its order."""
    name, path = context.node_config.get("name", "this"), context.node_config.get("data", "")
    if not Path(str(path)).is_file():
        raise InputError(f"Party {name} has data={path!r} in its node config, which is no file.")
    with Path(str(path)).open(newline="") as file:
        lines = csv.DictReader(file)
        for column in agreed(context).columns:
            if column not in (lines.fieldnames or ()):
                LOG.warning("The columns of %s are %s.", path, lines.fieldnames)
                # The coordinator is told this, which is in its own words: not what else is there.
                raise ProtocolError(
                    f"Party {name} has no column {column!r}; correct columns in the run config, or "
                    "rename one in the party's file."
                )
        return np.array([_numbers(line, agreed(context).columns, lines.line_num) for line in lines])


def _numbers(line: dict[str, str], columns: tuple[str, ...], number: int) -> list[float]:
    try:
        return [float(line[column]) for column in columns]
    except (TypeError, ValueError):
        raise InputError(
            f"Line {number} of the party's file has a value that is no number; mend or drop it."
        ) from None


app = client_app(agreed, load)
