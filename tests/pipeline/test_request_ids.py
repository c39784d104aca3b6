"""The id of a request follows its messages to wherever they do not arrive."""

import json
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import DataError, OperationalError
from django.test import Client, RequestFactory

from config.logging.logs import JsonFormatter
from core import request_ids
from engagement.messages import ReceivedMessage
from ingestion.drain import processing, quarantine
from ingestion.inbox import group_commit as inbox
from ingestion.models import DroppedMessage, DropReason, InboxMessage, QuarantinedMessage
from ingestion.payloads import decode
from readapi import queries
from tests.cases import each
from tests.engagement.history import NOON
from tests.pipeline.conftest import Post
from tests.pipeline.waiting import drain

ID = "7f3a-91.Checkout_2"
TRACK = {"userId": "ada", "event": "opened", "timestamp": NOON.isoformat()}


@pytest.fixture
def broken_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be recorded."""

    def refuse(received: Sequence[ReceivedMessage]) -> list[ReceivedMessage]:
        raise DataError("it is cursed")

    monkeypatch.setattr(processing, "record", refuse)


@each(
    ("header", "request_id"),
    [
        (ID, ID),
        ("a", "a"),
        ("a" * 64, "a" * 64),
        ("a" * 65, None),
        ("", None),
        ("two words", None),
        ("line\nbreak", None),
        ("trailing\n", None),
        ("ada@acme.example", None),
        ('"},{"', None),
        ("<b>", None),
        ("ä", None),
        ("\0", None),
    ],
)
def test_an_id_is_letters_digits_dots_dashes_and_underscores(
    header: str, request_id: str | None
) -> None:
    assert request_ids.from_environ({"HTTP_X_REQUEST_ID": header}) == request_id


def test_a_request_without_the_header_has_no_id() -> None:
    assert request_ids.from_environ({}) is None


# --- On the way into the inbox --------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "request_id"),
    [
        pytest.param({"HTTP_X_REQUEST_ID": ID}, ID, id="given"),
        pytest.param({}, None, id="absent"),
        pytest.param({"HTTP_X_REQUEST_ID": "not an id"}, None, id="unsafe"),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_a_message_keeps_the_id_of_its_request(
    post: Post, headers: dict[str, str], request_id: str | None
) -> None:
    assert post("/v2/track", TRACK, **headers).status_code == 202
    assert InboxMessage.objects.get().request_id == request_id


@pytest.mark.django_db(transaction=True)
def test_all_messages_of_a_batch_have_the_id_of_their_request(post: Post) -> None:
    batch = {"batch": [{"type": "track", **TRACK}, {"type": "track", **TRACK}]}
    assert post("/segment/v1/batch", batch, HTTP_X_REQUEST_ID=ID).status_code == 200
    assert list(InboxMessage.objects.values_list("request_id", flat=True)) == [ID, ID]


@pytest.mark.django_db(transaction=True)
def test_requests_that_are_committed_together_keep_their_own_ids(post: Post) -> None:
    ids = ["first", None, "third", None, "fifth", None]

    def send(number: int) -> None:
        request_id = ids[number]
        headers = {"HTTP_X_REQUEST_ID": request_id} if request_id else {}
        post("/v2/track", {**TRACK, "userId": f"user-{number}"}, **headers)

    with ThreadPoolExecutor(len(ids)) as senders:
        list(senders.map(send, range(len(ids))))
    id_by_user = {}
    for row in InboxMessage.objects.all():
        message = decode(row.payload)
        assert message.user_id is not None
        id_by_user[message.user_id] = row.request_id
    assert id_by_user == {f"user-{number}": request_id for number, request_id in enumerate(ids)}


# --- In the answer --------------------------------------------------------------------------

ANSWERED: list[tuple[str, str, object, int]] = [
    ("POST", "/v2/track", TRACK, 202),
    ("POST", "/segment/v1/track", {"type": "track", **TRACK}, 200),
    ("POST", "/v2/track", {}, 400),
    ("POST", "/v2/track", {"userId": "a" * 70_000}, 413),
    ("PUT", "/v2/track", TRACK, 405),
    ("OPTIONS", "/v2/track", None, 200),
    ("GET", "/v2/workspaces", None, 401),
    ("GET", "/v2/nowhere", None, 404),
    ("GET", "/healthz", None, 200),
    ("GET", "/docs", None, 200),
    ("GET", "/admin/login/", None, 200),
]


@each(("method", "path", "body", "status"), ANSWERED)
@pytest.mark.django_db(transaction=True)
def test_every_answer_gives_the_id_back(method: str, path: str, body: object, status: int) -> None:
    text = json.dumps(body) if body is not None else ""
    response = Client().generic(method, path, text, "application/json", HTTP_X_REQUEST_ID=ID)
    assert (response.status_code, response["X-Request-ID"]) == (status, ID)


@pytest.mark.django_db(transaction=True)
def test_a_503_gives_the_id_back(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    def accept(*arguments: object) -> None:
        raise inbox.InboxUnavailable(7)

    monkeypatch.setattr(inbox, "accept", accept)
    response = post("/v2/track", TRACK, HTTP_X_REQUEST_ID=ID)
    assert (response.status_code, response["X-Request-ID"]) == (503, ID)


@pytest.mark.parametrize("headers", [{}, {"HTTP_X_REQUEST_ID": "not an id"}])
@pytest.mark.django_db(transaction=True)
def test_an_answer_without_an_id_makes_none_up(post: Post, headers: dict[str, str]) -> None:
    assert not post("/v2/track", TRACK, **headers).has_header("X-Request-ID")


# --- In the lists of what did not arrive ----------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_dropped_message_shows_its_request(post: Post) -> None:
    post("/v2/track", TRACK, HTTP_AUTHORIZATION="Basic nobody's", HTTP_X_REQUEST_ID=ID)
    for number in range(2):
        repeated = {**TRACK, "messageId": "once"}
        post("/v2/track", repeated, HTTP_X_REQUEST_ID=f"attempt-{number}")
    drain(NOON + timedelta(days=400))
    assert set(DroppedMessage.objects.values_list("reason", "request_id")) == {
        (DropReason.UNKNOWN_KEY, ID),
        (DropReason.DUPLICATE, "attempt-1"),
    }


@pytest.mark.django_db(transaction=True)
def test_a_quarantined_message_shows_its_request_and_takes_it_along_when_tried_again(
    post: Post, broken_recording: None
) -> None:
    post("/v2/track", TRACK, HTTP_X_REQUEST_ID=ID)
    drain_at_each_attempt()
    put_aside = QuarantinedMessage.objects.get()
    assert put_aside.request_id == ID
    quarantine.retry([put_aside.pk])
    assert InboxMessage.objects.get().request_id == ID


# --- In the log -----------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_the_worker_names_the_request_of_a_message_that_fails(
    post: Post, broken_recording: None, caplog: pytest.LogCaptureFixture
) -> None:
    post("/v2/track", TRACK, HTTP_X_REQUEST_ID=ID)
    drain_at_each_attempt()
    lines = [
        as_json(record) for record in caplog.records if record.name == "ingestion.drain.processing"
    ]
    assert [line["request_id"] for line in lines] == [ID] * processing.MAX_ATTEMPTS


def test_a_line_about_a_request_names_it() -> None:
    request = RequestFactory().get("/", HTTP_X_REQUEST_ID=ID)
    assert as_json(line(request=request))["request_id"] == ID


@pytest.mark.parametrize("extra", [{}, {"request": RequestFactory().get("/")}])
def test_a_line_about_no_request_that_has_an_id_says_nothing_of_one(
    extra: dict[str, object],
) -> None:
    assert "request_id" not in as_json(line(**extra))


@pytest.mark.django_db
def test_a_fault_of_the_read_api_names_its_request(
    acme_token: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(queries, "workspace", fail)
    headers = {"authorization": f"Bearer {acme_token}", "x-request-id": ID}
    assert Client(headers=headers).get("/v2/users?workspace_id=1").status_code == 500
    (fault,) = (as_json(record) for record in caplog.records if record.name == "readapi.errors")
    assert fault["request_id"] == ID


@pytest.mark.parametrize(("error", "status"), [(RuntimeError, 500), (OperationalError, 503)])
@pytest.mark.django_db
def test_a_fault_that_nobody_named_gets_an_id_that_leads_from_the_answer_to_the_log(
    error: type[Exception],
    status: int,
    acme_token: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(queries, "workspace", fail)
    client = Client(headers={"authorization": f"Bearer {acme_token}"})
    response = client.get("/v2/users?workspace_id=1")
    assert response.status_code == status
    (fault,) = (as_json(record) for record in caplog.records if record.name == "readapi.errors")
    assert fault["request_id"] == response["X-Request-ID"]
    assert request_ids.from_environ({"HTTP_X_REQUEST_ID": response["X-Request-ID"]})


def drain_at_each_attempt() -> None:
    for attempt in range(processing.MAX_ATTEMPTS + 1):
        drain(NOON + timedelta(days=400, minutes=attempt))


def line(**extra: object) -> logging.LogRecord:
    return logging.getLogger("tests").makeRecord(
        "tests", logging.ERROR, __file__, 1, "something", (), None, extra=extra
    )


def as_json(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = json.loads(JsonFormatter().format(record))
    return fields
