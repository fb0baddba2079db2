"""A party's key and certificates, checked against each other and the plan before they are used."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from unpooled.deploy import keys
from unpooled.deploy.members import Member
from unpooled.deploy.names import check_endpoint
from unpooled.deploy.plan import Plan
from unpooled.errors import InputError
from unpooled.network.identity import Identity, fingerprint
from unpooled.network.zenoh_config import TlsFiles


def load_credentials(folder: Path, member: Member, plan: Plan) -> tuple[Identity, TlsFiles]:
    """NAME.key, NAME.pem and ca.pem in a folder: who the party is, and what the transport reads."""
    name = member.name
    files = TlsFiles(folder / f"{name}.key", folder / f"{name}.pem", folder / "ca.pem")
    for path in (files.key, files.certificate, files.ca):
        if not path.is_file():
            raise InputError(
                f"{name} has no {path}; make a key with 'unpooled keys request {name}', have it "
                "signed, put NAME.pem and ca.pem beside it, and give the folder with --keys."
            )
    key, certificate = keys.load_key(files.key), keys.load_certificate(files.certificate)
    _refuse_unfit(name, files, key, certificate, keys.load_certificate(files.ca))
    _refuse_other_than_planned(member, plan, files, certificate)
    return Identity(name, certificate.public_bytes(Encoding.DER), key), files


def _refuse_unfit(
    name: str, files: TlsFiles, key: keys.Key, certificate: x509.Certificate, ca: x509.Certificate
) -> None:
    """Refuses a certificate that is another's, another key's, another authority's or over."""
    if keys.name_of(certificate) != name:
        raise InputError(
            f"{files.certificate} is the certificate of {keys.name_of(certificate)}, not of "
            f"{name}; put {name}'s own there."
        )
    if not keys.matches(certificate, key):
        raise InputError(
            f"{files.certificate} was not made for the key {files.key}; have the key's own request "
            "signed, or put back the key that the certificate was made for."
        )
    try:
        certificate.verify_directly_issued_by(ca)
    except (InvalidSignature, ValueError, TypeError):
        raise InputError(
            f"{files.certificate} was not signed by {files.ca}; get both from the same authority."
        ) from None
    now = datetime.now(UTC)
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        raise InputError(
            f"{files.certificate} is valid from {certificate.not_valid_before_utc:%Y-%m-%d} to "
            f"{certificate.not_valid_after_utc:%Y-%m-%d}; have a new one signed, or set the clock."
        )


def _refuse_other_than_planned(
    member: Member, plan: Plan, files: TlsFiles, certificate: x509.Certificate
) -> None:
    """Refuses a certificate that the plan does not name, or that is not for the host in it."""
    for other in (*plan.members.values(), *((plan.coordinator,) if plan.coordinator else ())):
        if not other.fingerprint:
            raise InputError(
                f"{plan.source} has no fingerprint for {other.name}; add the line that 'unpooled "
                f"keys show {other.name}.pem' prints."
            )
    name, own = member.name, fingerprint(certificate.public_bytes(Encoding.DER))
    if own != member.fingerprint:
        raise InputError(
            f"{files.certificate} has the fingerprint {own}, but {plan.source[4:]} has "
            f"{member.fingerprint} for {name}; put the right certificate there or correct the plan "
            "everywhere."
        )
    if member.endpoint:
        host, _ = check_endpoint(member.endpoint, plan.source)
        if host not in keys.hosts_of(certificate):
            raise InputError(
                f"{files.certificate} is not good for {host}, where {name} listens (it is for "
                f"{', '.join(keys.hosts_of(certificate)) or 'no host'}); make a request with "
                f"--host {host} and have it signed."
            )
