"""Two licenses that turn out to be one, and what the first import shows of a license."""

from datetime import date, timedelta
from typing import Any

import pytest

from engagement.models import Product
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from harness.marketplace.server import Simulator
from marketplace.ledger import observations, recomputation
from marketplace.ledger.joining import join_listings
from marketplace.licenses.conversion import ParsedLicense
from marketplace.models import (
    Connection,
    LedgerLicense,
    License,
    LicenseAlias,
    LicenseEvent,
    Observation,
)
from notifications.models import OutboxMessage
from notifications.triggers import LICENSE_EVENTS, Trigger
from notifications.watching.sweep import sweep
from tests.jobs import run_job
from tests.marketplace import connections
from tests.marketplace.connections import Kind, RunState, sync_now, work
from tests.marketplace.ledger.examples import day, row
from tests.marketplace.ledger.test_through_syncs import (
    a_record,
    events,
    list_only,
    noon,
    sync_on,
)
from tests.marketplace.ledger.test_through_syncs import connection as connection
from tests.notifications.rows import a_destination, subscribe

pytestmark = pytest.mark.django_db

OLD, NEW = {"addonLicenseId": "4711"}, {"appEntitlementNumber": "E-1"}
BOTH = {"addonLicenseId": "4711", "appEntitlementNumber": "E-1"}
# A license that had both of its ids all the time.
OTHER = {"addonLicenseId": "4712", "appEntitlementNumber": "E-2"}
# What the reports list on a day, with the ids under which they list it.
STORY: list[tuple[str, dict[str, Any]]] = [
    ("06-01 C a 06-01→07-01 10 cloud=s1", OLD),
    ("07-02 C i 06-01→07-01 10 cloud=s1", OLD),
    ("07-04 C a 07-01→08-01 10 cloud=s2", NEW),
    ("07-06 C a 07-01→08-01 10 cloud=s2", BOTH),
    ("07-30 C a 08-01→09-01 12 cloud=s2", BOTH),
]


def tell(
    simulator: Simulator, connection: Connection, story: list[tuple[str, dict[str, Any]]] = STORY
) -> None:
    """Have a sync read each day of the story, of one license by its ids and of another by both."""
    records: dict[str, dict[str, Any]] = {}
    for text, ids in story:
        state = row(text)
        if ids == BOTH:
            records.clear()
        for number, own in enumerate((ids, OTHER)):
            fields = {"appEntitlementNumber": "", **own}
            fields["cloudId"] = f"{state.fields['cloudId']}-{number}"
            name = "other" if number else str(ids)
            records[name] = a_record(simulator, "", state, **fields)
        list_only(simulator, *records.values())
        sync_on(connection, state.seen)
        sweep(noon(state.seen) + timedelta(minutes=1))


def facts(product: Product, license: str) -> list[tuple[str, str, date, date]]:
    rows = LicenseEvent.objects.filter(product=product, license=license, withdrawn_at=None)
    return sorted((event.type, event.anchor, event.date, event.known_on) for event in rows)


def test_two_licenses_that_turn_out_to_be_one_have_the_events_of_one(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    tell(simulator, connection, STORY[:3])
    assert events(acme, "4711") == [("2026-06-01", "purchased"), ("2026-07-01", "churned")]
    assert events(acme, "E-1") == [("2026-07-01", "purchased")]
    tell(simulator, connection, STORY[3:])
    assert [type for _, type in events(acme, "4711")] == [
        "purchased",
        "renewed",
        "moved_site",
        "renewed",
        "seats_up",
    ]
    (other,) = LedgerLicense.objects.filter(key="E-2").values_list("license", flat=True)
    assert [row[:3] for row in facts(acme, "4711") if row[0] != "moved_site"] == [
        row[:3] for row in facts(acme, other) if row[0] != "moved_site"
    ]
    assert events(acme, "E-1") == []
    joined = LedgerLicense.objects.exclude(key="E-2").get()
    assert (joined.license, joined.key, joined.listings) == ("4711", "E-1", [])
    names = LicenseAlias.objects.filter(license="4711").values_list("name", flat=True)
    assert set(names) == {"4711", "E-1"}
    assert not Observation.objects.filter(license="E-1").exists()


def test_nothing_of_joined_licenses_is_announced_twice(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    destination = a_destination(acme)
    for trigger in (*LICENSE_EVENTS, Trigger.LICENSE_EVENT_WITHDRAWN):
        subscribe(destination, trigger)
    tell(simulator, connection)
    news = [
        (data["event"], data["date"], "Withdrawn" in title)
        for title, data in (
            (message.title, message.payload["data"])
            for message in OutboxMessage.objects.order_by("pk")
        )
        if data["license"] in ("4711", "E-1")
    ]
    assert len(news) == len(set(news))
    assert ("churned", "2026-07-01", False) in news
    assert ("churned", "2026-07-01", True) in news
    assert ("renewed", "2026-07-01", False) in news
    assert not LicenseEvent.objects.filter(license="E-1", is_announced=True).exists()


def test_a_row_of_the_history_may_name_both(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    tell(simulator, connection, STORY[:3])
    parsed = ParsedLicense(
        "E-1", "s2-0", {**row("07-06 C a 07-01→08-01 10 cloud=s2-0").fields, **BOTH}, b"{}", b""
    )
    observations.add_history(acme.pk, [(parsed, day("07-04"))], noon(day("07-07")))
    run_job(recomputation.KIND, noon(day("07-07")))
    assert [type for _, type in events(acme, "4711")] == ["purchased", "renewed", "moved_site"]


def test_forgetting_the_account_deletes_what_the_other_license_left(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    tell(simulator, connection)
    assert LicenseEvent.objects.filter(license="E-1").exists()
    for site in ("s2-0", "s2-1"):
        subject = SubjectRef(acme.pk, SubjectScope.ACCOUNT, site)
        assert forgetting.forget(subject, noon(day("08-02")), suppress=True)
    assert not LicenseEvent.objects.exists()


def test_joined_licenses_are_unlisted_while_none_is_listed() -> None:
    first, two, three, four = (date(2026, 6, number) for number in range(1, 5))
    assert join_listings([[(first, True), (two, False)], [(two, True)]]) == []
    assert join_listings([[(first, True), (two, False)], [(three, True), (four, False)]]) == [
        (two, False),
        (three, True),
        (four, False),
    ]
    assert join_listings([[(two, True)], [(first, True), (three, False)]]) == []


# --- The first import -----------------------------------------------------------------------


def test_a_license_that_changes_during_the_first_import_keeps_its_first_state(
    acme: Product, simulator: Simulator
) -> None:
    simulator.feed.add(a_record(simulator, "E-1", row("05-20 C a 06-01→07-01 10")))
    new = connections.connect(acme, simulator, noon(day("05-20")))
    assert work(new, noon(day("05-20"))).state == RunState.SUCCEEDED
    # The job has had no turn yet.
    simulator.feed.change(0, tier="25 Users", lastUpdated="2026-05-22")
    assert sync_now(new, noon(day("05-22")), Kind.RECENT).state == RunState.SUCCEEDED
    run_job(recomputation.KIND, noon(day("05-22")))
    states = Observation.objects.order_by("as_of").values_list("as_of", "fields__tier")
    assert list(states) == [(day("05-20"), "10 Users"), (day("05-22"), "25 Users")]
    assert events(acme) == [("2026-05-20", "first_seen"), ("2026-05-22", "seats_up")]


def test_two_states_within_the_first_import_are_two_states(
    acme: Product, simulator: Simulator
) -> None:
    others = [
        a_record(simulator, f"E-{number}", row("05-20 C a 06-01→07-01 10"))
        for number in range(2, 52)
    ]
    simulator.feed.add(
        a_record(simulator, "E-1", row("05-20 C a 06-01→07-01 10")),
        *others,
        a_record(simulator, "E-1", row("05-22 C a 06-01→07-01 25")),
    )
    new = connections.connect(acme, simulator, noon(day("05-25")))
    assert work(new, noon(day("05-25"))).state == RunState.SUCCEEDED
    run_job(recomputation.KIND, noon(day("05-25")))
    states = Observation.objects.filter(license="E-1").order_by("as_of")
    assert [state.fields["tier"] for state in states] == ["10 Users", "25 Users"]
    assert License.objects.get(key="E-1").fields["tier"] == "25 Users"
