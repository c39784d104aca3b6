"""A sync that cannot finish fails, and later syncs continue from what is known."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from pytest_django import Settings

from engagement.models import Product
from harness.marketplace.faults import Endpoint, ErrorStatus, HtmlPage
from harness.marketplace.server import Simulator
from marketplace import connecting
from marketplace.models import Connection, SyncRun
from marketplace.runs import scheduling
from marketplace.status import connection_status
from tests.marketplace.connections import (
    DAY,
    HOUR,
    NOON,
    Kind,
    RunState,
    State,
    a_license,
    accounts,
    connect,
    details_of,
    fast_client,
    latest,
    license_requests,
    licenses,
    sync_now,
    traits,
    work,
)

pytestmark = pytest.mark.django_db

LICENSES = Endpoint.LICENSES
WEEK = 7 * DAY


def scheduled(connection: Connection, now: datetime) -> SyncRun:
    """The run that the schedule starts at that time, after a worker's turn."""
    assert scheduling.request_due_syncs(now) == 1
    return work(connection, now)


def work_to_the_end(connection: Connection, now: datetime) -> SyncRun:
    """The unfinished run, worked on whenever it is due."""
    run = work(connection, now)
    for _ in range(50):
        if run.is_over:
            return run
        run = work(connection, max(run.due_at, now))
    raise AssertionError("It never ends.")


def offer_only_pages(simulator: Simulator) -> None:
    """Leave no other way to read the lists."""
    simulator.vendor = replace(simulator.vendor, has_exports=False, has_date_filter=False)


@pytest.fixture
def stuck(simulator: Simulator, connection: Connection) -> Connection:
    """A connection whose weekly full sync reaches a page that always fails."""
    simulator.feed.add(*licenses(simulator, 120))
    work(connection)
    offer_only_pages(simulator)
    simulator.add_faults(ErrorStatus(on=LICENSES, status=500, offset=100))
    assert scheduling.request_due_syncs(NOON + WEEK) == 1
    return connection


# --- Giving up ------------------------------------------------------------------------------


def test_a_page_that_always_fails_fails_the_sync_with_its_number_and_what_to_do(
    stuck: Connection,
) -> None:
    run = work_to_the_end(stuck, NOON + WEEK)
    assert (run.kind, run.state, run.seen) == (Kind.FULL, RunState.FAILED, 100)
    assert run.error == (
        "Page 3 of the list of licenses failed 6 times in a row: it returned 500. Imported "
        "licenses stay, changes continue to arrive, and the next full sync starts over. If this "
        "persists, contact the marketplace’s support."
    )
    assert run.finished_at is not None
    assert run.finished_at - run.requested_at == 310 * timedelta(minutes=1)
    stuck.refresh_from_db()
    assert (stuck.state, stuck.last_error) == (State.ACTIVE, run.error)


def test_the_error_mentions_the_list_of_the_page(
    simulator: Simulator, connection: Connection
) -> None:
    offer_only_pages(simulator)
    simulator.add_faults(ErrorStatus(on=LICENSES, status=503, after=1))
    run = work_to_the_end(connection, NOON)
    assert run.error.startswith(
        "Page 1 of the list of always free licenses failed 6 times in a row"
    )


@pytest.mark.slow
def test_a_sync_with_occasional_progress_fails_after_a_day(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 4000))
    now = NOON
    while now <= NOON + 2 * DAY:
        # A page more each time.
        offset = latest(connection).offset + 50
        simulator.add_faults(ErrorStatus(on=LICENSES, status=503, offset=offset))
        run = work(connection, now)
        simulator.clear_faults()
        if run.is_over:
            break
        assert run.due_at > now
        now = max(run.due_at, now + HOUR)
    assert run.state == RunState.FAILED
    assert "failed once" in run.error
    assert DAY < now - NOON < DAY + 2 * HOUR


def test_a_sync_that_never_finishes_in_its_turns_fails_after_a_day(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 400))
    work(connection, is_out_of_time=lambda: True)
    run = work(connection, NOON + DAY + HOUR, is_out_of_time=lambda: True)
    assert run.state == RunState.FAILED
    assert run.error.startswith("The sync did not finish within a day.")


# --- Afterwards -----------------------------------------------------------------------------


@pytest.mark.slow
def test_changes_arrive_while_full_syncs_fail(
    acme: Product, simulator: Simulator, stuck: Connection
) -> None:
    now = work_to_the_end(stuck, NOON + WEEK).finished_at
    assert now is not None
    kinds = []
    for turn in range(6):
        now += 6 * HOUR
        simulator.feed.touch(1, now.date(), tier=f"{turn + 2} Users")
        assert scheduling.request_due_syncs(now) == 1
        run = work_to_the_end(stuck, now)
        kinds.append((run.kind, run.state))
        if run.state == RunState.SUCCEEDED:
            assert traits(acme, "site-0001")["am.tier"] == f"{turn + 2} Users"
        now = run.finished_at or now
    recent, full = (Kind.RECENT, RunState.SUCCEEDED), (Kind.FULL, RunState.FAILED)
    assert kinds == [recent, full, recent, full, recent, full]


def test_the_next_full_sync_starts_over(simulator: Simulator, stuck: Connection) -> None:
    now = work_to_the_end(stuck, NOON + WEEK).finished_at
    assert now is not None
    simulator.clear_faults()
    simulator.requests.clear()
    run = scheduled(stuck, now + 12 * HOUR)
    assert (run.kind, run.state, run.seen) == (Kind.FULL, RunState.SUCCEEDED, 120)
    assert license_requests(simulator)[0].offset == 0


def test_sync_now_starts_a_sync_after_a_failed_one(simulator: Simulator, stuck: Connection) -> None:
    given_up = work_to_the_end(stuck, NOON + WEEK)
    assert sync_now(stuck, NOON + WEEK + 6 * HOUR).state == RunState.SUCCEEDED
    simulator.clear_faults()
    run = sync_now(stuck, NOON + WEEK + 6 * HOUR, Kind.FULL)
    assert run.pk != given_up.pk
    assert (run.kind, run.state) == (Kind.FULL, RunState.SUCCEEDED)


def test_after_a_first_sync_failed_midway_changes_arrive_and_it_starts_over(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 120))
    simulator.feed.add(a_license(simulator, 500, lastUpdated="2026-09-24"))
    simulator.add_faults(HtmlPage(on=LICENSES, offset=100, times=1))
    assert work(connection).state == RunState.FAILED
    run = scheduled(connection, NOON + 6 * HOUR)
    assert (run.kind, run.state) == (Kind.RECENT, RunState.SUCCEEDED)
    assert "site-0500" in accounts(acme)
    run = scheduled(connection, NOON + 12 * HOUR)
    assert (run.kind, run.state) == (Kind.FIRST, RunState.SUCCEEDED)
    assert len(accounts(acme)) == 121


def test_a_first_sync_that_imported_nothing_is_retried_at_once(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.add_faults(ErrorStatus(on=LICENSES, status=403, times=1))
    assert work(connection).state == RunState.FAILED
    assert scheduled(connection, NOON + 6 * HOUR).kind == Kind.FIRST


def test_new_details_start_over(simulator: Simulator, stuck: Connection) -> None:
    work_to_the_end(stuck, NOON + WEEK)
    simulator.clear_faults()
    checked = connecting.verify_details(details_of(simulator), fast_client)
    connecting.save_connection(stuck.product, checked, NOON + WEEK + 6 * HOUR)
    assert latest(stuck).kind == Kind.FULL


def test_after_a_gap_the_window_starts_earlier(simulator: Simulator, stuck: Connection) -> None:
    run = work_to_the_end(stuck, NOON + WEEK)
    now = run.finished_at
    assert now is not None
    # The last success was the first sync.
    assert scheduled(stuck, now + HOUR).since == (NOON - 5 * DAY).date()
    assert scheduled(stuck, now + 7 * HOUR).since == (now + 7 * HOUR - 5 * DAY).date()


def test_the_page_says_that_the_full_sync_failed(stuck: Connection) -> None:
    run = work_to_the_end(stuck, NOON + WEEK)
    now = NOON + WEEK + 6 * HOUR
    scheduled(stuck, now)
    stuck.refresh_from_db()
    page = connection_status.connection_status(stuck, now)
    assert (page.level, page.title) == ("warning", "Connected.")
    assert (page.reason, page.advice) == ("The last full sync failed.", run.error)


# --- Lists in use ---------------------------------------------------------------------------


def requested_lists(simulator: Simulator) -> list[str]:
    """The requested lists, each once."""
    names = []
    for request in license_requests(simulator):
        free = "always_free" if "showLifeTimeFreeLicenses" in request.parameters else "all"
        names.append(request.parameters.get("cloudComplianceBoundaries", free))
    return list(dict.fromkeys(names))


def test_changes_of_always_free_licenses_arrive(acme: Product, settings: Settings) -> None:
    with Simulator.with_licenses(60, today=NOON.date(), always_free=True) as simulator:
        settings.MARKETPLACE_API_URL = simulator.url
        connection = connect(acme, simulator)
        work(connection)
        record = simulator.feed.touch(1, NOON.date(), tier="77 Users")[0]
        run = sync_now(connection, NOON + 6 * HOUR)
        assert (run.kind, run.state) == (Kind.RECENT, RunState.SUCCEEDED)
        assert traits(acme, record["cloudId"])["am.tier"] == "77 Users"


@pytest.mark.parametrize("boundary", ["fedramp_moderate", "isolated_cloud"])
def test_a_special_cloud_with_licenses_in_the_last_full_sync_is_requested(
    acme: Product, simulator: Simulator, connection: Connection, boundary: str
) -> None:
    simulator.feed.add(a_license(simulator, 1, cloudComplianceBoundaries=[boundary]))
    work(connection)
    simulator.feed.touch(1, NOON.date(), tier="77 Users")
    simulator.requests.clear()
    sync_now(connection, NOON + 6 * HOUR)
    assert requested_lists(simulator) == ["all", "always_free", boundary]
    assert traits(acme, "site-0001")["am.tier"] == "77 Users"


def test_an_empty_list_of_always_free_licenses_is_requested_and_a_rejected_one_is_not(
    simulator: Simulator, connection: Connection
) -> None:
    work(connection)
    simulator.requests.clear()
    sync_now(connection, NOON + HOUR)
    assert requested_lists(simulator) == ["all", "always_free"]
    simulator.add_faults(ErrorStatus(on=LICENSES, status=400, after=1))
    sync_now(connection, NOON + 2 * HOUR, Kind.FULL)
    simulator.clear_faults()
    simulator.requests.clear()
    sync_now(connection, NOON + 3 * HOUR)
    assert requested_lists(simulator) == ["all"]
    # A full sync looks again.
    sync_now(connection, NOON + 4 * HOUR, Kind.FULL)
    simulator.requests.clear()
    sync_now(connection, NOON + 5 * HOUR)
    assert requested_lists(simulator) == ["all", "always_free"]


def test_all_lists_are_requested_until_their_findings_are_known(
    simulator: Simulator, connection: Connection
) -> None:
    work(connection)
    Connection.objects.update(lists=None)
    simulator.requests.clear()
    sync_now(connection, NOON + HOUR)
    assert requested_lists(simulator) == [
        "all",
        "always_free",
        "fedramp_moderate",
        "isolated_cloud",
    ]


def test_findings_survive_interruptions(simulator: Simulator, connection: Connection) -> None:
    simulator.feed.add(*licenses(simulator, 60))
    simulator.feed.add(a_license(simulator, 500, licenseType="FREE"))
    for _ in range(20):
        if work(connection, is_out_of_time=lambda: True).is_over:
            break
    connection.refresh_from_db()
    assert connection.lists == {
        **{"all": "used", "always_free": "used"},
        **{"fedramp_moderate": "empty", "isolated_cloud": "empty"},
    }


def test_findings_of_another_app_are_ignored(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    work(connection)
    other = simulator.vendor.apps[1].product_id
    checked = connecting.verify_details(details_of(simulator, product_id=other), fast_client)
    assert connecting.save_connection(acme, checked, NOON + HOUR).lists is None
