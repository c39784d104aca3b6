"""An interrupted sync is suspended and resumes from its position."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import chain, repeat

import pytest
from cryptography.fernet import Fernet
from pytest_django import Settings

from engagement.models import Product
from harness.marketplace.faults import (
    ConnectionDrop,
    Endpoint,
    ErrorStatus,
    Fault,
    HtmlPage,
    IncompleteBody,
    OversizedBody,
    Redirect,
    TruncatedJson,
    UnexpectedJson,
)
from harness.marketplace.server import Simulator
from marketplace import texts
from marketplace.models import Connection, SyncRun
from marketplace.runs import lifecycle, scheduling
from tests.marketplace.connections import (
    HOUR,
    NOON,
    Kind,
    RunState,
    State,
    a_license,
    accounts,
    counters,
    latest,
    license_requests,
    licenses,
    sync_now,
    work,
)

pytestmark = pytest.mark.django_db

LICENSES = Endpoint.LICENSES
MINUTES = timedelta(minutes=1)


def offsets(simulator: Simulator) -> list[int]:
    return [request.offset for request in license_requests(simulator)]


# --- What passes by itself ------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        ErrorStatus(on=LICENSES, status=429, times=2),
        ErrorStatus(on=LICENSES, status=429, retry_after="30", times=1),
        ErrorStatus(on=LICENSES, status=500, times=3),
        ErrorStatus(on=LICENSES, status=503, retry_after="Thu, 24 Sep 2026 12:00:20 GMT", times=1),
        ConnectionDrop(on=LICENSES, times=2),
        IncompleteBody(on=LICENSES, times=1),
    ],
)
def test_a_short_failure_is_retried_at_once(
    simulator: Simulator, connection: Connection, fault: Fault
) -> None:
    simulator.feed.add(*licenses(simulator, 3))
    simulator.add_faults(fault)
    run = work(connection)
    assert (run.state, run.error, run.attempt) == (RunState.SUCCEEDED, "", 1)
    connection.refresh_from_db(fields=["last_error"])
    assert connection.last_error == ""


# --- What takes longer ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (ErrorStatus(on=LICENSES, status=429), "it returned 429"),
        (ErrorStatus(on=LICENSES, status=503), "it returned 503"),
        (ConnectionDrop(on=LICENSES), "the connection failed"),
    ],
)
def test_a_longer_failure_suspends_the_sync_at_its_position(
    acme: Product, simulator: Simulator, connection: Connection, fault: Fault, reason: str
) -> None:
    simulator.feed.add(*licenses(simulator, 160))
    fault.offset = 100
    simulator.add_faults(fault)
    run = work(connection)
    assert (run.state, run.due_at) == (RunState.WAITING, NOON + 10 * MINUTES)
    assert run.error == (
        f"The marketplace is unavailable: {reason}. The sync resumes later where it stopped."
    )
    assert offsets(simulator) == [0, 50, 100, 100, 100, 100], "a few quick attempts"
    assert len(accounts(acme)) == 100
    connection.refresh_from_db()
    assert (connection.state, connection.last_error) == (State.ACTIVE, run.error)
    assert connection.last_error_at == NOON

    simulator.clear_faults()
    simulator.requests.clear()
    assert work(connection, NOON + 9 * MINUTES).state == RunState.WAITING, "not yet"
    assert license_requests(simulator) == []
    run = work(connection, NOON + 10 * MINUTES)
    assert offsets(simulator)[:4] == [50, 100, 150, 100], "with one page of overlap"
    assert (run.state, run.error) == (RunState.SUCCEEDED, "")
    # Records that were read twice count once.
    assert counters(run) == {"seen": 160, "imported": 160, "accounts_created": 160}
    connection.refresh_from_db()
    assert connection.last_success_at == NOON + 10 * MINUTES
    assert connection.full_synced_at == NOON


def test_the_backoff_doubles_and_the_sixth_failure_in_a_row_fails_the_sync(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.add_faults(ErrorStatus(status=503))
    now, pauses = NOON, []
    while (run := work(connection, now)).state == RunState.WAITING:
        # Without a pause, the run tries other ways to read the list.
        if run.due_at > now:
            pauses.append((run.due_at - now) / MINUTES)
        now = run.due_at
    assert pauses == [10, 20, 40, 80, 160]
    assert run.state == RunState.FAILED


def test_progress_resets_the_backoff(simulator: Simulator, connection: Connection) -> None:
    simulator.feed.add(*licenses(simulator, 110))
    simulator.add_faults(ErrorStatus(status=503, times=8))
    run = work(connection)
    run = work(connection, run.due_at)
    simulator.add_faults(ErrorStatus(status=503, offset=50))
    run = work(connection, due := run.due_at)
    assert run.due_at - due == 10 * MINUTES


@pytest.mark.parametrize(
    ("retry_after", "pause"),
    [
        ("120", 10 * MINUTES),
        ("3600", HOUR),
        ("Thu, 24 Sep 2026 15:00:00 GMT", 3 * HOUR),
        ("999999999", 6 * HOUR),
        ("soon", 10 * MINUTES),
        ("-5", 10 * MINUTES),
    ],
)
def test_retry_after_extends_the_backoff(
    simulator: Simulator, connection: Connection, retry_after: str, pause: timedelta
) -> None:
    simulator.add_faults(ErrorStatus(on=LICENSES, status=429, retry_after=retry_after))
    assert work(connection).due_at == NOON + pause


def test_sync_now_resumes_a_suspended_sync(simulator: Simulator, connection: Connection) -> None:
    simulator.add_faults(ErrorStatus(status=503, times=4))
    waiting = work(connection)
    run = sync_now(connection, NOON + MINUTES)
    assert (run.pk, run.state) == (waiting.pk, RunState.SUCCEEDED)


def test_the_schedule_leaves_a_waiting_sync_alone(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.add_faults(ErrorStatus(status=503))
    waiting = work(connection)
    assert scheduling.request_due_syncs(NOON + MINUTES) == 0
    assert latest(connection) == waiting


# --- What needs a person --------------------------------------------------------------------


def test_a_401_requires_authentication_at_once(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 60))
    simulator.add_faults(ErrorStatus(on=LICENSES, status=401, offset=50))
    run = work(connection)
    assert offsets(simulator) == [0, 50], "no second attempt"
    assert run.state == RunState.FAILED
    connection.refresh_from_db()
    assert connection.state == State.REQUIRES_AUTHENTICATION
    assert connection.state_changed_at == NOON
    assert connection.state_reason == run.error == connection.last_error
    assert connection.state_reason == (
        "The marketplace rejects the user name or the API token (401). The token may have expired "
        "or been revoked."
    )
    assert len(accounts(acme)) == 50, "what was imported stays"


def test_while_authentication_is_required_nothing_syncs(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.add_faults(ErrorStatus(on=LICENSES, status=401, times=1))
    run = work(connection)
    simulator.requests.clear()
    assert scheduling.request_due_syncs(NOON + 6 * HOUR) == 0
    assert scheduling.due_connection_ids(NOON + 6 * HOUR) == []
    with pytest.raises(scheduling.ConnectionInactive, match="Enter its details again"):
        scheduling.request_sync(connection, Kind.RECENT, NOON + 6 * HOUR)
    assert work(connection, NOON + 6 * HOUR) == run
    assert license_requests(simulator) == []


INTERFACE_CHANGED = "If this persists, the marketplace’s API has changed: update this service."


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (
            ErrorStatus(on=LICENSES, status=403),
            "The marketplace account lacks the permission to view the vendor’s license reports "
            "(403). Ask for this permission, or connect with another account. "
            f"{texts.WITHOUT_SCOPES}",
        ),
        (
            ErrorStatus(on=LICENSES, status=404),
            "The marketplace has no license reports for this vendor and app (404). If the vendor "
            "or the app has moved, enter the details again.",
        ),
        (
            ErrorStatus(on=LICENSES, status=410),
            texts.API_GONE,
        ),
        (
            ErrorStatus(on=LICENSES, status=400),
            f"The marketplace rejected the request for licenses (400). {INTERFACE_CHANGED}",
        ),
        *(
            (fault, f"The marketplace’s response cannot be used: {what}. {INTERFACE_CHANGED}")
            for fault, what in [
                (HtmlPage(on=LICENSES), "it is a web page"),
                (TruncatedJson(on=LICENSES), "it is not complete JSON"),
                (UnexpectedJson(on=LICENSES, value=[]), "its JSON has an unexpected structure"),
                (
                    UnexpectedJson(on=LICENSES, value={"licenses": None}),
                    "its JSON has an unexpected structure",
                ),
                (
                    UnexpectedJson(on=LICENSES, value={"licenses": {}}),
                    "its JSON has an unexpected structure",
                ),
                (Redirect(on=LICENSES, to="https://evil.example/"), "it is a redirect"),
                (OversizedBody(on=LICENSES, megabytes=21), "it is larger than 20 MB"),
                (OversizedBody(on=LICENSES, megabytes=200, packed=True), "it is larger than 20 MB"),
                (ErrorStatus(on=LICENSES, status=418), "its status is 418"),
            ]
        ),
    ],
)
def test_a_permanent_failure_ends_the_sync_and_leaves_the_connection_active(
    simulator: Simulator, connection: Connection, fault: Fault, sentence: str
) -> None:
    simulator.feed.add(*licenses(simulator, 3))
    simulator.add_faults(fault)
    run = work(connection)
    if fault == ErrorStatus(on=LICENSES, status=400):
        # It might have rejected data insights without a start date.
        run = work(connection)
    else:
        assert len(license_requests(simulator)) == 1
    assert (run.state, run.error) == (RunState.FAILED, sentence)
    connection.refresh_from_db()
    assert (connection.state, connection.last_error) == (State.ACTIVE, sentence)
    assert connection.last_error_at == NOON
    assert scheduling.request_due_syncs(NOON + 6 * HOUR) == 1, "the schedule tries again"


def test_a_forbidden_extra_list_fails_the_sync(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.add_faults(ErrorStatus(on=LICENSES, status=403, after=1))
    assert work(connection).state == RunState.FAILED


def test_a_token_that_cannot_be_decrypted_fails_the_sync(
    simulator: Simulator, connection: Connection, settings: Settings
) -> None:
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    run = work(connection)
    assert run.state == RunState.FAILED
    assert run.error.startswith("The stored credentials cannot be decrypted")
    assert license_requests(simulator) == []


# --- Workers that come and go ---------------------------------------------------------------


class Killed(BaseException):
    """The worker dies without any cleanup."""


def killed_after(pages: int) -> Callable[[], None]:
    """An *on_pages_written* that kills the worker after this many calls."""
    turns: Iterator[bool] = chain(repeat(False, pages - 1), [True])

    def after_pages() -> None:
        if next(turns):
            raise Killed

    return after_pages


def test_a_sync_resumes_from_its_page_after_its_worker_was_killed(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 200))
    with pytest.raises(Killed):
        work(connection, on_pages_written=killed_after(pages=2))
    assert latest(connection).state == RunState.RUNNING
    assert len(accounts(acme)) == 100
    assert scheduling.due_connection_ids(NOON) == [connection.pk], "nobody holds its lock"

    simulator.requests.clear()
    run = work(connection)
    assert offsets(simulator)[:4] == [50, 100, 150, 100]
    assert (run.state, run.attempt) == (RunState.SUCCEEDED, 2)
    assert counters(run) == {"seen": 200, "imported": 200, "accounts_created": 200}


def test_a_sync_fails_after_repeated_crashes_at_the_same_page(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 3))
    lifecycle.claim(connection.pk, NOON)
    for _ in range(lifecycle.MAX_CRASH_COUNT):
        assert lifecycle.claim(connection.pk, NOON) is not None
    assert lifecycle.claim(connection.pk, NOON) is None
    run = latest(connection)
    assert run.state == RunState.FAILED
    assert run.error == (
        "The worker stopped unexpectedly several times at the same page. See its log."
    )


def test_a_sync_fails_after_repeated_crashes_at_a_later_page(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 120))
    with pytest.raises(Killed):
        work(connection, on_pages_written=killed_after(pages=2))
    for _ in range(lifecycle.MAX_CRASH_COUNT):
        # The page before the third is read again each time.
        with pytest.raises(Killed):
            work(connection, on_pages_written=killed_after(pages=1))
    assert work(connection).state == RunState.FAILED


def test_a_sync_releases_its_worker_in_time_and_resumes_with_the_next(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 200))
    turns = 0
    while (run := work(connection, is_out_of_time=lambda: True)).state == RunState.WAITING:
        turns += 1
        assert run.due_at == NOON
        assert scheduling.due_connection_ids(NOON) == [connection.pk]
        assert turns < 20
    assert run.state == RunState.SUCCEEDED
    assert counters(run) == {"seen": 200, "imported": 200, "accounts_created": 200}
    # Each turn reads one page again and one further page.
    assert turns > 3


def test_a_sync_that_is_out_of_time_requests_no_page_that_it_does_not_import(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 200))
    turns = iter([False, True])
    assert work(connection, is_out_of_time=lambda: next(turns)).state == RunState.WAITING
    assert offsets(simulator) == [0, 50]
    assert latest(connection).seen == 100


def test_a_resumed_sync_keeps_its_window(simulator: Simulator, connection: Connection) -> None:
    work(connection)
    simulator.add_faults(ErrorStatus(status=503, times=4))
    first = sync_now(connection, NOON + 6 * HOUR)
    simulator.requests.clear()
    run = work(connection, NOON + 48 * HOUR)
    assert (run.pk, run.state) == (first.pk, RunState.SUCCEEDED)
    assert {request.parameters["lastUpdated"] for request in license_requests(simulator)} == {
        "2026-09-19"
    }


def test_a_full_sync_replaces_a_sync_of_recent_changes(
    simulator: Simulator, connection: Connection
) -> None:
    work(connection)
    simulator.add_faults(ErrorStatus(status=503, times=4))
    recent = sync_now(connection, NOON + 6 * HOUR)
    full = sync_now(connection, NOON + 7 * HOUR, Kind.FULL)
    recent.refresh_from_db()
    assert (recent.state, recent.note) == (RunState.STOPPED, "Replaced by a full sync.")
    assert (full.kind, full.state) == (Kind.FULL, RunState.SUCCEEDED)


def test_a_second_request_returns_the_unfinished_sync(connection: Connection) -> None:
    first = latest(connection)
    for kind in (Kind.RECENT, Kind.FULL):
        assert scheduling.request_sync(connection, kind, NOON + HOUR).pk == first.pk
    assert SyncRun.objects.count() == 1


def test_every_sync_is_a_first_one_until_one_succeeds(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(a_license(simulator, 1))
    simulator.add_faults(HtmlPage(on=LICENSES, times=1))
    work(connection)
    run = sync_now(connection, NOON + HOUR)
    assert (run.kind, run.imported) == (Kind.FIRST, 1)
