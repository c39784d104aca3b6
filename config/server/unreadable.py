"""Responses to requests that the server cannot read, in the format of all API errors.

They never reach Django. None of them repeats what was sent, and none writes a line of log: anybody
could fill the log.
"""

import json

from gunicorn.http import errors

from config.server import security_headers

URI_TOO_LONG = "uri_too_long"
_BAD_REQUEST = (400, "Bad Request", "bad_request", "This is not a valid HTTP request.")
_RESPONSES: dict[type[Exception], tuple[int, str, str, str]] = {
    errors.LimitRequestHeaders: (
        431,
        "Request Header Fields Too Large",
        "headers_too_large",
        "The headers are too large, or too many.",
    ),
    errors.ExpectationFailed: (
        417,
        "Expectation Failed",
        "expectation_failed",
        "The only expectation that is understood is 100-continue.",
    ),
    errors.UnsupportedTransferCoding: (
        501,
        "Not Implemented",
        "not_implemented",
        "The only transfer coding that is understood is chunked.",
    ),
}


def uri_message(limit: int) -> str:
    return f"The method and the address must be at most {limit:,} bytes. Ask for a shorter value."


def error_response(error: errors.ParseException, line_limit: int) -> bytes:
    """The whole response, which ends the connection. *line_limit* is in bytes."""
    status, reason, code, message = _RESPONSES.get(type(error), _BAD_REQUEST)
    if isinstance(error, errors.LimitRequestLine):
        status, reason, code = 414, "URI Too Long", URI_TOO_LONG
        message = uri_message(line_limit)
    body = json.dumps({"error": {"code": code, "message": message}}).encode()
    headers = [
        ("Connection", "close"),
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        *security_headers.HEADERS,
    ]
    head = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"HTTP/1.1 {status} {reason}\r\n{head}\r\n".encode() + body
