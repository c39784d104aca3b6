"""Concurrent syncs, saves, and disconnects: real transactions, each in a thread of its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection as django_connection
from django.db import transaction

from engagement.models import Product
from harness.marketplace.faults import Endpoint, ErrorStatus
from harness.marketplace.server import Simulator
from marketplace import connecting
from marketplace.models import Connection
from marketplace.runs import lifecycle, scheduling, sync
from tests.engagement.history import group, tell
from tests.marketplace.connections import (
    HOUR,
    NOON,
    Kind,
    RunState,
    State,
    a_license,
    accounts,
    connect,
    counters,
    details_of,
    fast_client,
    keys,
    latest,
    license_requests,
    licenses,
    traits,
    with_page_callback,
    work,
)
from tests.pipeline.waiting import Eventually, at_once, somebody_else, terminate

pytestmark = pytest.mark.django_db(transaction=True)


class HeldSync:
    """A sync in a thread of its own, held after it wrote its first page and read the second."""

    def __init__(self, connection: Connection) -> None:
        self._answered, self._reached, self._go_on = (threading.Event() for _ in range(3))
        self._connection = connection
        self.backend = 0
        self.loses_its_session = False

    def _page_answered(self, offset: int) -> None:
        if offset == 50:
            self._answered.set()

    def _after_page(self) -> None:
        if self._reached.is_set():
            return
        assert self._answered.wait(timeout=20)
        self._reached.set()
        assert self._go_on.wait(timeout=20)
        if self.loses_its_session:
            django_connection.close()

    def _work(self) -> None:
        try:
            django_connection.ensure_connection()
            self.backend = django_connection.connection.info.backend_pid
            environment = sync.SyncEnvironment(
                with_page_callback(self._page_answered),
                lambda: NOON,
                on_pages_written=self._after_page,
                prefetch_limit=1,
            )
            sync.run_sync(self._connection.pk, environment)
        finally:
            django_connection.close()

    @contextmanager
    def held(self) -> Iterator["HeldSync"]:
        """Hold the sync during the block, then let it finish."""
        running = Eventually(self._work)
        assert self._reached.wait(timeout=20)
        try:
            yield self
        finally:
            self._go_on.set()
        running.result()


def state_of(connection: Connection) -> str:
    return Connection.objects.get(pk=connection.pk).state


def test_a_running_sync_writes_nothing_after_a_disconnect(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 150))
    with HeldSync(connection).held():
        connecting.disconnect(connection, NOON + HOUR)
        assert len(accounts(acme)) == 50
    assert len(accounts(acme)) == 50
    assert len(keys(acme)) == 50
    run = latest(connection)
    assert (run.state, run.seen, run.finished_at) == (RunState.STOPPED, 50, NOON + HOUR)
    assert run.note == "The product was disconnected."
    assert state_of(connection) == State.DISCONNECTED
    assert Connection.objects.get(pk=connection.pk).last_success_at is None


def test_a_late_401_does_not_pause_a_connection_with_new_details(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 60))
    simulator.add_faults(ErrorStatus(on=Endpoint.LICENSES, status=401, offset=50))
    with HeldSync(connection).held():
        simulator.clear_faults()
        simulator.replace_token()
        connect(acme, simulator, NOON)
    work(connection)
    assert state_of(connection) == State.ACTIVE
    row = Connection.objects.get(pk=connection.pk)
    assert (row.state_reason, row.last_error) == ("", "")
    newest, stopped = connection.runs.all()
    assert (stopped.state, stopped.error) == (RunState.STOPPED, "")
    assert (newest.state, newest.seen) == (RunState.SUCCEEDED, 60)


def test_a_late_401_does_not_undo_a_disconnect(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 60))
    simulator.add_faults(ErrorStatus(on=Endpoint.LICENSES, status=401, offset=50))
    with HeldSync(connection).held():
        connecting.disconnect(connection, NOON)
    assert state_of(connection) == State.DISCONNECTED
    assert latest(connection).state == RunState.STOPPED


def test_a_late_failure_leaves_no_error_on_new_details(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 60))
    simulator.add_faults(ErrorStatus(on=Endpoint.LICENSES, status=403, offset=50))
    with HeldSync(connection).held():
        simulator.clear_faults()
        connect(acme, simulator, NOON + HOUR)
    assert Connection.objects.get(pk=connection.pk).last_error == ""
    assert latest(connection).state == RunState.WAITING


def test_saving_another_app_during_a_sync_leaves_no_license_of_the_old_one(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 150))
    other = simulator.vendor.apps[1]
    simulator.feed.add(a_license(simulator, 900, productId=other.product_id))
    with HeldSync(connection).held():
        details = details_of(simulator, product_id=other.product_id)
        connecting.save_connection(acme, connecting.verify_details(details, fast_client), NOON)
    assert keys(acme) == set()
    work(connection)
    assert keys(acme) == {"E-0900"}
    assert latest(connection).state == RunState.SUCCEEDED


def test_a_request_for_a_full_sync_stops_a_running_sync_of_recent_changes(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 60))
    work(connection)
    simulator.feed.touch(60, NOON.date())
    scheduling.request_sync(connection, Kind.RECENT, NOON)
    with HeldSync(connection).held():
        full = scheduling.request_sync(connection, Kind.FULL, NOON)
    recent = connection.runs.get(kind=Kind.RECENT)
    assert (recent.state, recent.seen) == (RunState.STOPPED, 50)
    assert work(connection).pk == full.pk


def test_two_workers_work_on_two_connections_and_not_on_the_same_one(
    globex: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 60))
    other = connect(globex, simulator)
    with HeldSync(connection).held():
        assert scheduling.due_connection_ids(NOON) == [other.pk]
        assert work(other).state == RunState.SUCCEEDED, "it waits for nobody"
        assert len(accounts(globex)) == 60
        before = len(license_requests(simulator))
        assert scheduling.due_connection_ids(NOON) == [], "somebody is at it"
        work(connection)
        assert len(license_requests(simulator)) == before
    run = latest(connection)
    assert (run.state, run.attempt) == (RunState.SUCCEEDED, 1)
    assert counters(run) == {"seen": 60, "imported": 60, "accounts_created": 60}


def test_two_simultaneous_requests_create_one_sync(
    simulator: Simulator, connection: Connection
) -> None:
    work(connection)

    def ask() -> int:
        return scheduling.request_sync(connection, Kind.FULL, NOON).pk

    def ask_by_schedule() -> int:
        scheduling.request_due_syncs(NOON)
        return latest(connection).pk

    assert len(set(at_once(ask, ask, ask_by_schedule, ask))) <= 2
    assert lifecycle.unfinished_runs(connection).count() == 1


def test_a_worker_that_lost_its_session_does_not_overwrite_the_next_one(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 150))
    with HeldSync(connection).held() as first:
        # Its lock goes with its session, and another worker takes over.
        with somebody_else() as operator:
            terminate(operator, first.backend)
        first.loses_its_session = True
        run = work(connection)
        assert (run.state, run.attempt) == (RunState.SUCCEEDED, 2)
        after = counters(run)
    run.refresh_from_db()
    assert counters(run) == after == {"seen": 150, "imported": 150, "accounts_created": 150}


def test_a_killed_workers_lock_is_free(connection: Connection) -> None:
    has_lock = threading.Event()
    killed = threading.Event()

    def hold() -> None:
        with lifecycle.try_lock_connection(connection.pk) as is_free:
            assert is_free
            has_lock.set()
            assert killed.wait(timeout=20)
            # The connection ends as that of a killed process does: without a word.
            django_connection.close()

    holder = Eventually(hold)
    assert has_lock.wait(timeout=20)
    with lifecycle.try_lock_connection(connection.pk) as is_free:
        assert not is_free
    with lifecycle.try_lock_connection(connection.pk + 1) as is_free:
        assert is_free, "each connection has its own"
    killed.set()
    holder.result()
    with lifecycle.try_lock_connection(connection.pk) as is_free:
        assert is_free


def test_two_people_who_connect_at_once_create_one_connection(
    acme: Product, simulator: Simulator
) -> None:
    saved = at_once(*[lambda: connect(acme, simulator).pk] * 3)
    assert len(set(saved)) == 1
    assert Connection.objects.get().generation == 3
    assert lifecycle.unfinished_runs(Connection.objects.get()).count() == 1


def test_messages_that_arrive_during_a_sync_do_not_take_its_traits(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 50))
    messages = [group(f"site-{place:04}", 99, **{"am.tier": "theirs"}) for place in range(1, 51)]

    def send() -> None:
        for message in messages:
            with transaction.atomic():
                tell(acme, message)

    at_once(lambda: work(connection), send, send)
    assert all(traits(acme, f"site-{place:04}")["am.tier"] == "10 Users" for place in range(1, 51))
