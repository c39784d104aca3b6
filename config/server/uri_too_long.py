"""The 414 response to a request line that is too long, in the format of all API errors.

The request never reaches Django: the server refuses it before it has parsed the line.
"""

import json

from config.server import security_headers

CODE = "uri_too_long"


def error_message(limit: int) -> str:
    return f"The method and the address must be at most {limit:,} bytes. Ask for a shorter value."


def error_response(limit: int) -> bytes:
    body = json.dumps({"error": {"code": CODE, "message": error_message(limit)}}).encode()
    headers = [
        ("Connection", "close"),
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        *security_headers.HEADERS,
    ]
    head = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"HTTP/1.1 414 URI Too Long\r\n{head}\r\n".encode() + body
