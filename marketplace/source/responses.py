"""What a response of the marketplace means: its status, its body, and failures of the network."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec
import requests

from marketplace.source.errors import (
    CredentialsRejected,
    MarketplaceBadRequest,
    MarketplaceForbidden,
    MarketplaceNotFound,
    MarketplaceUnavailable,
    UnexpectedResponse,
)

MAX_RESPONSE_BYTES = 20 * 1024 * 1024
CHUNK_BYTES = 64 * 1024


def raise_for_status(response: requests.Response, now: datetime) -> None:
    """Raise the MarketplaceError that the status means, if it is an error."""
    status = response.status_code
    # 201 and 202 answer a request for an export.
    if status in (200, 201, 202):
        return
    if status == 401:
        raise CredentialsRejected
    if status == 403:
        raise MarketplaceForbidden
    if status in (404, 410):
        raise MarketplaceNotFound(status=status)
    if status in (408, 429) or status >= 500:
        retry_after = parse_retry_after(response.headers.get("Retry-After"), now)
        raise MarketplaceUnavailable(f"it returned {status}", retry_after, status=status)
    if status == 400:
        raise MarketplaceBadRequest
    if 300 <= status < 400:
        raise UnexpectedResponse("it is a redirect")
    raise UnexpectedResponse(f"its status is {status}")


def parse_retry_after(header: str | None, now: datetime) -> float | None:
    """The seconds to wait by a Retry-After header, which holds seconds or an HTTP date."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return min(float(header), 86_400.0)
    try:
        retry_at = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    if retry_at.tzinfo is None:
        retry_at = retry_at.replace(tzinfo=UTC)
    return max((retry_at - now).total_seconds(), 0.0)


def read_body(response: requests.Response) -> bytes:
    """The decompressed body; raise UnexpectedResponse if it exceeds the limit."""
    body = bytearray()
    for chunk in response.iter_content(CHUNK_BYTES):
        body += chunk
        if len(body) > MAX_RESPONSE_BYTES:
            raise UnexpectedResponse(f"it is larger than {MAX_RESPONSE_BYTES // 1024**2} MB")
    return bytes(body)


def network_reason(error: Exception) -> str:
    if isinstance(error, requests.exceptions.ConnectTimeout | requests.exceptions.ReadTimeout):
        return "it does not respond in time"
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not trusted"
    return "the connection failed"


def mismatch(response: requests.Response, body: bytes) -> str:
    """What is wrong with a body that cannot be decoded."""
    content_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if content_type == "text/html" or body.lstrip()[:1] == b"<":
        return "it is a web page"
    try:
        msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "it is not complete JSON"
    return "its JSON has an unexpected structure"
