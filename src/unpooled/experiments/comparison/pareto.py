"""Cost against bytes: which methods no other one betters in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unpooled.experiments.comparison.data import DATA_SETS
from unpooled.experiments.comparison.methods import COMPARED
from unpooled.experiments.comparison.summary import Summary
from unpooled.experiments.reproduction import drawing
from unpooled.types import BoolArray, FloatArray

WATCHED = ("OneShotKMeans", "OneShotKMeans, refined", "GossipKMeans")
"""Ours, which are to be on the front."""


def dominates(points: FloatArray) -> BoolArray:
    """Whether point i is nowhere higher than point j, and somewhere lower: at (i, j)."""
    no_higher = (points[:, None] <= points[None]).all(axis=2)
    lower = (points[:, None] < points[None]).any(axis=2)
    return np.asarray(no_higher & lower)


def front(points: FloatArray) -> BoolArray:
    """Which of the points (n, 2), the lower the better, no other one dominates."""
    return np.asarray(~dominates(points).any(axis=0))


@dataclass(frozen=True)
class Standing:
    """How a method stands to the front of a data set."""

    file: str
    method: str
    among: str
    """"all" methods, or those without a coordinator, "mesh"."""
    on_front: bool
    by: str = ""
    """The method that dominates it, with the smallest number of bytes."""
    cheaper: float = 0.0
    """How much lower that one's cost is, as a share of pooled k-means' cost."""
    times: float = 1.0
    """How many times the bytes of that one are sent."""

    def holds(self, summary: Summary) -> bool:
        """Whether the summary says so."""
        return self == standing(summary, self.file, self.method, self.among)


def standing(summary: Summary, file: str, method: str, among: str = "all") -> Standing:
    """How ``method`` stands on ``file``, by means over splits and seeds."""
    names = [m for m in summary.methods if among in ("all", COMPARED[m].role)]
    points = _points(summary, file, names)
    me = names.index(method)
    above = np.flatnonzero(dominates(points)[:, me])
    if not len(above):
        return Standing(file, method, among, True)
    best = above[np.argmin(points[above, 0])]
    times, cheaper = points[me, 0] / points[best, 0], points[me, 1] - points[best, 1]
    return Standing(file, method, among, False, names[best], float(cheaper), float(times))


def front_members(summary: Summary, file: str) -> list[str]:
    """The methods on the front of all methods."""
    on_front = front(_points(summary, file, list(summary.methods)))
    return [name for name, on in zip(summary.methods, on_front, strict=True) if on]


def _points(summary: Summary, file: str, names: Sequence[str]) -> FloatArray:
    """Bytes and cost over pooled of each method, means over splits and seeds."""
    row, columns = summary.files.index(file), [list(summary.methods).index(m) for m in names]
    each = (summary.per_file(measure)[row, columns] for measure in ("bytes", "cost"))
    return np.stack(list(each), axis=1)


def draw_fronts(summary: Summary) -> Any:
    """One panel for each data set: cost over pooled against bytes, and the fronts."""
    columns = min(4, len(summary.files))
    rows = -(-len(summary.files) // columns)
    figure, axes = drawing.panels(columns, rows, width=2.9, height=2.3 + 1.4 / rows)
    top = 2 * max(float(summary.per_file("cost").max()) - 1, _FLOOR)
    for place, file in enumerate(summary.files):
        panel = axes.flat[place]
        _draw_panel(panel, summary, file)
        panel.set_title(DATA_SETS[file].title, fontsize=11)
        panel.set_ylim(_FLOOR / 2, top)
        places, texts = _ticks(top)
        panel.set_yticks(places, texts if place % columns == 0 else [""] * len(texts))
        panel.minorticks_off()
        panel.grid(visible=False, axis="x")
        if place + columns >= len(summary.files):
            panel.set_xlabel("bytes sent in all")
    for panel in axes.flat[len(summary.files) :]:
        panel.set_axis_off()
    figure.supylabel("cost over that of pooled k-means, %")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=10)
    return figure


def _draw_panel(panel: Any, summary: Summary, file: str) -> None:
    names = list(summary.methods)
    mesh = [name for name in names if COMPARED[name].role == "mesh"]
    for among, dashes in ((names, "-"), (mesh, ":")):
        points = _points(summary, file, among)
        _draw_front(panel, points[front(points)], dashes)
    for place, (sent, cost) in enumerate(_points(summary, file, names)):
        height = max(cost - 1, _FLOOR)
        panel.plot(sent, height, linestyle="none", label=names[place], **_style(place))
    panel.set_xscale("log")
    panel.set_yscale("log")


_FLOOR = 1e-5
"""What is not above pooled by more than this is drawn here."""


def _ticks(top: float) -> tuple[list[float], list[str]]:
    places = [10.0**e for e in range(-5, 3) if 10.0**e <= top]
    return places, ["≤ 0.001" if place == _FLOOR else f"{100 * place:g}" for place in places]


def _draw_front(panel: Any, points: FloatArray, dashes: str) -> None:
    points = points[np.argsort(points[:, 0])]
    heights = np.maximum(points[:, 1] - 1, _FLOOR)
    panel.step(points[:, 0], heights, dashes, where="post", color="#555555", linewidth=1.2)


def _style(place: int) -> Mapping[str, Any]:
    """Fifteen marks that differ without colour: the second eight are hollow."""
    style = drawing.point_style(place)
    hollow = place >= len(drawing.MARKS)
    return {**style, "markerfacecolor": "white" if hollow else style["color"], "markersize": 6.5}
