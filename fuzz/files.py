"""The files that people and authorities hand over: plans, data, keys, models."""

from __future__ import annotations

import base64
import io
import zipfile
from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.lib import format as npy

from fuzz.scratch import Scratch
from fuzz.stars import quiet
from fuzz.tape import Tape, array
from unpooled.data.sources import Naming, read_rows
from unpooled.deploy import keys
from unpooled.deploy.own import read_own, refuse_beyond
from unpooled.deploy.plan_file import read_plan
from unpooled.errors import InputError, PolicyRefusal, UnpooledError
from unpooled.network.identity import signed
from unpooled.persistence import load

COLUMNS = ("x", "y")
WEIGHTS, IDS = "w", "other"
_MEMBERS = ("x", "y", "w", "X", "other", "x.npy", "")
_DTYPES = ("f8", "f4", "f2", "i8", "?", "c16", "U3", "S3", "M8[s]", "m8[s]", ">f8", "V4", "O")
_POLARS = (
    *(pl.Float64, pl.Float32, pl.Int64, pl.Int8, pl.UInt64, pl.Int128, pl.Boolean, pl.String),
    *(pl.Date, pl.Datetime, pl.Duration, pl.Time, pl.Binary, pl.Null, pl.Decimal(20, 2)),
    *(pl.List(pl.Int64), pl.Struct({"a": pl.Int64}), pl.Categorical),
)
PLAN = """
method = "FederatedKMeans"
columns = ["x", "y"]
releases = ["centroids", "sums"]
[parameters]
n_clusters = 2
[coordinator]
endpoint = "127.0.0.1:7447"
[parties.A]
[parties.B]
"""


def plan(data: bytes) -> None:
    """Only InputError comes out of a plan, and one that is taken can be used."""
    with Scratch() as folder, quiet():
        path = folder / "plan.toml"
        path.write_bytes(data)
        try:
            found = read_plan(path)
        except InputError as error:
            _one_sentence(error)
            return
        assert len(found.hash) == 32
        for name in found.names:
            found.neighbours(found.member(name).name)
        try:
            assert found.run_seed >= 0
            assert found.coordinator or found.topology.n_users == len(found.names)
        except UnpooledError as error:
            _one_sentence(error)


def own(data: bytes) -> None:
    """Only InputError comes out of a party's own file; its policy can be held against a plan."""
    with Scratch() as folder, quiet():
        path, shared = folder / "own.toml", folder / "plan.toml"
        path.write_bytes(data)
        try:
            found = read_own(path)
        except InputError as error:
            _one_sentence(error)
            return
        shared.write_text(PLAN)
        try:
            refuse_beyond(read_plan(shared), "A", found.policy)
        except PolicyRefusal as error:
            _one_sentence(error)


def npz(data: bytes) -> None:
    """Only InputError comes out of a table as npz: any bytes, or an archive of any arrays."""
    tape = Tape(data)
    how = tape.below(3)
    if how == 0:
        content = archive({name: _npy(tape) for name in _some(tape)})
    elif how == 1:
        content = archive(unpacked(tape))
    else:
        content = tape.rest()
    _rows(content, "rows.npz", weighted=bool(tape.below(2)))


def csv(data: bytes) -> None:
    """The same as csv."""
    n = len(data)
    _rows(data, "rows.csv", weighted=n % 2 == 0, named=n % 3 == 0, persons=n % 5 == 0)


def parquet(data: bytes) -> None:
    """The same as parquet: columns of any type, and files that end too early.

    Not any bytes: polars ends the whole process where a damaged page announces more values than
    there is memory for (https://github.com/pola-rs/polars/issues/15342).
    """
    tape = Tape(data)
    columns = {tape.one_of(_MEMBERS): _column(tape) for _ in range(tape.below(5))}
    height = max((len(column) for column in columns.values()), default=0)
    frame = pl.DataFrame({n: c.extend_constant(None, height - len(c)) for n, c in columns.items()})
    out = io.BytesIO()
    try:
        frame.write_parquet(out, compression=tape.one_of(("uncompressed", "snappy", "zstd")))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return  # what polars does not write it need not read
    content = out.getvalue()
    kept = len(content) - (tape.byte() << 8 | tape.byte()) % (len(content) + 1)
    _rows(content[:kept], "rows.parquet", weighted=bool(tape.below(2)))


def _column(tape: Tape) -> pl.Series:
    values = pl.Series([None if tape.below(8) == 7 else tape.whole() for _ in range(tape.below(5))])
    dtype = tape.one_of(_POLARS)
    try:
        return values.cast(pl.Int64).cast(dtype, strict=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return values.cast(pl.Float64)


def _rows(
    content: bytes, file: str, *, weighted: bool, named: bool = False, persons: bool = False
) -> None:
    with Scratch() as folder, quiet():
        path = folder / file
        path.write_bytes(content)
        try:
            naming = Naming(
                weights=WEIGHTS if weighted else None,
                id=IDS if named else None,
                person=IDS if persons else None,
            )
            found = read_rows(path, "A", COLUMNS, naming)
        except InputError as error:
            _one_sentence(error)
            return
        rows, weights = found.parties.rows, found.parties.weights
        assert rows.shape[1] == len(COLUMNS)
        assert np.isfinite(rows).all()
        assert weights.shape == (len(rows),)
        for names in (found.ids, found.persons):
            assert names is None or len(names.values) == len(rows)


def _some(tape: Tape) -> list[str]:
    return [tape.one_of(_MEMBERS) + (".npy" if tape.below(8) else "") for _ in range(tape.below(5))]


def _npy(tape: Tape) -> bytes:
    """An array of any type, or something in its place."""
    how = tape.below(4)
    if how == 3:
        return tape.block()
    value = array(tape)
    if how == 1:
        value = np.zeros((tape.below(6), *(2,) * tape.below(2)), tape.one_of(_DTYPES))
    if how == 2:
        value = np.arange(float(tape.below(8)))
    out = io.BytesIO()
    npy.write_array(out, value, allow_pickle=True)
    return out.getvalue()


def certificate(data: bytes) -> None:
    """Only InputError comes out of a certificate; of one that is taken, name and hosts too.

    Nothing comes out of looking at a signature under it, which no input has.
    """
    assert not signed(data[1:], b"words", bytes(64))
    found = _loaded(data, "CERTIFICATE", keys.load_certificate)
    if found is not None:
        for read in (keys.name_of, keys.hosts_of):
            try:
                read(found)
            except InputError as error:
                _one_sentence(error)


def request(data: bytes) -> None:
    """The same of a signing request, which is signed if it is taken."""
    found = _loaded(data, "CERTIFICATE REQUEST", keys.load_request)
    if found is not None:
        keys.fingerprint_of_key(found.key)


def key(data: bytes) -> None:
    """The same of a private key."""
    found = _loaded(data, "PRIVATE KEY", keys.load_key)
    if found is not None:
        keys.fingerprint_of_key(found.public_key())


def _loaded(data: bytes, label: str, load_from):
    """What a file holds: the bytes as they are, or in PEM form."""
    tape = Tape(data)
    how = tape.below(2)
    content = tape.rest() if how else pem(tape.rest(), label)
    with Scratch() as folder, quiet():
        path = folder / "file"
        path.touch(mode=0o600)
        path.write_bytes(content)
        try:
            return load_from(path)
        except InputError as error:
            _one_sentence(error)
            return None


def pem(der: bytes, label: str) -> bytes:
    """DER in PEM form: base64 between two lines, with which a fuzzer would waste its time."""
    text = base64.encodebytes(der).decode()
    return f"-----BEGIN {label}-----\n{text}-----END {label}-----\n".encode()


def model(data: bytes) -> None:
    """Only InputError comes out of a model's file: any bytes, or an archive of any members."""
    tape = Tape(data)
    content = tape.rest() if tape.below(2) else archive(unpacked(tape))
    with Scratch() as folder, quiet():
        path = folder / "model.unpooled"
        path.write_bytes(content)
        try:
            load(path)
        except InputError as error:
            _one_sentence(error)


def archive(members: Mapping[str, bytes]) -> bytes:
    """A zip with right sums, whatever is in it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as made:
        for name, content in members.items():
            made.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()


def packed(members: Mapping[str, bytes]) -> bytes:
    """Members as :func:`unpacked` reads them."""
    return b"".join(
        bytes([len(name)]) + name.encode() + len(content).to_bytes(2, "little") + content
        for name, content in members.items()
    )


def unpacked(tape: Tape) -> dict[str, bytes]:
    """Names and contents of an archive's members."""
    members = {}
    while not tape.over and len(members) < 32:
        name = tape.take(tape.byte()).decode("latin-1")
        members[name] = tape.block()
    return members


def _one_sentence(error: Exception) -> None:
    """A refusal is for a person to read."""
    text = str(error)
    assert text
    assert text.isprintable(), text
