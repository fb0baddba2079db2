"""The coordinator: writes the centres to the csv file that the run config names as ``output``."""

import csv
from pathlib import Path

from flwr.app import Context

from clustering.agreed import agreed
from unpooled.adapters.flower import Outcome, server_app


def keep(outcome: Outcome, context: Context) -> None:
    """Writes the centres, and shows who sent how much."""
    with Path(str(context.run_config["output"])).open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(agreed(context).columns)
        lines.writerows(outcome.result["centers"].tolist())
    for (kind, number), parties in outcome.answerers.items():
        print(f"{kind} {number}: answered by {', '.join(parties)}")
    print(outcome.traffic)


app = server_app(agreed, keep, timeout=lambda context: float(context.run_config["timeout"]))
