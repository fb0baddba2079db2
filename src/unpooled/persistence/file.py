"""A model's file: one zip, written whole or not at all, read with suspicion.

``model.json`` says what the model is made of (see :mod:`unpooled.persistence.values`), beside it
are ``arrays/*.npy``, so ``numpy.load`` opens the file too. The same model gives the same bytes.
Members are stored, not compressed: whatever a file claims, its members take no more memory than
the file itself has bytes.
"""

from __future__ import annotations

import json
import os
import secrets
import zipfile
from contextlib import suppress
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NoReturn

from numpy.lib import format as npy
from sklearn.base import BaseEstimator

from unpooled.errors import InputError, InputTypeError
from unpooled.persistence.kinds import Unreadable
from unpooled.persistence.values import Decoder, Encoder
from unpooled.types import Array

FORMAT = "unpooled model"
VERSION = 1
_HEAD = "model.json"
_TEXT = ("utf-8", "surrogatepass")  # a Python string may have half of a pair in it


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Writes an estimator of unpooled, fitted or not, to one file that :func:`load` reads.

    The file appears whole or not at all; an older one of that name stays until then. What cannot
    be written without pickle (a loss or policy of one's own) is refused.

    >>> import tempfile, unpooled
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     unpooled.save(unpooled.DGC(3, rho=100.0), f"{folder}/model.npz")
    ...     unpooled.load(f"{folder}/model.npz")
    DGC(n_clusters=3, rho=100.0)
    """
    name, target = _place(path)
    draft = target.parent / f".{secrets.token_hex(8)}.part"
    try:
        with draft.open("xb") as file:
            write(model, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except OSError as error:
        raise InputError(
            f"{name} cannot be written ({error.strerror}); choose a file in a folder that exists "
            "and takes it."
        ) from error
    finally:
        with suppress(OSError):
            draft.unlink()


def load(path: str | os.PathLike[str]) -> Any:
    """The estimator that :func:`save` wrote, with the same parameters and the same fit.

    A file that is damaged, made by something else or of a newer format is refused.
    """
    name, source = _place(path)
    try:
        file = source.open("rb")
    except OSError as error:
        raise InputError(
            f"{name} cannot be read ({error.strerror}); give a file that unpooled.save wrote."
        ) from error
    with file:
        return read(file, name)


def write(model: Any, file: IO[bytes]) -> None:
    """Writes the model's file to an open one."""
    if not isinstance(model, BaseEstimator):
        raise InputTypeError(
            f"save writes estimators of unpooled, not a {type(model).__name__}; give it one, "
            "fitted or not."
        )
    encoder = Encoder()
    head = {
        "format": FORMAT,
        "version": VERSION,
        "unpooled": _release(),
        "model": encoder.model(model),
    }
    text = json.dumps(head, allow_nan=False, ensure_ascii=False)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_member(_HEAD), text.encode(*_TEXT))
        for name, array in encoder.arrays.items():
            with archive.open(_member(name), "w", force_zip64=True) as member:
                npy.write_array(member, array, version=(3, 0), allow_pickle=False)


def read(file: IO[bytes], name: str = "The file") -> Any:
    """The model in an open file, which ``name`` calls in a refusal."""
    try:
        with zipfile.ZipFile(file) as archive:
            _refuse_inflated(archive, file.seek(0, os.SEEK_END))
            return _read(archive)
    except Unreadable as error:
        raise InputError(f"{name} {error}.") from None
    except Exception as error:
        # A file is anyone's: zipfile, json, numpy and the values' own constructors each have
        # several ways of saying that it is not what we wrote.
        raise InputError(
            f"{name} is no model file or a damaged one ({type(error).__name__}); give one that "
            "unpooled.save wrote."
        ) from error


def _read(archive: zipfile.ZipFile) -> Any:
    head = json.loads(archive.read(_HEAD).decode(*_TEXT), parse_constant=_refuse_constant)
    if head["format"] != FORMAT:
        raise Unreadable(f"says it is a {head['format']!r}; give one that unpooled.save wrote")
    if head["version"] != VERSION:
        raise Unreadable(
            f"has format {head['version']!r}, written by unpooled {head['unpooled']!r}, but "
            f"unpooled {_release()} reads format {VERSION}; upgrade unpooled"
        )
    unread = set(archive.namelist())

    def array(member: str) -> Array:
        if member not in unread:
            raise Unreadable(f"lacks the array {member!r}; save the model again")
        unread.remove(member)  # each once, so that many mentions of one do not fill the memory
        return _array(archive.read(member))

    model = Decoder(array).value(head["model"])
    if not isinstance(model, BaseEstimator):
        raise Unreadable("holds no estimator; give one that unpooled.save wrote")
    return model


def _array(data: bytes) -> Array:
    stream = BytesIO(data)
    array: Array = npy.read_array(stream, allow_pickle=False)
    if stream.read(1):
        raise Unreadable("has an array with more bytes than its shape; save the model again")
    return array


def _refuse_inflated(archive: zipfile.ZipFile, size: int) -> None:
    members = archive.infolist()
    stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
    if not stored or sum(member.file_size for member in members) > size:
        raise Unreadable(
            "has members that are larger than the file or compressed, as unpooled.save never "
            "writes them; give the file as it was written"
        )


def _refuse_constant(name: str) -> NoReturn:
    raise Unreadable(f"has a bare {name} in its JSON; give one that unpooled.save wrote")


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name)  # dated 1980, so that the same model gives the same bytes
    member.create_system = 3
    member.external_attr = 0o644 << 16
    return member


def _place(path: str | os.PathLike[str]) -> tuple[str, Path]:
    """How to call the file in a sentence, and where it is once links are followed."""
    try:
        return repr(os.fspath(path)), Path(path).resolve()
    except (OSError, RuntimeError, TypeError, ValueError):
        raise InputTypeError(f"path={path!r} names no file; give a str or a Path.") from None


def _release() -> str:
    # Asked for when needed: the package imports this module before it has a version.
    return str(import_module("unpooled").__version__)
