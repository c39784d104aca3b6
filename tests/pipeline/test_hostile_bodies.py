"""Every kind of hostile body at every door: never a server error, and what is accepted settles.

The doors alone are tested with what Hypothesis draws. Here are the kinds by name, all the way into
the tables. ``python -m proofs.hostile`` sends the same ones over sockets.
"""

import gzip
from datetime import UTC, datetime

import pytest

from proofs.hostile_input import BODIES, GZIPPED, HEADERS, QUERIES, good
from tests.cases import each
from tests.ingestion.examples import PATHS, SEGMENT_MINIMAL
from tests.pipeline.conftest import Post
from tests.pipeline.waiting import drain, quarantined, waiting

pytestmark = pytest.mark.django_db(transaction=True)

# Each address, and whether it takes batches.
DOORS = dict.fromkeys(PATHS, False) | {
    path: "batch" in body for path, body in SEGMENT_MINIMAL.items()
}
LATER = datetime(2030, 1, 1, tzinfo=UTC)
STATUSES = {200, 202, 400, 413, 415}
# The headers that WSGI names otherwise than HTTP_….
OWN_NAMES = {"Content-Type": "CONTENT_TYPE", "Content-Length": "CONTENT_LENGTH"}


def environ(headers: dict[str, str]) -> dict[str, str]:
    return {
        OWN_NAMES.get(name, "HTTP_" + name.upper().replace("-", "_")): value
        for name, value in headers.items()
    }


def settle() -> None:
    """What was accepted is recorded or listed as dropped; nothing waits or is quarantined."""
    drain(LATER)
    assert waiting() == []
    assert quarantined() == []


@pytest.mark.slow
@pytest.mark.whole
@each("kind", BODIES)
def test_a_body_is_refused_or_settles(kind: str, post: Post) -> None:
    for path, is_batch in DOORS.items():
        body = BODIES[kind](is_batch)
        plain = post(path, body).status_code
        assert plain in STATUSES, path
        zipped = post(path, gzip.compress(body, 1, mtime=0), HTTP_CONTENT_ENCODING="gzip")
        assert zipped.status_code == plain, path
    settle()


@each("kind", HEADERS)
def test_a_header_is_refused_or_settles(kind: str, post: Post) -> None:
    for path, is_batch in DOORS.items():
        response = post(path, good()(is_batch), **environ(HEADERS[kind]))
        assert response.status_code in STATUSES, path
    settle()


@each("kind", QUERIES)
def test_a_query_is_refused_or_settles(kind: str, post: Post) -> None:
    for path, is_batch in DOORS.items():
        response = post(path, good()(is_batch), QUERY_STRING=QUERIES[kind])
        assert response.status_code in STATUSES, path
    settle()


@each("kind", GZIPPED)
def test_gzip_is_refused_or_settles(kind: str, post: Post) -> None:
    for path in DOORS:
        response = post(path, GZIPPED[kind], HTTP_CONTENT_ENCODING="gzip")
        assert response.status_code in STATUSES, path
    settle()


def test_the_good_bodies_that_these_are_made_from_are_good(post: Post) -> None:
    for path, is_batch in DOORS.items():
        assert post(path, good()(is_batch)).status_code in {200, 202}, path
    settle()
