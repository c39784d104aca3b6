"""Keys and tokens of the service: how to make, check, and look them up.

A credential is ``<prefix>_<27 characters of base 62><6 characters of checksum>``. 27 characters of
base 62 hold 160 random bits. The checksum (CRC-32) tells a mistyped or truncated credential from a
revoked one, and lets secret scanners recognize ours. The database finds a credential by its SHA-256
digest, which nobody can reverse with that many random bits.
"""

import hashlib
import secrets
import zlib

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SECRET_LENGTH = 27
CHECKSUM_LENGTH = 6
# How much of a credential may be shown: enough to tell two apart, too little to guess the rest.
HINT_LENGTH = 9


def generate(prefix: str) -> str:
    """A new credential with the given prefix, for example ``eds``."""
    secret = _base62(secrets.randbits(160), SECRET_LENGTH)
    return f"{prefix}_{secret}{_checksum(prefix, secret)}"


def is_well_formed(credential: str, prefix: str) -> bool:
    """Whether this could be one of ours: the prefix, length, alphabet, and checksum are right."""
    head, _, tail = credential.partition("_")
    if head != prefix or len(tail) != SECRET_LENGTH + CHECKSUM_LENGTH or not tail.isascii():
        return False
    secret, checksum = tail[:SECRET_LENGTH], tail[SECRET_LENGTH:]
    return secrets.compare_digest(checksum, _checksum(prefix, secret))


def bearer(header: str) -> str:
    """The credential of an ``Authorization`` header with the scheme Bearer, else ""."""
    scheme, _, secret = header.strip().partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def digest(credential: str) -> bytes:
    """The 32 bytes that look up a credential and stand for it everywhere."""
    return hashlib.sha256(credential.encode("utf-8", "surrogatepass")).digest()


def hint(credential: str, prefix: str) -> str:
    """The first characters of a credential of ours, else "".

    Anything else may be a secret of another system.
    """
    return credential[:HINT_LENGTH] if credential.startswith(prefix + "_") else ""


def _checksum(prefix: str, secret: str) -> str:
    return _base62(zlib.crc32(f"{prefix}_{secret}".encode()), CHECKSUM_LENGTH)


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
