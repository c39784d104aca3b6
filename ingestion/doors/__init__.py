"""The doors: each turns one wire format into messages.

Behind a door, nothing depends on the wire format. A door is a function of the body's text, the
headers and the time of receipt. It raises IngestionError and nothing else, for any input.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

from ingestion.doors.headers import Headers
from ingestion.payloads import Payload


class DecodedRequest(NamedTuple):
    """A request's messages and its key ("" for none)."""

    messages: Sequence[Payload]
    key: str


Door: TypeAlias = Callable[[str, Headers, datetime], DecodedRequest]
