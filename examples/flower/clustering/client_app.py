"""A site: answers with summaries of the csv file that its node config names under ``data``."""

import csv
from pathlib import Path

import numpy as np
from flwr.app import Context

from clustering.agreed import agreed
from unpooled.drivers.flower import client_app


def load(context: Context) -> np.ndarray:
    """The columns of the run, in its order."""
    with Path(str(context.node_config["data"])).open(newline="") as file:
        lines = csv.DictReader(file)
        return np.array([[float(line[c]) for c in agreed(context).columns] for line in lines])


app = client_app(agreed, load)
