"""A WSGI application that reads the body and says which process answers, and how much it read."""

import os
from collections.abc import Callable, Iterable
from typing import Any


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    length = len(environ["wsgi.input"].read())
    text = f"{os.getpid()} {environ['REMOTE_PORT']} {length}".encode()
    start_response("200 OK", [("Content-Length", str(len(text)))])
    return [text]
