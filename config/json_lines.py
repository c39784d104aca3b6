"""Log lines that are JSON objects. It imports neither Django nor the service, because gunicorn's
master process uses it."""

import json
import logging
from datetime import UTC, datetime
from typing import Any

from gunicorn.glogging import Logger


def json_line(time: datetime, level: str, **fields: Any) -> str:
    """One object: time (ISO 8601 UTC), level, and the fields."""
    at = time.astimezone(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": at, "level": level, **fields}, ensure_ascii=False)


class JsonLineFormatter(logging.Formatter):
    """One object a line: time, level, logger and message, the line's own fields, and the
    traceback."""

    def format(self, record: logging.LogRecord) -> str:
        fields = self.fields(record)
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        at = datetime.fromtimestamp(record.created, UTC)
        return json_line(at, record.levelname.lower(), **fields)

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        return {
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }


class GunicornLogger(Logger):  # type: ignore[misc]
    """Gunicorn's own lines, as JSON objects."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(JsonLineFormatter())


def add_process_name(name: str, said: str, now: datetime) -> str:
    """What a process wrote, as an object with its name: its own object, or one around its text."""
    try:
        found = json.loads(said)
    except ValueError:
        found = None
    if isinstance(found, dict):
        return json.dumps({**found, "process": name}, ensure_ascii=False)
    return json_line(now, "info", message=said, process=name)
