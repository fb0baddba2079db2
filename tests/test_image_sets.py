"""Image sets in the forms in which they are given away, made small here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.sentences import refuses
from unpooled.errors import DataUnavailable, InputError
from unpooled.image_sets import load_images

RNG = np.random.default_rng(0)
TRAIN, TEST = (RNG.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8) for n in (30, 8))
TRAIN_Y, TEST_Y = np.arange(30) % 5, np.arange(8) % 5


def flat(images: np.ndarray) -> np.ndarray:
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def records(images: np.ndarray, *labels: np.ndarray) -> bytes:
    columns = [np.asarray(label, dtype=np.uint8)[:, None] for label in labels]
    return np.hstack([*columns, flat(images)]).tobytes()


def check(name: str, folder: Path) -> None:
    train, test = load_images(name, folder=folder)
    np.testing.assert_array_equal(train.images, TRAIN)
    np.testing.assert_array_equal(train.y, TRAIN_Y)
    np.testing.assert_array_equal(test.images, TEST)
    np.testing.assert_array_equal(test.y, TEST_Y)
    assert train.images.dtype == np.uint8
    assert train.y.dtype == np.int64


def test_binary_batches(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for i in range(5):
        part = slice(6 * i, 6 * i + 6)
        (folder / f"data_batch_{i + 1}.bin").write_bytes(records(TRAIN[part], TRAIN_Y[part]))
    (folder / "test_batch.bin").write_bytes(records(TEST, TEST_Y))
    check("cifar10", tmp_path)
    (folder / "test_batch.bin").write_bytes(records(TEST, TEST_Y)[:-1])
    refuses(lambda: load_images("cifar10", folder=tmp_path), "is not whole", InputError)
    (folder / "test_batch.bin").unlink()
    refuses(lambda: load_images("cifar10", folder=tmp_path), "cannot be read", DataUnavailable)


def test_binary_with_coarse_classes(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    (folder / "train.bin").write_bytes(records(TRAIN, TRAIN_Y * 0 + 9, TRAIN_Y))
    (folder / "test.bin").write_bytes(records(TEST, TEST_Y * 0 + 9, TEST_Y))
    check("cifar100", tmp_path)


def test_pickles_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "cifar-100-python").mkdir()
    (tmp_path / "cifar-100-python" / "train").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    words = "cifar-100-python holds pickles, which are not opened"
    refuses(lambda: load_images("cifar100", folder=tmp_path), words, DataUnavailable)


def test_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split = np.repeat([0, 1], [30, 8])
    X, y = np.concatenate([TRAIN, TEST]), np.concatenate([TRAIN_Y, TEST_Y])
    np.savez(tmp_path / "cifar10_a_features.npz", X=flat(X), y=y, split=split)
    np.savez(tmp_path / "cifar100.npz", X=X[::-1], y=y, split=split)
    np.savez(tmp_path / "cifar10_some.npz", X=X, y=y, split=split)
    check("cifar10", tmp_path)
    monkeypatch.setenv("UNPOOLED_DATA", str(tmp_path))
    train, _ = load_images("cifar10", most=2)
    assert np.bincount(train.y).tolist() == [2] * 5
    np.testing.assert_array_equal(train.images, TRAIN[:10])


def test_a_folder_of_files(tmp_path: Path) -> None:
    folder = tmp_path / "tiny-imagenet-200"
    names = ["n02", "n01"]
    grey = np.full((64, 64), 200, dtype=np.uint8)
    red = np.zeros((64, 64, 3), dtype=np.uint8)
    red[..., 0] = 255
    for name, picture in zip(names, (red, grey), strict=True):
        place = folder / "train" / name / "images"
        place.mkdir(parents=True)
        for i in range(2):
            Image.fromarray(picture).save(place / f"{name}_{i}.JPEG")
    (folder / "wnids.txt").write_text("\n".join(names) + "\n")
    held = folder / "val" / "images"
    held.mkdir(parents=True)
    Image.fromarray(grey).save(held / "val_0.JPEG")
    lines = "val_0.JPEG\tn01\t0\t0\t63\t63\n"
    (folder / "val" / "val_annotations.txt").write_text(lines)
    train, test = load_images("tiny-imagenet", folder=tmp_path)
    assert train.y.tolist() == [0, 0, 1, 1]
    assert test.y.tolist() == [1]
    assert train.images.shape == (4, 64, 64, 3)
    assert train.images[0, :, :, 0].min() > 240
    assert np.ptp(test.images[0], axis=2).max() == 0
    (held / "val_0.JPEG").write_bytes(b"no picture")
    refuses(lambda: load_images("tiny-imagenet", folder=tmp_path), "cannot be read as an image")


def test_nothing_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "cifar10 is not in the folder .*; put cifar-10-batches-bin or"
    with pytest.raises(DataUnavailable, match=words):
        load_images("cifar10", folder=tmp_path)
    monkeypatch.delenv("UNPOOLED_DATA", raising=False)
    refuses(lambda: load_images("cifar100"), "UNPOOLED_DATA names none", DataUnavailable)
    refuses(lambda: load_images("mnist"), "name='mnist' is not known")
    np.savez(tmp_path / "cifar10.npz", X=flat(TRAIN), y=TRAIN_Y)
    with pytest.raises(DataUnavailable):
        load_images("cifar10", folder=tmp_path)
    (tmp_path / "cifar10.npz").write_bytes(b"torn")
    refuses(lambda: load_images("cifar10", folder=tmp_path), "cannot be read as arrays")
