"""The id that a sender or a proxy gave a request, to find it again in logs and lists."""

import re
from collections.abc import Mapping
from typing import Any

HEADER = "HTTP_X_REQUEST_ID"
LONGEST = 64
# It goes into logs, and into pages that people search: nothing but what ids are made of.
_SAFE = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST}}}")


def given(headers: Mapping[str, Any]) -> str | None:
    """``X-Request-ID`` from the WSGI environment; None where it is absent or not an id."""
    value: str | None = headers.get(HEADER)
    return value if value and _SAFE.fullmatch(value) else None
