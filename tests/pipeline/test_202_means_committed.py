"""An answer of 202 is sent after the message was committed, and 503 where it was not."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, LiteralString

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from core import credentials
from ingestion.inbox import group_commit
from ingestion.models import InboxMessage
from ingestion.payloads import decode, encode
from tests.engagement.history import NOON, track
from tests.ingestion.examples import MINIMAL, PATHS, refusal
from tests.pipeline.conftest import Post
from tests.pipeline.waiting import (
    Eventually,
    at_once,
    drain,
    repeat,
    somebody_else,
    terminate,
    wait,
    waiting,
)

pytestmark = pytest.mark.django_db(transaction=True)

TRACK = {"userId": "ada", "event": "Report exported"}
UNAVAILABLE = (503, "unavailable", None)


@pytest.fixture(autouse=True)
def fresh_inbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[group_commit.GroupCommitter]:
    """An inbox of the test's own, which connects with the timeouts that the test sets."""
    group_commit.stop()
    committer = group_commit.GroupCommitter()
    monkeypatch.setattr(group_commit, "_committer", committer)
    yield committer
    committer.stop()


@pytest.fixture
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "STATEMENT_TIMEOUT", 0.3)


@contextmanager
def table_locked() -> Iterator[None]:
    """While nobody else can touch the inbox's table, as during a migration."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE ingestion_inboxmessage IN ACCESS EXCLUSIVE MODE")
        yield


@contextmanager
def table_renamed() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE ingestion_inboxmessage RENAME TO elsewhere")
        try:
            yield
        finally:
            cursor.execute("ALTER TABLE elsewhere RENAME TO ingestion_inboxmessage")


@contextmanager
def patched_options(options: dict[str, Any]) -> Iterator[None]:
    """While new connections are made with these options."""
    before = connection.settings_dict["OPTIONS"]
    connection.settings_dict["OPTIONS"] = options
    try:
        yield
    finally:
        connection.settings_dict["OPTIONS"] = before


def observed(statement: LiteralString) -> list[int]:
    """Process ids that the server shows now; inside a transaction they would not change."""
    with somebody_else() as observer:
        return [pid for (pid,) in observer.execute(statement).fetchall()]


def commit_backends() -> list[int]:
    """The server's processes for the inbox's thread: all connections but the test's own."""
    connection.ensure_connection()
    own = connection.connection.info.backend_pid
    backends = observed(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    return [pid for pid in backends if pid != own]


def waits_for_the_table() -> bool:
    waiting = observed("SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    return bool(waiting)


def kill_commit_connection() -> None:
    backends = commit_backends()
    assert backends
    with somebody_else() as operator:
        terminate(operator, *backends)


def until(condition: Callable[[], object], patience: float = 60.0) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


@pytest.mark.parametrize("path", PATHS)
def test_a_message_is_in_the_inbox_when_the_answer_comes(path: str, post: Post) -> None:
    assert post(path, MINIMAL[path]).status_code == 202
    # Read by a connection that shares nothing with the one that wrote it.
    with somebody_else() as other:
        ((count,),) = other.execute("SELECT count(*) FROM ingestion_inboxmessage").fetchall()
    assert count == 1


def test_a_key_is_kept_as_its_digest_and_its_first_characters(post: Post, acme_key: str) -> None:
    assert post("/v2/track", TRACK).status_code == 202
    row = InboxMessage.objects.get()
    assert bytes(row.key_digest) == credentials.digest(acme_key)
    assert row.key_hint == acme_key[:9]


def test_what_is_no_key_of_ours_leaves_no_hint(post: Post) -> None:
    post("/v2/track", TRACK, HTTP_AUTHORIZATION="Basic AKIAIOSFODNN7EXAMPLE")
    assert InboxMessage.objects.get().key_hint == ""


@pytest.mark.parametrize("path", PATHS)
def test_keys_and_properties_do_not_reach_the_inbox(path: str, post: Post, acme_key: str) -> None:
    planted = {
        "properties": {"planted-name": "planted-value"},
        "context": {"ip": "planted-value"},
        "api_key": acme_key,
        "anything": ["planted-value"],
    }
    assert post(path, MINIMAL[path] | planted).status_code == 202
    with somebody_else() as other:
        ((row,),) = other.execute(
            "SELECT m::text || encode(payload, 'escape') FROM ingestion_inboxmessage m"
        ).fetchall()
    assert "planted" not in row
    assert acme_key[9:] not in row


def test_50_requests_at_once_are_all_committed_and_share_commits(post: Post) -> None:
    def send(number: int) -> int:
        return post("/v2/track", TRACK | {"userId": f"user {number}"}).status_code

    answers: list[int] = []
    requests = [partial(send, number) for number in range(50)]
    sending = threading.Thread(target=lambda: answers.extend(at_once(*requests)))
    with table_locked():
        # The first to come cannot be committed yet, and the others gather behind it.
        sending.start()
        time.sleep(0.5)
        assert not answers
    sending.join()
    assert answers == [202] * 50
    user_ids = [decode(row.payload).user_id for row in InboxMessage.objects.all()]
    assert sorted(user_ids) == sorted(f"user {number}" for number in range(50))
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(DISTINCT xmin::text) FROM ingestion_inboxmessage")
        (transactions,) = cursor.fetchone()
    assert transactions <= 25


def test_messages_of_one_request_are_committed_together(acme_key: str) -> None:
    group_commit.accept([track("ada"), track("bob"), track("cem")], acme_key, NOON)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*), count(DISTINCT xmin::text) FROM ingestion_inboxmessage")
        assert cursor.fetchone() == (3, 1)


# --- Groups that would be too large ---------------------------------------------------------


def rows_of_commits() -> list[int]:
    """How many messages each commit brought, the smallest first."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM ingestion_inboxmessage GROUP BY xmin::text")
        return sorted(count for (count,) in cursor.fetchall())


def accept_at_once(key: str, senders: int, messages: int) -> list[bool]:
    """So many senders hand in batches while nothing can be committed; which were accepted."""

    def send() -> bool:
        try:
            group_commit.accept([track("ada")] * messages, key, NOON)
        except group_commit.InboxUnavailable:
            return False
        return True

    with table_locked():
        sending = Eventually(lambda: at_once(*[send] * senders))
        until(waits_for_the_table)
        time.sleep(0.3)
    return sending.result()


def test_a_commit_takes_a_bounded_number_of_messages(
    monkeypatch: pytest.MonkeyPatch, acme_key: str
) -> None:
    monkeypatch.setattr(group_commit, "MAX_GROUP_ROWS", 10)
    assert accept_at_once(acme_key, senders=9, messages=4) == [True] * 9
    assert sum(rows_of_commits()) == 36
    assert max(rows_of_commits()) == 8


def test_a_commit_takes_a_bounded_number_of_bytes(
    monkeypatch: pytest.MonkeyPatch, acme_key: str
) -> None:
    size = len(encode(track("ada")))
    monkeypatch.setattr(group_commit, "MAX_GROUP_BYTES", 2 * 4 * size)
    assert accept_at_once(acme_key, senders=9, messages=4) == [True] * 9
    assert sum(rows_of_commits()) == 36
    assert max(rows_of_commits()) == 8


def test_what_is_larger_than_a_commit_should_be_is_committed_alone_and_whole(
    monkeypatch: pytest.MonkeyPatch, acme_key: str
) -> None:
    monkeypatch.setattr(group_commit, "MAX_GROUP_ROWS", 3)
    assert accept_at_once(acme_key, senders=4, messages=5) == [True] * 4
    assert rows_of_commits() == [5, 5, 5, 5]


def test_over_a_number_of_waiting_bytes_nobody_else_is_let_in(
    monkeypatch: pytest.MonkeyPatch, acme_key: str, post: Post
) -> None:
    size = len(encode(track("ada")))
    monkeypatch.setattr(group_commit, "MAX_WAITING_BYTES", 4 * 4 * size)
    answers = accept_at_once(acme_key, senders=20, messages=4)
    # Those of the group that is being committed do not wait any more.
    assert 4 <= answers.count(True) <= 8
    assert sum(rows_of_commits()) == 4 * answers.count(True)
    assert post("/v2/track", TRACK).status_code == 202


# --- Commits that fail ----------------------------------------------------------------------


def test_a_commit_that_times_out_is_no_202(short_timeout: None, post: Post) -> None:
    with table_locked():
        # Without a limit it would wait for the lock for ever.
        response = post("/v2/track", TRACK)
    assert refusal(response) == UNAVAILABLE
    assert int(response["Retry-After"]) >= 1
    assert post("/v2/track", TRACK | {"userId": "bob"}).status_code == 202
    assert [decode(row.payload).user_id for row in InboxMessage.objects.all()] == ["bob"]


def test_a_sender_behind_a_commit_that_times_out_learns_its_own_outcome(
    short_timeout: None, post: Post
) -> None:
    answers: dict[str, int] = {}

    def send(number: int) -> None:
        user = f"user {number}"
        time.sleep(number * 0.02)
        answers[user] = post("/v2/track", TRACK | {"userId": user}).status_code

    with table_locked():
        sending = Eventually(lambda: at_once(*(partial(send, number) for number in range(20))))
        # The first group is given up; the one behind it is committed, or given up as well.
        until(lambda: answers)
    sending.result()
    there = {decode(row.payload).user_id for row in InboxMessage.objects.all()}
    assert there == {user for user, status in answers.items() if status == 202}
    assert len(answers) == 20
    assert 503 in answers.values()


def test_what_nobody_began_to_commit_is_not_committed_later(
    monkeypatch: pytest.MonkeyPatch, post: Post
) -> None:
    monkeypatch.setattr(group_commit, "COMMIT_TIMEOUT", 0.3)
    with table_locked():
        first = Eventually(lambda: post("/v2/track", TRACK))
        time.sleep(0.1)
        second = post("/v2/track", TRACK | {"userId": "bob"})
        assert (first.result().status_code, second.status_code) == (503, 503)
    # The first one had reached the server; what became of it, nobody knew.
    assert post("/v2/track", TRACK | {"userId": "cem"}).status_code == 202
    there = {decode(row.payload).user_id for row in InboxMessage.objects.all()}
    assert "bob" not in there
    assert "cem" in there


def test_a_connection_killed_in_the_middle_of_a_commit_is_no_202(post: Post) -> None:
    with table_locked():
        sending = Eventually(lambda: post("/v2/track", TRACK))
        until(waits_for_the_table)
        kill_commit_connection()
    assert refusal(sending.result()) == UNAVAILABLE
    assert waiting() == []
    assert post("/v2/track", TRACK).status_code == 202
    assert len(waiting()) == 1


def test_a_connection_killed_while_idle_costs_no_request(
    monkeypatch: pytest.MonkeyPatch, post: Post
) -> None:
    monkeypatch.setattr(group_commit, "IDLE_BEFORE_CHECK", 0.0)
    assert post("/v2/track", TRACK).status_code == 202
    kill_commit_connection()
    assert post("/v2/track", TRACK).status_code == 202
    assert len(waiting()) == 2


def test_a_database_that_is_away_is_reported_once_and_returned_to(
    post: Post, caplog: pytest.LogCaptureFixture
) -> None:
    assert post("/v2/track", TRACK).status_code == 202
    with table_renamed():
        assert [post("/v2/track", TRACK).status_code for _ in range(3)] == [503] * 3
    assert post("/v2/track", TRACK).status_code == 202
    assert len(waiting()) == 2
    levels = [
        (record.name, record.levelname) for record in caplog.records if record.levelname == "ERROR"
    ]
    assert levels == [("ingestion.inbox.group_commit", "ERROR")]


def test_the_error_in_the_log_quotes_no_message(
    short_timeout: None, post: Post, caplog: pytest.LogCaptureFixture
) -> None:
    with table_locked():
        post("/v2/track", TRACK | {"userId": "planted"})
    assert "planted" not in caplog.text


# --- An inbox that is full ------------------------------------------------------------------


def test_a_full_inbox_takes_nothing_and_recovers_when_drained(
    post: Post, acme_key: str, settings: Settings
) -> None:
    settings.INBOX_LIMIT = 3
    wait(acme_key, *repeat([track("ada")], 3))
    response = post("/v2/track", TRACK)
    assert refusal(response) == UNAVAILABLE
    assert int(response["Retry-After"]) >= 1
    assert len(waiting()) == 3
    drain()
    until(lambda: post("/v2/track", TRACK).status_code == 202)
    assert len(waiting()) == 1


# --- The thread -----------------------------------------------------------------------------


def test_the_thread_commits_what_waits_before_it_ends(
    fresh_inbox: group_commit.GroupCommitter, post: Post
) -> None:
    with table_locked():
        requests = [partial(post, "/v2/track", TRACK) for _ in range(10)]
        sending = Eventually(lambda: at_once(*requests))
        until(waits_for_the_table)
        time.sleep(0.2)
        stopping = Eventually(fresh_inbox.stop)
    stopping.result()
    assert [response.status_code for response in sending.result()] == [202] * 10
    # The server's process ends a moment after its connection.
    until(lambda: commit_backends() == [])


def test_the_thread_takes_no_connection_from_the_pool(post: Post, settings: Settings) -> None:
    pooled = {**connection.settings_dict["OPTIONS"], "pool": {"min_size": 1, "max_size": 1}}
    with patched_options(pooled):
        assert post("/v2/track", TRACK).status_code == 202
        assert connection._connection_pools == {}  # type: ignore[attr-defined]
