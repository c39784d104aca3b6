"""A client of S3-compatible stores, as small as exports need: it writes and deletes objects.

Requests are signed as AWS Signature Version 4 says, and go only to addresses that are allowed
(``core.outbound``). An object appears as a whole or not at all.
"""

import hmac
import re
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from urllib.parse import quote, urlsplit

from django.utils import timezone

from core.outbound.addresses import AddressForbidden, Resolver, check_url
from core.outbound.requests import OutboundRequest, Result, send_now
from exports.stores.errors import StoreError

# A part is written within this time, or tried again.
PUT_SECONDS = 90.0
DELETE_SECONDS = 15.0
DEFAULT_REGION = "us-east-1"
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")


def endpoint_url(endpoint: str, region: str, bucket: str) -> str:
    """The URL of the bucket. AWS's if there is no endpoint; an endpoint may name the bucket
    itself."""
    base = (endpoint or f"https://s3.{region or DEFAULT_REGION}.amazonaws.com").rstrip("/")
    return f"{base}/{quote(bucket, safe='')}" if bucket else base


class S3Store:
    def __init__(
        self,
        *,
        endpoint: str,
        region: str,
        bucket: str,
        prefix: str,
        access_key_id: str,
        secret_access_key: str,
        resolve: Resolver | None = None,
        put_seconds: float = PUT_SECONDS,
        clock: Callable[[], datetime] = timezone.now,
    ) -> None:
        self._base, self._region = endpoint_url(endpoint, region, bucket), region or DEFAULT_REGION
        self._prefix = f"{prefix}/" if prefix else ""
        self._keys = access_key_id, secret_access_key
        self._resolve, self._put_seconds, self._clock = resolve, put_seconds, clock

    def put(self, name: str, content: bytes, type: str = "application/octet-stream") -> None:
        _require_success(self._send("PUT", name, content, self._put_seconds, type), "write to")

    def delete(self, name: str) -> None:
        _require_success(self._send("DELETE", name, b"", DELETE_SECONDS), "delete from")

    def _send(self, method: str, name: str, body: bytes, seconds: float, type: str = "") -> Result:
        url = f"{self._base}/{quote(self._prefix + name, safe='/-_.~')}"
        try:
            check_url(url)
        except AddressForbidden as error:
            raise StoreError(str(error)) from None
        headers = {"Content-Type": type} if type else {}
        headers |= signed_headers(
            method, url, body, headers, self._keys, self._region, self._clock()
        )
        return send_now(OutboundRequest(url, body, headers, self._resolve, method), seconds)


def _require_success(result: Result, action: str) -> None:
    if result.is_delivered:
        return
    if result.status is None:
        raise StoreError(f"The store cannot be reached. {result.error}")
    code = _CODE.search(result.response)
    answer = f"{result.status} {code[1]}" if code else str(result.status)
    advice = {
        403: f" Check the keys and that they may {action} this bucket.",
        404: " Check the endpoint and the bucket.",
    }.get(result.status, "")
    raise StoreError(f"The store answered {answer}.{advice} {result.error}".strip())


# --- Signatures -----------------------------------------------------------------------------


def signed_headers(
    method: str,
    url: str,
    body: bytes,
    headers: dict[str, str],
    keys: tuple[str, str],
    region: str,
    now: datetime,
) -> dict[str, str]:
    """The headers that sign the request, with those in *headers*. The URL has no query."""
    parts = urlsplit(url)
    time = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    digest = sha256(body).hexdigest()
    signed = {
        **{name.lower(): value.strip() for name, value in headers.items()},
        "host": _host(parts.scheme, parts.hostname or "", parts.port),
        "x-amz-content-sha256": digest,
        "x-amz-date": time,
    }
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    request = "\n".join([method, parts.path or "/", "", lines, names, digest])
    scope = f"{time[:8]}/{region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", time, scope, sha256(request.encode()).hexdigest()])
    signature = hmac.new(_key(keys[1], scope), text.encode(), sha256).hexdigest()
    credential = f"Credential={keys[0]}/{scope}"
    return {
        "x-amz-date": time,
        "x-amz-content-sha256": digest,
        "Authorization": f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, "
        f"Signature={signature}",
    }


def _host(scheme: str, host: str, port: int | None) -> str:
    name = f"[{host}]" if ":" in host else host
    default = 443 if scheme == "https" else 80
    return name if port in (None, default) else f"{name}:{port}"


def _key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), sha256).digest()
    return key
