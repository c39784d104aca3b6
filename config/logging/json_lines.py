"""Log lines as JSON objects.

This imports neither Django nor the service, because gunicorn's master process uses it.
"""

import json
import logging
from datetime import UTC, datetime
from typing import Any

from gunicorn.glogging import Logger

from config.logging.redaction import RedactingFormatter, redact
from config.logging.traceback_limit import TracebackLimit


def json_line(time: datetime, level: str, **fields: Any) -> str:
    """Return a JSON object with the time (ISO 8601, UTC), the level, and the fields."""
    timestamp = time.astimezone(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": timestamp, "level": level, **fields}, ensure_ascii=False)


class JsonLineFormatter(logging.Formatter):
    """Formats a record as time, level, logger, message, its ``fields``, and its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        fields = self.fields(record)
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        time = datetime.fromtimestamp(record.created, UTC)
        return redact(json_line(time, record.levelname.lower(), **fields))

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        return {
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }


class GunicornLogger(Logger):  # type: ignore[misc]
    """Writes gunicorn's own lines, which may quote a request, without credentials, and equal
    tracebacks once a minute."""

    def formatter(self) -> logging.Formatter:
        return RedactingFormatter(self.error_fmt, self.datefmt)

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(self.formatter())
            handler.addFilter(TracebackLimit())


class JsonGunicornLogger(GunicornLogger):
    """Writes them as JSON objects."""

    def formatter(self) -> logging.Formatter:
        return JsonLineFormatter()


def add_process_name(name: str, line: str, now: datetime) -> str:
    """Return a process's line as a JSON object with its name. Wrap the line if it is text."""
    try:
        fields = json.loads(line)
    except ValueError:
        fields = None
    if isinstance(fields, dict):
        return json.dumps({**fields, "process": name}, ensure_ascii=False)
    return json_line(now, "info", message=line, process=name)
