"""A sync that cannot go on is given up, and others go on from what is known."""

from datetime import datetime, timedelta

import pytest
from pytest_django import Settings

from engagement.models import Product
from marketplace import connecting, scheduling, status
from marketplace.models import Connection, SyncRun
from marketplace.simulator.faults import Endpoint, ErrorStatus, Html
from marketplace.simulator.server import Simulator
from tests.marketplace.connections import (
    DAY,
    HOUR,
    NOON,
    Kind,
    RunState,
    State,
    a_license,
    accounts,
    asked,
    connect,
    details_of,
    hurried,
    latest,
    licenses,
    sync_now,
    traits,
    work,
)

pytestmark = pytest.mark.django_db

LICENSES = Endpoint.LICENSES
WEEK = 7 * DAY


def scheduled(connection: Connection, now: datetime) -> SyncRun:
    """What the schedule starts at that time, after a worker has looked at it."""
    assert scheduling.request_all_syncs(now) == 1
    return work(connection, now)


def work_to_the_end(connection: Connection, now: datetime) -> SyncRun:
    """The unfinished run, worked on whenever it is due."""
    run = work(connection, now)
    for _ in range(50):
        if run.is_over:
            return run
        run = work(connection, max(run.due_at, now))
    raise AssertionError("It never ends.")


@pytest.fixture
def stuck(simulator: Simulator, connection: Connection) -> Connection:
    """A connection whose weekly full sync meets a page that always fails."""
    simulator.feed.add(*licenses(simulator, 120))
    work(connection)
    simulator.add_faults(ErrorStatus(on=LICENSES, status=500, offset=100))
    assert scheduling.request_all_syncs(NOON + WEEK) == 1
    return connection


# --- Giving up ------------------------------------------------------------------------------


def test_a_page_that_always_fails_ends_the_sync_with_its_number_and_what_to_do(
    stuck: Connection,
) -> None:
    run = work_to_the_end(stuck, NOON + WEEK)
    assert (run.kind, run.state, run.seen) == (Kind.FULL, RunState.FAILED, 100)
    assert run.error == (
        "Page 3 of the list of licenses could not be read in 6 attempts in a row: it answered "
        "500. The sync was given up. The licenses that it brought stay, later syncs bring what "
        "changes, and the next full sync starts from the beginning. If it stays so, ask the "
        "marketplace’s support."
    )
    assert run.finished_at is not None
    assert run.finished_at - run.requested_at == 310 * timedelta(minutes=1)
    stuck.refresh_from_db()
    assert (stuck.state, stuck.last_error) == (State.ACTIVE, run.error)


def test_a_page_of_another_list_is_named(simulator: Simulator, connection: Connection) -> None:
    simulator.add_faults(ErrorStatus(on=LICENSES, status=503, after=1))
    run = work_to_the_end(connection, NOON)
    assert run.error.startswith("Page 1 of the list of always free licenses could not be read")


def test_a_sync_that_comes_further_now_and_then_ends_after_a_day(
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
    assert "could not be read in one attempt" in run.error
    assert DAY < now - NOON < DAY + 2 * HOUR


def test_a_sync_that_only_ever_has_its_turn_ends_after_a_day(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 400))
    work(connection, out_of_time=lambda: True)
    run = work(connection, NOON + DAY + HOUR, out_of_time=lambda: True)
    assert run.state == RunState.FAILED
    assert run.error.startswith("The sync did not end within a day.")


# --- Afterwards -----------------------------------------------------------------------------


def test_changes_arrive_while_full_syncs_fail(
    acme: Product, simulator: Simulator, stuck: Connection
) -> None:
    now = work_to_the_end(stuck, NOON + WEEK).finished_at
    assert now is not None
    kinds = []
    for turn in range(6):
        now += 6 * HOUR
        simulator.feed.touch(1, now.date(), tier=f"{turn + 2} Users")
        assert scheduling.request_all_syncs(now) == 1
        run = work_to_the_end(stuck, now)
        kinds.append((run.kind, run.state))
        if run.state == RunState.SUCCEEDED:
            assert traits(acme, "site-0001")["am.tier"] == f"{turn + 2} Users"
        now = run.finished_at or now
    recent, full = (Kind.RECENT, RunState.SUCCEEDED), (Kind.FULL, RunState.FAILED)
    assert kinds == [recent, full, recent, full, recent, full]


def test_the_next_full_sync_starts_from_the_beginning(
    simulator: Simulator, stuck: Connection
) -> None:
    now = work_to_the_end(stuck, NOON + WEEK).finished_at
    assert now is not None
    simulator.clear_faults()
    simulator.asked.clear()
    run = scheduled(stuck, now + 12 * HOUR)
    assert (run.kind, run.state, run.seen) == (Kind.FULL, RunState.SUCCEEDED, 120)
    assert asked(simulator)[0].offset == 0


def test_sync_now_starts_one_after_a_sync_was_given_up(
    simulator: Simulator, stuck: Connection
) -> None:
    given_up = work_to_the_end(stuck, NOON + WEEK)
    assert sync_now(stuck, NOON + WEEK + 6 * HOUR).state == RunState.SUCCEEDED
    simulator.clear_faults()
    run = sync_now(stuck, NOON + WEEK + 6 * HOUR, Kind.FULL)
    assert run.pk != given_up.pk
    assert (run.kind, run.state) == (Kind.FULL, RunState.SUCCEEDED)


def test_a_first_sync_that_fails_on_its_way_lets_changes_arrive_and_begins_again(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 120))
    simulator.feed.add(a_license(simulator, 500, lastUpdated="2026-09-24"))
    simulator.add_faults(Html(on=LICENSES, offset=100, times=1))
    assert work(connection).state == RunState.FAILED
    run = scheduled(connection, NOON + 6 * HOUR)
    assert (run.kind, run.state) == (Kind.RECENT, RunState.SUCCEEDED)
    assert "site-0500" in accounts(acme)
    run = scheduled(connection, NOON + 12 * HOUR)
    assert (run.kind, run.state) == (Kind.FIRST, RunState.SUCCEEDED)
    assert len(accounts(acme)) == 121


def test_a_first_sync_that_brought_nothing_is_tried_again_at_once(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.add_faults(ErrorStatus(on=LICENSES, status=403, times=1))
    assert work(connection).state == RunState.FAILED
    assert scheduled(connection, NOON + 6 * HOUR).kind == Kind.FIRST


def test_new_details_begin_anew(simulator: Simulator, stuck: Connection) -> None:
    work_to_the_end(stuck, NOON + WEEK)
    simulator.clear_faults()
    checked = connecting.verify_details(details_of(simulator), hurried)
    connecting.save_connection(stuck.product, checked, NOON + WEEK + 6 * HOUR)
    assert latest(stuck).kind == Kind.FULL


def test_after_a_long_silence_changes_are_asked_for_from_further_back(
    simulator: Simulator, stuck: Connection
) -> None:
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
    shown = status.connection_status(stuck, now)
    assert (shown.level, shown.title) == ("warning", "Connected.")
    assert (shown.reason, shown.advice) == ("But the last full sync failed.", run.error)


# --- Lists in use ---------------------------------------------------------------------------


def lists_asked(simulator: Simulator) -> list[str]:
    """The lists that were asked for, each once."""
    names = []
    for one in asked(simulator):
        free = "always_free" if "showLifeTimeFreeLicenses" in one.parameters else "all"
        names.append(one.parameters.get("cloudComplianceBoundaries", free))
    return list(dict.fromkeys(names))


def test_an_always_free_app_gets_what_changed(acme: Product, settings: Settings) -> None:
    with Simulator.with_licenses(60, today=NOON.date(), always_free=True) as simulator:
        settings.MARKETPLACE_API_URL = simulator.url
        connection = connect(acme, simulator)
        work(connection)
        record = simulator.feed.touch(1, NOON.date(), tier="77 Users")[0]
        run = sync_now(connection, NOON + 6 * HOUR)
        assert (run.kind, run.state) == (Kind.RECENT, RunState.SUCCEEDED)
        assert traits(acme, record["cloudId"])["am.tier"] == "77 Users"


@pytest.mark.parametrize("boundary", ["fedramp_moderate", "isolated_cloud"])
def test_a_special_cloud_that_the_last_full_sync_found_in_use_is_asked_for(
    acme: Product, simulator: Simulator, connection: Connection, boundary: str
) -> None:
    simulator.feed.add(a_license(simulator, 1, cloudComplianceBoundaries=[boundary]))
    work(connection)
    simulator.feed.touch(1, NOON.date(), tier="77 Users")
    simulator.asked.clear()
    sync_now(connection, NOON + 6 * HOUR)
    assert lists_asked(simulator) == ["all", "always_free", boundary]
    assert traits(acme, "site-0001")["am.tier"] == "77 Users"


def test_an_empty_list_of_always_free_licenses_is_asked_for_and_a_refused_one_is_not(
    simulator: Simulator, connection: Connection
) -> None:
    work(connection)
    simulator.asked.clear()
    sync_now(connection, NOON + HOUR)
    assert lists_asked(simulator) == ["all", "always_free"]
    simulator.add_faults(ErrorStatus(on=LICENSES, status=400, after=1))
    sync_now(connection, NOON + 2 * HOUR, Kind.FULL)
    simulator.clear_faults()
    simulator.asked.clear()
    sync_now(connection, NOON + 3 * HOUR)
    assert lists_asked(simulator) == ["all"]
    # A full sync looks again.
    sync_now(connection, NOON + 4 * HOUR, Kind.FULL)
    simulator.asked.clear()
    sync_now(connection, NOON + 5 * HOUR)
    assert lists_asked(simulator) == ["all", "always_free"]


def test_where_nobody_knows_yet_all_lists_are_asked_for(
    simulator: Simulator, connection: Connection
) -> None:
    work(connection)
    Connection.objects.update(lists=None)
    simulator.asked.clear()
    sync_now(connection, NOON + HOUR)
    assert lists_asked(simulator) == ["all", "always_free", "fedramp_moderate", "isolated_cloud"]


def test_what_a_list_holds_is_remembered_over_interruptions(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 60))
    simulator.feed.add(a_license(simulator, 500, licenseType="FREE"))
    for _ in range(20):
        if work(connection, out_of_time=lambda: True).is_over:
            break
    connection.refresh_from_db()
    assert connection.lists == {
        **{"all": "used", "always_free": "used"},
        **{"fedramp_moderate": "empty", "isolated_cloud": "empty"},
    }


def test_lists_of_another_app_say_nothing(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    work(connection)
    other = simulator.vendor.apps[1].product_id
    checked = connecting.verify_details(details_of(simulator, product_id=other), hurried)
    assert connecting.save_connection(acme, checked, NOON + HOUR).lists is None
