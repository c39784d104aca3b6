"""What is the same for all CRMs: fields, values, results, and one request."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import msgspec
from django.conf import settings

from core.outbound.requests import OutboundRequest, Result, send_now
from destinations.models import REMOTE_ID_LENGTH, RecordDestination
from destinations.records import Value

FieldType: TypeAlias = Literal["text", "number", "boolean", "day", "time", "choice", "other"]
# Called before each request. Raises Throttled.
Count: TypeAlias = Callable[[], None]
SECONDS = 30.0
MAX_RESPONSE = 8_000_000
# Queries are a part of the address. Salesforce takes 16,384 characters.
MAX_URL = 16_000
# The longest message of a vendor that is kept.
MESSAGE_LENGTH = 500


class VendorError(Exception):
    """The vendor cannot be reached or fails. The text is a sentence for people."""


class CredentialsRejected(VendorError):
    """The vendor does not accept the key."""


class NotAllowed(VendorError):
    """The key lacks a right, or a field is gone. The text says which."""


class Throttled(VendorError):
    """Too many requests. ``seconds`` is how long to wait; None is until the next UTC day."""

    def __init__(self, text: str, seconds: float | None) -> None:
        super().__init__(text)
        self.seconds = seconds


class Unconfirmed(VendorError):
    """The vendor said nothing about any row of a batch, as of records that were all merged."""


class BatchRejected(VendorError):
    """Nothing of the batch was written, because of one row or several. The text is the vendor's."""


class Field(msgspec.Struct, frozen=True):
    """A field of the vendor's records, which the service may write."""

    name: str
    label: str
    type: FieldType
    is_unique: bool = False
    options: tuple[str, ...] = ()
    # A record cannot be created without it.
    is_required: bool = False
    # False of a name that each record has, and of a checkbox, which is off then.
    is_nullable: bool = True
    # The longest text, and the decimal places of a number; None if nobody said so.
    length: int | None = None
    scale: int | None = None

    @property
    def can_be_cleared(self) -> bool:
        return self.is_nullable or self.type == "boolean"


def stored_fields(destination: RecordDestination) -> dict[str, Field]:
    """The vendor's fields as last read, by their names."""
    return {each.name: each for each in msgspec.convert(destination.fields, list[Field])}


class Write(NamedTuple):
    """A record to update, or with an id of ours to create, and the values of its fields."""

    remote_id: str
    values: Mapping[str, Value]


class Written(NamedTuple):
    """What became of a write. ``is_gone`` says that there is no such record any more."""

    remote_id: str = ""
    error: str = ""
    is_gone: bool = False
    is_new: bool = False


@dataclass
class Client(ABC):
    """Reads and writes the records of one kind. All methods raise VendorError."""

    destination: RecordDestination
    count: Count
    # The vendor's requests of a day for all, once it has said so.
    daily_limit: int | None = None

    # The usual number of requests a day, the largest batch, and the field with a site's domain.
    usual_limit: ClassVar[int]
    batch: ClassVar[int]
    domain_fields: ClassVar[frozenset[str]]

    @property
    def is_of_accounts(self) -> bool:
        return self.destination.scope == RecordDestination.Scope.ACCOUNT

    @staticmethod
    def record_id(text: str) -> str:
        """The id as the vendor returns it; empty if it is none."""
        return text if text.isalnum() and len(text) <= REMOTE_ID_LENGTH else ""

    @abstractmethod
    def fields(self) -> list[Field]:
        """The fields that can be written."""

    @abstractmethod
    def find(self, field: Field, values: Sequence[str]) -> dict[str, set[str]]:
        """The ids of the records whose field has one of the values, by the value in lower case."""

    @abstractmethod
    def read(self, ids: Sequence[str], fields: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The values of the records that are there, by their ids."""

    @abstractmethod
    def update(self, writes: Sequence[Write]) -> list[Written]:
        """Update the records; return what became of each. Raises BatchRejected."""

    @abstractmethod
    def upsert(self, id_field: str, writes: Sequence[Write]) -> list[Written]:
        """Update or create the records by the unique field. Raises BatchRejected."""

    def request(
        self, method: str, url: str, body: Any = None, *, token: str, form: str = ""
    ) -> Result:
        """Send a request with the body as JSON, or with the form. Raises VendorError if there was
        no response."""
        self.count()
        content = form.encode() if form or body is None else json.dumps(body).encode()
        headers = {
            "Content-Type": f"application/{'x-www-form-urlencoded' if form else 'json'}",
            "User-Agent": settings.USER_AGENT,
        }
        if token:
            headers["Authorization"] = f"Bearer {token}"
        outbound = OutboundRequest(
            url, content, headers, method=method, length=MAX_RESPONSE, url_length=MAX_URL
        )
        result = send_now(outbound, SECONDS)
        if result.status is None or 300 <= result.status < 400:
            raise VendorError(f"The CRM cannot be reached. {result.error}")
        return result


def decode(result: Result) -> dict[str, Any]:
    """The response's object; empty if it is none."""
    try:
        body = json.loads(result.response)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def cut(text: Any) -> str:
    return str(text)[:MESSAGE_LENGTH]


def whole_points(value: float) -> int:
    """The nearest whole number; halves go up."""
    return math.floor(value + 0.5)


def as_text(value: Value) -> str:
    """The value in a field of text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def fitting(field: Field, value: Value) -> Value:
    """The value as the field takes it, so that what is read afterwards equals what was sent."""
    if value is None or value == "":
        return None if field.is_nullable else False
    match field.type:
        case "number":
            try:
                number = float(value)
            except ValueError:
                return value
            if not math.isfinite(number):
                return value
            number = number if field.scale is None else round(number, field.scale)
            return int(number) if number.is_integer() else number
        case "boolean":
            return {"true": True, "false": False}.get(str(value).lower(), value)
        case "time" if len(str(value)) == len("2026-01-01"):
            return f"{value}T00:00:00Z"
        case "text" | "choice":
            # A part of our id would be the id of nobody, or of somebody else.
            return as_text(value)[: None if field.is_unique else field.length]
    return value


def is_same(field: Field, ours: Value, theirs: Any) -> bool:
    """Whether the record's field has our value already."""
    if ours is None or theirs in (None, ""):
        return ours in (None, "") and theirs in (None, "")
    if field.type in ("day", "time"):
        return str(ours)[:10] == _day(theirs)
    if isinstance(ours, bool):
        return str(ours).lower() == str(theirs).lower()
    try:
        return math.isclose(float(ours), float(theirs), abs_tol=1e-9)
    except ValueError:
        return str(ours) == str(theirs)


def _day(theirs: Any) -> str:
    """The UTC day of a date, of a time, or of milliseconds since 1970."""
    if str(theirs).lstrip("-").isdecimal():
        return datetime.fromtimestamp(int(theirs) / 1000, UTC).date().isoformat()
    return str(theirs)[:10]
