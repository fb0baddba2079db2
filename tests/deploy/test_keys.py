"""Keys and certificates, against other implementations of TLS and against hostile requests."""

from __future__ import annotations

import base64
import builtins
import os
import ssl
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store
from cryptography.x509.verification import VerificationError as Unverified
from hypothesis import given
from hypothesis import strategies as st

from tests.sentences import refuses
from unpooled.cli import main
from unpooled.cli.keys import create
from unpooled.deploy import keys
from unpooled.errors import InputError
from unpooled.network.identity import fingerprint

Said = pytest.CaptureFixture[str]
HOSTS = ("north.example.org", "127.0.0.1", "::1")
# cryptography makes no RSA key this short any more; openssl does.
RSA_512 = """-----BEGIN CERTIFICATE REQUEST-----
MIHJMHUCAQAwEDEOMAwGA1UEAwwFTm9ydGgwXDANBgkqhkiG9w0BAQEFAANLADBI
AkEAwfO9a579IFhj+s1Q8a/c9W+KIMF0CTbI8gfaiQg+JZ2xtBqrY6Z1CPqHce7m
Too3cMaeMs6boPhO+QB8oyUVlQIDAQABoAAwDQYJKoZIhvcNAQELBQADQQC7kapP
eWO7QNBLcWKPRRGp5TOKbzgzRx/8GmCH4RzW159jaL6JRTrw2rVURW09KghMNTXs
8vM3OcwmgSHMy3JG
-----END CERTIFICATE REQUEST-----
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority; North, which listens; South, which only dials. Made on the command line."""
    folder = tmp_path_factory.mktemp("home")
    hosts = [word for host in HOSTS for word in ("--host", host)]
    for step in (["ca"], ["request", "North", *hosts], ["request", "South"]):
        assert main(["keys", *step, "--to", str(folder)]) == 0
    for name in ("North", "South"):
        assert sign(folder, folder / f"{name}.csr") == 0
    return folder


def sign(folder: Path, file: Path, *more: str) -> int:
    return main(["keys", "sign", str(file), "--ca", str(folder), "--to", str(folder), *more])


def request_file(
    folder: Path, *extensions: x509.ExtensionType, name: str = "East", key: Any = None
) -> Path:
    """A request as somebody with other tools and intentions may write it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        common = x509.NameAttribute(NameOID.COMMON_NAME, name, _validate=False)
    builder = x509.CertificateSigningRequestBuilder(x509.Name([common]))
    for extension in extensions:
        builder = builder.add_extension(extension, critical=True)
    key = key or ec.generate_private_key(ec.SECP256R1())
    hashed = None if isinstance(key, ed25519.Ed25519PrivateKey) else SHA256()
    file = folder / "hostile.csr"
    file.write_bytes(builder.sign(key, hashed).public_bytes(Encoding.PEM))
    return file


def key_file(file: Path, key: Any, password: bytes | None = None, mode: int = 0o600) -> Path:
    lock = BestAvailableEncryption(password) if password else NoEncryption()
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock))
    file.chmod(mode)
    return file


def values(certificate: x509.Certificate) -> dict[type[x509.ExtensionType], x509.ExtensionType]:
    return {type(extension.value): extension.value for extension in certificate.extensions}


# Certificates hold what they should, in the eyes of others


def test_chains_verify(home: Path) -> None:
    ca, north = (keys.load_certificate(home / f"{name}.pem") for name in ("ca", "North"))
    policy = PolicyBuilder().store(Store([ca]))
    assert policy.build_server_verifier(x509.DNSName(HOSTS[0])).verify(north, []) == [north, ca]
    for host in HOSTS[1:]:
        address = x509.IPAddress(ip_address(host))
        assert policy.build_server_verifier(address).verify(north, []) == [north, ca]
    assert policy.build_client_verifier().verify(north, []).chain == [north, ca]
    with pytest.raises(Unverified):
        policy.build_server_verifier(x509.DNSName("south.example.org")).verify(north, [])


def test_a_party_is_no_authority(home: Path, tmp_path: Path) -> None:
    ca, north = (keys.load_certificate(home / f"{name}.pem") for name in ("ca", "North"))
    key = keys.load_key(home / "North.key")
    request = keys.Request("Rogue", ("rogue.example.org",), key.public_key())
    rogue = keys.sign(request, north, key, 10)
    policy = PolicyBuilder().store(Store([ca]))
    with pytest.raises(Unverified):
        policy.build_server_verifier(x509.DNSName("rogue.example.org")).verify(rogue, [north])
    for suffix in ("pem", "key"):
        content = (home / f"North.{suffix}").read_bytes()
        (tmp_path / f"ca.{suffix}").write_bytes(content)
    (tmp_path / "ca.key").chmod(0o600)
    refuses(lambda: keys.load_ca(tmp_path), "no authority's pair")


def test_what_certificates_say(home: Path) -> None:
    ca, north, south = (keys.load_certificate(home / f"{n}.pem") for n in ("ca", "North", "South"))
    own = values(ca)
    assert own[x509.BasicConstraints] == x509.BasicConstraints(ca=True, path_length=0)
    usage = own[x509.KeyUsage]
    assert isinstance(usage, x509.KeyUsage)
    assert usage.key_cert_sign
    assert usage.crl_sign
    assert not usage.digital_signature
    assert keys.name_of(ca) == "unpooled CA"
    assert 3650 < (ca.not_valid_after_utc - datetime.now(UTC)).days < 3655
    assert keys.name_of(north) == "North"
    assert keys.hosts_of(north) == HOSTS
    assert keys.hosts_of(south) == ()
    assert x509.SubjectAlternativeName not in values(south)
    assert (north.not_valid_after_utc - north.not_valid_before_utc).days == 825
    assert 299 <= (datetime.now(UTC) - north.not_valid_before_utc).total_seconds() < 3600
    assert keys.matches(north, keys.load_key(home / "North.key"))
    assert not keys.matches(north, keys.load_key(home / "South.key"))


def context(side: int, folder: Path, name: str, ca: Path) -> ssl.SSLContext:
    made = ssl.SSLContext(side)
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    made.load_verify_locations(ca)
    made.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    return made


def shaken(listening: ssl.SSLContext, dialling: ssl.SSLContext, host: str) -> list[ssl.SSLObject]:
    """Both ends of a connection in memory, after the handshake."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        dialling.wrap_bio(back, there, server_hostname=host),
        listening.wrap_bio(there, back, server_side=True),
    ]
    waiting = list(ends)
    for end in ends * 4:
        if end in waiting:
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    return ends


@pytest.mark.parametrize("host", HOSTS)
def test_tls_shakes_hands_both_ways(home: Path, host: str) -> None:
    ca = home / "ca.pem"
    listening = context(ssl.PROTOCOL_TLS_SERVER, home, "North", ca)
    dialling = context(ssl.PROTOCOL_TLS_CLIENT, home, "South", ca)
    for end, name in zip(shaken(listening, dialling, host), ("North", "South"), strict=True):
        der = end.getpeercert(binary_form=True)
        assert der is not None
        certificate = keys.load_certificate(home / f"{name}.pem")
        assert fingerprint(der) == f"sha256:{certificate.fingerprint(SHA256()).hex()}"


def test_tls_refuses_strangers_and_wrong_hosts(home: Path, tmp_path: Path) -> None:
    assert main(["keys", "ca", "--to", str(tmp_path)]) == 0
    assert main(["keys", "request", "South", "--to", str(tmp_path)]) == 0
    assert sign(tmp_path, tmp_path / "South.csr") == 0
    ca = home / "ca.pem"
    listening = context(ssl.PROTOCOL_TLS_SERVER, home, "North", ca)
    stranger = context(ssl.PROTOCOL_TLS_CLIENT, tmp_path, "South", ca)
    friend = context(ssl.PROTOCOL_TLS_CLIENT, home, "South", ca)
    silent = context(ssl.PROTOCOL_TLS_SERVER, home, "South", ca)
    for server, client, host in (
        (listening, stranger, HOSTS[0]),
        (listening, friend, "south.example.org"),
        (silent, friend, HOSTS[0]),
    ):
        with pytest.raises(ssl.SSLCertVerificationError):
            shaken(server, client, host)


def test_certificates_end_no_later_than_the_authority(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca, key = keys.load_ca(home)
    request = keys.load_request(home / "North.csr")
    assert keys.sign(request, ca, key, 10**12).not_valid_after_utc == ca.not_valid_after_utc
    one = keys.sign(request, ca, key, 1)
    assert one.not_valid_after_utc - one.not_valid_before_utc == keys.CLOCK_SKEW + timedelta(days=1)
    refuses(lambda: keys.sign(request, ca, key, 0), "days=0 must be")
    monkeypatch.setattr(keys, "_now", lambda: ca.not_valid_after_utc)
    refuses(lambda: keys.sign(request, ca, key, 10), "authority's certificate ended on 20")


def test_an_authority_on_ed25519_signs_too(home: Path) -> None:
    ca, _ = keys.load_ca(home)
    key = ed25519.Ed25519PrivateKey.generate()
    made = keys.sign(keys.load_request(home / "North.csr"), ca, key, 10)
    key.public_key().verify(made.signature, made.tbs_certificate_bytes)


# Requests of strangers


def test_nothing_but_name_and_hosts_is_copied(home: Path, tmp_path: Path, capsys: Said) -> None:
    names = [
        x509.DNSName("East.example.org"),
        x509.DNSName("10.0.0.9"),
        x509.RFC822Name("root@example.org"),
        x509.UniformResourceIdentifier("https://example.org"),
    ]
    file = request_file(
        tmp_path,
        x509.BasicConstraints(ca=True, path_length=None),
        x509.KeyUsage(True, True, True, True, True, True, True, False, False),
        x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.CODE_SIGNING]),
        x509.SubjectAlternativeName(names),
        x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00"),
        key=ed25519.Ed25519PrivateKey.generate(),
    )
    assert sign(home, file) == 0
    assert "root@" not in capsys.readouterr().out
    made = keys.load_certificate(home / "East.pem")
    assert keys.hosts_of(made) == ("east.example.org", "10.0.0.9")
    north = values(keys.load_certificate(home / "North.pem"))
    found = values(made)
    assert found.keys() == north.keys()
    for kind in found.keys() - {x509.SubjectAlternativeName}:
        assert found[kind] == north[kind]
    assert found[x509.BasicConstraints] == x509.BasicConstraints(ca=False, path_length=None)


@pytest.mark.parametrize(
    "name",
    ["", "*", "a/b", "*.example.org", "a" * 100, "a" * 64, "1a", "-a", "a b", "ä", "a$*", "a\n"],
)
def test_names_that_cannot_be_part_of_network_keys(tmp_path: Path, name: str) -> None:
    file = request_file(tmp_path, name=name)
    refuses(lambda: keys.load_request(file), "cannot become part of network keys|one printable")
    refuses(lambda: keys.new_request(name, ()), "cannot become part of network keys")


@pytest.mark.parametrize("name", ["ca", "CA"])
def test_the_authority_keeps_its_name(tmp_path: Path, name: str) -> None:
    refuses(lambda: keys.load_request(request_file(tmp_path, name=name)), "kept for the authority")


@pytest.mark.parametrize("count", [0, 2])
def test_a_request_has_one_name(tmp_path: Path, count: int) -> None:
    names = [x509.NameAttribute(NameOID.COMMON_NAME, name) for name in ("North", "South")[:count]]
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder(x509.Name(names)).sign(key, SHA256())
    file = tmp_path / "names.csr"
    file.write_bytes(made.public_bytes(Encoding.PEM))
    refuses(lambda: keys.load_request(file), "needs one printable name")


@pytest.mark.parametrize(
    "host",
    [
        x509.DNSName("*.example.org"),
        x509.DNSName("*"),
        x509.DNSName("a\x1b[2Jb"),
        x509.DNSName(""),
        x509.IPAddress(ip_network("0.0.0.0/0")),
        x509.IPAddress(ip_address("0.0.0.0")),
    ],
)
def test_requests_for_odd_hosts(tmp_path: Path, host: x509.GeneralName) -> None:
    file = request_file(tmp_path, x509.SubjectAlternativeName([host]))
    refuses(lambda: keys.load_request(file), "neither a DNS name nor an address")


@pytest.mark.parametrize(
    "key",
    [
        rsa.generate_private_key(65537, 1024),
        rsa.generate_private_key(65537, 2048),
        ec.generate_private_key(ec.SECP384R1()),
    ],
)
def test_keys_of_other_kinds(tmp_path: Path, key: Any) -> None:
    refuses(lambda: keys.load_request(request_file(tmp_path, key=key)), "neither on P-256")
    refuses(lambda: keys.load_key(key_file(tmp_path / "a.key", key)), "neither on P-256")


def test_a_short_rsa_key(tmp_path: Path) -> None:
    file = tmp_path / "short.csr"
    file.write_text(RSA_512)
    refuses(lambda: keys.load_request(file), "neither on P-256|no sound signing request")


def test_a_request_that_was_changed_on_its_way(home: Path, tmp_path: Path, capsys: Said) -> None:
    der = x509.load_pem_x509_csr((home / "North.csr").read_bytes()).public_bytes(Encoding.DER)
    file = armoured(tmp_path, "CERTIFICATE REQUEST", der.replace(b"North", b"Worth"))
    refuses(lambda: keys.load_request(file), "not signed with the key")
    assert sign(home, file) == 2
    assert "ask its sender for a new one" in capsys.readouterr().err
    assert not (home / "Worth.pem").exists()


def armoured(folder: Path, kind: str, der: bytes) -> Path:
    file = folder / "changed.pem"
    body = base64.encodebytes(der).decode()
    file.write_text(f"-----BEGIN {kind}-----\n{body}-----END {kind}-----\n")
    return file


@given(data=st.data())
def test_broken_files_are_refused_and_nothing_worse(home: Path, data: st.DataObject) -> None:
    for kind, name in (("CERTIFICATE REQUEST", "North.csr"), ("CERTIFICATE", "North.pem")):
        text = (home / name).read_text().splitlines()[1:-1]
        der = bytearray(base64.b64decode("".join(text)))
        at = data.draw(st.integers(0, len(der) - 1))
        der[at] = data.draw(st.integers(0, 255))
        file = armoured(home, kind, bytes(der))
        with suppress(InputError):
            if name == "North.csr":
                keys.load_request(file)
            else:
                keys.hosts_of(keys.load_certificate(file))


# Hosts


@pytest.mark.parametrize(
    "host",
    [
        *(
            "north:7447",
            "[::1]",
            "tls/north",
            "a..b",
            ".a",
            "a.",
            "-a",
            "a-",
            "",
            " a",
            "a\n",
            "*.a",
        ),
        *("999.1.1.1", "1.2.3", "fe80::1%eth0", "224.0.0.1", "::", "\u212aa", "a" * 64),
        "a." * 127 + "a",
    ],
)
def test_hosts_that_nobody_can_dial(host: str) -> None:
    refuses(lambda: keys.check_hosts([host]), "neither a DNS name nor an address")


def test_hosts_have_one_spelling() -> None:
    given_hosts = ["North.Example", "north.example", "0:0::1", "::1", "my_host", "xn--bcher-kva.de"]
    assert keys.check_hosts(given_hosts) == ("north.example", "::1", "my_host", "xn--bcher-kva.de")
    refuses(lambda: keys.check_hosts(f"h{i}" for i in range(21)), "21 hosts are too many")


# Files


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_secrets_are_secret_from_the_first_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, modes = os.open, {}

    def watched(path: Path, flags: int, mode: int) -> int:
        descriptor = real(path, flags, mode)
        modes[Path(path).name] = os.fstat(descriptor).st_mode & 0o777
        return descriptor

    monkeypatch.setattr(os, "open", watched)
    assert main(["keys", "ca", "--to", str(tmp_path)]) == 0
    assert main(["keys", "request", "North", "--to", str(tmp_path)]) == 0
    assert modes == {"ca.key": 0o600, "ca.pem": 0o644, "North.key": 0o600, "North.csr": 0o644}
    assert modes == {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("there", "step"),
    [
        ("ca.key", ["ca"]),
        ("ca.pem", ["ca"]),
        ("North.key", ["request", "North"]),
        ("North.csr", ["request", "North"]),
    ],
)
def test_nothing_is_overwritten(tmp_path: Path, capsys: Said, there: str, step: list[str]) -> None:
    (tmp_path / there).write_text("precious")
    assert main(["keys", *step, "--to", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"{tmp_path / there} is there already and is never overwritten" in said.err
    assert [file.name for file in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "precious"


def test_a_certificate_is_signed_once(home: Path, capsys: Said) -> None:
    before = (home / "North.pem").read_bytes()
    assert sign(home, home / "North.csr") == 2
    assert "North.pem is there already" in capsys.readouterr().err
    assert (home / "North.pem").read_bytes() == before


def test_dangling_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "elsewhere")
    refuses(lambda: create({tmp_path / "a": (b"", 0o600)}), "never overwritten")
    assert not (tmp_path / "elsewhere").exists()


def test_all_files_are_made_or_none(tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "b"
    files = {tmp_path / "a": (b"", 0o600), missing: (b"", 0o600)}
    refuses(lambda: create(files), "b cannot be made .No such file.*--to")
    broken: Any = {tmp_path / "a": (b"", 0o600), tmp_path / "b": ("no bytes", 0o600)}
    with pytest.raises(TypeError):
        create(broken)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (keys.load_certificate, "no certificate in PEM form; give"),
        (keys.load_key, "no private key in PEM form without password; give"),
        (keys.load_request, "no sound signing request in PEM form; give"),
    ],
)
def test_files_that_cannot_be_read(
    tmp_path: Path, load: Callable[[Path], object], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    junk = tmp_path / "junk"
    junk.write_bytes(b"\x00\xff junk")
    junk.chmod(0o600)
    refuses(lambda: load(tmp_path / "none.pem"), "none.pem does not exist; name")
    refuses(lambda: load(tmp_path), "is a folder; name a file in it")
    refuses(lambda: load(junk), f"junk is {words}")
    refuses(lambda: load(junk / "a"), "cannot be read .Not a directory")

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(builtins, "open", denied)
    refuses(lambda: load(junk), "junk may not be read by this user; ask its owner")


def test_der_is_not_pem(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "North.der"
    file.write_bytes(keys.load_certificate(home / "North.pem").public_bytes(Encoding.DER))
    refuses(lambda: keys.load_certificate(file), "North.der is no certificate in PEM form")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_keys_open_to_others_are_refused(home: Path, tmp_path: Path, mode: int) -> None:
    file = key_file(tmp_path / "a.key", keys.load_key(home / "North.key"), mode=mode)
    refuses(lambda: keys.load_key(file), f"run chmod 600 {file}")
    file.chmod(0o400)
    assert keys.load_key(file)


def test_a_key_with_a_password(home: Path, tmp_path: Path) -> None:
    file = key_file(tmp_path / "a.key", keys.load_key(home / "North.key"), b"secret")
    refuses(lambda: keys.load_key(file), "without password")


def test_authority_and_key_belong_together(home: Path, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes((home / "ca.pem").read_bytes())
    refuses(lambda: keys.load_ca(tmp_path), "ca.key does not exist")
    key_file(tmp_path / "ca.key", keys.load_key(home / "North.key"))
    refuses(lambda: keys.load_ca(tmp_path), "no authority's pair")


# The command line


def test_each_step_says_where_its_files_go(tmp_path: Path, capsys: Said) -> None:
    to = ["--to", str(tmp_path)]
    assert main(["keys", "ca", "--name", "Three Hospitals", *to]) == 0
    said = capsys.readouterr().out
    assert f"{tmp_path / 'ca.key'}: keep it secret" in said
    assert f"{tmp_path / 'ca.pem'}: give it to every party" in said
    assert main(["keys", "request", "North", "--host", "North.example.org", *to]) == 0
    asked = capsys.readouterr().out
    assert f"{tmp_path / 'North.key'}: keep it secret" in asked
    assert f"{tmp_path / 'North.csr'}: send it to the authority" in asked
    assert sign(tmp_path, tmp_path / "North.csr", "--days", "30") == 0
    signed = capsys.readouterr().out
    key = keys.fingerprint_of_key(keys.load_request(tmp_path / "North.csr").key)
    for fact in ("name         North", "hosts        north.example.org", f"key          {key}"):
        assert fact in asked
        assert fact in signed[: signed.index("Signed, until")]
    certificate = keys.load_certificate(tmp_path / "North.pem")
    print_ = fingerprint(certificate.public_bytes(Encoding.DER))
    assert signed.endswith(f'\nfingerprint = "{print_}"\n')
    assert f"until {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC" in signed
    assert main(["keys", "show", str(tmp_path / "North.pem")]) == 0
    shown = capsys.readouterr().out.splitlines()
    words = ["name", "hosts", "valid", "fingerprint"]
    assert [line.split()[0] for line in shown] == words
    assert shown[-1].endswith(print_)
    assert main(["keys", "show", str(tmp_path / "ca.pem")]) == 0
    assert "Three Hospitals" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["", " ", "a\x1b[2J", "ä" * 33])
def test_names_of_authorities(name: str) -> None:
    refuses(lambda: keys.new_ca(name), "must be text of 1 to 64 bytes")


def test_old_certificates_are_shown_as_such(
    tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "_now", lambda: datetime(2001, 1, 1, tzinfo=UTC))
    assert main(["keys", "ca", "--to", str(tmp_path)]) == 0
    assert "2000-12-31 23:55 to 2011-01-02 00:00 UTC (over)" in capsys.readouterr().out


def test_help_needs_no_extra() -> None:
    code = (
        "import sys; from unpooled.cli import main\n"
        "try: main(['keys', 'request', '--help'])\n"
        "finally: assert 'cryptography' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--host" in done.stdout


def test_the_missing_extra_is_named(capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert main(["keys", "ca"]) == 2
    assert capsys.readouterr().err.endswith("cryptography; install unpooled[network].\n")
