"""A page that shows what was found: sample images of every cluster, and a map of the features."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from unpooled.deep.images import as_pictures
from unpooled.errors import InputError
from unpooled.kernels.linalg.products import matmul
from unpooled.types import Array, FloatArray, IntArray

if TYPE_CHECKING:
    from unpooled.deep.estimator import DeepFeCA

_MAPPED = 2000
"""Images on the map: more are no clearer, and the map takes long."""
_MARKS = "o^sD"
_IN_A_COLUMN = 25
"""Names in a column of the legend."""


def draw_page(
    model: DeepFeCA,
    X: Any,
    file: str | Path,
    *,
    y: Any = None,
    per_cluster: int = 12,
    random_state: int = 0,
) -> None:
    """Draws the images nearest to each centre, and all images by a t-SNE of their features.

    For whoever may see images of all parties, in a study; a party draws its own alone.

    Parameters
    ----------
    model : DeepFeCA
        A fitted one.
    X : array, table, or list, tuple or dict of these
        Images, as :class:`DeepFeCA` takes them.
    file : str or path
        Where to draw; its ending decides the format.
    y : array of shape (n,), or list, tuple or dict of these, default=None
        Classes, in the container of ``X``, to draw the map by these too.
    per_cluster : int, default=12
        Images of each cluster.
    random_state : int, default=0
        Seed of the t-SNE.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("Drawing needs matplotlib; run pip install 'unpooled[report]'.") from None

    rows, labels, points, features, classes = model._for_drawing(X, y)
    k = len(model.cluster_centers_)
    maps = 1 if classes is None else 2
    figure = Figure(figsize=(13, max(4.5 * maps, 0.75 * k)), layout="constrained")
    left, right = figure.subfigures(  # type: ignore[misc]
        1, 2, width_ratios=[per_cluster, 8]
    )
    left.suptitle("The images nearest to each centre")
    grid = left.subplots(k, per_cluster, squeeze=False)
    pictures = _displayable(as_pictures(rows, model.image_shape_))
    for cluster, center in enumerate(model.cluster_centers_):
        nearest = _nearest_images(points, labels, center, cluster, per_cluster)
        _draw_row(grid[cluster], pictures[nearest])
        size = int((labels == cluster).sum())
        grid[cluster, 0].set_title(f"cluster {cluster}: {size}", loc="left", fontsize=8)
    where, chosen = _map(features, random_state)
    panels = right.subplots(maps, 1, squeeze=False)[:, 0]
    coloured = [("by cluster", labels), ("by class", classes)][:maps]
    for axes, (title, colours) in zip(panels, coloured, strict=True):
        _draw_map(axes, where, np.asarray(colours), chosen)
        axes.set_title(f"Features, {title}")
    figure.savefig(file, dpi=110)


def _draw_row(row: Any, pictures: Array) -> None:
    """The pictures beside each other; places that are left over stay empty."""
    for axes in row:
        axes.set_axis_off()
    for axes, picture in zip(row, pictures, strict=False):
        axes.imshow(picture.squeeze(), cmap="gray" if picture.shape[-1] == 1 else None)


def _draw_map(axes: Any, where: FloatArray, colours: Array, chosen: IntArray) -> None:
    """The images as points, in the colours of all clusters or classes, which the legend names."""
    import matplotlib

    names, numbers = np.unique(colours, return_inverse=True)
    palette = matplotlib.colormaps["tab10" if len(names) <= 10 else "tab20"]
    for number, name in enumerate(names):
        own = where[numbers[chosen] == number]
        again, place = divmod(number, palette.N)  # other marks where colours come again
        mark = _MARKS[again % len(_MARKS)]
        axes.scatter(*own.T, color=palette(place), marker=mark, s=4, label=str(name))
    axes.set_xticks([])
    axes.set_yticks([])
    columns = -(-len(names) // _IN_A_COLUMN)
    axes.legend(
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        ncols=columns,
        markerscale=3,
        fontsize=7,
        frameon=False,
    )


def _nearest_images(
    points: FloatArray, labels: IntArray, center: FloatArray, cluster: int, most: int
) -> IntArray:
    own = np.flatnonzero(labels == cluster)
    return own[np.argsort(-matmul(points[own], center), kind="stable")[:most]]


def _displayable(pictures: Array) -> Array:
    """Colours from 0 to 1; of more or other than one or three channels the first."""
    low, high = float(pictures.min()), float(pictures.max())
    scaled = (pictures - low) / (high - low or 1.0)
    return scaled if scaled.shape[-1] in (1, 3) else scaled[..., :1]


def _map(features: FloatArray, random_state: int) -> tuple[FloatArray, IntArray]:
    """Places in the plane of some images, and which."""
    rng = np.random.default_rng(random_state)
    chosen = np.sort(rng.permutation(len(features))[:_MAPPED])
    some = features[chosen]
    if len(some) < 5:
        return np.resize(some, (len(some), 2)), chosen
    reduced = PCA(min(30, *some.shape), random_state=random_state).fit_transform(some)
    perplexity = min(30.0, (len(some) - 1) / 3)
    return TSNE(perplexity=perplexity, random_state=random_state).fit_transform(reduced), chosen
