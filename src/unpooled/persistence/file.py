"""A model's file: one zip, written whole or not at all, of which nothing is trusted when read.

``model.json`` says what the model is made of (see :mod:`unpooled.persistence.values`), beside it
are ``arrays/*.npy``, so ``numpy.load`` opens the file too. The same model gives the same bytes.
Members are stored, not compressed, and each array is read once: whatever a file claims, its arrays
take no more memory than the file itself has bytes.
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
from typing import IO, Any, TypeVar, overload

from numpy.lib import format as npy
from sklearn.base import BaseEstimator

from unpooled.errors import InputError, InputTypeError
from unpooled.estimators.star import StarEstimator
from unpooled.persistence import classes, foreign, values
from unpooled.persistence.values import Unreadable
from unpooled.types import Array

Model = TypeVar("Model", bound=BaseEstimator)

FORMAT = "unpooled model 3"
_SECOND = "unpooled model 2"
"""Files of it name classes by their modules."""
_OLDER = "unpooled model 1"
"""The same; models of it carry no preparations: a standardised run kept its scaler in a file."""
_SCALER = "scaler.unpooled"
_HEAD = "model.json"
_KINDS = {**values.KINDS, **foreign.KINDS, **classes.KINDS}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Writes an estimator of unpooled, fitted or not, to one file that :func:`load` reads.

    The file appears whole or not at all; an older one of that name stays until then. What cannot be
    written without pickle (a loss or policy of one's own), and a generator as random_state, is
    refused. Sparse matrices come back in csr form.

    Parameters
    ----------
    model : estimator
        One of unpooled's, fitted or not.
    path : str or path
        The file.

    Examples
    --------
    >>> import tempfile, unpooled
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     unpooled.save(unpooled.DGC(3, rho=10.0), f"{folder}/model.npz")
    ...     unpooled.load(f"{folder}/model.npz")
    DGC(n_clusters=3, rho=10.0)
    """
    name, target = _named_path(path)
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


@overload
def load(path: str | os.PathLike[str]) -> BaseEstimator: ...
@overload
def load(path: str | os.PathLike[str], kind: type[Model]) -> Model: ...
def load(path: str | os.PathLike[str], kind: type[Any] = BaseEstimator) -> Any:
    """The estimator that :func:`save` wrote, with the same parameters and the same fit.

    A file that is damaged, made by something else or of a newer format is refused. So is the model
    of a run with a coordinator that an older release wrote, which does not say how its rows were
    prepared, unless ``scaler.unpooled`` of the same run is in the same folder.

    Parameters
    ----------
    path : str or path
        The file.
    kind : type, default=BaseEstimator
        The class that the model must be of, for instance ``FederatedKMeans``; type checkers then
        know what it is.

    Returns
    -------
    model : estimator
        With the same parameters and the same fit.
    """
    name, source = _named_path(path)
    try:
        with source.open("rb") as file:
            model = read(file, name, source.parent)
    except OSError as error:
        raise InputError(
            f"{name} cannot be read ({error.strerror}); give a file that unpooled.save wrote."
        ) from error
    if not isinstance(model, kind):
        raise InputTypeError(
            f"{name} holds a {type(model).__name__}, not a {kind.__name__}; load it as what it is."
        )
    return model


def _named_path(path: str | os.PathLike[str]) -> tuple[str, Path]:
    """How to call the file in a sentence, and where it is once links are followed."""
    try:
        return repr(os.fspath(path)), Path(path).resolve()
    except (OSError, RuntimeError, TypeError, ValueError):
        raise InputTypeError(f"path={path!r} names no file; give a str or a Path.") from None


def write(model: Any, file: IO[bytes]) -> None:
    """Writes the model's file to an open one."""
    if not isinstance(model, BaseEstimator) or not classes.is_ours(model):
        raise InputTypeError(
            f"save writes estimators that unpooled brings, not a {type(model).__name__}; give it "
            "one, or keep the arrays you need with numpy.savez."
        )
    encoder = values.Encoder(_KINDS)
    release = import_module("unpooled").__version__  # which imports this module first
    head = {"format": FORMAT, "unpooled": release, "model": encoder.value(model)}
    text = json.dumps(head, ensure_ascii=False)  # escaped, two halves of a pair would become one
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        # A ZipInfo is dated 1980, so that the same model gives the same bytes.
        archive.writestr(zipfile.ZipInfo(_HEAD), text.encode("utf-8", "surrogatepass"))
        for name, array in encoder.arrays.items():
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
                npy.write_array(member, array, version=(3, 0), allow_pickle=False)


def read(file: IO[bytes], name: str = "The file", folder: Path | None = None) -> BaseEstimator:
    """The model in an open file, which ``name`` calls in a refusal and which is in ``folder``."""
    try:
        with zipfile.ZipFile(file) as archive:
            model, written = _read_archive(archive, file.seek(0, os.SEEK_END))
    except Exception as error:
        # A file is anyone's: zipfile, json, numpy and the values' own constructors each have
        # several ways of saying that it is not what we wrote.
        damaged = f"is no model file or a damaged one ({type(error).__name__})"
        what = error if isinstance(error, Unreadable) else damaged
        raise InputError(
            f"{name} {what}; give a file that unpooled.save wrote, or upgrade unpooled."
        ) from error
    if written == _OLDER and _is_of_a_star_run(model):
        _complete(model, name, folder)
    return model


def _is_of_a_star_run(model: Any) -> bool:
    """Whether a run with a coordinator wrote it: who fits in one process has labels."""
    fit = vars(model)
    return isinstance(model, StarEstimator) and "cluster_centers_" in fit and "labels_" not in fit


def _complete(model: Any, name: str, folder: Path | None) -> None:
    """Has an older model carry the scaler of its run."""
    if folder is None or not (folder / _SCALER).is_file():
        raise InputError(
            f"{name} is of an older release and does not say whether its run standardised columns; "
            f"put {_SCALER} of the same run beside it, or run the plan again."
        )
    from unpooled.preprocessing.carrying import carry_scaler  # not part of `import unpooled`

    scaler = load(folder / _SCALER)
    try:
        if list(scaler.feature_names_in_) != list(model.feature_names_in_):
            raise ValueError
        carry_scaler(model, scaler)
    except Exception as error:  # a file is anyone's
        raise InputError(
            f"{name} and the {_SCALER} beside it are not of the same run; put that of the same run "
            "there, or run the plan again."
        ) from error


def _read_archive(archive: zipfile.ZipFile, size: int) -> tuple[BaseEstimator, str]:
    """The model, and the format that it is in."""
    members = archive.infolist()
    stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
    if not stored or sum(member.file_size for member in members) > size:
        raise Unreadable("has members that are larger than the file or compressed")
    head = json.loads(archive.read(_HEAD))
    if head["format"] not in (FORMAT, _SECOND, _OLDER):
        raise Unreadable(f"has the format {head['format']!r}, not {FORMAT!r}")
    unread = {member.filename for member in members}

    def array(member: str) -> Array:
        if member not in unread:
            raise Unreadable(f"lacks the array {member!r}")
        unread.remove(member)
        found: Array = npy.read_array(BytesIO(archive.read(member)), allow_pickle=False)
        return found

    model = values.decode_value(head["model"], _KINDS, array)
    if not isinstance(model, BaseEstimator):
        raise Unreadable("holds no estimator")
    return model, head["format"]
