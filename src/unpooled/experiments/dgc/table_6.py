"""Table 6: accuracy on Iris, over the inner steps B of a round."""

from __future__ import annotations

from unpooled.experiments.dgc.accuracy_cells import (
    accuracy_pair,
    agreeing_by_matching,
    huber_is_kmeans,
    spread_of_means,
)
from unpooled.experiments.dgc.setting import DGC_LOSSES, IRIS_SETTING, iris_key, iris_tasks
from unpooled.experiments.reproduction.page import Claim, Claims, Page, Table
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task

RHO = 10.0
INNER_STEPS = (1, 10, 100)
TABLE_6 = {
    "KM": ("90.8±0.9", "90.8±0.9", "90.6±0.6"),
    "HL": ("90.6±0.5", "90.8±0.3", "90.7±0.2"),
    "LL": ("90.6±0.6", "90.7±0.5", "90.6±0.3"),
}
"""As printed, in per cent, over INNER_STEPS."""
TABLE_4_B1 = {"KM": "91.1", "HL": "91.2", "LL": "91.0"}
"""What Table 4 prints for the same setting as B = 1."""


def tasks(scale: Scale) -> list[Task]:
    """Every loss and B."""
    return [
        task
        for loss in DGC_LOSSES
        for steps in INNER_STEPS
        for task in iris_tasks("DGC", loss, RHO, range(scale.runs), steps)
    ]


def page(scale: Scale, results: Results) -> Page:
    """The table, and whether B matters."""
    cells = [
        cell
        for loss, row in TABLE_6.items()
        for steps, text in zip(INNER_STEPS, row, strict=True)
        for cell in accuracy_pair(
            (f"DGC-{loss}", str(steps)),
            text,
            iris_key("DGC", loss, RHO, steps),
            results,
            scale.runs,
            _because(loss, steps, scale, results),
        )
    ]
    heads = ("method", "B", "matching")
    table = Table("Accuracy in per cent, rho = 10", heads, cells, 2, "high")
    low, high = spread_of_means(cells, "identity")
    claim = Claim(
        "accuracy is unaffected by B",
        f"means of ours over all losses and B (identity): {low:.2f} to {high:.2f}",
        high - low < 1.0,
        f"They are {high - low:.2f} points apart.",
    )
    conclusion = (
        f"{agreeing_by_matching(table)} Means reach from {low:.2f} to {high:.2f}, so B hardly "
        "matters for accuracy. The paper's B = 1 is the setting of its Table 4, which prints "
        f"{TABLE_4_B1['KM']}, {TABLE_4_B1['HL']} and {TABLE_4_B1['LL']}."
    )
    return Page([table, Claims("Over B", [claim])], conclusion)


def _because(loss: str, steps: int, scale: Scale, results: Results) -> str:
    said = []
    if steps == 1:
        said.append(f"The paper's Table 4 has {TABLE_4_B1[loss]} for the same setting.")
    if loss == "HL":
        said.append(huber_is_kmeans(results, RHO, scale.runs, steps))
    return " ".join(said)


EXPERIMENT = Experiment(
    title="DGC, Table 6: accuracy on Iris, over B",
    setting=(
        f"{IRIS_SETTING} rho = 10. Rounds that would change nothing any more are left out: users "
        "stop before 500 if no row changes cluster and no centre has further to go than 1e-12 of "
        "the largest spread of a user's rows."
    ),
    runs=100,
    quick_runs=2,
    tasks=tasks,
    page=page,
)
