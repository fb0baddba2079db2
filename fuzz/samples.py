"""Valid samples of the files that people and authorities hand over."""

from __future__ import annotations

import io
import ipaddress
import zipfile
from datetime import UTC, datetime
from hashlib import sha256

import networkx as nx
import numpy as np
import pandas as pd
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from sklearn.datasets import make_blobs

import unpooled
from fuzz import files
from fuzz.seeds import Seeds
from unpooled.persistence.file import write as write_model


def plan() -> Seeds:
    """A plan of each kind."""
    yield "star", files.PLAN.encode()
    prints = "sha256:" + "0" * 64
    peers = "".join(
        f'[peers.{name}]\nendpoint = "127.0.0.1:{7447 + i}"\nfingerprint = "{prints}"\n'
        for i, name in enumerate("ABC")
    )
    yield (
        "mesh",
        f'method = "DGC"\ncolumns = ["x"]\nreleases = ["start", "limits", "centers"]\nseed = 3\n'
        f'round_timeout = 5\npatience = 1e2\nedges = [["A", "B"], ["B", "C"]]\n'
        f"[parameters]\nn_clusters = 2\nrho = 10.0\n{peers}".encode(),
    )
    yield (
        "standardised",
        b'method = "OneShotKMeans"\ncolumns = ["x", "y"]\nstandardise = true\nquorum = 1\n'
        b'releases = ["moments", "centroids"]\nparameters = {n_clusters = 3, trim = 0.1}\n'
        b'coordinator = {endpoint = "[::1]:1"}\nparties = {A = {}, B = {}}\n',
    )
    star = files.PLAN.encode()
    yield "given", star.replace(b"clusters = 2", b"clusters = 1\ninit = [[1, 2.0]]")
    mesh = b'method = "DGC"\ncolumns = ["x"]\nreleases = []\n[peers.A]\nendpoint = "[::1]:1"\n'
    for label, edges in (
        ("nested", b'[[["A"], "A"]]'),
        ("loop", b'[["A", "A"]]'),
        ("text", b'"A"'),
    ):
        yield f"edges-{label}", b"edges = " + edges + b"\n" + mesh
    yield "long-number", b"seed = 0x" + b"f" * 4000 + star
    yield "long-port", star.replace(b"7447", b"9" * 4400)
    yield "date", b"seed = 1979-05-27" + star
    yield "deep", b"quorum" + b".a" * 400 + b" = 1" + star
    yield "twice", star.replace(b'["x", "y"]', b'["x", "x"]')
    yield "reserved", star.replace(b"parties.A", b"parties.ca")
    yield "coordinator", star.replace(b"parties.A", b"parties.coordinator")


def own() -> Seeds:
    """A party's own file, whole and in part."""
    yield (
        "whole",
        b'data = "a.csv"\nweights = "w"\nid = "v"\nperson = "p"\ncolumns = ["x", "y"]\n'
        b'memory = "memory"\nkeys = "keys"\nto = "run"\n'
        b'[policy]\nname = "deployment"\nallow = ["network-weights"]\nleast_parties = 3\n'
        b'min_count = 10\nkinds = ["centroids", "sums"]\nmax_rounds = 1000\nmax_floats = 1000000\n',
    )
    yield "study", b'[policy]\nname = "study"\n'
    yield "capped", b"policy = {max_floats = 1, min_count = 3}\n"
    yield "rounds", b"[policy]\nmax_rounds = 1\n"
    yield "preset", b'columns = []\n[policy]\nname = "deployment-cms"\nkinds = []\n'
    yield "nested", b"policy.name.a.b = 1\n"


def npz() -> Seeds:
    """Columns with names, one table, and arrays that are no table."""
    table = {"x": np.arange(3.0), "y": np.ones(3), "w": np.ones(3)}
    yield "columns", b"\1" + files.packed({f"{n}.npy": _npy(v) for n, v in table.items()})
    yield "table", b"\1" + files.packed({"X.npy": _npy(np.ones((3, 2)))})
    yield "both", b"\1" + files.packed({"X.npy": _npy(np.ones((3, 2))), "w.npy": _npy(np.ones(3))})
    yield "texts", b"\1" + files.packed({"X.npy": _npy(np.array([["1", "a"]]))})
    yield "raw", b"\2" + files.archive({"X.npy": _npy(np.ones((3, 2)))})
    yield "lengths", bytes([0, 2, 0, 1, 1, 1, 2, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 3])


def csv() -> Seeds:
    """Tables in text."""
    yield "whole", b"x,y,w\n1,2.5,1\n-3e5,4,2\n"
    yield "quoted", b'"x","y"\r\n"1","2"\r\n3,4'
    yield "empty-cell", b"y,x\n1,\n2,3\n"
    yield "text", b"x,y\na,1\n"
    yield "bools", b"x,y,w\ntrue,1,1\nfalse,nan,0\n"


def parquet() -> Seeds:
    """Columns of every type that polars has."""
    for dtype in range(18):
        column = [2, 0, 1, 0, 3, dtype]  # two values, 1 and 3
        yield f"type-{dtype}", bytes([2, 0, *column, 1, *column, dtype % 3, 0, 0, dtype % 2])
    yield "nulls", bytes([2, 0, 2, 0, 1, 7, 0, 1, 2, 0, 1, 0, 1, 0])
    yield "cut", bytes([2, 0, *column, 1, *column, 0, 0, 9])


def certificate() -> Seeds:
    """With each kind of key, with and without hosts."""
    for label, own in _keys().items():
        made = _certificate(own, hosts=label == "p256")
        yield label, b"\0" + made.public_bytes(Encoding.DER)
    yield "pem", b"\1" + made.public_bytes(Encoding.PEM)
    p256, nothing = (bytes.fromhex(f"06082a86{two}3d030107") for two in ("48ce", "2fce"))
    der = _certificate(_keys()["p256"], hosts=False).public_bytes(Encoding.DER)
    yield "unknown-curve", b"\0" + der.replace(p256, nothing)


def request() -> Seeds:
    """The same for requests."""
    for label, own in _keys().items():
        builder = x509.CertificateSigningRequestBuilder(_name("North"))
        if label == "p256":
            builder = builder.add_extension(_hosts(), critical=False)
        yield (
            label,
            b"\0"
            + builder.sign(own, _hash(own), ecdsa_deterministic=_steady(own)).public_bytes(
                Encoding.DER
            ),
        )


def key() -> Seeds:
    """Private keys, in the form that goes between PEM's lines."""
    for label, own in _keys().items():
        yield label, b"\0" + own.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    # A key on another curve that is too short, at which OpenSSL itself fails.
    yield "ed448-short", b"\0" + bytes.fromhex("302e020100300506032b657104220420") + bytes(32)


def model() -> Seeds:
    """Models of several methods, fitted and not, taken apart into their archive's members."""
    rows, _ = make_blobs(12, centers=2, random_state=0)
    tables = {"A": rows[:6], "B": rows[6:]}
    mahalanobis = unpooled.losses.SquaredEuclidean().under(
        unpooled.losses.Mahalanobis([[2.0, 0.5], [0.5, 1.0]])
    )
    models = {
        "one-shot": unpooled.OneShotKMeans(2, random_state=0).fit(tables),
        "dgc": unpooled.DGC(2, max_rounds=2, random_state=0).fit(tables),
        "graph": unpooled.DGC(2, graph=nx.path_graph(3), loss=mahalanobis),
        "sparse": unpooled.DGC(2, graph=nx.to_scipy_sparse_array(nx.path_graph(3))),
        "named": unpooled.KFED(2, random_state=0).fit(
            {name: pd.DataFrame(rows, columns=["x", "y"]) for name, rows in tables.items()}
        ),
        "bregman": unpooled.DGC(2, loss=unpooled.losses.Bregman.itakura_saito()),
    }
    for label, fitted in models.items():
        out = io.BytesIO()
        write_model(fitted, out)
        with zipfile.ZipFile(out) as inside:
            yield label, b"\0" + files.packed({n: inside.read(n) for n in inside.namelist()})
    yield "raw", b"\1" + out.getvalue()


def _npy(value: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, value)
    return out.getvalue()


def _keys() -> dict[str, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey]:
    """Keys that are no secret: everybody can work them out."""
    return {
        "p256": ec.derive_private_key(12345, ec.SECP256R1()),
        "p384": ec.derive_private_key(12345, ec.SECP384R1()),
        "ed25519": ed25519.Ed25519PrivateKey.from_private_bytes(sha256(b"seed").digest()),
    }


def _certificate(own, *, hosts: bool) -> x509.Certificate:
    dates = datetime(2026, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC)
    name = _name("North")
    builder = x509.CertificateBuilder(name, name, own.public_key(), 1, *dates).add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    if hosts:
        builder = builder.add_extension(_hosts(), critical=False)
    return builder.sign(own, _hash(own), ecdsa_deterministic=_steady(own))


def _hosts() -> x509.SubjectAlternativeName:
    names = [x509.DNSName("hub.example.org"), x509.IPAddress(ipaddress.ip_address("10.0.0.1"))]
    return x509.SubjectAlternativeName(names)


def _steady(own) -> bool | None:
    """Signatures that are the same whenever they are made, where there is a choice."""
    return None if isinstance(own, ed25519.Ed25519PrivateKey) else True


def _hash(own) -> SHA256 | None:
    return None if isinstance(own, ed25519.Ed25519PrivateKey) else SHA256()


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
