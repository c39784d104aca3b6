"""HTTP only: the three addresses of the marketplace that the connection reads.

Source: the Marketplace REST API v3, https://developer.atlassian.com/platform/marketplace/rest/v3/.
"""

import base64
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from http.cookiejar import DefaultCookiePolicy
from typing import Final, TypeAlias, TypeVar
from urllib.parse import parse_qs, quote, unquote, urlsplit

import msgspec
import requests
import urllib3
from django.conf import settings
from django.utils import timezone

from marketplace import deadlines, pages
from marketplace.errors import (
    CredentialsRejected,
    MarketplaceBadRequest,
    MarketplaceForbidden,
    MarketplaceNotFound,
    MarketplaceUnavailable,
    UnexpectedResponse,
)
from marketplace.pages import LicensePage

PAGE_SIZE: Final = 50
USER_AGENT = "engagement-data-service"
CONNECT_TIMEOUT = 5.0
MAX_RESPONSE_BYTES = 20 * 1024 * 1024
MAX_LISTING_PAGES = 100
# Seconds between two attempts: up to so many, then up to twice as many each time.
BASE_DELAY = 1.0
_CHUNK = 64 * 1024

ResponseT = TypeVar("ResponseT")
# Reads the body of an answer; raises what msgspec raises.
Decode: TypeAlias = Callable[[bytes], ResponseT]


@dataclass(frozen=True)
class Credentials:
    """Whoever signs in; the token is the password of HTTP Basic and does not show itself."""

    user_name: str
    token: str = field(repr=False)

    def header(self) -> str:
        # Not by `requests`, whose own encoding is Latin-1.
        pair = f"{self.user_name}:{self.token}".encode()
        return "Basic " + base64.b64encode(pair).decode()


@dataclass(frozen=True)
class App:
    """One of a vendor's apps. ``product_id`` is what its licenses are reported under."""

    product_id: str
    key: str
    name: str


@dataclass(frozen=True)
class LicenseQuery:
    """Which licenses somebody asks for. Always free ones, and those of the government and isolated
    clouds (*boundary* names one), come only where they are asked for."""

    product_id: str
    updated_since: date | None = None
    always_free: bool = False
    boundary: str | None = None

    @property
    def list_name(self) -> str:
        """The name of the list that it reads."""
        return "always_free" if self.always_free else self.boundary or "all"

    def parameters(self) -> dict[str, str]:
        asked = {
            "productId": self.product_id,
            "withDataInsights": "true",
            "limit": str(PAGE_SIZE),
            "lastUpdated": self.updated_since.isoformat() if self.updated_since else None,
            "showLifeTimeFreeLicenses": "true" if self.always_free else None,
            "cloudComplianceBoundaries": self.boundary,
        }
        return {name: value for name, value in asked.items() if value is not None}


class _Vendor(msgspec.Struct, rename="camel"):
    developer_id: str


class _Links(msgspec.Struct):
    next: str | None = None


class _Item(msgspec.Struct, rename="camel"):
    product_id: str | None = None
    app_key: str | None = None
    app_name: str | None = None

    def app(self) -> App:
        return App(self.product_id or "", self.app_key or "", self.app_name or "")


class _Listing(msgspec.Struct):
    items: list[_Item]
    links: _Links | None = None


_VENDOR = msgspec.json.Decoder(_Vendor).decode
_LISTING = msgspec.json.Decoder(_Listing).decode


@dataclass(frozen=True)
class RetryPolicy:
    """How long a client tries: so many attempts at one request, each of which may take *request*
    seconds from connecting to the last byte, with at most *pauses* seconds between all of them; and
    *total* seconds for everything that it is asked."""

    attempts: int
    request: float
    max_total_delay: float
    total: float
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], datetime] = timezone.now
    jitter: Callable[[], float] = random.random


# A sync's worker waits up to a minute; somebody who looks at a page does not.
BACKGROUND_RETRY_POLICY = RetryPolicy(attempts=4, request=45.0, max_total_delay=60.0, total=120.0)
INTERACTIVE_RETRY_POLICY = RetryPolicy(attempts=2, request=10.0, max_total_delay=3.0, total=25.0)


class MarketplaceClient:
    """Speaks to the marketplace at *address* for one set of credentials.

    Each call raises CredentialsRejected, Forbidden, NotFound, Refused, MarketplaceUnavailable
    (after several attempts) or UnexpectedAnswer.
    """

    def __init__(
        self,
        session: requests.Session,
        address: str,
        credentials: Credentials,
        patience: RetryPolicy,
    ) -> None:
        self._session = session
        self._address = address.rstrip("/")
        self._headers = {
            "Authorization": credentials.header(),
            "Accept": "application/json",
            "User-Agent": USER_AGENT,
        }
        self._patience = patience
        self._caller = deadlines.DeadlineRunner()
        self._deadline = time.monotonic() + patience.total

    def developer_id(self, vendor_id: str) -> str:
        """The developer ID of the vendor with this number."""
        path = f"/rest/3/developer-space/vendor/{quote(vendor_id, safe='')}"
        answer = self._get(path, {}, _VENDOR).developer_id
        if not answer.strip():
            raise UnexpectedResponse("it named no developer ID")
        return answer

    def apps(self, developer_id: str) -> Iterator[App]:
        """The vendor's apps, private ones included, page by page."""
        path = f"/rest/3/product-listing/developer-space/{quote(developer_id, safe='')}"
        page = self._get(path, {"limit": str(PAGE_SIZE), "includePrivate": "true"}, _LISTING)
        followed: set[str] = set()
        yield from (item.app() for item in page.items)
        while page.links and page.links.next:
            link = self._checked(page.links.next)
            cursor = _cursor(link)
            if cursor in followed or len(followed) >= MAX_LISTING_PAGES:
                raise UnexpectedResponse("its list of apps does not end")
            followed.add(cursor)
            page = self._get(link, {}, _LISTING)
            yield from (item.app() for item in page.items)

    def licenses(self, developer_id: str, query: LicenseQuery, offset: int) -> LicensePage:
        """The page of licenses at *offset*, a number of licenses."""
        path = f"/rest/3/reporting/developer-space/{quote(developer_id, safe='')}/licenses"
        parameters = {**query.parameters(), "offset": str(offset)}
        return self._get(path, parameters, pages.decode_page)

    def _checked(self, link: str) -> str:
        """A link of the listing as a path below the marketplace; UnexpectedAnswer for one that
        could lead the credentials elsewhere."""
        parts = urlsplit(self._url(link)) if _is_plain_path(link) else None
        if parts is None or (parts.scheme, parts.netloc) != urlsplit(self._address)[:2]:
            raise UnexpectedResponse("its next page is at an address that is not its own")
        return link

    def _url(self, path: str) -> str:
        return f"{self._address}/marketplace{path}"

    # --- One request --------------------------------------------------------------------------

    def _get(self, path: str, parameters: dict[str, str], decode: Decode[ResponseT]) -> ResponseT:
        """The answer, in several attempts where the marketplace is unavailable."""
        waited = 0.0
        for attempt in range(self._patience.attempts):
            try:
                return self._attempt(path, parameters, decode)
            except MarketplaceUnavailable as failure:
                pause = self._pause(attempt, failure.retry_after)
                is_last = attempt + 1 == self._patience.attempts
                is_late = pause > self._deadline - time.monotonic()
                if is_last or is_late or waited + pause > self._patience.max_total_delay:
                    raise
                waited += pause
                self._patience.sleep(pause)
        raise AssertionError("unreachable")

    def _pause(self, attempt: int, retry_after: float | None) -> float:
        backoff = BASE_DELAY * 2.0**attempt * self._patience.jitter()
        return max(backoff, retry_after or 0.0)

    def _attempt(
        self, path: str, parameters: dict[str, str], decode: Decode[ResponseT]
    ) -> ResponseT:
        seconds = min(self._patience.request, self._deadline - time.monotonic())
        if seconds <= 0:
            raise MarketplaceUnavailable("its answers take too long")
        fetch = partial(self._fetch, path, parameters, seconds)
        try:
            response, body = self._caller.run(seconds, fetch)
        except deadlines.DeadlineExceeded:
            raise MarketplaceUnavailable("its answer takes too long") from None
        except requests.exceptions.ContentDecodingError:
            raise UnexpectedResponse("its compressed answer is damaged") from None
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            # The library's text holds addresses and, for a proxy, more; its kind says enough.
            raise MarketplaceUnavailable(_network_reason(error)) from None
        try:
            return decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise UnexpectedResponse(_what_it_is(response, body)) from None

    def _fetch(
        self, path: str, parameters: dict[str, str], seconds: float
    ) -> tuple[requests.Response, bytes]:
        with self._session.get(
            self._url(path),
            params=parameters,
            headers=self._headers,
            # Of each step. What all of them take is limited by whoever waits for this.
            timeout=(min(CONNECT_TIMEOUT, seconds), seconds),
            allow_redirects=False,
            stream=True,
        ) as response:
            self._raise_for_status(response)
            return response, _read(response)

    def _raise_for_status(self, response: requests.Response) -> None:
        status = response.status_code
        if status == 200:
            return
        if status == 401:
            raise CredentialsRejected
        if status == 403:
            raise MarketplaceForbidden
        if status in (404, 410):
            raise MarketplaceNotFound(status)
        if status in (408, 429) or status >= 500:
            after = parse_retry_after(response.headers.get("Retry-After"), self._patience.now())
            raise MarketplaceUnavailable(f"it answered {status}", after)
        if status == 400:
            raise MarketplaceBadRequest
        if 300 <= status < 400:
            raise UnexpectedResponse("it redirects elsewhere")
        raise UnexpectedResponse(f"it answered {status}")


def new_session() -> requests.Session:
    """A session that takes nothing from the environment, keeps no cookies and ends by deadlines."""
    session = requests.Session()
    session.trust_env = False
    for scheme in ("http://", "https://"):
        session.mount(scheme, deadlines.DeadlineAdapter())
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return session


def create_client(
    credentials: Credentials, patience: RetryPolicy = INTERACTIVE_RETRY_POLICY
) -> MarketplaceClient:
    """A client for the marketplace of the setting MARKETPLACE_API_URL; unless told otherwise it
    gives up within seconds, as a page needs it."""
    return MarketplaceClient(new_session(), settings.MARKETPLACE_API_URL, credentials, patience)


def parse_retry_after(header: str | None, now: datetime) -> float | None:
    """The seconds that a Retry-After header asks for, given in seconds or as an HTTP date."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return min(float(header), 86_400.0)
    try:
        when = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max((when - now).total_seconds(), 0.0)


def _is_plain_path(link: str) -> bool:
    decoded = unquote(link)
    return (
        link.startswith("/")
        and not link.startswith("//")
        and not any(bad in decoded for bad in ("..", "@", "\\", " "))
        and decoded.isprintable()
    )


def _cursor(link: str) -> str:
    """What tells one page of the listing from another: its cursor, or the whole link."""
    return parse_qs(urlsplit(link).query).get("cursor", [link])[-1]


def _read(response: requests.Response) -> bytes:
    """The answer's body; UnexpectedAnswer for one over the limit, packed or not."""
    body = bytearray()
    for chunk in response.iter_content(_CHUNK):
        body += chunk
        if len(body) > MAX_RESPONSE_BYTES:
            raise UnexpectedResponse(f"it is larger than {MAX_RESPONSE_BYTES // 1024**2} MB")
    return bytes(body)


def _network_reason(error: Exception) -> str:
    if isinstance(error, requests.exceptions.ConnectTimeout | requests.exceptions.ReadTimeout):
        return "it does not answer in time"
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not trusted"
    return "the connection failed"


def _what_it_is(response: requests.Response, body: bytes) -> str:
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind == "text/html" or body.lstrip()[:1] == b"<":
        return "it is a web page"
    try:
        msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "it is no complete JSON"
    return "its JSON has another shape than before"
