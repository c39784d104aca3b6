"""The doors: each turns one wire format into the canonical messages.

After a door nobody knows in which format a message came. A door is a function of the body's text,
the headers and the time of receipt; it raises Refused and nothing else, whatever it is given.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

from ingestion.doors.headers import Headers
from ingestion.payloads import Payload


class DecodedRequest(NamedTuple):
    """What a request brought: its messages, and the key that they came with ("" for none)."""

    messages: Sequence[Payload]
    key: str


Door: TypeAlias = Callable[[str, Headers, datetime], DecodedRequest]
