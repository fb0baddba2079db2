"""Figures that can be read at half width and in greyscale, the same bytes every time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from unpooled.experiments.reproduction.tasks import Results, Scale

# Dark to light, so that they differ in grey too; lines differ by dashes, points by marks.
COLOURS = ("#1b1b3a", "#c0392b", "#2471a3", "#d68910", "#1e8449", "#884ea0", "#7f8c8d", "#17a589")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (7, 2)), (0, (3, 1)))
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "unpooled",
    "font.size": 11.0,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 110.0,
}


def drawn(
    draw: Callable[[Scale, Results], Any], scale: Scale, results: Results, file: Path
) -> dict[str, Path]:
    """Draws into ``file``, an SVG, or several beside it; none where matplotlib is not installed.

    Several have names, which end the names of their files; a sole one has the name "".
    """
    try:
        import matplotlib
    except ImportError:
        return {}
    files = {}
    with matplotlib.rc_context(STYLE):
        made = draw(scale, results)
        for name, figure in (made if isinstance(made, Mapping) else {"": made}).items():
            files[name] = file.with_stem(f"{file.stem}-{name}") if name else file
            # No date: the same numbers are to give the same file.
            metadata = {"Date": None, "Creator": None}
            figure.savefig(files[name], format="svg", metadata=metadata)
    return files


def panels(columns: int, rows: int = 1, *, width: float = 4.2, height: float = 3.4) -> Any:
    """A figure, and its axes as an array (rows, columns), in inches per panel."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows))
    return figure, figure.subplots(rows, columns, squeeze=False)


def same_heights(axes: Iterable[Any]) -> None:
    """Gives panels that were drawn the same range of y."""
    shown = list(axes)
    low, high = zip(*(panel.get_ylim() for panel in shown), strict=True)
    for panel in shown:
        panel.set_ylim(min(low), max(high))


def line_style(place: int) -> dict[str, Any]:
    """Colour and dashes of the line number ``place``."""
    return {
        "color": COLOURS[place % len(COLOURS)],
        "linestyle": DASHES[place % len(DASHES)],
    }


def point_style(place: int) -> dict[str, Any]:
    """Colour and mark of the points number ``place``."""
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKS[place % len(MARKS)]}
