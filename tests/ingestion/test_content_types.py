"""Whatever a client calls its content type, a door looks at the body alone."""

import io
import json
from typing import Any
from wsgiref.types import WSGIEnvironment
from wsgiref.util import setup_testing_defaults

import pytest
from django.db import connection

from config.server.handler import LenientHandler
from tests.cases import each
from tests.ingestion.conftest import Accepted
from tests.ingestion.examples import MINIMAL, SEGMENT_MINIMAL

BODIES = {**MINIMAL, **SEGMENT_MINIMAL}
# The last are what Django's own request cannot be made from.
CONTENT_TYPES = [
    "",
    ";",
    "text/plain; charset=nonsense",
    "text/plain; charset=",
    "text/plain; charset=" + "x" * 5000,
    "text/plain; charset=\xff",
    "multipart/form-data",
    "multipart/form-data; boundary=" + "b" * 5000,
    "text/plain; charset*=utf-8''%ED%A0%80",
    "text/plain; charset*=utf-8''%00",
    "text/plain; charset*=utf-7''+2AA-",
    "text/plain; charset*=nonsense''a",
    "text/plain; a*=idna''a",
]


@pytest.fixture(autouse=True)
def no_connection() -> None:
    """A handler looks after the connection that an earlier test may have left, which it may not."""
    connection.close()


def answer_of(path: str, content_type: str) -> str:
    """The status line that a whole request with the minimal body of the address ends in."""
    body = json.dumps(BODIES[path]).encode()
    environ: WSGIEnvironment = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": path,
        "CONTENT_TYPE": content_type,
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_HOST": "localhost",
        "HTTP_AUTHORIZATION": "Basic edk_one",
        "wsgi.input": io.BytesIO(body),
    }
    setup_testing_defaults(environ)
    lines = []

    def start_response(status: str, headers: Any, exc_info: Any = None) -> Any:
        lines.append(status)

    LenientHandler()(environ, start_response)
    (line,) = lines
    return line


@each("content_type", CONTENT_TYPES)
@each("path", BODIES)
def test_a_good_body_is_accepted(path: str, content_type: str, accepted: list[Accepted]) -> None:
    assert answer_of(path, content_type) in {"202 Accepted", "200 OK"}
