"""scikit-learn's own tests of its k-means, run on our estimators.

The source of ``sklearn/cluster/tests/test_k_means.py``, as installed, is executed with ``KMeans``
replaced by a thin subclass of ours. Tests of other things (mini-batches, private functions) are
left out. ``expected.toml`` lists, by test id, every failure that is expected and why; one that
passes is an error, and so is one that is not there.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import sklearn.cluster
from sklearn.cluster.tests import test_k_means as theirs

from unpooled import FederatedKMeans, OneShotKMeans
from unpooled.estimators import options

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
EXPECTED: dict[str, dict[str, list[str]]] = tomllib.loads(
    (Path(__file__).parent / "expected.toml").read_text()
)


class Federated(FederatedKMeans):
    """Takes what scikit-learn's k-means takes: other names, and what makes no difference to us."""

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: Any = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        verbose: int = 0,
        random_state: Any = None,
        copy_x: bool = True,
        algorithm: str = "lloyd",
    ) -> None:
        super().__init__(n_clusters, init=init, n_init=n_init, tol=tol, verbose=verbose)
        self.random_state = random_state
        self.max_iter = max_iter
        self.copy_x = copy_x
        self.algorithm = algorithm

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, sample_weight: Any = None) -> Any:
        self.max_rounds = self.max_iter
        return super().fit(X, y, sample_weight=sample_weight)

    @property
    def _n_init(self) -> int:
        return self._n_starts()


class OneShot(OneShotKMeans):
    """Has no centres to start from, no iterations and no tolerance to choose."""

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: str = "k-means++",
        n_init: Any = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        verbose: int = 0,
        random_state: Any = None,
        copy_x: bool = True,
        algorithm: str = "lloyd",
    ) -> None:
        super().__init__(n_clusters, n_init=n_init, verbose=verbose, random_state=random_state)
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.copy_x = copy_x
        self.algorithm = algorithm

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, sample_weight: Any = None) -> Any:
        if not isinstance(self.init, str):
            raise TypeError("One-shot k-means takes no starting centres.")
        return super().fit(X, y, sample_weight=sample_weight)

    @property
    def _n_init(self) -> int:
        return options.starts(self.n_init)


@pytest.fixture
def global_random_seed() -> int:
    """As in scikit-learn's own configuration of its tests."""
    return 42


@pytest.fixture
def global_dtype() -> type:
    """As in scikit-learn's own configuration of its tests."""
    return np.float64


@pytest.fixture(autouse=True)
def expected(request: pytest.FixtureRequest) -> None:
    """Marks the tests that are expected to fail, each with its reason."""
    tested = request.node.cls.__name__ if request.node.cls else ""
    for reason, ids in EXPECTED.get(tested, {}).items():
        if request.node.name in ids:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))


def adopted(stand_in: type) -> dict[str, Any]:
    """Their tests that use ``KMeans``, made with ours in its place."""
    stand_in.__name__ = "KMeans"  # by which they name columns
    replaced, sklearn.cluster.KMeans = sklearn.cluster.KMeans, stand_in
    try:
        space: dict[str, Any] = {"__name__": theirs.__name__, "__file__": theirs.__file__}
        exec(compile(Path(theirs.__file__).read_text(), theirs.__file__, "exec"), space)
    finally:
        sklearn.cluster.KMeans = replaced
    tests = {name: test for name, test in space.items() if name.startswith("test_")}
    return {name: staticmethod(test) for name, test in tests.items() if _about(test, stand_in)}


def _about(test: FunctionType, stand_in: type) -> bool:
    """Whether the test uses the class; drops its cases that use mini-batches instead."""
    uses = "KMeans" in test.__code__.co_names
    marks = getattr(test, "pytestmark", [])
    for place, mark in enumerate(marks):
        if mark.name != "parametrize":
            continue
        names, values = mark.args
        kept = [own for own in values if not _among(sklearn.cluster.MiniBatchKMeans, own)]
        uses |= any(_among(stand_in, own) for own in kept)
        marks[place] = pytest.mark.parametrize(names, kept, **mark.kwargs).mark
    return uses


def _among(kind: type, values: Any) -> bool:
    return kind in values if isinstance(values, tuple) else values is kind


TestFederatedKMeans = type("TestFederatedKMeans", (), adopted(Federated))
TestOneShotKMeans = type("TestOneShotKMeans", (), adopted(OneShot))


def test_every_expected_failure_is_there(request: pytest.FixtureRequest) -> None:
    """A name that no test has any more would be a promise that nobody keeps."""
    items = [item for item in request.session.items if item.path == Path(__file__)]
    there = {(item.cls.__name__, item.name) for item in items if item.cls is not None}
    listed = [
        (kind, name)
        for kind, reasons in EXPECTED.items()
        for ids in reasons.values()
        for name in ids
    ]
    assert len(set(listed)) == len(listed)
    if len(items) > 1:  # else only this one was asked for
        assert set(listed) <= there
