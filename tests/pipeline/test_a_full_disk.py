"""While the database's disk is full, senders are told to wait and monitors what is wrong."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from config.operations import health
from core import telemetry
from ingestion.inbox import group_commit
from ingestion.prometheus import DRAIN_COUNTER
from tests.pipeline.conftest import Post

pytestmark = pytest.mark.django_db(transaction=True)

TRACK = {"userId": "ada", "event": "Report exported"}
SAID = "The database's disk is full: messages are answered 503."


@pytest.fixture(autouse=True)
def fresh_inbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    group_commit.stop()
    committer = group_commit.GroupCommitter()
    monkeypatch.setattr(group_commit, "_committer", committer)
    yield
    committer.stop()


@contextmanager
def failing_with(code: str) -> Iterator[None]:
    """While PostgreSQL refuses each new row of the inbox with this SQLSTATE."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '{code}'; END $$"
        )
        cursor.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON ingestion_inboxmessage "
            "EXECUTE FUNCTION refuse()"
        )
        try:
            yield
        finally:
            cursor.execute("DROP FUNCTION refuse CASCADE")


def database() -> tuple[int, str]:
    telemetry.add_run(DRAIN_COUNTER, 0, 0.0, timezone.now())
    answer = Client().get("/readyz")
    sentence: str = answer.json()["checks"]["database"]
    return answer.status_code, sentence


def test_a_full_disk_is_not_ready_until_a_message_is_stored(post: Post) -> None:
    with failing_with("53100"):
        assert post("/v2/track", TRACK).status_code == 503
        assert database() == (503, SAID)
    assert database() == (503, SAID)
    assert post("/v2/track", TRACK).status_code == 202
    assert database() == (200, "ok")


def test_it_is_tried_again_after_a_while(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    with failing_with("53100"):
        post("/v2/track", TRACK)
        monkeypatch.setattr(health, "DISK_FULL_COOLDOWN", 0.0)
        assert database() == (200, "ok")


def test_other_failures_are_no_full_disk(post: Post) -> None:
    with failing_with("55000"):
        assert post("/v2/track", TRACK).status_code == 503
        assert database() == (200, "ok")
