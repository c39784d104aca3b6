"""The faults of a marketplace. Each one changes the response to some requests.

The tag of a fault is its name at the control endpoint ``/simulator/misbehave``.
"""

import gzip
import json
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

JSON = "application/json"
HTML = b"<!doctype html><title>Log in</title><p>Please log in to continue.</p>"
ERROR_BODIES: dict[int, Any] = {
    401: {"code": 401, "message": "Unauthorized"},
    429: {"code": 429, "message": "Rate limit exceeded"},
}


class Endpoint(StrEnum):
    VENDOR = "vendor"
    LISTING = "listing"
    LICENSES = "licenses"
    EXPORT = "export"
    EXPORT_STATUS = "export_status"
    EXPORT_FILE = "export_file"
    # Reports beside the licenses. An export's file endpoint is that of its status, too.
    CAPABILITIES = "capabilities"
    TRANSACTIONS = "transactions"
    TRANSACTIONS_EXPORT = "transactions_export"
    TRANSACTIONS_EXPORT_FILE = "transactions_export_file"
    FEEDBACK = "feedback"
    CHURN = "churn"
    CONVERSION = "conversion"
    RENEWAL = "renewal"
    HISTORY = "history"
    HISTORY_EXPORT = "history_export"
    HISTORY_EXPORT_FILE = "history_export_file"


@dataclass(frozen=True)
class SimulatedResponse:
    """What the server sends. *content_length* is the header's value, None for the true length."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    content_length: int | None = None
    drops_connection: bool = False
    # Seconds between two bytes of the body, or also of the headers.
    trickle: float = 0.0
    trickles_headers: bool = False

    @classmethod
    def from_value(cls, value: Any, status: int = 200) -> "SimulatedResponse":
        return cls(status, msgspec.json.encode(value))


def error_response(status: int, detail: str = "") -> SimulatedResponse:
    """An error response in the structure of the marketplace."""
    error = {"status": str(status), "code": "ERROR", "title": "The request failed."}
    body = ERROR_BODIES.get(status, {"errors": [{**error, "detail": detail}]})
    return SimulatedResponse.from_value(body, status)


class Fault(msgspec.Struct, tag_field="fault", kw_only=True, forbid_unknown_fields=True):
    """A fault of an endpoint (None: of all) at a page offset (None: at all).

    It spares the first *after* requests and then affects *times* of them (None: until removed).
    """

    on: Endpoint | None = None
    offset: int | None = None
    after: int = 0
    times: int | None = None

    def count_match(self, endpoint: Endpoint | None, offset: int) -> bool:
        """Count a request to the endpoint and page; return whether the fault affects it."""
        if self.on not in (None, endpoint) or self.offset not in (None, offset) or self.times == 0:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True

    def apply(self, response: SimulatedResponse) -> SimulatedResponse:
        """The response to send instead."""
        return response

    def shift(self, page: int) -> int:
        """The number of rows that the list has moved before the page with this number."""
        return 0


class ErrorStatus(Fault, tag="status"):
    """An HTTP error status, optionally with a Retry-After header (seconds or an HTTP date)."""

    status: int
    retry_after: str | None = None

    def apply(self, response: SimulatedResponse) -> SimulatedResponse:
        headers = {} if self.retry_after is None else {"Retry-After": self.retry_after}
        return replace(error_response(self.status, "Simulated fault."), headers=headers)


class Latency(Fault, tag="slow"):
    """The correct response after a delay."""

    seconds: float

    def apply(self, response: SimulatedResponse) -> SimulatedResponse:
        time.sleep(self.seconds)
        return response


class Trickle(Fault, tag="drip"):
    """The correct response byte by byte: no read times out, and the response never ends."""

    seconds: float
    headers: bool = False

    def apply(self, response: SimulatedResponse) -> SimulatedResponse:
        return replace(response, trickle=self.seconds, trickles_headers=self.headers)


class HtmlPage(Fault, tag="html"):
    """A web page, as from a login or a proxy."""

    status: int = 200

    def apply(self, response: SimulatedResponse) -> SimulatedResponse:
        return SimulatedResponse(self.status, HTML, "text/html; charset=utf-8")


class TruncatedJson(Fault, tag="truncated"):
    """Half of the JSON in a complete HTTP response."""

    def apply(self, response: SimulatedResponse) -> SimulatedResponse:
        return replace(response, body=response.body[: len(response.body) // 2])


class IncompleteBody(Fault, tag="cut_off"):
    """A connection that closes after half of the body."""

    def apply(self, response: SimulatedResponse) -> SimulatedResponse:
        half = response.body[: len(response.body) // 2]
        return replace(response, body=half, content_length=len(response.body))


class ConnectionDrop(Fault, tag="hang_up"):
    """A connection that closes without a response."""

    def apply(self, response: SimulatedResponse) -> SimulatedResponse:
        return replace(response, drops_connection=True)


class UnexpectedJson(Fault, tag="shape"):
    """Valid JSON with an unexpected structure."""

    value: Any = None

    def apply(self, response: SimulatedResponse) -> SimulatedResponse:
        return SimulatedResponse.from_value(self.value)


class OversizedBody(Fault, tag="huge"):
    """A body of this many megabytes; *packed* sends it compressed."""

    megabytes: int
    packed: bool = False

    def apply(self, response: SimulatedResponse) -> SimulatedResponse:
        padded = response.body + b" " * (self.megabytes * 1024 * 1024)
        if not self.packed:
            return replace(response, body=padded)
        return replace(response, body=gzip.compress(padded), headers={"Content-Encoding": "gzip"})


class Redirect(Fault, tag="redirect"):
    """A redirect, which must not receive the credentials."""

    to: str

    def apply(self, response: SimulatedResponse) -> SimulatedResponse:
        return SimulatedResponse(302, headers={"Location": self.to})


class NextLink(Fault, tag="next"):
    """A page of apps or licenses with this link to the next page."""

    link: Any

    def apply(self, response: SimulatedResponse) -> SimulatedResponse:
        if response.status != 200:
            return response
        page = json.loads(response.body)
        if "licenses" in page:
            page["_links"]["next"] = {"href": self.link}
        else:
            page["links"]["next"] = self.link
        return SimulatedResponse.from_value(page)


class PaginationDrift(Fault, tag="shifting"):
    """Pagination drift: before each page, this many new rows appear at the front of the list.

    Each page repeats as many rows of the previous one. With a page's worth of rows, the first page
    repeats forever.
    """

    rows: int

    def shift(self, page: int) -> int:
        return self.rows * page


class WrongTotal(Fault, tag="total"):
    """A page of licenses that reports this length of its list."""

    total: Any

    def apply(self, response: SimulatedResponse) -> SimulatedResponse:
        if response.status != 200:
            return response
        page = json.loads(response.body)
        page["totalCount"] = self.total
        return SimulatedResponse.from_value(page)


class ShortPage(Fault, tag="short"):
    """A page of only the first *rows* licenses, though more follow. With 0 rows it is empty."""

    rows: int

    def apply(self, response: SimulatedResponse) -> SimulatedResponse:
        if response.status != 200:
            return response
        page = json.loads(response.body)
        if len(page["licenses"]) > self.rows:
            page["licenses"] = page["licenses"][: self.rows]
            page["_links"]["next"] = {"href": "/licenses?more"}
        return SimulatedResponse.from_value(page)


class EndlessLink(Fault, tag="endless"):
    """A link to a next page even on empty pages after the end."""

    def apply(self, response: SimulatedResponse) -> SimulatedResponse:
        if response.status != 200:
            return response
        page = json.loads(response.body)
        page["_links"]["next"] = {"href": "/licenses?more"}
        return SimulatedResponse.from_value(page)


class Circle(Fault, tag="circle"):
    """A list whose first pages come again and again."""

    pages: int

    def shift(self, page: int) -> int:
        return page // self.pages * self.pages * 50

    def apply(self, response: SimulatedResponse) -> SimulatedResponse:
        return EndlessLink().apply(response)


class SamePage(Fault, tag="same_page"):
    """The first page again, whatever the offset, with a link to more."""

    def shift(self, page: int) -> int:
        return sys.maxsize

    def apply(self, response: SimulatedResponse) -> SimulatedResponse:
        return EndlessLink().apply(response)


class ExportStatus(Fault, tag="export_status"):
    """An export in this state, such as QUEUED, IN_PROGRESS, or FAILED."""

    status: str

    def apply(self, response: SimulatedResponse) -> SimulatedResponse:
        body = json.loads(response.body)
        body["export"]["status"] = self.status
        return SimulatedResponse.from_value(body)


class Faults:
    """The current faults. Safe for requests from several threads."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, *faults: Fault) -> None:
        with self._lock:
            self._faults += faults

    def clear(self) -> None:
        with self._lock:
            self._faults = []

    def current(self) -> list[Fault]:
        with self._lock:
            return list(self._faults)

    def matching(self, endpoint: Endpoint | None, offset: int) -> list[Fault]:
        with self._lock:
            return [fault for fault in self._faults if fault.count_match(endpoint, offset)]


AnyFault: TypeAlias = (
    ErrorStatus
    | Latency
    | Trickle
    | HtmlPage
    | TruncatedJson
    | IncompleteBody
    | ConnectionDrop
    | UnexpectedJson
    | OversizedBody
    | Redirect
    | NextLink
    | PaginationDrift
    | WrongTotal
    | ShortPage
    | EndlessLink
    | Circle
    | SamePage
    | ExportStatus
)
