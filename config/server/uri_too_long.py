"""The 414 response to a request line that is too long, in the format of all API errors.

The request never reaches Django: the server refuses it before it has parsed the line.
"""

import json

CODE = "uri_too_long"


def error_message(limit: int) -> str:
    return f"The method and the address must be at most {limit:,} bytes. Ask for a shorter value."


def error_response(limit: int) -> bytes:
    body = json.dumps({"error": {"code": CODE, "message": error_message(limit)}}).encode()
    head = (
        "HTTP/1.1 414 URI Too Long\r\n"
        "Connection: close\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
