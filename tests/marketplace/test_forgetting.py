"""The licenses of a forgotten account are deleted; a full sync imports them again or not."""

import pytest

from engagement.models import Product
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import deletion, forgetting
from engagement.removal.jobs import DELETE_PRODUCT, ERASE_FORGOTTEN
from harness.marketplace.server import Simulator
from marketplace.models import Connection, License
from tests.jobs import run_job
from tests.marketplace.connections import (
    DAY,
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
    deletion.request_deletion(acme.pk, NOON)
    # A sync no longer imports its licenses.
    sync_now(synced, NOON + DAY, Kind.FULL)
    assert License.objects.count() == 3
    run_job(DELETE_PRODUCT, NOON)
    assert not License.objects.exists() and not Connection.objects.exists()
