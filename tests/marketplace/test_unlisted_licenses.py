"""A license that leaves the feed keeps its last state, says since when, and no longer wins."""

import dataclasses
from typing import Any

import pytest

from engagement.models import Product
from harness.marketplace.faults import Endpoint, ErrorStatus, WrongTotal
from harness.marketplace.server import Simulator
from marketplace.models import Connection, License
from tests.marketplace.connections import (
    HOUR,
    NOON,
    Kind,
    RunState,
    a_license,
    licenses,
    sync_now,
    traits,
    versions,
    work,
)

pytestmark = pytest.mark.django_db

UNLISTED = "am.unlistedSince"


@pytest.fixture
def synced(simulator: Simulator, connection: Connection) -> Connection:
    """A connection with 60 licenses; the last two belong to one site, and the paid one counts."""
    simulator.feed.add(*licenses(simulator, 58))
    simulator.feed.add(a_license(simulator, 59, "twin", licenseType="COMMERCIAL", tier="50 Users"))
    simulator.feed.add(a_license(simulator, 60, "twin", licenseType="COMMUNITY", tier="10 Users"))
    work(connection)
    return connection


def unlisted(product: Product) -> set[str]:
    rows = License.objects.filter(product=product, unlisted_since__isnull=False)
    return set(rows.values_list("key", flat=True))


def test_what_a_full_sync_does_not_find_is_marked_and_what_returns_is_not(
    acme: Product, simulator: Simulator, synced: Connection
) -> None:
    row = simulator.feed.change(57)
    simulator.feed.remove(58)
    simulator.feed.remove(57)
    assert sync_now(synced, NOON + HOUR).unlisted == 0
    assert unlisted(acme) == set(), "recent changes say nothing of the others"
    run = sync_now(synced, NOON + 2 * HOUR, Kind.FULL)
    assert (run.state, run.unlisted, run.accounts_updated) == (RunState.SUCCEEDED, 2, 2)
    assert unlisted(acme) == {"E-0058", "E-0059"}
    lone = traits(acme, "site-0058")
    assert (lone["am.status"], lone[UNLISTED]) == ("active", "2026-09-24")
    twin = traits(acme, "twin")
    assert (twin["am.tier"], UNLISTED in twin) == ("10 Users", False), "what is listed counts"
    before = versions()
    assert sync_now(synced, NOON + 3 * HOUR, Kind.FULL).unlisted == 0
    assert versions() == before
    # It returns, unchanged and among recent changes.
    simulator.feed.add(row | {"lastUpdated": "2026-09-24"})
    assert sync_now(synced, NOON + 4 * HOUR).imported == 1
    assert UNLISTED not in traits(acme, "site-0058")


def test_an_unchanged_license_that_returns_loses_its_mark(
    acme: Product, simulator: Simulator, synced: Connection
) -> None:
    row = simulator.feed.change(0)
    simulator.feed.remove(0)
    sync_now(synced, NOON + HOUR, Kind.FULL)
    assert traits(acme, "site-0001")[UNLISTED] == "2026-09-24"
    simulator.feed.add(row)
    sync_now(synced, NOON + 2 * HOUR, Kind.FULL)
    assert unlisted(acme) == set()
    assert UNLISTED not in traits(acme, "site-0001")


@pytest.mark.parametrize("fields", [{"cloudId": None}, {"cloudId": " "}])
def test_a_license_that_lost_its_site_is_no_longer_listed(
    acme: Product, simulator: Simulator, synced: Connection, fields: dict[str, Any]
) -> None:
    simulator.feed.change(0, **fields)
    sync_now(synced, NOON + HOUR, Kind.FULL)
    assert unlisted(acme) == {"E-0001"}


def test_an_invalid_record_is_listed_all_the_same(
    acme: Product, simulator: Simulator, synced: Connection
) -> None:
    simulator.feed.change(0, cloudId=["a list"])
    run = sync_now(synced, NOON + HOUR, Kind.FULL)
    assert (run.state, run.failed, unlisted(acme)) == (RunState.SUCCEEDED, 1, set())


def test_an_incomplete_sync_marks_nothing(
    acme: Product, simulator: Simulator, synced: Connection
) -> None:
    simulator.feed.remove(0)
    # It fails on its way, or the marketplace reports more than it sends.
    simulator.add_faults(ErrorStatus(on=Endpoint.LICENSES, status=403, offset=50))
    assert sync_now(synced, NOON + HOUR, Kind.FULL).state == RunState.FAILED
    simulator.clear_faults()
    simulator.add_faults(WrongTotal(on=Endpoint.LICENSES, total=61))
    run = sync_now(synced, NOON + 2 * HOUR, Kind.FULL)
    assert run.state == RunState.SUCCEEDED
    assert "The marketplace reports 61 licenses and sent 59." in run.note
    assert unlisted(acme) == set()
    simulator.clear_faults()
    simulator.vendor = dataclasses.replace(simulator.vendor, reports_totals=True)
    sync_now(synced, NOON + 3 * HOUR, Kind.FULL)
    assert unlisted(acme) == {"E-0001"}


@pytest.mark.parametrize("status", [400, 403])
def test_a_list_that_is_refused_says_nothing_of_its_licenses(
    acme: Product, simulator: Simulator, connection: Connection, status: int
) -> None:
    simulator.feed.add(*licenses(simulator, 10))
    simulator.feed.add(a_license(simulator, 11, cloudComplianceBoundaries=["fedramp_moderate"]))
    work(connection)
    for turn in (1, 2):
        simulator.add_faults(ErrorStatus(on=Endpoint.LICENSES, status=status, after=2, times=2))
        run = sync_now(connection, NOON + turn * HOUR, Kind.FULL)
        assert (run.state, f"({status})" in run.note) == (RunState.SUCCEEDED, True)
        assert unlisted(acme) == set()
        simulator.clear_faults()
