"""W3C trace contexts: which trace a request belongs to, as its sender's ``traceparent`` says."""

import re
from collections.abc import Mapping
from typing import Any

ENVIRON_KEY = "HTTP_TRACEPARENT"
HEADER = "traceparent"
LENGTH = 55
# Version, trace, parent, and flags. A later version may add more, which is not kept.
_VALID = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?=-|\Z)"
)


def from_environ(headers: Mapping[str, Any]) -> str | None:
    """``traceparent`` from the WSGI environment; None if it is absent or invalid."""
    value: str | None = headers.get(ENVIRON_KEY)
    return parse(value) if value else None


def parse(value: str) -> str | None:
    match = _VALID.match(value)
    if match is None or (value.startswith("00") and len(value) != LENGTH):
        return None
    return match[0]


def trace_id(traceparent: str) -> str:
    return traceparent[3:35]


def is_sampled(traceparent: str) -> bool:
    """Whether the sender records the trace."""
    return bool(int(traceparent[-2:], 16) & 1)
