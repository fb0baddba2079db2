"""The command ``keys``, which makes keys and certificates and prints where each file goes.

What it needs is imported when it runs: help stays quick, and does not need the extra.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from unpooled.cli.printing import print_lines
from unpooled.errors import InputError

if TYPE_CHECKING:
    from cryptography import x509

    from unpooled.deploy.keys import Key, Request

PUBLIC, SECRET = 0o644, 0o600
DAYS = 825


def add_keys(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command with its four steps."""
    keys = commands.add_parser("keys", help="make keys and certificates for a network of parties")
    steps = keys.add_subparsers(required=True, metavar="STEP")
    ca = _add_step(steps, "ca", _ca, "make the authority that decides who may take part")
    ca.add_argument("--name", default="unpooled CA", help="its name (default: %(default)s)")
    request = _add_step(steps, "request", _request, "make a party's key and its signing request")
    request.add_argument("name", metavar="NAME", help="the party's name in the plan")
    request.add_argument(
        "--host",
        action="append",
        default=[],
        help="a DNS name or address under which others dial it; none if it only dials others",
    )
    sign = _add_step(steps, "sign", _sign, "sign a party's request, at the authority")
    sign.add_argument("file", type=Path, metavar="FILE.csr", help="the request")
    sign.add_argument(
        "--ca",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="where ca.key and ca.pem are (default: here)",
    )
    sign.add_argument(
        "--days",
        type=int,
        default=DAYS,
        metavar="N",
        help="days it is valid (default: %(default)s)",
    )
    for step in (ca, request, sign):
        step.add_argument(
            "--to",
            type=Path,
            default=Path(),
            metavar="DIR",
            help="the folder for new files (default: here)",
        )
    show = _add_step(steps, "show", _show, "show what a certificate is for")
    show.add_argument("file", type=Path, metavar="FILE.pem", help="the certificate")


def create(files: Mapping[Path, tuple[bytes, int]]) -> None:
    """Makes all these files, each with its mode from the first moment, or none of them."""
    made: list[Path] = []
    try:
        for path, (content, mode) in files.items():
            with open(path, "xb", opener=partial(os.open, mode=mode)) as file:
                made.append(path)
                file.write(content)
    except BaseException as error:
        for done in made:
            done.unlink(missing_ok=True)
        if isinstance(error, FileExistsError):
            raise InputError(
                f"{path} is there already and is never overwritten; move it away or name another "
                "folder with --to."
            ) from error
        if isinstance(error, OSError):
            raise InputError(
                f"{path} cannot be made ({error.strerror}); name a folder that can be written to "
                "with --to."
            ) from error
        raise


def _add_step(
    steps: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], None],
    purpose: str,
) -> argparse.ArgumentParser:
    parser = steps.add_parser(name, help=purpose, description=f"{purpose.capitalize()}.")
    parser.set_defaults(run=partial(_run_step, run))
    return parser


def _run_step(run: Callable[[argparse.Namespace], None], options: argparse.Namespace) -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise InputError(
            "`unpooled keys` needs the package cryptography; install unpooled[network]."
        ) from error
    run(options)


def _ca(options: argparse.Namespace) -> None:
    from unpooled.deploy import keys

    key, certificate = keys.new_ca(options.name)
    secret, public = options.to / "ca.key", options.to / "ca.pem"
    create({secret: (_secret(key), SECRET), public: (_public(certificate), PUBLIC)})
    print_lines(f"{secret}: keep it secret, here; whoever has it can admit anyone.")
    print_lines(f"{public}: give it to every party; it is not secret.", "")
    _print_certificate(certificate)


def _request(options: argparse.Namespace) -> None:
    from unpooled.deploy import keys

    key, request = keys.new_request(options.name, options.host)
    secret, public = options.to / f"{options.name}.key", options.to / f"{options.name}.csr"
    create({secret: (_secret(key), SECRET), public: (_public(request), PUBLIC)})
    print_lines(f"{secret}: keep it secret, here; nobody else needs it, not even the authority.")
    print_lines(f"{public}: send it to the authority, who runs `unpooled keys sign {public.name}`.")
    print_lines(f"{options.name}.pem and ca.pem come back: put them beside the key.", "")
    _print_request(keys.Request(options.name, keys.hosts_of(request), key.public_key()))
    print_lines("", "The authority is shown the same key: read it out to them, over the phone say.")


def _sign(options: argparse.Namespace) -> None:
    from unpooled.deploy import keys

    ca, ca_key = keys.load_ca(options.ca)
    request = keys.load_request(options.file)
    print_lines(
        f"{options.file} asks for this; the key must be the one that {request.name} reads out:", ""
    )
    _print_request(request)
    certificate = keys.sign(request, ca, ca_key, options.days)
    public = options.to / f"{request.name}.pem"
    create({public: (_public(certificate), PUBLIC)})
    print_lines("", f"Signed, until {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC.")
    print_lines(f"{public}: send it back to {request.name}, with ca.pem; neither is secret.")
    print_lines(f"The plan gets this line for {request.name}:", "")
    print_lines(f'fingerprint = "{_fingerprint(certificate)}"')


def _show(options: argparse.Namespace) -> None:
    from unpooled.deploy import keys

    _print_certificate(keys.load_certificate(options.file))


def _print_request(request: Request) -> None:
    from unpooled.deploy import keys

    key = keys.fingerprint_of_key(request.key)
    _print_facts(name=request.name, hosts=_hosts_listed(request.hosts), key=key)


def _print_certificate(certificate: x509.Certificate) -> None:
    from unpooled.deploy import keys

    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    over = " (over)" if end < datetime.now(UTC) else ""
    _print_facts(
        name=keys.name_of(certificate),
        hosts=_hosts_listed(keys.hosts_of(certificate)),
        valid=f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC{over}",
        fingerprint=_fingerprint(certificate),
    )


def _hosts_listed(hosts: Iterable[str]) -> str:
    return ", ".join(hosts) or "none: nobody dials it"


def _print_facts(**facts: str) -> None:
    for name, fact in facts.items():
        print_lines(f"  {name:<13}{fact}")


def _secret(key: Key) -> bytes:
    """Without a password: a party starts unattended."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _public(document: x509.Certificate | x509.CertificateSigningRequest) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return document.public_bytes(Encoding.PEM)


def _fingerprint(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    from unpooled.network.identity import fingerprint

    return fingerprint(certificate.public_bytes(Encoding.DER))
