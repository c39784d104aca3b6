"""The ways in which a marketplace misbehaves. Each changes the answer to some requests."""

import gzip
import json
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


@dataclass(frozen=True)
class SimulatedResponse:
    """What goes over the wire. *declared* is the Content-Length where that is not the truth."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    content_length: int | None = None
    hang_up: bool = False
    # Seconds between two bytes; of the headers, too, or of the body alone.
    drip: float = 0.0
    drips_headers: bool = False

    @classmethod
    def of(cls, value: Any, status: int = 200) -> "SimulatedResponse":
        return cls(status, msgspec.json.encode(value))


def error_response(status: int, detail: str = "") -> SimulatedResponse:
    """An error in the shape in which the marketplace words it."""
    error = {"status": str(status), "code": "ERROR", "title": "The request failed."}
    body = ERROR_BODIES.get(status, {"errors": [{**error, "detail": detail}]})
    return SimulatedResponse.of(body, status)


class Fault(msgspec.Struct, tag_field="fault", kw_only=True, forbid_unknown_fields=True):
    """Befalls requests to an endpoint (None: to each) for the page at an offset (None: for each):
    not the first *after* of them, then so many *times* (None: until it is lifted)."""

    on: Endpoint | None = None
    offset: int | None = None
    after: int = 0
    times: int | None = None

    def count_match(self, endpoint: Endpoint | None, offset: int) -> bool:
        """Whether it befalls a request to this endpoint and page. Each call counts as one."""
        if self.on not in (None, endpoint) or self.offset not in (None, offset) or self.times == 0:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True

    def befall(self, answer: SimulatedResponse) -> SimulatedResponse:
        """What is answered instead."""
        return answer

    def shift(self, page: int) -> int:
        """By how many rows the list has moved when the page with this number is asked for."""
        return 0


class ErrorStatus(Fault, tag="status"):
    """An error; ``parse_retry_after`` is sent as it is, seconds or an HTTP date."""

    status: int
    retry_after: str | None = None

    def befall(self, answer: SimulatedResponse) -> SimulatedResponse:
        headers = {} if self.retry_after is None else {"Retry-After": self.retry_after}
        return replace(error_response(self.status, "Told to fail."), headers=headers)


class Slow(Fault, tag="slow"):
    """The right answer, late."""

    seconds: float

    def befall(self, answer: SimulatedResponse) -> SimulatedResponse:
        time.sleep(self.seconds)
        return answer


class Drip(Fault, tag="drip"):
    """The right answer, a byte at a time: never silent for long, and never done."""

    seconds: float
    headers: bool = False

    def befall(self, answer: SimulatedResponse) -> SimulatedResponse:
        return replace(answer, drip=self.seconds, drips_headers=self.headers)


class Html(Fault, tag="html"):
    """A page for people, as a login or a proxy shows it."""

    status: int = 200

    def befall(self, answer: SimulatedResponse) -> SimulatedResponse:
        return SimulatedResponse(self.status, HTML, "text/html; charset=utf-8")


class Truncated(Fault, tag="truncated"):
    """Half of the JSON, as if it were all."""

    def befall(self, answer: SimulatedResponse) -> SimulatedResponse:
        return replace(answer, body=answer.body[: len(answer.body) // 2])


class CutOff(Fault, tag="cut_off"):
    """Half of the answer, and then the connection is closed."""

    def befall(self, answer: SimulatedResponse) -> SimulatedResponse:
        half = answer.body[: len(answer.body) // 2]
        return replace(answer, body=half, content_length=len(answer.body))


class HangUp(Fault, tag="hang_up"):
    """No answer: the connection is closed."""

    def befall(self, answer: SimulatedResponse) -> SimulatedResponse:
        return replace(answer, hang_up=True)


class WrongShape(Fault, tag="shape"):
    """JSON of another shape."""

    value: Any = None

    def befall(self, answer: SimulatedResponse) -> SimulatedResponse:
        return SimulatedResponse.of(self.value)


class Huge(Fault, tag="huge"):
    """An answer padded to so many megabytes, or one that becomes so large when it is unpacked."""

    megabytes: int
    packed: bool = False

    def befall(self, answer: SimulatedResponse) -> SimulatedResponse:
        padded = answer.body + b" " * (self.megabytes * 1024 * 1024)
        if not self.packed:
            return replace(answer, body=padded)
        return replace(answer, body=gzip.compress(padded), headers={"Content-Encoding": "gzip"})


class Redirect(Fault, tag="redirect"):
    """Sends the caller elsewhere, with its credentials if it is careless."""

    to: str

    def befall(self, answer: SimulatedResponse) -> SimulatedResponse:
        return SimulatedResponse(302, headers={"Location": self.to})


class NextLink(Fault, tag="next"):
    """A listing or licenses page that names this as its next one."""

    link: Any

    def befall(self, answer: SimulatedResponse) -> SimulatedResponse:
        if answer.status != 200:
            return answer
        page = json.loads(answer.body)
        if "licenses" in page:
            page["_links"]["next"] = {"href": self.link}
        else:
            page["links"]["next"] = self.link
        return SimulatedResponse.of(page)


class Shifting(Fault, tag="shifting"):
    """So many rows come in at the front of the list between two pages of licenses, and push as
    many rows of a page onto the next one; with a whole page's rows the first is served for ever."""

    rows: int

    def shift(self, page: int) -> int:
        return self.rows * page


class Faults:
    """The faults that are in force. Requests come from several threads."""

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
    | Slow
    | Drip
    | Html
    | Truncated
    | CutOff
    | HangUp
    | WrongShape
    | Huge
    | Redirect
    | NextLink
    | Shifting
)
