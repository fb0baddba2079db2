"""FeCA: one-shot aggregation of refined local centroids (Xu et al. 2024, "Jigsaw Game").

Every party runs k-means with k' clusters, removes centroids that stand between several true
clusters (``refined``), gives each of the rest a radius (``radii``), and sends both, once. The
coordinator groups centroids by the radii (``aggregated``) and returns the means of the largest
groups.

**Refinement** (Algorithm 2). With G the sum of squares of a cluster about its centroid, n its
weight: let i be the cluster with the largest spread (G_i / n_i)^½ and (p, q) the closest pair of
centroids. Were the pair one cluster, its sum of squares would be

    G_pq = G_p + G_q + n_p n_q / (n_p + n_q) |c_p - c_q|².

If G_i >= G_pq, the solution is taken for a poor local optimum, with i fitting many true clusters
and p, q one: centroid i and its rows are dropped, and the test is repeated; otherwise it ends.

As printed, p and q stay as they are, so the same pair justifies one removal after the other, also
of good centroids. With ``merge=True`` p and q become one centroid when i is dropped, and a pair
pays for one removal only. ``merge=False`` is the printed loop; ``remove=False`` leaves the
refinement out, to see what it is worth.

**Radius** (Algorithms 4 and 3). r'_i is the largest distance of a row of cluster i to its centroid,
d_i the distance to the nearest other centroid. "empirical": r_i = min(r'_i, d_i / 2).
"theoretical": going through the centroids, each that overlaps its nearest neighbour (r'_i + r'_j
> d_ij) is set aside together with it; half the smallest distance between those left is the radius
of all.

**Aggregation** (Algorithm 5). Take the centroid with the largest radius, group it with all
centroids within that radius, set the group aside, and repeat. The k groups with most members give
k means.

What the paper leaves open, and what is done here:

- A party with fewer than k' distinct rows sends each of them. Rows without weight are absent.
- Spread, G and n are weighted; ties go to the lowest index, at the coordinator to the party that
  comes first. Clusters are not recomputed after a removal. A single centroid is never dropped
  (two cannot be: each is part of the closest pair, and G_i < G_pq).
- A party's only centroid has r_i = r'_i. If "theoretical" sets all but one centroid aside, the
  smallest distance between any two is taken.
- Fewer than k groups: the centroids received that lie farthest from all centres so far are added
  one by one (``n_groups`` says how many centres are means of groups; they come first). If fewer
  than k distinct centroids were received, there are fewer than k centres; the estimator warns.
- Radii are distances of single rows: where rows are means of cells they come out too small, and
  groups fall apart (in the comparison of all methods the median case costs 4 % more than pooled
  k-means, the worst three times as much). Estimator and dry runs warn.

Sent by a party: (d + 1) numbers for each centroid it keeps, at most k' (d + 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from unpooled.data.parties import PartyData
from unpooled.kernels.assignment.centers import squared_to_own
from unpooled.kernels.linalg.products import dot, lengths
from unpooled.kernels.lloyd.kmeans import Clustering, cluster, renumbered, scatter_of
from unpooled.messages.aggregate import Aggregate
from unpooled.messages.release import Release
from unpooled.protocols.star.base import Answer
from unpooled.protocols.star.shared.centroids import CentroidsProtocol, release, spread_out
from unpooled.types import Body, FloatArray, IntArray, all_rows

RADII = ("empirical", "theoretical")


@dataclass(frozen=True)
class FeCA(CentroidsProtocol):
    """The protocol; the parameters are those of the estimator."""

    n_clusters: int
    local_clusters: int
    radius: str = "empirical"
    merge: bool = True
    n_init: int = 10
    remove: bool = True
    name: ClassVar[str] = "feca"
    on_cells: ClassVar[str] = (
        "FeCA goes by the distances of single rows, which means of cells do not have: its centres "
        "may cost three times what they could; use OneShotKMeans."
    )

    @property
    def releases(self) -> tuple[Release, ...]:
        why = "means of local clusters' rows; how far out the outermost of them lies"
        return (release(self.local_clusters, why, ("radii",)),)

    def aggregate(self, reply: Aggregate, rng: np.random.Generator) -> Body:
        centers, n_groups = aggregated(reply["centroids"], reply["radii"], self.n_clusters)
        return {"centers": centers, "n_groups": np.array(n_groups)}

    def centroids(
        self, data: PartyData, state: Body, body: Body, rng: np.random.Generator
    ) -> Answer:
        """Algorithms 2 and 4 (or 3) on the party's own rows."""
        rows = all_rows(data.rows)
        found = cluster(rows, data.weights, self.local_clusters, self.n_init, rng)
        if self.remove:
            found = refined(rows, data.weights, found, self.merge)
        outermost = outermost_distances(rows, found)
        return {
            "centroids": found.centers,
            "radii": radii(found.centers, outermost, self.radius),
        }, {}


def refined(rows: FloatArray, weights: FloatArray, found: Clustering, merge: bool) -> Clustering:
    """Algorithm 2; rows of a dropped centroid get the label -1."""
    centers, counts = found.centers.copy(), found.counts.copy()
    scatter = scatter_of(rows, weights, found)
    # What each cluster is called now, -1 once dropped; the last place is that of the label -1.
    name = np.append(np.arange(len(centers)), -1)
    left = list(range(len(centers)))
    while len(left) > 2:
        spread = scatter[left] / counts[left]
        i = left[int(np.argmax(spread))]
        p, q = _closest(centers, left)
        apart = centers[p] - centers[q]
        both = counts[p] + counts[q]
        together = scatter[p] + scatter[q] + counts[p] * counts[q] / both * dot(apart, apart)
        if i in (p, q) or scatter[i] < together:
            break
        left.remove(i)
        name[name == i] = -1
        if merge:
            centers[p] = (counts[p] * centers[p] + counts[q] * centers[q]) / both
            scatter[p], counts[p] = together, both
            left.remove(q)
            name[name == q] = p
    labels = renumbered(name[found.labels], np.array(left, dtype=np.int64))
    return Clustering(centers[left], labels, counts[left])


def _closest(centers: FloatArray, left: list[int]) -> tuple[int, int]:
    squared = cdist(centers[left], centers[left], "sqeuclidean")
    squared[np.tril_indices(len(left))] = np.inf
    p, q = divmod(int(np.argmin(squared)), len(left))
    return left[p], left[q]


def outermost_distances(rows: FloatArray, found: Clustering) -> FloatArray:
    """The largest distance of a cluster's rows to its centroid."""
    farthest = np.zeros(len(found.centers) + 1)  # the last place is that of the label -1
    np.maximum.at(farthest, found.labels, squared_to_own(rows, found.centers, found.labels))
    return np.sqrt(farthest[:-1])


def radii(centroids: FloatArray, outermost: FloatArray, rule: str) -> FloatArray:
    """Algorithm 4 ("empirical") or 3 ("theoretical")."""
    if len(centroids) < 2:
        return outermost
    apart = cdist(centroids, centroids)
    np.fill_diagonal(apart, np.inf)
    if rule == "empirical":
        return np.asarray(np.minimum(outermost, apart.min(axis=1) / 2))
    alone = np.ones(len(centroids), dtype=bool)
    for i in range(len(centroids)):
        if alone[i] and alone.sum() > 1:
            j = int(np.argmin(np.where(alone, apart[i], np.inf)))
            if outermost[i] + outermost[j] > apart[i, j]:
                alone[[i, j]] = False
    if alone.sum() < 2:
        alone[:] = True
    return np.full(len(centroids), float(apart[np.ix_(alone, alone)].min()) / 2)


def aggregated(centroids: FloatArray, radii: FloatArray, n_clusters: int) -> tuple[FloatArray, int]:
    """Algorithm 5, filled up to ``n_clusters`` centres; and how many are means of groups."""
    groups: list[IntArray] = []
    left = np.argsort(-radii, kind="stable")
    while len(left):
        within = lengths(centroids[left] - centroids[left[0]]) <= radii[left[0]]
        within[0] = True
        groups.append(np.sort(left[within]))
        left = left[~within]
    groups.sort(key=len, reverse=True)  # stable: among equals the one formed first
    centers = [centroids[group].mean(axis=0) for group in groups[:n_clusters]]
    return spread_out(centroids, np.array(centers), n_clusters), len(centers)
