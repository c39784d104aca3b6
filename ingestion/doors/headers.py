"""What the doors read from a request's headers, in the WSGI environment's spelling."""

import base64
from collections.abc import Mapping
from typing import Any, TypeAlias

Headers: TypeAlias = Mapping[str, Any]


def key_from_basic_auth(headers: Headers) -> str:
    """The key from ``Authorization: Basic``, or "" if there is none.

    The header has the raw key, base64 of ``<key>:`` as HTTP libraries write it, or base64 of the
    key alone. These cannot be confused: our keys contain an underscore and base64 does not.
    """
    scheme, _, credentials = headers.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "basic":
        return ""
    return replace_nul(_user_part(credentials.strip()))


def replace_nul(key: str) -> str:
    """The key without NUL, which PostgreSQL's ``text`` cannot store."""
    return key.replace("\0", "\ufffd")


def idempotency_key(headers: Headers) -> str | None:
    """The ``Idempotency-Key``, or None if it is absent or empty."""
    value: str = headers.get("HTTP_IDEMPOTENCY_KEY", "")
    if value.isascii():
        return value or None
    try:
        # WSGI decodes the header's bytes as Latin-1.
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def _user_part(credentials: str) -> str:
    try:
        decoded = base64.b64decode(credentials, validate=True).decode()
    except ValueError:
        return credentials
    user, colon, _ = decoded.partition(":")
    return user if colon or "_" in user else credentials
