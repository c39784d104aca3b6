"""No log line shows a key or a token."""

import json
import logging
import sys

from config.logging.json_lines import GunicornLogger, JsonLineFormatter
from config.logging.redaction import RedactingFormatter, redact
from tests.cases import each

# Written out, because all processes of the tests must name them alike.
KEY = "edk_AfgSNCySVhSQgWka2LLasteODzc4RwUcW"
TOKEN = "eds_4bnTvWxxZXYeOuMsxDha3I9DqI81kC2ga"


@each(
    ("line", "redacted"),
    [
        (f"Sent {KEY}.", f"Sent {KEY[:9]}…."),
        (f"'{TOKEN}'", f"'{TOKEN[:9]}…'"),
        (f"GET /invite/?token=edi_{KEY[4:]}", f"GET /invite/?token=edi_{KEY[4:9]}…"),
        ("POST /v1/b?x=1&writeKey=s3cret&y=2 HTTP/1.1", "POST /v1/b?x=1&writeKey=…&y=2 HTTP/1.1"),
        ("GET /v1/projects/s3cret/settings", "GET /v1/projects/…/settings"),
        ("/analytics.js/v1/s3cret/analytics.min.js", "/analytics.js/v1/…/analytics.min.js"),
        ("Authorization: Basic czNjcmV0Og==", "Authorization: Basic …"),
        ("Hints such as edk_1a2b3 stay.", "Hints such as edk_1a2b3 stay."),
        ("A line without anything.", "A line without anything."),
    ],
)
def test_credentials_are_cut_out(line: str, redacted: str) -> None:
    assert redact(line) == redacted


def record() -> logging.LogRecord:
    try:
        raise ValueError(f"wrong key {KEY}")
    except ValueError:
        failure = sys.exc_info()
    return logging.LogRecord("x", logging.ERROR, "", 1, "path /?writeKey=%s", (KEY,), failure)


def test_neither_the_message_nor_the_traceback_shows_one() -> None:
    lines = [
        RedactingFormatter("%(message)s").format(record()),
        JsonLineFormatter().format(record()),
    ]
    for line in lines:
        assert "Traceback" in line
        assert KEY not in line and KEY[:9] in line
    assert json.loads(lines[1])["level"] == "error"


def test_gunicorns_own_lines_are_redacted() -> None:
    from gunicorn.config import Config

    logger = GunicornLogger(Config())
    (handler,) = logger.error_log.handlers
    assert KEY not in handler.format(record())
