"""A party's key and certificates, checked against each other and the plan before they are used."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from unpooled.deploy import keys
from unpooled.deploy.members import Member
from unpooled.deploy.names import check_endpoint
from unpooled.deploy.plan import Plan
from unpooled.errors import InputError
from unpooled.network.identity import Identity, fingerprint


@dataclass(frozen=True)
class Credentials:
    """Who a party is, and the files that the transport reads."""

    identity: Identity
    key: Path
    certificate: Path
    ca: Path


def load_credentials(folder: Path, member: Member, plan: Plan) -> Credentials:
    """NAME.key, NAME.pem and ca.pem in a folder; a sentence if one of them does not fit."""
    name = member.name
    paths = folder / f"{name}.key", folder / f"{name}.pem", folder / "ca.pem"
    for path in paths:
        if not path.is_file():
            raise InputError(
                f"{name} has no {path}; make a key with 'unpooled keys request {name}', have it "
                "signed, put NAME.pem and ca.pem beside it, and give the folder with --keys."
            )
    key, certificate, ca = (
        keys.load_key(paths[0]),
        keys.load_certificate(paths[1]),
        keys.load_certificate(paths[2]),
    )
    der = certificate.public_bytes(Encoding.DER)
    if keys.name_of(certificate) != name:
        raise InputError(
            f"{paths[1]} is the certificate of {keys.name_of(certificate)}, not of {name}; put "
            f"{name}'s own there."
        )
    if not keys.matches(certificate, key):
        raise InputError(
            f"{paths[1]} was not made for the key {paths[0]}; have the key's own request signed, "
            "or put back the key that the certificate was made for."
        )
    try:
        certificate.verify_directly_issued_by(ca)
    except (InvalidSignature, ValueError, TypeError):
        raise InputError(
            f"{paths[1]} was not signed by {paths[2]}; get both from the same authority."
        ) from None
    now = datetime.now(UTC)
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        raise InputError(
            f"{paths[1]} is valid from {certificate.not_valid_before_utc:%Y-%m-%d} to "
            f"{certificate.not_valid_after_utc:%Y-%m-%d}; have a new one signed, or set the clock."
        )
    for other in (*plan.members.values(), *((plan.coordinator,) if plan.coordinator else ())):
        if not other.fingerprint:
            raise InputError(
                f"{plan.source} has no fingerprint for {other.name}; add the line that 'unpooled "
                f"keys show {other.name}.pem' prints."
            )
    if fingerprint(der) != member.fingerprint:
        raise InputError(
            f"{paths[1]} has the fingerprint {fingerprint(der)}, but {plan.source[4:]} has "
            f"{member.fingerprint} for {name}; put the right certificate there or mend the plan "
            "everywhere."
        )
    if member.endpoint:
        host, _ = check_endpoint(member.endpoint, plan.source)
        if host not in keys.hosts_of(certificate):
            raise InputError(
                f"{paths[1]} is not good for {host}, where {name} listens (it is for "
                f"{', '.join(keys.hosts_of(certificate)) or 'no host'}); make a request with "
                f"--host {host} and have it signed."
            )
    return Credentials(Identity(name, der, key), *paths)
