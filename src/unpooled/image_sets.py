"""Image data sets as people have them on disk: CIFAR-10, CIFAR-100 and Tiny-ImageNet.

None is shipped or fetched. They are read from a folder, or the one that the environment variable
``UNPOOLED_DATA`` names, in any of the forms in which they are given away:

- CIFAR-10: ``cifar-10-batches-bin``, the binary version;
- CIFAR-100: ``cifar-100-binary``, likewise;
- Tiny-ImageNet: ``tiny-imagenet-200``, a folder of JPEG files;
- any of them: an npz file (``cifar10*.npz``, ``cifar100*.npz``, ``tiny-imagenet*.npz``) with images
  ``X`` (n, height, width, channels), classes ``y``, and ``split`` (0: training, 1: test).

The versions of CIFAR for Python are pickles, which can run any code when opened; they are not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from unpooled.checks import one_of, whole_or_none
from unpooled.datasets import FOLDER_VARIABLE
from unpooled.errors import DataUnavailable, InputError
from unpooled.types import IntArray

__all__ = ["load_images"]

Images = NDArray[np.uint8]
ImagesAndClasses = tuple[Images, IntArray]
NAMES = ("cifar10", "cifar100", "tiny-imagenet")
_FOLDERS = {
    "cifar10": "cifar-10-batches-bin",
    "cifar100": "cifar-100-binary",
    "tiny-imagenet": "tiny-imagenet-200",
}
_PICKLED = {"cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}


def load_images(
    name: str, *, folder: str | os.PathLike[str] | None = None, most: int | None = None
) -> tuple[Bunch, Bunch]:
    """Training and test set, each with ``images`` (n, height, width, channels; uint8) and ``y``.

    Parameters
    ----------
    name : {"cifar10", "cifar100", "tiny-imagenet"}
        Which set.
    folder : str, path or None, default=None
        Where files are; None: the folder that the environment variable UNPOOLED_DATA names, if it
        does.
    most : int or None, default=None
        How many training images of each class to take, the first ones; None: all.

    Returns
    -------
    train, test : Bunch
        With ``images`` and ``y`` each.
    """
    one_of("name", name, NAMES)
    most = whole_or_none("most", most, 1)
    named = os.environ.get(FOLDER_VARIABLE) if folder is None else folder
    train, test = _read_set(name, Path(named) if named else None)
    if most is not None:
        of_each = [np.flatnonzero(train[1] == c)[:most] for c in np.unique(train[1])]
        first = np.sort(np.concatenate(of_each))
        train = train[0][first], train[1][first]
    return (
        Bunch(images=train[0], y=train[1].astype(np.int64)),
        Bunch(images=test[0], y=test[1].astype(np.int64)),
    )


def _read_set(name: str, place: Path | None) -> tuple[ImagesAndClasses, ImagesAndClasses]:
    kind = _FOLDERS[name]
    if place is not None:
        if (place / kind).is_dir():
            return _READERS[name](place / kind)
        for file in sorted(place.glob(f"{name}*.npz")):
            if file.stem[len(name) :][:1].isdigit():  # cifar100 is not cifar10
                continue
            found = _images_from_npz(file)
            if found is not None:
                return found
    where = f"the folder {place}" if place else f"a folder ({FOLDER_VARIABLE} names none)"
    pickled = place is not None and name in _PICKLED and (place / _PICKLED[name]).is_dir()
    hint = f" ({_PICKLED[name]} holds pickles, which are not opened)" if pickled else ""
    raise DataUnavailable(
        f"{name} is not in {where}{hint}; put {kind} or {name}.npz there and name the folder, or "
        f"set {FOLDER_VARIABLE} to it."
    )


def _images_from_npz(file: Path) -> tuple[ImagesAndClasses, ImagesAndClasses] | None:
    """Training and test set; None if this is no file of images (of their features, say)."""
    try:
        with np.load(file, allow_pickle=False) as held:
            if not {"X", "y", "split"} <= set(held.files):
                return None
            X, y, split = held["X"], held["y"], held["split"]
    except Exception as error:
        raise InputError(f"{file} cannot be read as arrays ({type(error).__name__}).") from None
    if X.ndim != 4 or X.dtype != np.uint8:
        return None
    return (X[split == 0], y[split == 0]), (X[split == 1], y[split == 1])


def _pictures(flat: Any) -> Images:
    """Rows of 3072 bytes, red, green and blue one after the other, as images."""
    return np.ascontiguousarray(np.asarray(flat).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _binary(files: Iterable[Path], labels: int) -> ImagesAndClasses:
    """Records of ``labels`` bytes, of which the last is the class, and 3072 bytes."""
    tables = []
    for file in files:
        raw = np.frombuffer(_file_bytes(file), np.uint8)
        if len(raw) % (labels + 3072):
            raise InputError(f"{file} is not whole: it has {len(raw)} bytes; fetch it again.")
        tables.append(raw.reshape(-1, labels + 3072))
    table = np.concatenate(tables)
    return _pictures(table[:, labels:]), table[:, labels - 1].astype(np.int64)


def _tiny(place: Path) -> tuple[ImagesAndClasses, ImagesAndClasses]:
    numbers = {line: i for i, line in enumerate(_file_bytes(place / "wnids.txt").decode().split())}
    train = [
        (file, number)
        for name, number in numbers.items()
        for file in sorted((place / "train" / name / "images").glob("*.JPEG"))
    ]
    lines = _file_bytes(place / "val" / "val_annotations.txt").decode().splitlines()
    pairs = [line.split("\t")[:2] for line in lines]
    test = [(place / "val" / "images" / file, numbers[name]) for file, name in pairs]
    return _decoded(train), _decoded(test)


def _decoded(files: list[tuple[Path, int]]) -> ImagesAndClasses:
    from PIL import Image

    images = np.empty((len(files), 64, 64, 3), dtype=np.uint8)
    for place, (file, _) in enumerate(files):
        try:
            with Image.open(file) as picture:
                images[place] = np.asarray(picture.convert("RGB"))
        except (OSError, ValueError) as error:
            raise InputError(
                f"{file} cannot be read as an image of 64 x 64 pixels ({type(error).__name__})."
            ) from None
    return images, np.array([number for _, number in files], dtype=np.int64)


def _file_bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise DataUnavailable(
            f"{file} cannot be read ({error.strerror}); fetch the set anew."
        ) from None


_READERS: dict[str, Callable[[Path], tuple[ImagesAndClasses, ImagesAndClasses]]] = {
    "cifar10": lambda place: (
        _binary([place / f"data_batch_{i}.bin" for i in range(1, 6)], 1),
        _binary([place / "test_batch.bin"], 1),
    ),
    "cifar100": lambda place: (
        _binary([place / "train.bin"], 2),
        _binary([place / "test.bin"], 2),
    ),
    "tiny-imagenet": _tiny,
}
