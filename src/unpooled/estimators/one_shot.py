"""The estimator of one-shot k-means, a thin layer over its protocol."""

from __future__ import annotations

from typing import Any, Literal

from unpooled.checks import flag, fraction, one_of, whole
from unpooled.data.parties import Parties
from unpooled.errors import InputError
from unpooled.estimators import options
from unpooled.estimators.star import StarEstimator
from unpooled.protocols.star import one_shot


class OneShotKMeans(StarEstimator):
    """k-means in one message per party: centroids and counts, clustered again by the coordinator.

    **The first thing to try with a coordinator.** Every party sends, once, at most
    ``local_clusters`` x (d + 1) numbers, by default 3 k (d + 1) or, where k is small, up to
    64 (d + 1) of them; with ``refine`` k (d + 2) more in a second round. See
    :mod:`unpooled.protocols.star.one_shot`.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of clusters; "auto": the coordinator chooses among 1..``max_clusters``.
    local_clusters : int, "auto" or None, default=None
        Clusters that parties look for. None: three times ``n_clusters`` or, if that is more, one
        for every three of a party's rows, up to 64 (never with ``trim``), made in the first
        max(20, 2 x ``n_clusters``) principal components of its rows; with radii, ``n_clusters``.
        With ``n_clusters`` parties send a third or less, and the cost is up to 1 % higher. "auto":
        twice the square root of a party's rows, whatever ``n_clusters`` is (as always when that is
        "auto" too).
    n_init : int or "auto", default=10
        Starts of each party's own k-means; "auto" makes 10.
    send : {"counts", "radii"}, default="counts"
        What is sent beside centroids: their numbers of rows or, where counts may not
        leave, their root mean square radius (parties of unlike size then count alike, and clusters
        of fewer than 10 rows do not count).
    trim : float, default=0.0
        Share of all rows to leave out as outliers.
    refine : bool, default=False
        One more round, in which parties send sums and counts about the centres: an exact Lloyd step
        on all rows.
    max_clusters : int, default=30
        Most clusters that "auto" tries.
    policy : {"study", "deployment"}, policy, or dict of one for each party, default="study"
        What parties let out.
    verbose : int, default=0
        Whether to print what is noted of every round.
    random_state : int, RandomState, Generator or None, default=None
        Seed.

    Attributes
    ----------
    cluster_centers_ : array of shape (K, d)
        The centres.
    labels_ : array of shape (n,), or list, tuple or dict of these
        The cluster of each row, in the container of ``X``.
    inertia_ : float
        The weighted sum of squared distances of rows to their nearest centre.
    n_rounds_ : int
        Rounds of messages.
    history_ : dict of arrays
        ``received``, the number of centroids that came.
    traffic_ : Traffic
        What was sent: see :class:`unpooled.privacy.Traffic`.
    remarks_ : dict of lists
        Which of their rows parties left out, and why.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (d,)
        Names of the columns, where ``X`` has them.

    Examples
    --------
    >>> import numpy as np
    >>> from unpooled import OneShotKMeans
    >>> hospitals = {"A": np.array([[0.0], [1.0], [9.0]]), "B": np.array([[0.5], [10.0]])}
    >>> model = OneShotKMeans(n_clusters=2, random_state=0).fit(hospitals)
    >>> sorted(float(center) for center in model.cluster_centers_[:, 0])
    [0.5, 9.5]
    >>> model.traffic_.floats_up  # centroids and counts: three of each from A, two from B
    10
    """

    def __init__(
        self,
        n_clusters: Any = 8,
        *,
        local_clusters: Any = None,
        n_init: int | Literal["auto"] = 10,
        send: str = "counts",
        trim: float = 0.0,
        refine: bool = False,
        max_clusters: int = 30,
        policy: Any = "study",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.local_clusters = local_clusters
        self.n_init = n_init
        self.send = send
        self.trim = trim
        self.refine = refine
        self.max_clusters = max_clusters
        self.policy = policy
        self.verbose = verbose
        self.random_state = random_state

    def _protocol(self, n_clusters: int | None, parties: Parties) -> one_shot.OneShotKMeans:
        protocol = one_shot.OneShotKMeans(
            n_clusters,
            self._local_clusters(n_clusters),
            n_init=options.starts(self.n_init),
            send=one_of("send", self.send, one_shot.SENT),
            trim=fraction("trim", self.trim),
            refine=flag("refine", self.refine),
            max_clusters=whole("max_clusters", self.max_clusters, 1),
            finer=self.local_clusters is None and n_clusters is not None and not self.trim,
        )
        _refuse_contradictions(protocol)
        return protocol

    def _n_clusters(self) -> int | None:
        found = isinstance(self.n_clusters, str) and self.n_clusters == "auto"
        return None if found else super()._n_clusters()

    def _local_clusters(self, n_clusters: int | None) -> int | None:
        if isinstance(self.local_clusters, str):
            one_of("local_clusters", self.local_clusters, ("auto",))
            return None
        if self.local_clusters is not None:
            return whole("local_clusters", self.local_clusters, 1)
        if n_clusters is None:
            return None
        return one_shot.LOCAL_PER_CENTER * n_clusters


def _refuse_contradictions(protocol: one_shot.OneShotKMeans) -> None:
    auto = "n_clusters='auto'" if protocol.n_clusters is None else ""
    refine = "refine=True" if protocol.refine else ""
    if protocol.send == "radii" and (auto or refine):
        raise InputError(
            f"{auto or refine} needs counts, which send='radii' keeps back; drop one of them."
        )
    if protocol.trim and (auto or refine):
        raise InputError(
            f"{auto or refine} counts all rows, also the outliers that trim={protocol.trim:g} "
            "leaves out; drop one of them."
        )
