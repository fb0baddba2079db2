"""Who a party is on the network: its name, its certificate, its key.

A plan names every party's certificate by its fingerprint. A party shows that it is the one by
signing, with the certificate's key, what both ends of a link have said to each other.
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
"""What comes out of a signature that is none, and of certificates that nobody can use."""


@dataclass(frozen=True)
class Identity:
    """A party's own: without a key (plain connections on one machine) it proves nothing."""

    name: PartyId
    certificate: bytes = b""
    """In DER form."""
    key: PrivateKey | None = None

    def sign(self, words: bytes) -> bytes:
        """A signature that :func:`signed` accepts from this party."""
        if self.key is None:
            return b""
        if isinstance(self.key, ec.EllipticCurvePrivateKey):
            return self.key.sign(words, _ECDSA)
        return self.key.sign(words)


def fingerprint(certificate: bytes) -> str:
    """The name that plans give a certificate."""
    return "sha256:" + sha256(certificate).hexdigest()


def signed(certificate: bytes, words: bytes, signature: bytes) -> bool:
    """Whether the certificate's key has signed these words."""
    try:
        key = x509.load_der_x509_certificate(certificate).public_key()
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, words, _ECDSA)
        elif isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(signature, words)
        else:
            return False
    except _UNSIGNED:
        return False
    return True
