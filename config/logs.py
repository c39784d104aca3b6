"""What the log looks like, and what is kept out of it."""

import json
import logging
from datetime import UTC, datetime

from engagement import request_ids


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (ISO 8601 UTC), level, logger and message; where there is one,
    also the line's own fields, the id of the request that it is about, and the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if request_id := _request_id(record):
            line["request_id"] = request_id
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _request_id(record: logging.LogRecord) -> str | None:
    """From the line itself, or from the request that it is about, as Django passes it on."""
    request = getattr(record, "request", None)
    headers = getattr(request, "META", {})
    return getattr(record, "request_id", None) or request_ids.given(headers)


class WithoutUnavailable(logging.Filter):
    """Drops Django's line for each answer of 503: who misses something reports it once."""

    def filter(self, record: logging.LogRecord) -> bool:
        return getattr(record, "status_code", None) != 503
