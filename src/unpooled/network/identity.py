"""Who a party is on the network: its name, its certificate, its key.

A plan names every party's certificate by its fingerprint. A party shows that it is the one by
signing, with the certificate's key, the greetings that both ends of a link have sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from cryptography import x509
from cryptography.exceptions import InternalError, InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from unpooled.types import PartyId

PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
_ECDSA = ec.ECDSA(hashes.SHA256())
_UNSIGNED = (InvalidSignature, InternalError, UnsupportedAlgorithm, ValueError, x509.InvalidVersion)
"""What verifying raises: of signatures that do not fit, and of certificates of no use."""


@dataclass(frozen=True)
class Identity:
    """A party's own: without a key (plain connections on one machine) it proves nothing."""

    name: PartyId
    certificate: bytes = b""
    """In DER form."""
    key: PrivateKey | None = None

    def sign(self, content: bytes) -> bytes:
        """A signature that :func:`signed` accepts from this party."""
        if self.key is None:
            return b""
        if isinstance(self.key, ec.EllipticCurvePrivateKey):
            return self.key.sign(content, _ECDSA)
        return self.key.sign(content)


def fingerprint(certificate: bytes) -> str:
    """The name that plans give a certificate."""
    return "sha256:" + sha256(certificate).hexdigest()


def signed(certificate: bytes, content: bytes, signature: bytes) -> bool:
    """Whether the certificate's key has signed this content."""
    try:
        key = x509.load_der_x509_certificate(certificate).public_key()
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, content, _ECDSA)
        elif isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(signature, content)
        else:
            return False
    except _UNSIGNED:
        return False
    return True
