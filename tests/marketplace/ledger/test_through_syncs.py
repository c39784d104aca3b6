"""The worked examples through real syncs of the simulated marketplace, and what the job writes."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from django.db import DatabaseError

from engagement.models import Product
from harness.marketplace.server import Simulator
from marketplace.ledger import observations, recomputation
from marketplace.models import (
    Connection,
    Feedback,
    Ledger,
    LedgerLicense,
    License,
    LicenseAlias,
    LicenseEvent,
    Observation,
    SyncRun,
    Transaction,
)
from tests.jobs import run_job, step_job
from tests.marketplace import connections
from tests.marketplace.connections import Kind, RunState, sync_now, work
from tests.marketplace.ledger.examples import EXAMPLES, Example, ExampleLicense, Row, day, row
from tests.marketplace.ledger.feeds import expected

pytestmark = pytest.mark.django_db

# A year before the first row of any example.
BEFORE = datetime(2024, 9, 1, 12, tzinfo=UTC)


def noon(on: date) -> datetime:
    return datetime.combine(on, time(12), UTC)


def a_record(simulator: Simulator, number: str, row: Row, **fields: Any) -> dict[str, Any]:
    return {
        "appEntitlementNumber": number,
        "productId": simulator.vendor.app.product_id,
        "addonKey": simulator.vendor.app.key,
        "lastUpdated": row.seen.isoformat(),
        "cloudComplianceBoundaries": ["commercial"],
        "contactDetails": {"company": "Brindle Tea", "technicalContact": {"email": "a@b.example"}},
        **row.fields,
        **fields,
    }


def list_only(simulator: Simulator, *records: dict[str, Any]) -> None:
    while len(simulator.feed):
        simulator.feed.remove(0)
    simulator.feed.add(*records)


def sync_on(connection: Connection, on: date, kind: SyncRun.Kind = Kind.FULL) -> None:
    run = sync_now(connection, noon(on), kind)
    assert run.state == RunState.SUCCEEDED, run.error
    run_job(recomputation.KIND, noon(on))


def events(product: Product, license: str | None = None) -> list[tuple[str, str]]:
    rows = LicenseEvent.objects.filter(product=product, withdrawn_at=None)
    if license:
        rows = rows.filter(license=license)
    return sorted((event.date.isoformat(), event.type) for event in rows)


@pytest.fixture
def connection(acme: Product, simulator: Simulator) -> Connection:
    """Acme's connection, whose first sync found nothing."""
    new = connections.connect(acme, simulator, BEFORE)
    work(new, BEFORE)
    run_job(recomputation.KIND, BEFORE)
    return new


def play(example: Example, simulator: Simulator, connection: Connection) -> None:
    """Show the example's rows on their days, with a full sync on each, and look a last time."""
    product = connection.product
    days = {(row.seen, name) for name, own in example.licenses.items() for row in own.rows}
    days |= {(on, name) for name, own in example.licenses.items() for on, _ in own.listings}
    for on in sorted({on for on, _ in days} | {example.look}):
        records = [
            a_record(simulator, name, row)
            for name, license in example.licenses.items()
            for row in rows_of(license, on)
        ]
        list_only(simulator, *records)
        sync_on(connection, on)
    for name, license in example.licenses.items():
        add_reports(product, name, license, example.look)
    run_job(recomputation.KIND, noon(example.look))


def rows_of(license: ExampleLicense, on: date) -> list[Row]:
    """The license's rows that the reports have on this day: the latest, which may be two."""
    listings = [is_listed for at, is_listed in license.listings if at <= on]
    days = [row.seen for row in license.rows if row.seen <= on]
    if not days or (listings and not listings[-1]):
        return []
    return [row for row in license.rows if row.seen == max(days)]


def add_reports(product: Product, name: str, license: ExampleLicense, on: date) -> None:
    for line in license.transactions:
        Transaction.objects.create(
            product=product,
            transaction_id=line.transaction_id,
            line_item_id=line.line_item_id,
            names=[name],
            sale_date=line.sale_date,
            fields=line.fields,
            digest=b"",
            recorded_at=noon(on),
        )
    for number, entry in enumerate(license.feedback):
        Feedback.objects.create(
            product=product,
            digest=bytes([number]),
            names=[name],
            date=entry.date,
            type=entry.type,
            reason_key=entry.reason_key,
            recorded_at=noon(on),
        )
    observations.mark_changed(product.pk, [name])


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.has_history], ids=str)
def test_an_example_through_syncs(
    example: Example, acme: Product, simulator: Simulator, connection: Connection
) -> None:
    play(example, simulator, connection)
    for name, license in example.licenses.items():
        assert events(acme, name) == expected(license), name


@pytest.mark.parametrize("example", [e for e in EXAMPLES if not e.has_history], ids=str)
def test_an_example_of_the_first_import(
    example: Example, acme: Product, simulator: Simulator
) -> None:
    license = example.licenses["A"]
    first = license.rows[0]
    simulator.feed.add(a_record(simulator, "A", first))
    connection = connections.connect(acme, simulator, noon(first.seen))
    work(connection, noon(first.seen))
    run_job(recomputation.KIND, noon(first.seen))
    play(example, simulator, connection)
    assert events(acme, "A") == expected(license)


LEFT = next(example for example in EXAMPLES if example.number == 15)


def test_the_ledger_has_no_contacts_and_no_companies(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    play(LEFT, simulator, connection)
    for model in (Ledger, LedgerLicense, LicenseAlias, Observation, LicenseEvent):
        text = str(list(model.objects.values()))
        assert "Brindle" not in text and "@" not in text, model


def test_a_sync_that_finds_the_same_writes_nothing_into_the_ledger(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    play(LEFT, simulator, connection)
    before = list(Observation.objects.values()), list(LedgerLicense.objects.values())
    revision = Ledger.objects.get(product=acme).revision
    sync_on(connection, LEFT.look + timedelta(7))
    sync_on(connection, LEFT.look + timedelta(8), Kind.RECENT)
    assert (list(Observation.objects.values()), list(LedgerLicense.objects.values())) == before
    assert Ledger.objects.get(product=acme).revision == revision


def test_a_touched_license_has_no_new_state(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(a_record(simulator, "A", row("06-01 C a 06-01→27-06-01 10")))
    sync_on(connection, day("06-01"))
    simulator.feed.change(0, lastUpdated="2026-06-20", attribution={"channel": "referral"})
    sync_on(connection, day("06-20"))
    assert Observation.objects.count() == 1
    assert License.objects.get().fields["lastUpdated"] == "2026-06-20"


def test_a_state_that_changed_without_another_update_counts_from_its_sync(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(a_record(simulator, "A", row("06-01 C a 06-01→27-06-01 10")))
    sync_on(connection, day("06-01"))
    # Of two rows of one day, the active one counts before the cancelled one.
    simulator.feed.change(0, maintenanceEndDate="2028-06-01")
    sync_on(connection, day("06-20"))
    assert [state.as_of for state in Observation.objects.order_by("as_of")] == [
        day("06-01"),
        day("06-20"),
    ]


def test_silence_is_not_churn_and_a_look_after_grace_is(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(a_record(simulator, "A", row("06-01 C a 06-01→07-01 10")))
    sync_on(connection, day("06-01"))
    # Nobody looks until November.
    run_job(recomputation.KIND, noon(day("11-01")))
    assert events(acme) == [("2026-06-01", "purchased")]
    sync_on(connection, day("11-02"))
    assert events(acme) == [("2026-06-01", "purchased"), ("2026-07-01", "churned")]
    churned = LicenseEvent.objects.get(type="churned")
    assert churned.known_on == day("07-31") and not churned.is_announced


def test_a_payment_after_grace_was_not_over_withdraws_churn_and_a_lapse_restores_it(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(a_record(simulator, "A", row("06-01 C a 06-01→07-01 10")))
    sync_on(connection, day("06-01"))
    simulator.feed.change(0, status="inactive", lastUpdated="2026-07-02")
    sync_on(connection, day("07-02"))
    churned = LicenseEvent.objects.get(type="churned")
    assert churned.is_announced and churned.withdrawn_at is None
    revision = Ledger.objects.get(product=acme).revision
    simulator.feed.change(
        0,
        status="active",
        lastUpdated="2026-07-10",
        maintenanceStartDate="2026-07-01",
        maintenanceEndDate="2026-08-01",
    )
    sync_on(connection, day("07-10"))
    churned.refresh_from_db()
    assert churned.withdrawn_at == noon(day("07-10"))
    assert LicenseEvent.objects.get(type="renewed").is_announced
    assert Ledger.objects.get(product=acme).revision == revision + 1
    # A correction: the end moves back.
    simulator.feed.change(
        0,
        status="inactive",
        lastUpdated="2026-07-12",
        maintenanceStartDate="2026-06-01",
        maintenanceEndDate="2026-07-01",
    )
    sync_on(connection, day("07-12"))
    announced = LicenseEvent.objects.filter(is_announced=True, type="churned")
    assert announced.count() == 1


def test_what_earlier_releases_stored_is_filled_in_and_not_announced(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(
        *(
            a_record(simulator, f"E-{number}", row("06-01 C a 06-01→27-06-01 10"))
            for number in range(3)
        )
    )
    sync_on(connection, day("06-01"))
    for model in (LicenseEvent, Observation, LicenseAlias, LedgerLicense, Ledger):
        model.objects.all().delete()
    run_job(recomputation.KIND, noon(day("06-02")))
    assert set(LicenseEvent.objects.values_list("license", "type", "is_announced")) == {
        (f"E-{number}", "first_seen", False) for number in range(3)
    }
    simulator.feed.change(1, status="cancelled", lastUpdated="2026-06-05")
    sync_on(connection, day("06-05"))
    (cancelled,) = LicenseEvent.objects.filter(is_announced=True)
    assert (cancelled.license, cancelled.type) == ("E-1", "cancelled")


def test_a_license_that_gets_an_entitlement_number_stays_one(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    old = a_record(simulator, "", row("06-01 C a 06-01→27-06-01 10"), addonLicenseId="4711")
    simulator.feed.add(old)
    sync_on(connection, day("06-01"))
    simulator.feed.change(
        0, appEntitlementNumber="E-1", status="cancelled", lastUpdated="2026-06-09"
    )
    sync_on(connection, day("06-09"))
    assert set(License.objects.values_list("key", flat=True)) == {"4711", "E-1"}
    assert events(acme, "4711") == [("2026-06-01", "purchased"), ("2026-06-09", "cancelled")]
    assert LedgerLicense.objects.get().key == "E-1"


def test_a_step_that_fails_leaves_the_events_as_they_were(
    acme: Product, simulator: Simulator, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulator.feed.add(
        *(
            a_record(simulator, f"E-{number}", row("06-01 C a 06-01→27-06-01 10"))
            for number in range(5)
        )
    )
    monkeypatch.setattr(recomputation, "BATCH_SIZE", 2)
    sync_now(connection, noon(day("06-01")), Kind.FULL)
    rest = recomputation._rest

    def killed(*arguments: Any) -> None:
        rest(*arguments)
        raise DatabaseError("killed")

    # The first step fills, the second one writes the events of two licenses.
    step_job(recomputation.KIND, noon(day("06-01")))
    step_job(recomputation.KIND, noon(day("06-01")))
    before = events(acme)
    with monkeypatch.context() as patch, pytest.raises(AssertionError, match="killed"):
        patch.setattr(recomputation, "_rest", killed)
        step_job(recomputation.KIND, noon(day("06-01")))
    assert events(acme) == before != []
    run_job(recomputation.KIND, noon(day("06-01")) + timedelta(days=1))
    assert events(acme) == [("2026-06-01", "purchased")] * 5
