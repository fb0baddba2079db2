from __future__ import annotations

import warnings
from urllib.error import URLError

import numpy as np
import pytest
import sklearn.datasets
from sklearn.utils import Bunch

from unpooled import datasets
from unpooled.errors import DataUnavailable, InputError


@pytest.fixture(autouse=True)
def no_folder(monkeypatch):
    monkeypatch.delenv("UNPOOLED_DATA", raising=False)


def one_sentence(caught):
    message = str(caught.value)
    return message.endswith(".") and ". " not in message and "\n" not in message


# Files.


def test_a_file_of_the_folder_becomes_a_table(tmp_path):
    X = np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3)
    names = np.array(["cat", "dog"])
    np.savez_compressed(tmp_path / "pets.npz", X=X, y=np.array([1, 0], np.uint8), names=names)
    pets = datasets.load("pets", folder=tmp_path)
    assert isinstance(pets, Bunch)
    assert pets.X.dtype == np.float64
    assert np.array_equal(pets.X, X.reshape(2, 12))
    assert pets.y.dtype == np.int64
    assert pets.y.tolist() == [1, 0]
    assert np.array_equal(pets.names, names)
    assert sorted(pets) == ["X", "names", "y"]


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.float64, np.bool_])
def test_numbers_of_every_type_are_float64(tmp_path, dtype):
    X = np.eye(3, dtype=dtype)
    np.savez(tmp_path / "eye.npz", X=X, y=[0, 1, 2])
    loaded = datasets.load("eye", folder=str(tmp_path)).X
    assert loaded.dtype == np.float64
    assert np.array_equal(loaded, np.eye(3))


def test_missing_values_stay(tmp_path):
    np.savez(tmp_path / "gaps.npz", X=[[1.0], [np.nan]], y=[0, 1])
    assert np.isnan(datasets.load("gaps", folder=tmp_path).X[1, 0])


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([0, 2, 2], [0, 2, 2]),
        ([0.0, 2.0, 1.0], [0, 2, 1]),
        ([True, False, True], [1, 0, 1]),
        ([1, 7, 3], [0, 2, 1]),
        ([-1, 0, 1], [0, 1, 2]),
        ([0.0, 0.5, 1.0], [0, 1, 2]),
        (["b", "a", "b"], [1, 0, 1]),
    ],
)
def test_classes_are_numbered_from_zero(tmp_path, y, expected):
    np.savez(tmp_path / "set.npz", X=np.eye(3), y=y)
    loaded = datasets.load("set", folder=tmp_path).y
    assert loaded.dtype == np.int64
    assert loaded.tolist() == expected


def test_the_environment_names_the_folder_and_the_argument_wins(tmp_path, monkeypatch):
    for place, value in (("one", 1.0), ("two", 2.0)):
        (tmp_path / place).mkdir()
        np.savez(tmp_path / place / "iris.npz", X=[[value]], y=[0])
    monkeypatch.setenv("UNPOOLED_DATA", str(tmp_path / "one"))
    assert datasets.load("iris").X == 1.0
    assert datasets.load("iris", folder=tmp_path / "two").X == 2.0
    monkeypatch.setenv("UNPOOLED_DATA", str(tmp_path / "gone"))
    assert datasets.load("iris").X.shape == (150, 4)


def write(path, **arrays):
    np.savez(path, **arrays)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_bytes(b"PK\x03\x04 torn"), "cannot be read as arrays"),
        (lambda path: path.write_bytes(b""), "cannot be read as arrays"),
        (lambda path: path.mkdir(), "cannot be read as arrays"),
        (lambda path: write(path, X=np.array([{}]), y=[0]), "without objects"),
        (lambda path: write(path, X=np.eye(2)), r"lacks the array\(s\) y:"),
        (lambda path: write(path, data=np.eye(2)), r"lacks the array\(s\) X, y:"),
        (lambda path: write(path, X=np.eye(2), y=[0]), r"2 rows in X but y of shape \(1,\)"),
        (lambda path: write(path, X=np.eye(2), y=np.eye(2)), r"y of shape \(2, 2\)"),
        (lambda path: write(path, X=np.eye(2), y=[0, np.nan]), "y of .* contains NaN"),
        (lambda path: write(path, X=[["a"]], y=[0]), "X of .* has the type <U1"),
        (lambda path: write(path, X=np.empty((0, 2)), y=[]), r"shape \(0, 2\)"),
    ],
)
def test_bad_files(tmp_path, make, words):
    make(tmp_path / "bad.npz")
    with pytest.raises(InputError, match=words) as caught:
        datasets.load("bad", folder=tmp_path)
    assert str(tmp_path / "bad.npz") in str(caught.value)


def test_an_array_alone_is_not_a_data_set(tmp_path):
    with (tmp_path / "bad.npz").open("wb") as file:
        np.save(file, np.eye(2))
    with pytest.raises(InputError, match="cannot be read as arrays"):
        datasets.load("bad", folder=tmp_path)


# Names.


@pytest.mark.parametrize("name", ["", "a/b", "..\\b", "../iris", "/iris", "c:iris", "a\0", None, 3])
def test_names_are_plain(tmp_path, name):
    with pytest.raises(InputError, match="is not a plain name") as caught:
        datasets.load(name, folder=tmp_path)
    assert one_sentence(caught)


def test_an_unknown_name_lists_what_there_is(tmp_path):
    np.savez(tmp_path / "mine.npz", X=np.eye(2), y=[0, 1])
    with pytest.raises(InputError, match="name='other' is unknown") as caught:
        datasets.load("other", folder=tmp_path)
    assert one_sentence(caught)
    for word in ("iris", "wine", "breast_cancer", "digits", "mnist", "covertype", "mushroom"):
        assert word in str(caught.value)
    assert str(caught.value).endswith(f"{tmp_path}, where there are: mine.")
    with pytest.raises(InputError, match=r"UNPOOLED_DATA names none\), where there are: none"):
        datasets.load("other")


def test_a_folder_must_be_one(tmp_path):
    with pytest.raises(InputError, match="is not a folder") as caught:
        datasets.load("iris", folder=tmp_path / "gone")
    assert one_sentence(caught)


def test_available(tmp_path, monkeypatch):
    known = datasets.available()
    assert known == sorted(known)
    assert {"iris", "wine", "breast_cancer", "digits", "mnist", "cifar10"} < set(known)
    np.savez(tmp_path / "mine.npz", X=np.eye(2), y=[0, 1])
    assert set(datasets.available(tmp_path)) == {*known, "mine"}
    monkeypatch.setenv("UNPOOLED_DATA", str(tmp_path))
    assert "mine" in datasets.available()


# Sets of scikit-learn.


@pytest.mark.parametrize(
    ("name", "shape", "n_classes"),
    [
        ("iris", (150, 4), 3),
        ("wine", (178, 13), 3),
        ("breast_cancer", (569, 30), 2),
        ("digits", (1797, 64), 10),
    ],
)
def test_bundled_sets(name, shape, n_classes):
    loaded = datasets.load(name)
    assert loaded.X.shape == shape
    assert (loaded.X.dtype, loaded.y.dtype) == (np.float64, np.int64)
    assert np.array_equal(np.unique(loaded.y), np.arange(n_classes))


def openml(monkeypatch, expected_name, **content):
    """Stands in for OpenML, with what scikit-learn's liac-arff parser makes of its files."""

    def fetch(name, *, version, as_frame, parser):
        assert (name, version, as_frame, parser) == (expected_name, 1, False, "liac-arff")
        return Bunch(**content)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)


@pytest.mark.parametrize(("name", "there"), [("mnist", "mnist_784"), ("cifar10", "CIFAR_10")])
def test_images(monkeypatch, name, there):
    openml(
        monkeypatch,
        there,
        data=np.array([[0.0, 255.0], [3.0, 4.0]]),
        target=np.array(["7", "0"], dtype=object),
    )
    loaded = datasets.load(name)
    assert np.array_equal(loaded.X, [[0.0, 255.0], [3.0, 4.0]])
    assert loaded.y.dtype == np.int64
    assert loaded.y.tolist() == [7, 0]


def test_mushroom(monkeypatch):
    openml(
        monkeypatch,
        "mushroom",
        data=np.array([[2.0, np.nan, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]),
        target=np.array(["p", "e", "p"], dtype=object),
        feature_names=["cap-shape", "stalk-root", "veil-type"],
        categories={"cap-shape": ["x", "c", "b"], "stalk-root": ["e", "c"], "veil-type": ["p"]},
    )
    loaded = datasets.load("mushroom")
    assert loaded.feature_names.tolist() == ["cap-shape=b", "cap-shape=x", "veil-type=p"]
    assert loaded.X.dtype == np.float64
    assert loaded.X.tolist() == [[1, 0, 1], [0, 1, 1], [0, 1, 1]]
    assert loaded.y.dtype == np.int64
    assert loaded.y.tolist() == [1, 0, 1]


def test_covertype(monkeypatch):
    raw = Bunch(data=np.ones((3, 54)), target=np.array([1, 7, 2], dtype=np.int32))
    monkeypatch.setattr(sklearn.datasets, "fetch_covtype", lambda: raw)
    loaded = datasets.load("covertype")
    assert loaded.X.shape == (3, 54)
    assert loaded.y.dtype == np.int64
    assert loaded.y.tolist() == [0, 6, 1]


@pytest.mark.parametrize("name", ["mnist", "covertype", "mushroom", "cifar10"])
@pytest.mark.parametrize("error", [URLError("no route"), ValueError("No active dataset.\nGone.")])
def test_what_cannot_be_fetched_is_said_with_the_remedy(monkeypatch, tmp_path, name, error):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", refuse)
    monkeypatch.setattr(sklearn.datasets, "fetch_covtype", refuse)
    with pytest.raises(DataUnavailable, match=f"{name} could not be fetched") as caught:
        datasets.load(name, folder=tmp_path)
    assert one_sentence(caught)
    assert f"no {name}.npz in the folder {tmp_path}" in str(caught.value)
    assert f"put {name}.npz with X and y into a folder and set UNPOOLED_DATA" in str(caught.value)
    np.savez(tmp_path / f"{name}.npz", X=np.eye(2), y=[0, 1])
    assert datasets.load(name, folder=tmp_path).X.shape == (2, 2)


def test_warnings_about_retries_do_not_reach_the_caller(monkeypatch):
    def refuse(*_, **__):
        warnings.warn("Retrying...", stacklevel=1)
        raise URLError("no route")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", refuse)
    with pytest.raises(DataUnavailable, match="UNPOOLED_DATA names none"):
        datasets.load("mnist")
