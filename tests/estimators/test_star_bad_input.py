"""Estimators with a coordinator refuse bad input in one sentence, and leave nothing behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from tests.estimators.test_bad_input import DATA, GOOD, A, B, frame, spoilt
from tests.sentences import refuses
from unpooled import (
    KFED,
    FeCA,
    FederatedKMeans,
    FuzzyCMeans,
    KernelKMeans,
    KernelPCAKMeans,
    MatchedAveraging,
    OneShotKMeans,
    RandomFeatureKMeans,
)
from unpooled.errors import InputError, PolicyRefusal, ProtocolError
from unpooled.preprocessing import StandardScaler
from unpooled.privacy.policy import Deployment, Study

SENDING_SUMS = {
    own.__name__: own
    for own in (
        FeCA,
        KFED,
        MatchedAveraging,
        FuzzyCMeans,
        FederatedKMeans,
        OneShotKMeans,
        KernelKMeans,
    )
}
SENDING_ROWS = {own.__name__: own for own in (RandomFeatureKMeans, KernelPCAKMeans)}
CLUSTERERS = {**SENDING_SUMS, **SENDING_ROWS}
EMBEDDING = ("KernelKMeans", *SENDING_ROWS)
every = pytest.mark.parametrize("name", CLUSTERERS)
embedding = pytest.mark.parametrize("name", EMBEDDING)


def made(name: str, **options: Any) -> Any:
    return CLUSTERERS[name](**{"n_clusters": 2, "random_state": 0, **options})


def refused(
    model: Any, words: str, data: Any = GOOD, fit: Any = None, error: type[Exception] = InputError
) -> None:
    before = dict(vars(model))
    refuses(lambda: model.fit(data, **(fit or {})), words, error)
    assert vars(model) == before  # nothing half-done is left


@every
@pytest.mark.parametrize("case", DATA)
def test_bad_data(name: str, case: str) -> None:
    data, fit, words = DATA[case]
    refused(made(name), words, data, fit)


@pytest.mark.parametrize("case", sorted(set(DATA) - {"no extent"}))
def test_bad_data_to_scale(case: str) -> None:
    data, fit, words = DATA[case]
    refused(StandardScaler(), words, data, fit)


@every
def test_sparse_data_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        made(name).fit(sp.csr_array(A))


WHOLE = {0: "=0", -3: "=-3", 2.5: "=2.5", True: "=True", "3": "='3'", np.nan: "=nan"}
COUNTS = [
    *((name, "n_clusters") for name in CLUSTERERS),
    *((name, "n_init") for name in CLUSTERERS),
    ("FeCA", "local_clusters"),
    ("KFED", "local_clusters"),
    ("FuzzyCMeans", "max_rounds"),
    ("FuzzyCMeans", "local_steps"),
    ("FederatedKMeans", "max_rounds"),
    ("KernelKMeans", "n_features"),
    ("KernelKMeans", "n_components"),
    ("KernelKMeans", "max_rounds"),
    *((name, "n_features") for name in SENDING_ROWS),
    *((name, "coreset_size") for name in SENDING_ROWS),
    *(("KernelPCAKMeans", option) for option in ("n_components", "n_points", "sketch", "width")),
]
LEFT_TO_US = {  # None is an answer
    *((name, option) for name, option in COUNTS if option in ("local_clusters", "local_steps")),
    ("KernelKMeans", "n_features"),
    ("KernelKMeans", "n_components"),
    ("KernelKMeans", "max_rounds"),
    ("KernelPCAKMeans", "n_components"),
}


@pytest.mark.parametrize("value", WHOLE, ids=str)
@pytest.mark.parametrize(("name", "option"), COUNTS)
def test_numbers_that_must_be_whole(name: str, option: str, value: Any) -> None:
    words = f"{option}{WHOLE[value]} must be a whole number of at least 1"
    refused(made(name, **{option: value}), words)


@pytest.mark.parametrize(("name", "option"), [c for c in COUNTS if c not in LEFT_TO_US])
def test_numbers_that_must_be_there(name: str, option: str) -> None:
    refused(made(name, **{option: None}), f"{option}=None must be a whole number")


@pytest.mark.parametrize("name", ["FuzzyCMeans", "FederatedKMeans"])
@pytest.mark.parametrize("value", [-1e-9, np.nan, np.inf, "small", None, True])
def test_tolerances(name: str, value: Any) -> None:
    refused(made(name, tol=value), f"tol={value!r} must be a finite number of at least 0")


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("FeCA", {"radius": "largest"}, "radius='largest' is not known; give 'empirical'"),
        ("FeCA", {"radius": None}, "radius=None is not known"),
        ("FeCA", {"radius": 1.0}, "radius=1.0 is not known"),
        ("FeCA", {"radius": ["empirical"]}, "radius=.*is not known"),
        ("FeCA", {"merge": "average"}, "merge='average' must be True or False"),
        ("FeCA", {"merge": 1}, "merge=1 must be True or False"),
        ("FeCA", {"merge": None}, "merge=None must be True or False"),
        ("FeCA", {"remove": "never"}, "remove='never' must be True or False"),
        ("KFED", {"n_clusters": 7, "local_clusters": 2}, "local_clusters=2 at 3 parties makes few"),
        ("FuzzyCMeans", {"fuzzifier": 1}, "fuzzifier=1 must be a finite number greater than 1"),
        ("FuzzyCMeans", {"fuzzifier": 0.5}, "fuzzifier=0.5 must be"),
        ("FuzzyCMeans", {"fuzzifier": np.inf}, "fuzzifier=inf must be"),
        ("FuzzyCMeans", {"fuzzifier": np.nan}, "fuzzifier=nan must be"),
        ("FuzzyCMeans", {"fuzzifier": "2"}, "fuzzifier='2' must be"),
        ("FuzzyCMeans", {"fuzzifier": None}, "fuzzifier=None must be"),
        ("FuzzyCMeans", {"merge": "median"}, "merge='median' is not known; give 'average'"),
        ("FuzzyCMeans", {"merge": True}, "merge=True is not known"),
        ("FuzzyCMeans", {"merge": None}, "merge=None is not known"),
        ("FederatedKMeans", {"init": "kmeans++"}, "init='kmeans[+]{2}' is not known; give 'one-sh"),
        ("FederatedKMeans", {"init": "tree"}, "init='tree' is not known"),
        ("FederatedKMeans", {"init": None}, "init is a NoneType|init has"),
        ("FederatedKMeans", {"init": 3}, r"init has shape \(\); it must be \(2, 3\)"),
        ("FederatedKMeans", {"init": np.zeros((2, 2))}, r"init has shape \(2, 2\); it must be"),
        ("FederatedKMeans", {"init": np.zeros((3, 3))}, r"init has shape \(3, 3\); it must be"),
        ("FederatedKMeans", {"init": np.zeros((3, 2, 3))}, r"init has shape \(3, 2, 3\)"),
        ("FederatedKMeans", {"init": np.full((2, 3), np.nan)}, "init has a value that is NaN"),
        ("FederatedKMeans", {"init": np.full((2, 3), 1e200)}, "init has a value that is NaN or be"),
        ("FederatedKMeans", {"init": [["a"]]}, "init is a list that is no array of numbers"),
        ("FederatedKMeans", {"init": 1j * np.ones((2, 3))}, "init is a ndarray that is no array"),
        ("FederatedKMeans", {"init": lambda x: x}, r"init=<func.* cannot be called on"),
        ("FederatedKMeans", {"init": lambda x, k, s: x[:1]}, r"init has shape \(1, 3\); it must"),
        ("FederatedKMeans", {"init": lambda x, k, s: "rows"}, "init is a str that is no array"),
    ],
)  # fmt: skip
def test_bad_options(name: str, options: dict[str, Any], words: str) -> None:
    refused(made(name, **options), words)


DSPGD = {"solver": "dspgd"}


@embedding
@pytest.mark.parametrize("value", [0, 0.0, -1, -0.5, np.nan, np.inf, None, True, [1.0], 10**400])
def test_scales_of_a_kernel(name: str, value: Any) -> None:
    shown = repr(value).replace("[", r"\[")
    refused(made(name, gamma=value), f"gamma={shown} must be a finite number greater than 0")


@embedding
@pytest.mark.parametrize("value", ["auto", "scale", ""])
def test_scales_that_are_words(name: str, value: str) -> None:
    words = f"gamma='{value}' is not known; give .mean-distance. or a number"
    refused(made(name, gamma=value), words)


@embedding
def test_rows_that_are_all_equal_have_no_scale(name: str) -> None:
    words = "All rows are equal, or there is one sample only, so gamma cannot be found from them"
    for data in ([A[:1].repeat(6, axis=0), A[:1].repeat(4, axis=0)], A[:1]):
        refused(made(name, n_clusters=1), words, data)
        assert made(name, n_clusters=1, gamma=0.5).fit(data).inertia_ == pytest.approx(0)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        *(
            (name, {option: value}, f"{option}={value!r} is not known; give '")
            for name, option in (
                *((name, "kernel") for name in EMBEDDING),
                *((name, option) for name in EMBEDDING[:2] for option in ("form", "frequencies")),
                ("KernelKMeans", "solver"),
                ("KernelKMeans", "final"),
            )
            for value in ("linear", 3, True)
        ),
        ("KernelKMeans", {"solver": None}, "solver=None is not known; give 'block-krylov' or '"),
        ("KernelKMeans", {"kernel": None}, "kernel=None is not known; give 'gaussian' or '"),
        ("RandomFeatureKMeans", {"form": None}, "form=None is not known; give 'cos-sin' or '"),
        ("KernelKMeans", {"n_features": 1}, "n_features=1 is odd, but cosines and sines come in"),
        ("KernelKMeans", {"n_features": 33}, "n_features=33 is odd.*give an even number or form="),
        ("KernelKMeans", {**DSPGD, "form": "cos-sin", "n_features": 9}, "n_features=9 is odd"),
        ("RandomFeatureKMeans", {"form": "cos-sin", "n_features": 9}, "n_features=9 is odd"),
        ("KernelKMeans", {"n_components": 6, "n_features": 4}, "n_features=4 is fewer than the 6"),
        ("KernelKMeans", {"n_clusters": 5, "n_features": 4}, "n_features=4 is fewer than the 5"),
        ("KernelKMeans", {**DSPGD, "n_features": 3}, "n_features=3 makes fewer than the 4 eigenv"),
        ("KernelKMeans", {**DSPGD, "n_components": 1}, "n_components=1 is fewer than n_clusters=2"),
        ("KernelKMeans", {**DSPGD, "threshold": -0.1}, "threshold=-0.1 must be a finite number of"),
        ("KernelKMeans", {**DSPGD, "threshold": np.nan}, "threshold=nan must be a finite number"),
        ("KernelKMeans", {**DSPGD, "threshold": "auto"}, "threshold='auto' must be a finite numb"),
        ("KernelKMeans", {**DSPGD, "threshold": True}, "threshold=True must be a finite number"),
        ("KernelKMeans", {**DSPGD, "threshold": 99}, "threshold=99 is not below the largest eigen"),
        ("KernelKMeans", {**DSPGD, "tol": 0}, "tol=0 must be a finite number greater than 0"),
        ("KernelKMeans", {**DSPGD, "tol": -1e-9}, "tol=-1e-09 must be a finite number"),
        ("KernelKMeans", {**DSPGD, "tol": None}, "tol=None must be a finite number"),
        ("KernelKMeans", {**DSPGD, "compress": 1}, "compress=1 must be True or False"),
        ("KernelKMeans", {**DSPGD, "compress": None}, "compress=None must be True or False"),
        ("KernelKMeans", {**DSPGD, "max_rounds": 0}, "max_rounds=0 must be a whole number"),
        ("KernelKMeans", {**DSPGD, "coreset_size": 0}, "coreset_size=0 must be a whole number"),
        ("KernelKMeans", {"final": "coreset", "coreset_size": 2.5}, "coreset_size=2.5 must be a"),
        ("KernelKMeans", {"power": -0.1}, "power=-0.1 must be a finite number of at least 0 and "),
        ("KernelKMeans", {"power": 0.6}, "power=0.6 must be a finite number .* at most 0.5"),
        ("KernelKMeans", {"power": np.nan}, "power=nan must be a finite number"),
        ("KernelKMeans", {"power": None}, "power=None must be a finite number"),
        ("KernelKMeans", {"normalise": "yes"}, "normalise='yes' must be True or False"),
        ("KernelKMeans", {"normalise": 0}, "normalise=0 must be True or False"),
        ("KernelPCAKMeans", {"n_components": 9, "n_points": 8}, "n_points=8 is fewer than the 9"),
        ("KernelPCAKMeans", {"n_clusters": 9, "n_points": 8}, "n_points=8 is fewer than the 9"),
    ],
)  # fmt: skip
def test_bad_options_of_kernel_methods(name: str, options: dict[str, Any], words: str) -> None:
    refused(made(name, **options), words)


@every
@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("strict", "policy='strict' is not known; give 'study' or 'deployment' .*, a policy of"),
        (None, "policy=None is not known"),
        (10, "policy=10 is not known"),
        (Study, "policy=<class .*Study'> is not known"),
        ({"north": "study"}, "Party south has no policy; name one for every party"),
        ({}, "Party north has no policy"),
        (dict.fromkeys([*GOOD, "east"], "study"), "policy names 'east', which is no party"),
        ({**dict.fromkeys(GOOD, "study"), "west": "strict"}, "policy='strict' is not known"),
        ({**dict.fromkeys(GOOD, "study"), "west": None}, "policy=None is not known"),
    ],
    ids=str,
)
def test_bad_policies(name: str, policy: Any, words: str) -> None:
    refused(made(name, policy=policy), words)


@every
def test_bad_seeds(name: str) -> None:
    for state, shown in ((-1, "-1"), ("x", "'x'"), (2.5, "2.5")):
        refused(made(name, random_state=state), f"random_state={shown} cannot seed a generator")


@every
def test_more_clusters_than_distinct_rows(name: str) -> None:
    refused(made(name, n_clusters=16), "n_clusters=16 is more than the 15 distinct rows of all")
    rows = np.array([[0.0, 1.0], [2.0, 3.0]])
    parties = [np.repeat(rows, 20, axis=0), rows]
    refused(made(name, n_clusters=3), "n_clusters=3 is more than the 2 distinct rows", parties)
    refused(made(name, n_clusters=3), "n_samples=2", rows)
    model = made(name).fit(parties)
    if name in EMBEDDING:
        assert model.inertia_ == pytest.approx(0)
        assert sorted(model.labels_[1]) == [0, 1]
    elif name != "FuzzyCMeans":
        assert sorted(model.cluster_centers_.tolist()) == pytest.approx(rows)


@every
@pytest.mark.filterwarnings("ignore:FeCA goes by the distances of single rows")
def test_parties_that_are_all_too_small_to_speak(name: str) -> None:
    model = made(name, policy="deployment")  # of 6, 5 and 4 rows
    refused(model, "No party sent anything about its rows", error=ProtocolError)


@every
def test_caps_are_kept(name: str) -> None:
    tight = Deployment(min_count=1, max_floats=3)
    refused(made(name, policy=tight), "over its cap of 3", error=PolicyRefusal)


@every
def test_a_failed_fit_leaves_the_last_good_one(name: str) -> None:
    model = made(name).fit(GOOD)
    before = {key: value for key, value in vars(model).items() if key.endswith("_")}
    refuses(lambda: model.fit([A, spoilt(B, np.nan)]), "Party 1 has a NaN")
    model.set_params(n_init=0)
    refuses(lambda: model.fit(GOOD), "n_init=0")
    after = {key: value for key, value in vars(model).items() if key.endswith("_")}
    assert before.keys() == after.keys()
    assert all(before[key] is after[key] for key in before)


@every
def test_new_rows_must_look_like_the_fitted_ones(name: str) -> None:
    model = made(name).fit([frame(A), frame(B)])
    for method in (model.predict, model.transform):
        words = f"X has 2 features, but {name} is expecting 3 features"
        refuses(lambda m=method: m(A[:, :2]), words)
        refuses(lambda m=method: m(frame(A, "xyw")), "X lacks the column 'z'")
        bad = {"a": frame(A), "b": frame(spoilt(B, np.nan, 1))}
        refuses(lambda m=method, b=bad: m(b), "Party b has a NaN in column 'y'")
        refuses(lambda m=method: m([A, B[:0]]), "Party 1 has no rows")
    assert np.array_equal(model.predict(frame(A)[["z", "x", "y"]]), model.predict(frame(A)))
    with pytest.raises(NotFittedError):
        made(name).predict(A)
