"""A sync that read everything and brought nothing is no success; irregular lists are recognized."""

from typing import Any

import pytest

from engagement.models import Product
from harness.marketplace.faults import (
    Circle,
    EndlessLink,
    Endpoint,
    ErrorStatus,
    ShortPage,
    WrongTotal,
)
from harness.marketplace.feed import Feed
from harness.marketplace.server import Simulator
from marketplace import connecting
from marketplace.models import Connection
from marketplace.runs import scheduling
from tests.marketplace.connections import (
    DAY,
    HOUR,
    NOON,
    Kind,
    RunState,
    State,
    a_license,
    accounts,
    details_of,
    fast_client,
    latest,
    licenses,
    sync_now,
    work,
)

pytestmark = pytest.mark.django_db

LICENSES = Endpoint.LICENSES


# --- Nothing usable -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"cloudId": None}, "None of 3 licenses can be used: 3 without a Cloud ID."),
        ({"appEntitlementNumber": None}, "3 unreadable or invalid. The first reason: The record "),
        ({"productId": "another"}, "None of 3 licenses can be used: 3 of another product."),
    ],
)
def test_a_full_sync_without_a_usable_license_fails_and_says_why(
    simulator: Simulator, connection: Connection, fields: dict[str, Any], sentence: str
) -> None:
    rows = [record | fields for record in licenses(simulator, 3)]
    simulator.feed.add(*rows, leaks=True)
    run = work(connection)
    assert run.state == RunState.FAILED
    assert sentence in run.error
    connection.refresh_from_db()
    assert (connection.last_error, connection.last_success_at) == (run.error, None)


def test_recent_changes_may_all_be_unusable(simulator: Simulator, connection: Connection) -> None:
    simulator.feed.add(*licenses(simulator, 3))
    work(connection)
    simulator.feed.add(a_license(simulator, 9, lastUpdated="2026-09-24") | {"cloudId": None})
    run = sync_now(connection, NOON + HOUR)
    assert (run.state, run.skipped) == (RunState.SUCCEEDED, 1)


def test_an_empty_list_where_there_were_many_licenses_fails_and_changes_nothing(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 60))
    work(connection)
    simulator.feed = Feed([])
    run = sync_now(connection, NOON + HOUR, Kind.FULL)
    assert (run.state, run.unlisted) == (RunState.FAILED, 0)
    assert run.error.startswith("The marketplace lists no licenses. The last full sync found 60.")
    assert len(accounts(acme)) == 60


# --- Irregular lists ------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [20, 49])
def test_short_pages_lose_nothing(
    acme: Product, simulator: Simulator, connection: Connection, rows: int
) -> None:
    simulator.feed.add(*licenses(simulator, 230))
    simulator.add_faults(ShortPage(on=LICENSES, rows=rows))
    run = work(connection)
    assert (run.state, run.seen, len(accounts(acme))) == (RunState.SUCCEEDED, 230, 230)


def test_an_empty_page_does_not_end_a_list_that_goes_on(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 230))
    simulator.add_faults(ShortPage(on=LICENSES, rows=0, offset=100, times=1))
    run = work(connection)
    assert run.state == RunState.SUCCEEDED
    assert "site-0151" in accounts(acme)


@pytest.mark.parametrize("total", [None, 60])
def test_a_link_that_leads_on_for_ever_ends_the_list(
    simulator: Simulator, connection: Connection, total: int | None
) -> None:
    simulator.feed.add(*licenses(simulator, 60))
    simulator.add_faults(EndlessLink(on=LICENSES))
    if total:
        simulator.add_faults(WrongTotal(on=LICENSES, total=total))
    run = work(connection)
    assert (run.state, run.seen) == (RunState.SUCCEEDED, 60)
    assert run.pages < 25
    assert ("stops with empty pages" in run.note) == (total is None)


@pytest.mark.parametrize("pages", [1, 2, 3, 7])
def test_a_circle_of_pages_fails_the_sync(
    simulator: Simulator, connection: Connection, pages: int
) -> None:
    simulator.feed.add(*licenses(simulator, 400))
    simulator.add_faults(Circle(on=LICENSES, pages=pages))
    run = work(connection)
    assert run.state == RunState.FAILED
    assert "its list of licenses does not end" in run.error
    assert run.pages < 60


@pytest.mark.parametrize("total", [-1, 1.5, "many", True, None, 2**70])
def test_a_total_that_is_no_number_is_ignored(
    simulator: Simulator, connection: Connection, total: Any
) -> None:
    simulator.feed.add(*licenses(simulator, 3))
    simulator.add_faults(WrongTotal(on=LICENSES, total=total))
    run = work(connection)
    assert (run.state, run.note) == (RunState.SUCCEEDED, "")


# --- A full sync that was cut off -----------------------------------------------------------


@pytest.mark.parametrize("cut", ["401", "new details", "403"])
def test_a_full_sync_that_was_cut_off_is_taken_up_again_as_a_full_one(
    acme: Product, simulator: Simulator, connection: Connection, cut: str
) -> None:
    simulator.feed.add(*licenses(simulator, 120))
    work(connection)
    # A day later somebody presses "Full sync". No full sync is due by itself.
    now = NOON + DAY
    scheduling.request_sync(connection, Kind.FULL, now)
    if cut != "new details":
        simulator.add_faults(ErrorStatus(on=LICENSES, status=int(cut), offset=50))
    turns = iter([True] if cut == "new details" else [])
    run = work(connection, now, is_out_of_time=lambda: next(turns, False))
    assert run.is_over == (cut != "new details")
    simulator.clear_faults()
    if cut != "403":
        checked = connecting.verify_details(details_of(simulator), fast_client)
        connecting.save_connection(acme, checked, now + HOUR)
        assert latest(connection).kind == Kind.FULL
    now += 13 * HOUR
    run = sync_now(connection, now)
    assert (run.kind, run.state) == (Kind.FULL, RunState.SUCCEEDED)
    assert sync_now(connection, now + HOUR).kind == Kind.RECENT
    connection.refresh_from_db()
    assert connection.state == State.ACTIVE
