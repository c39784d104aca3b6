"""A connection's page explains its state and its syncs."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from engagement.models import Product
from marketplace.models import Connection, FailedRecord, SyncRun
from marketplace.status import connection_status
from tests.admin.rows import NOON, a_connection

pytestmark = pytest.mark.django_db

State, Kind = Connection.State, SyncRun.Kind
HOUR = timedelta(hours=1)


def a_run(connection: Connection, state: str, **fields: Any) -> SyncRun:
    over = state in ("succeeded", "failed", "stopped")
    return SyncRun.objects.create(
        **{
            "connection": connection,
            "generation": connection.generation,
            "kind": Kind.RECENT,
            "since": NOON.date(),
            "state": state,
            "requested_at": NOON,
            "due_at": NOON,
            "started_at": NOON,
            "finished_at": NOON + timedelta(seconds=3) if over else None,
            **fields,
        }
    )


def of(
    product: Product, now: datetime = NOON + HOUR, **fields: Any
) -> connection_status.ConnectionStatus:
    return connection_status.connection_status(a_connection(product, **fields), now)


# --- The state ----------------------------------------------------------------------------------


def test_an_active_connection_is_healthy(acme: Product) -> None:
    page = of(acme)
    assert (page.level, page.title) == ("good", "Connected.")
    assert page.last_success is not None and page.last_success.at == NOON
    assert page.last_success.distance == "1\xa0hour ago"
    assert page.last_error is None


def test_before_the_first_success_the_status_says_what_comes(acme: Product) -> None:
    assert of(acme, last_success_at=None).reason == "The first sync imports all licenses."


@pytest.mark.parametrize(
    ("failed_at", "level", "advice"),
    [(NOON - HOUR, "good", ""), (NOON + timedelta(minutes=1), "warning", "It answered 503.")],
)
def test_an_error_since_the_last_success_is_shown_first(
    acme: Product, failed_at: datetime, level: str, advice: str
) -> None:
    page = of(acme, last_error="It answered 503.", last_error_at=failed_at)
    assert (page.level, page.advice) == (level, advice)


def test_an_expired_token_shows_the_reason_and_what_to_do(acme: Product) -> None:
    page = of(acme, state=State.REQUIRES_AUTHENTICATION, state_reason="The token was refused.")
    assert (page.level, page.title) == ("bad", "Requires authentication.")
    assert page.reason == "The token was refused."
    assert "enter all four details again" in page.advice
    assert page.next_sync is None


def test_a_disconnected_connection_says_that_traits_stay(acme: Product) -> None:
    page = of(acme, state=State.DISCONNECTED, api_token=None)
    assert (page.level, page.title) == ("quiet", "Disconnected.")
    assert "stay on their accounts" in page.advice
    assert page.next_sync is None


# --- A sync under way ---------------------------------------------------------------------------


def progress(connection: Connection) -> connection_status.SyncProgress | None:
    return connection_status.connection_status(connection, NOON + HOUR).progress


def test_no_progress_without_an_unfinished_sync(acme: Product) -> None:
    assert progress(a_connection(acme)) is None


def test_a_running_sync_shows_its_page_and_its_licenses(acme: Product) -> None:
    connection = a_connection(acme)
    a_run(connection, "running", pages=1200, seen=60_000, unchanged=60_000)
    line = progress(connection)
    assert line is not None
    assert line.sentence == "Recent changes sync: page 1,200, 60,000 licenses so far."
    assert line.share is None, "nobody knows how many there will be"


@pytest.mark.parametrize(("records_seen", "share"), [(0, 0), (250, 49), (503, 99), (9000, 99)])
def test_the_progress_of_a_full_sync_is_relative_to_the_last_one(
    acme: Product, records_seen: int, share: int
) -> None:
    connection = a_connection(acme)
    a_run(connection, "succeeded", seen=3, unchanged=3)
    a_run(
        connection,
        "running",
        kind=Kind.FULL,
        since=None,
        pages=1,
        seen=records_seen,
        unchanged=records_seen,
    )
    line = progress(connection)
    assert line is not None and line.share == share


def test_a_due_sync_waits_for_a_worker(acme: Product) -> None:
    connection = a_connection(acme)
    a_run(connection, "waiting", started_at=None)
    line = progress(connection)
    assert line is not None and "waiting for a free worker" in line.sentence


def test_a_suspended_sync_shows_no_progress(acme: Product) -> None:
    connection = a_connection(acme)
    a_run(connection, "waiting", due_at=NOON + 3 * HOUR)
    assert progress(connection) is None


# --- The history --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "fields", "result", "level"),
    [
        ("succeeded", {}, "Succeeded.", "good"),
        ("succeeded", {"note": "Isolated clouds refused."}, "Isolated clouds refused.", "good"),
        ("failed", {"error": "It answered HTML."}, "Failed. It answered HTML.", "bad"),
        ("stopped", {"note": "Disconnected."}, "Stopped. Disconnected.", "quiet"),
        ("running", {}, "Running.", "quiet"),
        ("waiting", {"started_at": None}, "Waiting for a free worker.", "quiet"),
        (
            "waiting",
            {"due_at": NOON + 3 * HOUR, "error": "It answered 503."},
            "Resumes in 2\xa0hours. It answered 503.",
            "warning",
        ),
    ],
)
def test_each_sync_shows_its_outcome(
    acme: Product, state: str, fields: Any, result: str, level: str
) -> None:
    connection = a_connection(acme)
    a_run(connection, state, **fields)
    row = connection_status.connection_status(connection, NOON + HOUR).history[0]
    assert row.result.endswith(result)
    assert row.level == level


def test_the_history_shows_one_page_of_syncs_newest_first(acme: Product) -> None:
    connection = a_connection(acme)
    created_ids = [
        a_run(connection, "succeeded").pk for _ in range(connection_status.HISTORY_LENGTH + 5)
    ]
    shown_ids = [
        row.run.pk for row in connection_status.connection_status(connection, NOON + HOUR).history
    ]
    assert shown_ids == created_ids[::-1][: connection_status.HISTORY_LENGTH]


def test_stored_failed_records_are_listed_with_their_reasons(
    acme: Product,
) -> None:
    connection = a_connection(acme)
    run = a_run(connection, "succeeded", seen=40, unchanged=10, failed=30)
    for number in range(20):
        FailedRecord.objects.create(run=run, license_key=f"E-{number}", reason="Not readable.")
    row = connection_status.connection_status(connection, NOON + HOUR).history[0]
    assert [str(record) for record in row.failures[:2]] == ["E-0", "E-1"]
    assert row.failures_left_out == 10


def test_the_number_of_queries_does_not_depend_on_the_history(
    acme: Product, django_assert_max_num_queries: Any
) -> None:
    connection = a_connection(acme)
    for _ in range(connection_status.HISTORY_LENGTH):
        FailedRecord.objects.create(run=a_run(connection, "succeeded", seen=1, failed=1))
    with django_assert_max_num_queries(6):
        connection_status.connection_status(connection, NOON + HOUR)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.1 s"),
        (9.94, "9.9 s"),
        (12.4, "12 s"),
        (59.6, "1 min 0 s"),
        (200, "3 min 20 s"),
        (3599.7, "1 h 0 min"),
        (7500, "2 h 5 min"),
    ],
)
def test_durations_in_words(seconds: float, text: str) -> None:
    assert connection_status.format_duration(timedelta(seconds=seconds)) == text
