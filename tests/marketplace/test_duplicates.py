"""The latest of several rows of a license counts, in every sync and in any order."""

from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engagement.models import Product
from harness.marketplace.feed import Feed
from harness.marketplace.server import Simulator
from marketplace.models import Connection, License, PendingLicense, Report, SeenLicenses
from marketplace.runs import reading, scheduling, sync
from marketplace.source import client
from tests.cases import examples, leaves_no_rows
from tests.marketplace.connections import (
    HOUR,
    NOON,
    Kind,
    RunState,
    a_license,
    connect,
    counters,
    licenses,
    sync_now,
    traits,
    versions,
    work,
)

pytestmark = pytest.mark.django_db


def rows_of_one(simulator: Simulator) -> tuple[dict[str, Any], dict[str, Any]]:
    """An older and a newer row of the same license."""
    older = a_license(simulator, 1, tier="10 Users", lastUpdated="2026-09-20")
    newer = a_license(simulator, 1, tier="25 Users", lastUpdated="2026-09-22")
    return older, newer


@pytest.mark.parametrize("between", [0, 60])
@pytest.mark.parametrize("older_first", [False, True])
@pytest.mark.parametrize("kind", [Kind.FULL, Kind.RECENT])
def test_an_older_row_of_a_license_never_counts(
    acme: Product,
    simulator: Simulator,
    connection: Connection,
    kind: Any,
    older_first: bool,
    between: int,
) -> None:
    older, newer = rows_of_one(simulator)
    first, last = (older, newer) if older_first else (newer, older)
    simulator.feed.add(first, *licenses(simulator, between, first=100), last)
    work(connection)
    assert traits(acme, "site-0001")["am.tier"] == "25 Users"
    before = versions()
    for turn in range(1, 4):
        run = sync_now(connection, NOON + turn * HOUR, kind)
        assert (run.state, run.imported) == (RunState.SUCCEEDED, 0)
        assert versions() == before, "nothing is written on the way, either"


def test_a_duplicate_that_arrives_later_changes_nothing(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    older, newer = rows_of_one(simulator)
    simulator.feed.add(newer)
    work(connection)
    before = versions()
    for place in (0, 1):
        simulator.feed.add(older, at=place)
        run = sync_now(connection, NOON + HOUR, Kind.FULL)
        assert counters(run)["unchanged"] == run.seen
        assert versions() == before
    assert traits(acme, "site-0001")["am.tier"] == "25 Users"


def test_a_license_whose_last_update_moved_back_is_imported(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    older, newer = rows_of_one(simulator)
    simulator.feed.add(newer, *licenses(simulator, 60, first=100))
    work(connection)
    simulator.feed.change(0, **older)
    run = sync_now(connection, NOON + HOUR, Kind.FULL)
    assert traits(acme, "site-0001")["am.tier"] == "10 Users"
    assert counters(run) == {
        **{"seen": 61, "imported": 1, "unchanged": 60},
        "accounts_updated": 1,
    }


@pytest.mark.parametrize("kind", [Kind.FULL, Kind.RECENT])
@pytest.mark.parametrize("tier", ["1 User", "25 Users", "100 Users"])
def test_any_change_on_the_same_day_is_imported(
    acme: Product, simulator: Simulator, connection: Connection, tier: str, kind: Any
) -> None:
    simulator.feed.add(a_license(simulator, 1, lastUpdated="2026-09-24"))
    work(connection)
    simulator.feed.change(0, tier=tier, status="inactive")
    assert sync_now(connection, NOON + HOUR, kind).imported == 1
    assert traits(acme, "site-0001")["am.tier"] == tier


def test_a_sync_of_recent_changes_ignores_rows_outside_its_window(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    current = a_license(simulator, 1, tier="25 Users", lastUpdated="2026-09-02")
    undated = a_license(simulator, 1, tier="10 Users", lastUpdated=None)
    simulator.feed.add(current, undated)
    work(connection)
    run = sync_now(connection, NOON + HOUR)
    assert counters(run) == {"seen": 1, "unchanged": 1}
    assert traits(acme, "site-0001")["am.tier"] == "25 Users"


def test_pending_rows_are_deleted_at_the_end_of_a_run(
    simulator: Simulator, connection: Connection
) -> None:
    older, newer = rows_of_one(simulator)
    simulator.feed.add(newer, *licenses(simulator, 150, first=100), older)
    work(connection)
    scheduling.request_sync(connection, Kind.FULL, NOON + HOUR)
    turns = iter([False, False, True])
    run = work(connection, NOON + HOUR, is_out_of_time=lambda: next(turns))
    assert (run.state, run.offset) == (RunState.WAITING, 150)
    assert SeenLicenses.objects.exists()
    run = work(connection, NOON + HOUR)
    assert run.state == RunState.SUCCEEDED
    assert not SeenLicenses.objects.exists()
    assert not PendingLicense.objects.exists()


# --- Whatever the feed ----------------------------------------------------------------------

DAYS = ["2026-09-19", "2026-09-22", "2026-09-24", None]
ROWS = st.fixed_dictionaries(
    {
        "number": st.integers(1, 3),
        "lastUpdated": st.sampled_from(DAYS),
        "tier": st.sampled_from(["10 Users", "25 Users"]),
        "status": st.sampled_from(["active", "inactive"]),
        "cloud": st.sampled_from(["fjord", "harbor"]),
    }
)


def stored(product: Product) -> tuple[Any, Any]:
    rows = License.objects.filter(product=product).order_by("key")
    stored_traits = {
        name: traits(product, name) for name in ("fjord", "harbor") if rows.filter(cloud_id=name)
    }
    return list(rows.values_list("key", "cloud_id", "fields")), stored_traits


@pytest.mark.slow
@examples(5)
@given(
    before=st.lists(ROWS, max_size=4),
    rows=st.lists(ROWS, min_size=1, max_size=7),
    orders=st.lists(st.randoms(use_true_random=False), min_size=3, max_size=3),
    sizes=st.lists(st.integers(1, 4), min_size=4, max_size=4),
    reports=st.lists(st.sampled_from([Report.PAGES, Report.EXPORT]), min_size=4, max_size=4),
)
@leaves_no_rows
def test_syncing_an_unchanged_feed_changes_nothing_in_any_order_page_split_and_report(
    db: None,
    simulator: Simulator,
    before: Any,
    rows: Any,
    orders: Any,
    sizes: Any,
    reports: Any,
) -> None:
    """The feed holds other rows before: what is stored then must not matter."""
    product = Product.create_with_workspace("Initech")
    simulator.feed = Feed(records_for(simulator, before))
    connection = connect(product, simulator)
    work(connection)
    simulator.feed = Feed(records_for(simulator, rows))
    outcome = None
    for turn, (size, order) in enumerate(zip(sizes, [None, *orders], strict=True)):
        if order is not None:
            order.shuffle(rows)
            simulator.feed = Feed(records_for(simulator, rows))
        Connection.objects.filter(pk=connection.pk).update(report=reports[turn])
        # The file of an export stays as it is.
        simulator.exports.clear()
        with (
            mock.patch.object(client, "PAGE_SIZE", size),
            mock.patch.object(reading, "PAGE_SIZE", size),
            mock.patch.object(sync, "PAGE_SIZE", size),
        ):
            run = sync_now(connection, NOON + turn * HOUR, Kind.FULL)
        assert run.state == RunState.SUCCEEDED
        assert turn == 0 or (run.imported, run.unlisted) == (0, 0)
        assert outcome in (None, stored(product))
        outcome = stored(product)


def records_for(simulator: Simulator, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [a_license(simulator, **row) for row in rows]
