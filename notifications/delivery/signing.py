"""Signatures of webhooks, as Standard Webhooks says, and their secrets."""

import base64
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

from standardwebhooks.webhooks import Webhook

PREFIX = "whsec_"
# Standard Webhooks recommends 24 to 64 bytes.
SECRET_BYTES = 32
# A new secret and the one that it replaces.
MAX_SECRETS = 2


def generate_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signed_headers(
    signing_secrets: Sequence[str], message_id: str, now: datetime, body: bytes
) -> dict[str, str]:
    """The headers of a webhook, with a signature by each of the secrets."""
    # The library takes the time's digits for UTC, whatever its time zone is.
    at = now.astimezone(UTC)
    text = body.decode()
    signatures = [Webhook(secret).sign(message_id, at, text) for secret in signing_secrets]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(signatures),
    }
