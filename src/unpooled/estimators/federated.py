"""The estimator of federated k-means, a thin layer over its protocol."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np

from unpooled.checks import number, whole
from unpooled.data.parties import Parties
from unpooled.errors import InputError
from unpooled.estimators import options
from unpooled.estimators.history import History
from unpooled.estimators.star import StarEstimator
from unpooled.protocols.star import federated
from unpooled.protocols.star.base import StarProtocol
from unpooled.protocols.star.one_shot import OneShotKMeans
from unpooled.protocols.star.shared import drawn_starts
from unpooled.simulate import Options, Run
from unpooled.types import Body, FloatArray

_INIT_NAMES = ("one-shot", *drawn_starts.NAMES)


class FederatedKMeans(StarEstimator):
    """Lloyd's iteration on all parties' rows from sums and counts: equal to pooled k-means.

    Every party sends what the start sends, and ``n_clusters`` x (d + 2) numbers a round; see
    :mod:`unpooled.protocols.star.federated`. Successive sums can be subtracted from each other:
    under the "study" policy that recovers rows; under "deployment", where a party is its cells, it
    does not.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    init : str, callable or array of shape (K, d), default="one-shot"
        Where centres start; no start sends a row. "one-shot" merges parties' own clusters, as
        :class:`unpooled.OneShotKMeans` does, and is the best. "k-means++" and "random" draw rows
        at home, and from the means of the rows nearest to them the coordinator draws again
        (:mod:`unpooled.protocols.star.shared.drawn_starts`). A callable is called by the
        coordinator as ``init(X, n_clusters, random_state)``, where ``X`` are such means in place of
        the rows, and returns the centres.
    n_init : int or "auto", default="auto"
        For "one-shot" the starts of each party's own k-means, of which "auto" makes 10. Else how
        often the whole is run, the best being kept: "auto" runs it once from "k-means++" or given
        centres, 10 times from "random" or a callable.
    max_rounds : int, default=100
        Most rounds after a start.
    tol : float, default=1e-4
        Stop when no centre moves by more than this times the root mean square distance of a row to
        its centre.
    policy : {"study", "deployment"}, policy, or dict of one for each party, default="study"
        What parties let out.
    verbose : int, default=0
        Whether to print what is noted of every round.
    random_state : int, RandomState, Generator or None, default=None
        Seed; with given centres nothing is left to chance.

    Attributes
    ----------
    cluster_centers_ : array of shape (K, d)
        The centres.
    labels_ : array of shape (n,), or list, tuple or dict of these
        The cluster of each row, in the container of ``X``.
    inertia_ : float
        The weighted sum of squared distances of rows to their nearest centre.
    converged_ : bool
        Whether ``tol`` was reached within ``max_rounds``.
    n_iter_ : int
        Rounds of the run that was kept.
    n_rounds_ : int
        Rounds of all runs.
    history_ : dict of arrays
        ``received``, the number of centroids that came for the start; ``cost`` (of the centres that
        a round began with) and ``movement``, one per round.
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
    >>> from unpooled import FederatedKMeans
    >>> hospitals = {"A": np.array([[0.0], [1.0], [9.0]]), "B": np.array([[0.5], [10.0]])}
    >>> model = FederatedKMeans(n_clusters=2, init=[[0.0], [5.0]]).fit(hospitals)
    >>> model.cluster_centers_[:, 0].tolist(), model.n_iter_
    ([0.5, 9.5], 2)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "one-shot",
        n_init: int | Literal["auto"] = "auto",
        max_rounds: int = 100,
        tol: float = 1e-4,
        policy: Any = "study",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_rounds = max_rounds
        self.tol = tol
        self.policy = policy
        self.verbose = verbose
        self.random_state = random_state

    def _protocol(self, n_clusters: int, parties: Parties) -> federated.FederatedKMeans:
        start = self._start(n_clusters, parties)
        max_rounds, tol = whole("max_rounds", self.max_rounds, 1), number("tol", self.tol)
        return federated.FederatedKMeans(start, max_rounds, tol)

    def _start(
        self, n_clusters: int, parties: Parties
    ) -> OneShotKMeans | drawn_starts.DrawnStarts | FloatArray:
        n_init = self._n_starts()
        if isinstance(self.init, str):
            if self.init not in _INIT_NAMES:
                raise InputError(
                    f"init={self.init!r} is not known; give {', '.join(map(repr, _INIT_NAMES))}, a "
                    "callable or an array of starting centres."
                )
            if self.init == "one-shot":
                return OneShotKMeans(n_clusters, n_clusters, n_init=n_init)
            return drawn_starts.DrawnStarts(n_clusters, str(self.init), n_init)
        if callable(self.init):
            return drawn_starts.DrawnStarts(n_clusters, self._called, n_init)
        return options.given_centers(self.init, n_clusters, parties)

    def _n_starts(self) -> int:
        """What ``n_init`` comes to with this ``init``."""
        if isinstance(self.init, str):
            return options.starts(self.n_init, 1 if self.init == "k-means++" else 10)
        return options.starts(self.n_init, 10 if callable(self.init) else 1)

    def _called(
        self, points: FloatArray, n_clusters: int, random_state: np.random.RandomState
    ) -> FloatArray:
        """What the callable makes of parties' cell means."""
        try:
            centers = self.init(points, n_clusters, random_state)
        except Exception as error:
            raise InputError(
                f"init={self.init!r} cannot be called on {len(points)} points of "
                f"{points.shape[1]} columns ({type(error).__name__}); give one that takes X, "
                "n_clusters and random_state."
            ) from error
        return options.given_centers(centers, n_clusters, Parties.of([points]))

    def _run(
        self, protocol: StarProtocol, parties: Parties, seed: int, how: Options, history: History
    ) -> Run:
        given = not isinstance(self.init, str) and not callable(self.init)
        if given and self._n_starts() > 1:
            warnings.warn(
                "Explicit initial center position passed: performing only one init in "
                f"{type(self).__name__} instead of n_init={self.n_init}.",
                RuntimeWarning,
                stacklevel=4,
            )
        return super()._run(protocol, parties, seed, how, history)

    def _keep(self, result: Body) -> None:
        self.converged_ = bool(result["converged"])
        self.n_iter_ = int(result["iterations"])
