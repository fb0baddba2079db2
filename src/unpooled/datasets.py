"""Data sets for studies, each by one name, from a folder, from scikit-learn or from the network.

`load` looks for ``<name>.npz`` in a folder first, so a set that a machine cannot fetch can be put
there; the folder is the argument or the one that the environment variable ``UNPOOLED_DATA`` names.
"""

from __future__ import annotations

import os
import warnings
import zipfile
import zlib
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

import numpy as np
from sklearn import datasets as _sklearn
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import Bunch

from unpooled.errors import DataUnavailable, InputError
from unpooled.types import Array, FloatArray, IntArray

__all__ = ["available", "load"]

FOLDER_VARIABLE = "UNPOOLED_DATA"


def load(name: str, *, folder: str | os.PathLike[str] | None = None) -> Bunch:
    """A data set as ``X`` (float64, one row per sample), ``y`` (int64 classes from 0 on) and more.

    ``name`` is looked for, in this order, as ``<name>.npz`` in the folder (with arrays ``X`` and
    ``y``; any other arrays are passed on unchanged), among the sets that come with scikit-learn,
    and among those that scikit-learn fetches. Images are flattened to one row each. Classes of a
    file that are not whole numbers from 0 on are numbered in sorted order.

    Parameters
    ----------
    name : str
        One that :func:`available` lists.
    folder : str, path or None, default=None
        Where files are; None: the folder that the environment variable UNPOOLED_DATA names, if it
        does.

    Returns
    -------
    data : Bunch
        With ``X``, ``y`` and what else the file has.
    """
    if not isinstance(name, str) or not name or any(c in name for c in "/\\:\0"):
        raise InputError(f"name={name!r} is not a plain name: pass one without path separators.")
    place = _folder(folder)
    if place is not None and name in _files(place):
        return _read_npz(place / f"{name}.npz")
    if name in _BUNDLED:
        raw = _BUNDLED[name]()
        return Bunch(X=_float_rows(raw.data, name), y=_from_zero(raw.target, name))
    if name in _FETCHED:
        return _fetch(name, place)
    raise InputError(
        f"name={name!r} is unknown: pass one of {', '.join([*_BUNDLED, *_FETCHED])}, or the name "
        f"of an npz file in {_place_in_words(place)}, where there are: "
        f"{', '.join(_files(place)) or 'none'}."
    )


def available(folder: str | os.PathLike[str] | None = None) -> list[str]:
    """The names that `load` takes, sorted; fetched sets need a network when first loaded.

    Parameters
    ----------
    folder : str, path or None, default=None
        Where files are; None: the folder that the environment variable UNPOOLED_DATA names, if it
        does.

    Returns
    -------
    names : list of str
        Sorted.
    """
    return sorted({*_files(_folder(folder)), *_BUNDLED, *_FETCHED})


def _folder(folder: str | os.PathLike[str] | None) -> Path | None:
    if folder is None:
        named = os.environ.get(FOLDER_VARIABLE)
        return Path(named) if named else None
    if not isinstance(folder, str | os.PathLike):
        raise InputError(f"folder={folder!r} is not a path: pass a string or a Path.")
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"folder={str(place)!r} is not a folder: create it or pass another.")
    return place


def _files(place: Path | None) -> list[str]:
    return sorted(file.stem for file in place.glob("*.npz")) if place is not None else []


def _place_in_words(place: Path | None) -> str:
    return (
        f"the folder {place}" if place is not None else f"a folder ({FOLDER_VARIABLE} names none)"
    )


def _read_npz(path: Path) -> Bunch:
    try:
        # np.load would leave the file open if it is torn
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
            if not all(isinstance(value, np.ndarray) for value in arrays.values()):
                raise TypeError
    except (OSError, TypeError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(
            f"{path} cannot be read as arrays: write it with numpy.savez, without objects."
        ) from error
    if missing := [key for key in ("X", "y") if key not in arrays]:
        raise InputError(
            f"{path} lacks the array(s) {', '.join(missing)}: write it with both X and y."
        )
    arrays["X"] = _float_rows(arrays["X"], str(path))
    arrays["y"] = _from_zero(arrays["y"], str(path))
    if arrays["y"].shape != (len(arrays["X"]),):
        raise InputError(
            f"{path} has {len(arrays['X'])} rows in X but y of shape {arrays['y'].shape}: "
            "write one class for each row."
        )
    return Bunch(**arrays)


def _float_rows(X: Array, what: str) -> FloatArray:
    if X.dtype.kind not in "biuf" or X.ndim == 0 or X.size == 0:
        raise InputError(
            f"X of {what} has the type {X.dtype} and shape {X.shape}: numbers and at least one "
            "row are needed."
        )
    return X.reshape(len(X), -1).astype(np.float64)


def _from_zero(y: Array, what: str) -> IntArray:
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise InputError(f"y of {what} contains NaN or infinity: give every row a class.")
    names, codes = np.unique(y, return_inverse=True)
    if names.dtype.kind in "biuf" and names.size and names[0] == 0 and np.all(names % 1 == 0):
        if names[-1] > 2**53:
            raise InputError(f"y of {what} has a class {names[-1]:g}: number classes from 0 on.")
        return y.astype(np.int64)
    return codes.astype(np.int64)


def _fetch(name: str, place: Path | None) -> Bunch:
    fetch, convert = _FETCHED[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about retries; the error below has it all
            raw = fetch()
    except (OSError, HTTPException, ValueError) as error:
        raise DataUnavailable(
            f"{name} could not be fetched through scikit-learn ({type(error).__name__}) and there "
            f"is no {name}.npz in {_place_in_words(place)}: connect to the network, or put "
            f"{name}.npz with X and y into a folder and set {FOLDER_VARIABLE} to it."
        ) from error
    return convert(raw)


def _openml(name: str) -> Bunch:
    # The faster parser needs pandas, which this library does not, and fails with scikit-learn 1.9
    # and pandas 3.1 where classes are named by digits.
    return _sklearn.fetch_openml(name, version=1, as_frame=False, parser="liac-arff")


def _digits_as_classes(raw: Bunch) -> Bunch:
    """OpenML names the classes of images "0", "1", ..."""
    return Bunch(
        X=_float_rows(raw.data, "the fetched set"), y=np.asarray(raw.target).astype(np.int64)
    )


def _covertype(raw: Bunch) -> Bunch:
    """Cover types are 1 to 7."""
    return Bunch(X=_float_rows(raw.data, "the fetched set"), y=raw.target.astype(np.int64) - 1)


def _mushroom(raw: Bunch) -> Bunch:
    """One column for each value of each attribute but stalk-root, which has missing values.

    The parser gives every attribute as positions in its list of values.
    """
    names = [name for name in raw.feature_names if name != "stalk-root"]
    positions = raw.data[:, [raw.feature_names.index(name) for name in names]].astype(np.int64)
    values = [np.asarray(raw.categories[n])[p] for n, p in zip(names, positions.T, strict=True)]
    encoder = OneHotEncoder(
        sparse_output=False, feature_name_combiner=lambda name, value: f"{name}={value}"
    )
    return Bunch(
        X=encoder.fit_transform(np.column_stack(values)),
        y=np.asarray(raw.target == "p").astype(np.int64),
        feature_names=encoder.get_feature_names_out(names).astype(str),
    )


_BUNDLED: dict[str, Callable[[], Bunch]] = {
    "iris": _sklearn.load_iris,
    "wine": _sklearn.load_wine,
    "breast_cancer": _sklearn.load_breast_cancer,
    "digits": _sklearn.load_digits,
}
_FETCHED: dict[str, tuple[Callable[[], Bunch], Callable[[Bunch], Bunch]]] = {
    "mnist": (lambda: _openml("mnist_784"), _digits_as_classes),
    "covertype": (lambda: _sklearn.fetch_covtype(), _covertype),
    "mushroom": (lambda: _openml("mushroom"), _mushroom),
    "cifar10": (lambda: _openml("CIFAR_10"), _digits_as_classes),
}
