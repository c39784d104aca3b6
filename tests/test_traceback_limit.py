"""Equal tracebacks fill no log: one a minute, and how many were left out."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from config.logging.json_lines import GunicornLogger, JsonLineFormatter
from config.logging.settings import logging as log_settings
from config.logging.traceback_limit import MAX_KEPT, MAX_QUOTED, TracebackLimit

NAME = "tests.tracebacks"


class Log:
    """A logger with the limit, whose lines can be read."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self.handler = logging.StreamHandler(self._stream)
        self.handler.setFormatter(JsonLineFormatter())
        self.handler.addFilter(TracebackLimit())
        self.logger = logging.getLogger(NAME)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]

    def write(self, at: float, text: str, *arguments: object, failed: bool = False) -> None:
        failure = sys.exc_info() if failed else None
        record = logging.LogRecord(NAME, logging.ERROR, "", 0, text, arguments, failure)
        record.created = at
        self.logger.handle(record)


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log()
    log.logger.addHandler(log.handler)
    log.logger.propagate = False
    yield log
    log.logger.propagate = True
    log.logger.removeHandler(log.handler)


def fail(log: Log, at: float, name: str, kind: type[Exception] = KeyError) -> None:
    try:
        try:
            raise ValueError(name)
        except ValueError as cause:
            raise kind(name) from cause
    except Exception:
        log.write(at, "Internal Server Error: %s", name, failed=True)


def test_equal_tracebacks_are_one_line_a_minute(log: Log) -> None:
    for number in range(600):
        fail(log, 1000.0 + number / 20, f"/{number}")
    log.write(1050.0, "something else")
    (first, other) = log.lines()
    assert "KeyError" in first["traceback"] and first["message"].endswith(": /0")
    assert other["message"] == "something else"
    # The next line after the minute says how many there were, and quotes some.
    log.write(1061.0, "later")
    summary, later = log.lines()[2:]
    assert (summary["left_out"], summary["level"], later["message"]) == (599, "error", "later")
    assert summary["message"].startswith(
        "599 tracebacks like the one before (KeyError) were left out within 60 s: "
        "Internal Server Error: /1;"
    )
    assert summary["message"].count("Internal") == MAX_QUOTED
    fail(log, 1062.0, "/again")
    assert "traceback" in log.lines()[-1] and len(log.lines()) == 5


def test_what_fails_elsewhere_or_otherwise_has_lines_of_its_own(log: Log) -> None:
    fail(log, 1000.0, "a")
    fail(log, 1000.0, "a", RuntimeError)
    try:
        raise KeyError("a")
    except KeyError:
        log.write(1000.0, "Internal Server Error: a", failed=True)
    assert len(log.lines()) == 3 and all("traceback" in line for line in log.lines())


def test_a_clock_that_is_set_back_silences_nothing(log: Log) -> None:
    fail(log, 5000.0, "a")
    fail(log, 1000.0, "a")
    assert len(log.lines()) == 2


def test_what_is_remembered_is_bounded() -> None:
    limit = TracebackLimit()
    for number in range(3 * MAX_KEPT):
        error = type(f"Error{number}", (Exception,), {})()
        assert limit.filter(logging.LogRecord(NAME, 40, "", 0, "", (), (type(error), error, None)))
    assert len(limit._entries) <= MAX_KEPT


def test_the_service_and_its_web_server_log_through_it() -> None:
    settings = log_settings("text")
    assert settings["handlers"]["stderr"]["filters"] == ["tracebacks"]
    assert settings["filters"]["tracebacks"]["()"].endswith(".TracebackLimit")
    from gunicorn.config import Config

    handlers = GunicornLogger(Config()).error_log.handlers
    assert handlers and all(
        any(isinstance(each, TracebackLimit) for each in handler.filters) for handler in handlers
    )
