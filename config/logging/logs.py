"""The log's JSON format, and a filter for lines that it leaves out."""

import logging
from typing import Any

from config.logging.json_lines import JsonLineFormatter
from core import request_ids, trace_context


class JsonFormatter(JsonLineFormatter):
    """Adds the request id and the trace id to the JSON lines about a request."""

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        fields = super().fields(record)
        if request_id := _request_id(record):
            fields["request_id"] = request_id
        if traceparent := _traceparent(record):
            fields["trace_id"] = trace_context.trace_id(traceparent)
        return fields


def _request_id(record: logging.LogRecord) -> str | None:
    """Return the request id of the record itself, or of the request that Django attached."""
    request = getattr(record, "request", None)
    headers = getattr(request, "META", {})
    return getattr(record, "request_id", None) or request_ids.from_environ(headers)


def _traceparent(record: logging.LogRecord) -> str | None:
    """The trace of the record itself, or of the request that Django attached."""
    headers = getattr(getattr(record, "request", None), "META", {})
    return getattr(record, "traceparent", None) or trace_context.from_environ(headers)


class UnavailableFilter(logging.Filter):
    """Drops Django's line for each 503 response. The cause is logged where it is noticed."""

    def filter(self, record: logging.LogRecord) -> bool:
        return getattr(record, "status_code", None) != 503
