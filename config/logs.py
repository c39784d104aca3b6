"""What the log looks like, and what is kept out of it."""

import logging
from typing import Any

from config.json_lines import JsonLineFormatter
from engagement.core import request_ids


class JsonFormatter(JsonLineFormatter):
    """JSON lines that carry the id of the request that they are about, where there is one."""

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        fields = super().fields(record)
        if request_id := _request_id(record):
            fields["request_id"] = request_id
        return fields


def _request_id(record: logging.LogRecord) -> str | None:
    """From the line itself, or from the request that it is about, as Django passes it on."""
    request = getattr(record, "request", None)
    headers = getattr(request, "META", {})
    return getattr(record, "request_id", None) or request_ids.from_environ(headers)


class UnavailableFilter(logging.Filter):
    """Drops Django's line for each answer of 503: who misses something reports it once."""

    def filter(self, record: logging.LogRecord) -> bool:
        return getattr(record, "status_code", None) != 503
