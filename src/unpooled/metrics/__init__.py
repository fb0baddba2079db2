"""How good a clustering is: against known classes or centres, and without any, without pooling.

Against classes: `accuracy`, `purity`, `nmi`. Against centres: `center_distance`, and
`consensus_distance` among the users of a mesh. Without any: `silhouette`, `calinski_harabasz` and
`davies_bouldin`, which are computed the way parties would compute them together, from sums per
cluster.

Weights count rows: a row of weight 2 is a row listed twice, a row of weight 0 is not there.

``X`` is one array or DataFrame, with ``groups`` giving each row's party, or a list, tuple or dict
of 2-D tables, one per party; ``labels`` and ``sample_weight`` come in the same container. The
columns of several DataFrames are matched by name.
"""

from unpooled.metrics.centers import center_distance, consensus_distance
from unpooled.metrics.labels import accuracy, nmi, purity
from unpooled.metrics.scores import calinski_harabasz, davies_bouldin, silhouette

__all__ = [
    "accuracy",
    "calinski_harabasz",
    "center_distance",
    "consensus_distance",
    "davies_bouldin",
    "nmi",
    "purity",
    "silhouette",
]
