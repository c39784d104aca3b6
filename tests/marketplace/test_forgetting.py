"""The licenses of a forgotten account are deleted; a full sync imports them again or not."""

import pytest
from django.db.models import Model

from engagement.models import Account, Product, RescoreRequest
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import deletion, forgetting
from engagement.removal.jobs import DELETE_PRODUCT, ERASE_FORGOTTEN
from harness.marketplace.server import Simulator
from marketplace.ledger import recomputation
from marketplace.models import (
    Connection,
    Ledger,
    LedgerLicense,
    License,
    LicenseAlias,
    LicenseEvent,
    MetricEvent,
    Observation,
    Transaction,
)
from outcomes.models import LicenseOutcome, LicenseRevision
from tests.jobs import run_job
from tests.license_events import add_event
from tests.marketplace.connections import (
    DAY,
    HOUR,
    NOON,
    Kind,
    a_license,
    accounts,
    counters,
    licenses,
    sync_now,
    work,
)
from tests.pipeline.waiting import places_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def synced(simulator: Simulator, connection: Connection) -> Connection:
    simulator.feed.add(*licenses(simulator, 3))
    work(connection)
    return connection


def forget(product: Product, *, suppress: bool) -> None:
    subject = SubjectRef(product.pk, SubjectScope.ACCOUNT, "site-0002")
    assert forgetting.forget(subject, NOON, suppress=suppress)
    run_job(ERASE_FORGOTTEN, NOON)


def test_the_licenses_of_a_forgotten_account_are_deleted(acme: Product, synced: Connection) -> None:
    forget(acme, suppress=False)
    assert accounts(acme) == {"site-0001", "site-0003"}
    assert places_of("site-0002") == set()


def test_a_full_sync_imports_the_account_again(acme: Product, synced: Connection) -> None:
    forget(acme, suppress=False)
    sync_now(synced, NOON + DAY, Kind.FULL)
    assert accounts(acme) == {"site-0001", "site-0002", "site-0003"}


def test_licenses_of_a_suppressed_account_are_not_imported(
    acme: Product, simulator: Simulator, synced: Connection
) -> None:
    forget(acme, suppress=True)
    simulator.feed.add(a_license(simulator, 7, "site-0002"))
    run = sync_now(synced, NOON + DAY, Kind.FULL)
    assert accounts(acme) == {"site-0001", "site-0003"}
    assert places_of("site-0002") == set()
    assert counters(run) == {"seen": 4, "unchanged": 2, "skipped": 2}


def test_forgetting_a_user_with_the_same_id_deletes_no_license(
    acme: Product, synced: Connection
) -> None:
    forgetting.forget(SubjectRef(acme.pk, SubjectScope.USER, "site-0002"), NOON)
    assert License.objects.count() == 3


def test_a_product_is_deleted_with_its_connection_and_licenses(
    acme: Product, synced: Connection
) -> None:
    run_job(recomputation.KIND, NOON)
    assert Ledger.objects.exists() and LicenseEvent.objects.count() == 3
    assert LicenseOutcome.objects.count() == 3 and LicenseRevision.objects.exists()
    deletion.request_deletion(acme.pk, NOON)
    # A sync no longer imports its licenses.
    sync_now(synced, NOON + DAY, Kind.FULL)
    assert License.objects.count() == 3
    run_job(DELETE_PRODUCT, NOON)
    assert not License.objects.exists() and not Connection.objects.exists()
    assert not Ledger.objects.exists() and not LicenseRevision.objects.exists()
    for model in LEDGER:
        assert not model._default_manager.exists(), model


def add_metric_event(product: Product, number: int, cloud_id: str = "") -> None:
    name = f"E-{number:04}"
    MetricEvent.objects.create(
        product=product,
        metric="churn",
        date=NOON.date(),
        name=name,
        names=[name],
        cloud_id=cloud_id,
        seen_at=NOON,
    )


LEDGER: list[type[Model]] = [
    LedgerLicense, LicenseAlias, Observation, LicenseEvent, LicenseOutcome
]  # fmt: skip


def test_the_ledger_of_a_forgotten_account_goes_along(
    acme: Product, simulator: Simulator, synced: Connection
) -> None:
    # The second license was on another site before.
    simulator.feed.change(0, cloudId="site-0002", lastUpdated="2026-09-24", licenseId="L-1")
    sync_now(synced, NOON + HOUR)
    run_job(recomputation.KIND, NOON)
    order = {"fields": {"saleType": "New"}, "digest": b"", "recorded_at": NOON}
    for number in (1, 2, 3):
        Transaction.objects.create(
            product=acme, transaction_id=str(number), names=[f"E-{number:04}"], **order
        )
        add_metric_event(acme, number)
    # The ledger does not know the license of this one.
    add_metric_event(acme, 4, cloud_id="site-0002")
    forget(acme, suppress=True)
    assert places_of("site-0002") == set()
    for model in LEDGER:
        assert set(model._default_manager.values_list("license", flat=True)) == {"E-0003"}, model
    assert [line.names for line in Transaction.objects.all()] == [["E-0003"]]
    assert [event.name for event in MetricEvent.objects.all()] == ["E-0003"]


def test_a_license_that_left_a_forgotten_account_gets_a_new_ledger(
    acme: Product, simulator: Simulator, synced: Connection
) -> None:
    simulator.feed.change(1, cloudId="site-0009", lastUpdated="2026-09-24")
    sync_now(synced, NOON + HOUR)
    run_job(recomputation.KIND, NOON)
    forget(acme, suppress=True)
    run_job(recomputation.KIND, NOON + DAY)
    assert places_of("site-0002") == set()
    event = LicenseEvent.objects.get(license="E-0002")
    assert (event.type, event.cloud_id, event.is_announced) == ("first_seen", "site-0009", False)


def test_what_linked_licenses_say_of_a_forgotten_one_goes_along(
    acme: Product, simulator: Simulator, synced: Connection
) -> None:
    trial = {"licenseType": "EVALUATION", "maintenanceStartDate": "2026-09-01"}
    simulator.feed.change(1, **trial, lastUpdated="2026-09-20", maintenanceEndDate="2026-09-21")
    simulator.feed.change(
        2, evaluationLicense="E-0002", lastUpdated="2026-09-22", maintenanceStartDate="2026-09-21"
    )
    sync_now(synced, NOON + HOUR)
    run_job(recomputation.KIND, NOON)
    bought = LicenseEvent.objects.get(type="evaluation_bought", withdrawn_at=None)
    assert (bought.license, bought.details["license"]) == ("E-0002", "E-0003")
    add_event(
        acme, "moved_site", "2026-09-20", license="E-0003", cloud_id="site-0003",
        details={"license": "E-0002"},
    )  # fmt: skip
    RescoreRequest.objects.all().delete()
    forget(acme, suppress=True)
    # What lists and segments say of its account may change.
    other = Account.objects.get(external_id="site-0003")
    assert RescoreRequest.objects.filter(account_id=other.pk).exists()
    run_job(recomputation.KIND, NOON + DAY)
    assert set(LicenseEvent.objects.values_list("license", flat=True)) == {"E-0001", "E-0003"}
    assert not LicenseEvent.objects.filter(details__license="E-0002")
