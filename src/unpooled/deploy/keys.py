"""Keys and certificates: who may take part in a run, proven on every connection.

Each party makes its private key at home and sends only a signing request. The authority is shown
the request's name and hosts and signs these, nothing else: whatever more a request has (to be an
authority itself, say) is left out. The plan then pins each party's certificate by `fingerprint`.

Keys are ECDSA on P-256, which every TLS library has; Ed25519 is taken too. A certificate without
hosts is for a party that only dials: TLS compares the hosts of the side that listens.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from math import inf
from pathlib import Path
from typing import TypeGuard, TypeVar

from cryptography import x509
from cryptography.exceptions import InternalError, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from unpooled.checks import whole
from unpooled.deploy.names import DNS, check_hosts, check_name
from unpooled.errors import InputError
from unpooled.network.identity import fingerprint

Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
PublicKey = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey
FilePath = str | os.PathLike[str]
Parsed = TypeVar("Parsed")

CLOCK_SKEW = timedelta(minutes=5)
CA_LIFE = timedelta(days=3653)
LARGEST_FILE = 2**16
_UNACCEPTED = "a key neither on P-256 nor of Ed25519; make one with `unpooled keys request`"
_REMEDIES: dict[type[OSError], str] = {
    FileNotFoundError: "does not exist; name a file that does",
    IsADirectoryError: "is a folder; name a file in it",
    PermissionError: "may not be read by this user; ask its owner or name another file",
}

_ODD = x509.DuplicateExtension, x509.InvalidVersion, x509.UnsupportedGeneralNameType
_BROKEN = (ValueError, TypeError, InternalError, UnsupportedAlgorithm, *_ODD)
"""What parsers raise when bytes from elsewhere are not what they should be."""


@dataclass(frozen=True)
class Request:
    """What a signing request is for, checked: nothing else of its file is ever used."""

    name: str
    hosts: tuple[str, ...]
    key: PublicKey


def fingerprint_of_key(key: PublicKey) -> str:
    """What two people compare over the phone while there is no certificate yet."""
    form = pem.PublicFormat.SubjectPublicKeyInfo
    return fingerprint(key.public_bytes(pem.Encoding.DER, form))


def new_ca(name: str) -> tuple[Key, x509.Certificate]:
    """An authority's key, and the certificate that it signs itself."""
    if not name.isprintable() or not name.strip() or len(name.encode()) > 64:
        raise InputError(f"The authority's name {name[:80]!r} must be text of 1 to 64 bytes.")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(_subject(name), _subject(name), key.public_key(), _now() + CA_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return key, builder.sign(key, SHA256())


def new_request(name: str, hosts: Iterable[str]) -> tuple[Key, x509.CertificateSigningRequest]:
    """A party's key, and the request that goes to the authority."""
    builder = x509.CertificateSigningRequestBuilder(_subject(check_name(name)))
    if found := check_hosts(hosts):
        builder = builder.add_extension(_alternatives(found), critical=False)
    key = ec.generate_private_key(ec.SECP256R1())
    return key, builder.sign(key, SHA256())


def sign(request: Request, ca: x509.Certificate, ca_key: Key, days: int) -> x509.Certificate:
    """The party's certificate, for so many days but never beyond the authority's own."""
    now = _now()
    left = ca.not_valid_after_utc - now
    if left <= timedelta(0):
        raise InputError(
            f"The authority's certificate ended on {ca.not_valid_after_utc:%Y-%m-%d}; make a new "
            "one with `unpooled keys ca` in another folder."
        )
    end = now + min(left, timedelta(min(whole("days", days, 1, inf), left.days + 1)))
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = (
        _builder(_subject(request.name), ca.subject, request.key, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(issuer, critical=False)
    )
    if request.hosts:
        builder = builder.add_extension(_alternatives(request.hosts), critical=False)
    return builder.sign(ca_key, None if isinstance(ca_key, ed25519.Ed25519PrivateKey) else SHA256())


def name_of(certificate: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """The one common name, of a party or of the authority."""
    with warnings.catch_warnings():  # lengths that no standard allows are refused by `check_name`
        warnings.simplefilter("ignore")
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    name = names[0].value if len(names) == 1 else None
    if not isinstance(name, str) or not name.isprintable():
        raise InputError(
            f"A certificate needs one printable name, not {str([n.value for n in names])[:80]}; "
            "make its request with `unpooled keys request`."
        )
    return name


def hosts_of(certificate: x509.Certificate | x509.CertificateSigningRequest) -> tuple[str, ...]:
    """The DNS names and addresses that it is for; none where a party only dials."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return check_hosts(str(n.value) for n in found if isinstance(n, x509.DNSName | x509.IPAddress))


def matches(certificate: x509.Certificate, key: Key) -> bool:
    """Whether the certificate was issued for this key."""
    return certificate.public_key() == key.public_key()


def load_certificate(path: FilePath) -> x509.Certificate:
    """The first certificate of a PEM file."""

    def parse(content: bytes) -> x509.Certificate:
        certificate = x509.load_pem_x509_certificate(content)
        _ = certificate.subject, certificate.public_key(), certificate.extensions  # lazy, may fail
        return certificate

    return _parsed(path, parse, "certificate in PEM form; give the .pem file from the authority")


def load_key(path: FilePath) -> Key:
    """A private key from a PEM file that nobody but its owner can open."""
    wanted = "private key in PEM form without password; give the .key file that stayed at home"
    key = _parsed(
        path, lambda content: pem.load_pem_private_key(content, None), wanted, secret=True
    )
    if isinstance(key, Key) and _is_accepted(key.public_key()):
        return key
    raise InputError(f"{path} is {_UNACCEPTED}.")


def load_request(path: FilePath) -> Request:
    """What a signing request is for, if its sender has the key and the names are sound."""

    def parse(content: bytes) -> tuple[x509.CertificateSigningRequest, object, bool]:
        request = x509.load_pem_x509_csr(content)
        _ = request.subject, request.extensions  # lazy, may fail
        return request, request.public_key(), request.is_signature_valid

    wanted = "sound signing request in PEM form; give a .csr file from `unpooled keys request`"
    request, key, signed = _parsed(path, parse, wanted)
    if not _is_accepted(key):
        raise InputError(f"{path} is for {_UNACCEPTED}.")
    if not signed:
        raise InputError(
            f"{path} was not signed with the key that it names; ask its sender for a new one."
        )
    return Request(check_name(name_of(request)), hosts_of(request), key)


def load_ca(folder: FilePath) -> tuple[x509.Certificate, Key]:
    """What `new_ca` made, from ``ca.pem`` and ``ca.key``."""
    ca, key = load_certificate(Path(folder, "ca.pem")), load_key(Path(folder, "ca.key"))
    marks = [extension.value for extension in ca.extensions]
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    if matches(ca, key) and own in marks and x509.BasicConstraints(True, 0) in marks:
        return ca, key
    raise InputError(
        f"ca.pem and ca.key in {folder} are no authority's pair; name the folder in which "
        "`unpooled keys ca` made them."
    )


def _parsed(
    path: FilePath, parse: Callable[[bytes], Parsed], wanted: str, *, secret: bool = False
) -> Parsed:
    content = _read_small(path, secret)
    try:
        with warnings.catch_warnings():  # odd lengths of names are refused by `check_name`
            warnings.simplefilter("ignore")
            return parse(content)
    except _BROKEN as error:
        raise InputError(f"{path} is no {wanted}.") from error


def _read_small(path: FilePath, secret: bool) -> bytes:
    try:
        with open(path, "rb") as file:
            if secret and os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
                raise InputError(f"{path} is open to others than its owner; run chmod 600 {path}.")
            return file.read(LARGEST_FILE)
    except OSError as error:
        remedy = _REMEDIES.get(type(error), f"cannot be read ({error.strerror}); name another file")
        raise InputError(f"{path} {remedy}.") from error


def _is_accepted(key: object) -> TypeGuard[PublicKey]:
    if isinstance(key, ec.EllipticCurvePublicKey):
        return isinstance(key.curve, ec.SECP256R1)
    return isinstance(key, ed25519.Ed25519PublicKey)


def _alternatives(hosts: Iterable[str]) -> x509.SubjectAlternativeName:
    names = [x509.DNSName(h) if DNS.fullmatch(h) else x509.IPAddress(ip_address(h)) for h in hosts]
    return x509.SubjectAlternativeName(names)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: PublicKey, end: datetime
) -> x509.CertificateBuilder:
    start, serial = _now() - CLOCK_SKEW, x509.random_serial_number()
    return x509.CertificateBuilder(issuer, subject, key, serial, start, end)


def _usage(*, authority: bool) -> x509.KeyUsage:
    encrypting = (False, False, False, False)  # TLS 1.3 agrees on keys of its own
    return x509.KeyUsage(not authority, *encrypting, authority, authority, False, False)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
