"""What the SDKs have in common: the calls, the ways to write a time, and how requests are made."""

import base64
import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import uuid4

Message: TypeAlias = dict[str, Any]
Shape: TypeAlias = Callable[[Message], Message]
View: TypeAlias = Literal["page", "screen"]

# The path at which docs/sending-data.md tells people to point their SDKs.
PREFIX = "/segment"
# Where the sender is. Many SDKs write local times.
ZONE = timezone(timedelta(hours=2))
# How far the sender's clock is ahead of ours.
FAST = timedelta(hours=3)
AGO = timedelta(hours=1)
VIEWS: dict[View, str] = {"page": "Pricing", "screen": "Home"}


class Request(NamedTuple):
    """A request as it leaves the SDK."""

    # A path, or a whole address if the SDK makes one of its settings.
    url: str
    headers: dict[str, str]
    body: bytes
    method: str = "POST"
    # Without a length, as Java sends a stream.
    is_chunked: bool = False


@dataclass(frozen=True)
class Story:
    """What one sender says, with ids of its own, by its own clock."""

    key: str
    user: str | int
    account: str | int
    # When the sender's clock says that it happened, and that it is sent.
    at: datetime
    sent_at: datetime
    # The service's answer, if the SDK asks for its settings first.
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def former_id(self) -> str | int:
        """An id that the user had before. Nothing else names it."""
        return self.user + 1 if isinstance(self.user, int) else f"{self.user}-before"

    def calls(self, view: View, common: Message, shape: Shape | None = None) -> list[Message]:
        """All calls as messages, each with the *common* fields and an id of its own."""
        user = {"userId": self.user}
        calls: list[Message] = [
            {"type": "identify", **user, "traits": {"email": "ada@example.com", "seats": 3}},
            {"type": "group", **user, "groupId": self.account, "traits": {"name": "Initech"}},
            {"type": "track", **user, "event": "Report exported", "properties": {"pages": 7}},
            {"type": view, **user, "name": VIEWS[view], "properties": {}},
            {"type": "alias", **user, "previousId": self.former_id},
        ]
        messages = [{"messageId": str(uuid4()), **common, **call} for call in calls]
        return [shape(message) for message in messages] if shape else messages


@dataclass(frozen=True)
class Recording:
    """An SDK, the source that the requests follow, and the requests."""

    sdk: str
    version: str
    source: str
    requests: Callable[[Story], list[Request]]
    view: View = "screen"
    has_numeric_ids: bool = False
    # The path at which the SDK asks for its settings before it sends anything.
    settings_path: str = ""
    # How far the sender's clock is ahead.
    clock_ahead: timedelta = FAST
    # The traits that the account has afterwards, or None if the sender cannot name accounts.
    account_traits: Mapping[str, Any] | None = field(default_factory=lambda: {"name": "Initech"})

    def story(self, key: str, user: str | int, account: str | int) -> Story:
        at_sender = datetime.now(UTC) + self.clock_ahead
        return Story(key, user, account, at_sender - AGO, at_sender)


# --- Times ----------------------------------------------------------------------------------


def milliseconds(at: datetime) -> str:
    """As JavaScript, Java, Kotlin, Swift, and Android write it: ``2026-09-24T10:11:12.123Z``."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def local_milliseconds(at: datetime) -> str:
    """As Ruby writes a local time: ``2026-09-24T12:11:12.123+02:00``."""
    return at.astimezone(ZONE).isoformat(timespec="milliseconds")


def seconds(at: datetime) -> str:
    """As PHP's ``date('c')`` writes it: ``2026-09-24T12:11:12+02:00``."""
    return at.astimezone(ZONE).isoformat(timespec="seconds")


def nanoseconds(at: datetime) -> str:
    """As Go writes a local time: ``2026-09-24T12:11:12.123456789+02:00``."""
    return f"{at.astimezone(ZONE):%Y-%m-%dT%H:%M:%S.%f}789+02:00"


def ticks(at: datetime) -> str:
    """As .NET's ``ToString("o")`` writes it: ``2026-09-24T10:11:12.1234567Z``."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}7Z"


def microseconds(at: datetime) -> str:
    """As Dart writes a time in UTC: ``2026-09-24T10:11:12.123456Z``."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def zoneless(at: datetime) -> str:
    """As Dart writes a local time, without its zone: ``2026-09-24T12:11:12.123456``."""
    return f"{at.astimezone(ZONE):%Y-%m-%dT%H:%M:%S.%f}"


# --- Requests -------------------------------------------------------------------------------


def basic(key: str) -> str:
    """As most SDKs send the key: as a user's name without a password."""
    return f"Basic {base64.b64encode(f'{key}:'.encode()).decode()}"


def post(url: str, body: Any, headers: dict[str, str], *, use_gzip: bool = False) -> Request:
    content = json.dumps(body, separators=(",", ":")).encode()
    if use_gzip:
        content = gzip.compress(content, mtime=0)
        headers = {**headers, "Content-Encoding": "gzip"}
    return Request(url, headers, content)
