"""HTTP client for the marketplace endpoints that the connection uses.

Source: edition 4 of the Marketplace REST API's documentation, whose paths begin with /rest/3:
https://developer.atlassian.com/platform/marketplace/rest/v4/.
"""

import base64
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import partial
from http.cookiejar import DefaultCookiePolicy
from typing import Any, ClassVar, Final, Protocol, TypeAlias, TypeVar
from urllib.parse import parse_qs, quote, unquote, urlsplit

import msgspec
import requests
import urllib3
from django.conf import settings
from django.utils import timezone

from core.jobs.backoff import Backoff
from marketplace.source import deadlines, exports, pages
from marketplace.source.deadlines import Sockets
from marketplace.source.errors import MarketplaceUnavailable, UnexpectedResponse
from marketplace.source.exports import ExportState, RecordSplitter
from marketplace.source.pages import ReportPage
from marketplace.source.responses import (
    CHUNK_BYTES,
    mismatch,
    network_reason,
    raise_for_status,
    read_body,
)

PAGE_SIZE: Final = 50
CONNECT_TIMEOUT = 5.0
# An export of a large vendor, from its first byte to its last, in seconds.
MAX_EXPORT_DURATION = 600.0
MAX_LISTING_PAGES = 100
# Half a second before the second attempt, on average.
BACKOFF = Backoff(timedelta(seconds=0.5), 2, timedelta(minutes=1), jitter=1.0)

Result = TypeVar("Result")
ResponseT = TypeVar("ResponseT")
# Decodes the body of a response; raises what msgspec raises.
Decode: TypeAlias = Callable[[bytes], ResponseT]


@dataclass(frozen=True)
class Credentials:
    """User name and API token, sent as HTTP Basic authentication. ``repr`` hides both."""

    user_name: str = field(repr=False)
    token: str = field(repr=False)

    def header(self) -> str:
        # Not by requests, which encodes in Latin-1.
        pair = f"{self.user_name}:{self.token}".encode()
        return "Basic " + base64.b64encode(pair).decode()


@dataclass(frozen=True)
class App:
    """One of a vendor's apps. License reports refer to it by ``product_id``."""

    product_id: str
    key: str
    name: str


class ReportQuery(Protocol):
    """A list of a report, which is at *path* below the vendor's reports. Its pages have their
    records in the list *records_name*."""

    @property
    def path(self) -> str: ...

    @property
    def records_name(self) -> str: ...

    def parameters(self) -> dict[str, str]: ...


@dataclass(frozen=True)
class LicenseQuery:
    """A list of licenses. Always free licenses and those of each special cloud (*boundary*) are
    lists of their own."""

    product_id: str
    updated_since: date | None = None
    always_free: bool = False
    boundary: str | None = None
    # The licenses of the list that started in these days, both included.
    first_day: date | None = None
    last_day: date | None = None
    with_insights: bool = True
    includes_staff: bool = False
    # Each state that a license had is a record of its own.
    with_history: bool = False
    # Only licenses that have this text somewhere.
    text: str | None = None

    path: ClassVar[str] = "licenses"
    records_name: ClassVar[str] = "licenses"

    @property
    def list_name(self) -> str:
        return "always_free" if self.always_free else self.boundary or "all"

    def parameters(self) -> dict[str, str]:
        parameters = {
            "productId": self.product_id,
            "withDataInsights": "true" if self.with_insights else None,
            "lastUpdated": _iso(self.updated_since),
            "showLifeTimeFreeLicenses": "true" if self.always_free else None,
            "cloudComplianceBoundaries": self.boundary,
            "startDate": _iso(self.first_day),
            "endDate": _iso(self.last_day),
            "includeAtlassianLicenses": "true" if self.includes_staff else None,
            "showLicensesHistory": "true" if self.with_history else None,
            "text": self.text,
        }
        return {name: value for name, value in parameters.items() if value is not None}


@dataclass(frozen=True)
class RowsQuery:
    """A list of another report: the rows of these days (both included), or those that were updated
    since a day."""

    path: str
    records_name: str
    product_id: str
    first_day: date | None = None
    last_day: date | None = None
    updated_since: date | None = None

    def parameters(self) -> dict[str, str]:
        parameters = {
            "productId": self.product_id,
            "startDate": _iso(self.first_day),
            "endDate": _iso(self.last_day),
            "lastUpdated": _iso(self.updated_since),
        }
        return {name: value for name, value in parameters.items() if value is not None}


def _iso(day: date | None) -> str | None:
    return day.isoformat() if day else None


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
    """How long a client tries; times are in seconds.

    A request gets *attempts* attempts, each at most *request_timeout* from connecting to the last
    byte. The pauses between them add up to at most *max_total_delay*. All requests of the client
    together take at most *total_timeout*.
    """

    attempts: int
    request_timeout: float
    max_total_delay: float
    total_timeout: float
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], datetime] = timezone.now
    backoff: Backoff = BACKOFF


# For the workers of syncs.
BACKGROUND_RETRY_POLICY = RetryPolicy(
    attempts=4, request_timeout=45.0, max_total_delay=60.0, total_timeout=120.0
)
# For pages that a person waits for.
INTERACTIVE_RETRY_POLICY = RetryPolicy(
    attempts=2, request_timeout=10.0, max_total_delay=3.0, total_timeout=25.0
)


class MarketplaceClient:
    """A client of the marketplace at *base_url* with one set of credentials.

    Each call raises a MarketplaceError; MarketplaceUnavailable only after several attempts.
    """

    def __init__(
        self,
        session: requests.Session,
        base_url: str,
        credentials: Credentials,
        retry_policy: RetryPolicy,
    ) -> None:
        self._session = session
        self._base_url = base_url.rstrip("/")
        self._headers = {
            **session.headers,
            "Authorization": credentials.header(),
            "Accept": "application/json",
            "User-Agent": settings.USER_AGENT,
        }
        self._retry_policy = retry_policy
        self._deadline_runner = deadlines.DeadlineRunner()
        self._deadline = time.monotonic() + retry_policy.total_timeout

    def developer_id(self, vendor_id: str) -> str:
        """The developer ID of the vendor."""
        path = f"/rest/3/developer-space/vendor/{quote(vendor_id, safe='')}"
        developer_id = self._get(path, {}, _VENDOR).developer_id
        if not developer_id.strip():
            raise UnexpectedResponse("it contains no developer ID")
        return developer_id

    def apps(self, developer_id: str) -> Iterator[App]:
        """The vendor's apps, including private ones, page by page."""
        path = f"/rest/3/product-listing/developer-space/{quote(developer_id, safe='')}"
        page = self._get(path, {"limit": str(PAGE_SIZE), "includePrivate": "true"}, _LISTING)
        cursors: set[str] = set()
        yield from (item.app() for item in page.items)
        while page.links and page.links.next:
            link = self._checked(page.links.next)
            cursor = _cursor(link)
            if cursor in cursors or len(cursors) >= MAX_LISTING_PAGES:
                raise UnexpectedResponse("its list of apps does not end")
            cursors.add(cursor)
            page = self._get(link, {}, _LISTING)
            yield from (item.app() for item in page.items)

    def licenses(self, developer_id: str, query: LicenseQuery, offset: int) -> ReportPage:
        """The page of licenses that begins at *offset*."""
        return self.page(developer_id, query, offset)

    def page(self, developer_id: str, query: ReportQuery, offset: int) -> ReportPage:
        """The page of a report that begins at *offset*, a number of records."""
        parameters = {**query.parameters(), "limit": str(PAGE_SIZE), "offset": str(offset)}
        decode = partial(pages.decode_page, name=query.records_name)
        return self._get(f"{_reports_path(developer_id)}/{query.path}", parameters, decode)

    def listed_reports(self, developer_id: str) -> frozenset[str]:
        """The addresses of the reports that the account may read, as far as the marketplace says
        so."""
        return self._get(f"{_reports_path(developer_id)}/", {}, _decode_addresses)

    def start_export(self, developer_id: str, query: ReportQuery) -> str:
        """Request an export of the list, and return its id. Requesting the same list again returns
        the same export."""
        parameters = {**query.parameters(), "accept": "json"}
        path = _export_path(developer_id, query.path)
        response = self._request("POST", path, parameters, exports.decode_response)
        if not (export_id := response.export_id()):
            raise UnexpectedResponse("it contains no export ID")
        return export_id

    def export_state(
        self, developer_id: str, export_id: str, report: str = LicenseQuery.path
    ) -> ExportState:
        """What has become of the export. The address is ours: the links lack parts of it."""
        path = f"{_export_path(developer_id, report)}/{quote(export_id, safe='')}/status"
        return self._get(path, {}, exports.decode_response).state()

    def export_records(
        self, developer_id: str, export_id: str, report: str = LicenseQuery.path
    ) -> Generator[msgspec.Raw, None, None]:
        """The JSON of each record in a completed export, while it is being received.

        The caller closes the iterator. Raises MarketplaceNotFound until the file is there.
        """
        path = f"{_export_path(developer_id, report)}/{quote(export_id, safe='')}"
        splitter = RecordSplitter()
        with closing(self._stream(path)) as chunks:
            for chunk in chunks:
                yield from splitter.feed(chunk)
        splitter.end()

    def _checked(self, link: str) -> str:
        """The link, unless it could send the credentials elsewhere; then raise
        UnexpectedResponse."""
        parts = urlsplit(self._url(link)) if _is_plain_path(link) else None
        if parts is None or (parts.scheme, parts.netloc) != urlsplit(self._base_url)[:2]:
            raise UnexpectedResponse("its link to the next page leads elsewhere")
        return link

    def _url(self, path: str) -> str:
        return f"{self._base_url}/marketplace{path}"

    # --- One request --------------------------------------------------------------------------

    def _get(self, path: str, parameters: dict[str, str], decode: Decode[ResponseT]) -> ResponseT:
        return self._request("GET", path, parameters, decode)

    def _request(
        self, method: str, path: str, parameters: dict[str, str], decode: Decode[ResponseT]
    ) -> ResponseT:
        """The decoded response, after several attempts if the marketplace is unavailable."""
        total_delay = 0.0
        for attempt in range(self._retry_policy.attempts):
            try:
                return self._attempt(method, path, parameters, decode)
            except MarketplaceUnavailable as failure:
                delay = self._delay(attempt, failure.retry_after)
                total_delay += delay
                is_last = attempt + 1 == self._retry_policy.attempts
                is_late = delay > self._deadline - time.monotonic()
                if is_last or is_late or total_delay > self._retry_policy.max_total_delay:
                    raise
                self._retry_policy.sleep(delay)
        raise AssertionError("unreachable")

    def _delay(self, attempt: int, retry_after: float | None) -> float:
        backoff = self._retry_policy.backoff.delay(attempt + 1)
        return max(backoff.total_seconds(), retry_after or 0.0)

    def _attempt(
        self, method: str, path: str, parameters: dict[str, str], decode: Decode[ResponseT]
    ) -> ResponseT:
        seconds = min(self._retry_policy.request_timeout, self._deadline - time.monotonic())
        if seconds <= 0:
            raise MarketplaceUnavailable("its responses take too long", is_late=True)
        response, body = self._limited(
            seconds, partial(self._fetch, method, path, parameters, seconds)
        )
        try:
            return decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise UnexpectedResponse(mismatch(response, body)) from None

    def _limited(
        self, seconds: float, step: Callable[[], Result], sockets: Sockets | None = None
    ) -> Result:
        """What *step* returns within this time. Raises a MarketplaceError."""
        try:
            return self._deadline_runner.run(seconds, step, sockets)
        except deadlines.DeadlineExceeded:
            raise MarketplaceUnavailable("its response takes too long", is_late=True) from None
        except requests.exceptions.ContentDecodingError:
            raise UnexpectedResponse("its compressed data is damaged") from None
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            # The library's message may contain URLs and, with a proxy, credentials.
            raise MarketplaceUnavailable(network_reason(error)) from None

    def _fetch(
        self, method: str, path: str, parameters: dict[str, str], seconds: float
    ) -> tuple[requests.Response, bytes]:
        with self._open(method, path, parameters, seconds) as response:
            return response, read_body(response)

    def _open(
        self, method: str, path: str, parameters: dict[str, str], seconds: float
    ) -> requests.Response:
        """A response whose body is not read yet."""
        # Not by the session, which takes as long to merge its defaults as to send the request.
        request = requests.Request(
            method, self._url(path), self._headers, params=parameters, hooks=self._session.hooks
        ).prepare()
        # The timeout is for each step; the deadline runner limits the sum.
        timeout = (min(CONNECT_TIMEOUT, seconds), seconds)
        response = self._session.send(request, timeout=timeout, allow_redirects=False, stream=True)
        try:
            raise_for_status(response, self._retry_policy.now())
        except BaseException:
            response.close()
            raise
        return response

    def _stream(self, path: str) -> Generator[bytes, None, None]:
        """The body, chunk by chunk. Each chunk has the time of a request, and the whole
        MAX_EXPORT_DURATION."""
        step_seconds = self._retry_policy.request_timeout
        deadline = time.monotonic() + MAX_EXPORT_DURATION
        with closing(Sockets()) as sockets:
            open_response = partial(self._open, "GET", path, {}, step_seconds)
            with self._limited(step_seconds, open_response, sockets) as response:
                chunks = response.iter_content(CHUNK_BYTES)
                next_chunk = partial(next, chunks, b"")
                while chunk := self._limited(
                    min(step_seconds, deadline - time.monotonic()), next_chunk, sockets
                ):
                    yield chunk


def new_session(proxies: Mapping[str, str] | None = None, ca_bundle: str = "") -> requests.Session:
    """A session with deadlines that ignores cookies and the environment, credentials in .netrc
    included. *proxies* are by scheme; *ca_bundle* is the path of certificates to trust."""
    session = requests.Session()
    session.trust_env = False
    session.proxies.update(proxies or {})
    session.verify = ca_bundle or True
    for scheme in ("http://", "https://"):
        session.mount(scheme, deadlines.DeadlineAdapter())
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return session


def create_client(
    credentials: Credentials, retry_policy: RetryPolicy = INTERACTIVE_RETRY_POLICY
) -> MarketplaceClient:
    """A client for the marketplace at the setting MARKETPLACE_API_URL."""
    session = new_session(settings.MARKETPLACE_PROXIES, settings.MARKETPLACE_CA_BUNDLE)
    return MarketplaceClient(session, settings.MARKETPLACE_API_URL, credentials, retry_policy)


# Creates a client for the credentials, as ``create_client`` does.
ClientFactory: TypeAlias = Callable[[Credentials], MarketplaceClient]


def _reports_path(developer_id: str) -> str:
    return f"/rest/3/reporting/developer-space/{quote(developer_id, safe='')}"


def _export_path(developer_id: str, report: str) -> str:
    return f"{_reports_path(developer_id)}/{report}/async/export"


def _decode_addresses(body: bytes) -> frozenset[str]:
    """The texts in the JSON that are addresses. Raises what msgspec raises."""
    addresses: set[str] = set()
    rest: list[Any] = [msgspec.json.decode(body, type=dict[str, Any])]
    while rest:
        value = rest.pop()
        if isinstance(value, dict | list):
            rest += value.values() if isinstance(value, dict) else value
        elif isinstance(value, str) and value.startswith(("/", "http")):
            addresses.add(value)
    return frozenset(addresses)


def _is_plain_path(link: str) -> bool:
    decoded = unquote(link)
    return (
        link.startswith("/")
        and not link.startswith("//")
        and not any(part in decoded for part in ("..", "@", "\\", " "))
        and decoded.isprintable()
    )


def _cursor(link: str) -> str:
    """The cursor of a listing page, which identifies it; the link itself if it has none."""
    return parse_qs(urlsplit(link).query).get("cursor", [link])[-1]
