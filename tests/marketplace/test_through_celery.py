"""From the saved details to the traits on accounts, through a Celery worker."""

import logging
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO

import pytest
from celery import current_app
from celery.contrib.testing.worker import start_worker
from celery.signals import task_postrun
from django.core.management import call_command
from django.db import connection as django_connection
from django.utils import timezone

from engagement.models import Product
from harness.marketplace.faults import Endpoint, ErrorStatus
from harness.marketplace.server import Simulator
from marketplace import connecting, tasks
from marketplace.models import Connection
from marketplace.source import client
from tests.marketplace.connections import (
    FAST_RETRY_POLICY,
    RunState,
    State,
    accounts,
    details_of,
    latest,
    licenses,
    traits,
)
from tests.pipeline.waiting import places_of
from tests.start.running import until

pytestmark = pytest.mark.django_db(transaction=True)

PLANTED = "planted-token-Qv93"


@pytest.fixture(scope="module")
def worker(django_db_setup: None) -> Iterator[None]:
    """A worker for the queue, in a thread."""
    # The thread's database connection would outlive it.
    task_postrun.connect(_close_connection)
    working = start_worker(current_app, perform_ping_check=False, queues="marketplace")
    with pytest.MonkeyPatch.context() as patch, working:
        # No delays between attempts.
        patch.setattr(client, "BACKGROUND_RETRY_POLICY", FAST_RETRY_POLICY)
        yield
    task_postrun.disconnect(_close_connection)


def _close_connection(**_: object) -> None:
    django_connection.close()


@pytest.fixture
def logged() -> Iterator[StringIO]:
    """Everything that is logged, at any level."""
    output = StringIO()
    handler = logging.StreamHandler(output)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield output
    root.removeHandler(handler)
    root.setLevel(level)


def save(product: Product, simulator: Simulator) -> Connection:
    """Save the details as the admin does."""
    checked = connecting.verify_details(details_of(simulator), client.create_client)
    return connecting.save_connection(product, checked, timezone.now())


def until_over(connection: Connection, number: int = 1) -> None:
    def over() -> bool:
        return connection.runs.count() >= number and latest(connection).is_over

    until(over, "the end of the sync")


@pytest.mark.slow
@pytest.mark.whole
def test_licenses_are_synced_when_the_details_are_saved_and_again_on_schedule(
    acme: Product, simulator: Simulator, worker: None
) -> None:
    simulator.feed.add(*licenses(simulator, 120))
    connection = save(acme, simulator)
    until_over(connection)
    assert latest(connection).state == RunState.SUCCEEDED
    assert len(accounts(acme)) == 120

    simulator.feed.touch(1, timezone.now().date(), tier="25 Users")
    connection.runs.update(requested_at=timezone.now() - timedelta(hours=6))
    tasks.sync_all.delay()
    until_over(connection, 2)
    assert traits(acme, "site-0001")["am.tier.number"] == 25


@pytest.mark.slow
@pytest.mark.whole
def test_a_token_that_expires_pauses_syncs_until_a_new_one_is_saved(
    acme: Product, simulator: Simulator, worker: None
) -> None:
    simulator.feed.add(*licenses(simulator, 3))
    connection = save(acme, simulator)
    until_over(connection)
    simulator.replace_token()
    connection.runs.update(requested_at=timezone.now() - timedelta(hours=6))
    tasks.sync_all.delay()
    until_over(connection, 2)
    assert Connection.objects.get().state == State.REQUIRES_AUTHENTICATION

    save(acme, simulator)
    until_over(connection, 3)
    assert Connection.objects.get().state == State.ACTIVE
    assert latest(connection).state == RunState.SUCCEEDED


@pytest.mark.slow
@pytest.mark.whole
def test_a_suspended_sync_resumes_when_it_is_due(
    acme: Product, simulator: Simulator, worker: None
) -> None:
    simulator.feed.add(*licenses(simulator, 120))
    simulator.add_faults(ErrorStatus(on=Endpoint.LICENSES, status=503, offset=50))
    connection = save(acme, simulator)
    until(lambda: latest(connection).backoff_count == 1, "the sync to be put down")
    assert len(accounts(acme)) == 50

    simulator.clear_faults()
    connection.runs.update(due_at=timezone.now())
    tasks.resume.delay()
    until_over(connection)
    assert len(accounts(acme)) == 120


@pytest.mark.slow
@pytest.mark.whole
def test_a_token_is_found_nowhere_but_encrypted_in_its_column(
    acme: Product, simulator: Simulator, worker: None, logged: StringIO
) -> None:
    simulator.replace_token(PLANTED)
    simulator.feed.add(*licenses(simulator, 60))
    connection = save(acme, simulator)
    until_over(connection)
    connecting.verify_stored_details(connection, client.create_client, timezone.now())
    for fault in (
        ErrorStatus(on=Endpoint.LICENSES, status=403),
        ErrorStatus(on=Endpoint.LICENSES, status=503),
        ErrorStatus(on=Endpoint.LICENSES, status=401),
    ):
        simulator.add_faults(fault)
        before = connection.runs.count()
        connection.runs.update(requested_at=timezone.now() - timedelta(hours=6))
        tasks.sync_all.delay()
        until(lambda before=before: connection.runs.count() > before, "a sync")  # type: ignore[misc]
        until(lambda: latest(connection).error, "its failure")
        simulator.clear_faults()
        connection.runs.filter(finished_at=None).update(due_at=timezone.now())
        tasks.resume.delay()
        until_over(connection, before + 1)

    assert places_of(PLANTED) == set()
    assert PLANTED not in logged.getvalue()
    dump = StringIO()
    call_command("dumpdata", stdout=dump)
    assert '"marketplace.connection"' in dump.getvalue()
    assert PLANTED not in dump.getvalue()
    row = Connection.objects.defer(None).get(pk=connection.pk)
    assert row.api_token == PLANTED
    assert PLANTED not in repr(row) + str(vars(Connection.objects.get(pk=connection.pk)))
