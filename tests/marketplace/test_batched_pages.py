"""Pages that arrive during a write are written together, with the same result."""

import threading

import pytest

from engagement.models import Account, Product
from harness.marketplace.faults import Endpoint, ErrorStatus
from harness.marketplace.server import Simulator
from marketplace.models import Connection, License, SyncRun
from tests.marketplace.connections import (
    RunState,
    State,
    a_license,
    accounts,
    counters,
    latest,
    licenses,
    with_page_callback,
    work,
)

pytestmark = pytest.mark.django_db

LICENSES = Endpoint.LICENSES


class SlowWriter:
    """A worker that waits after its first page until this many pages have arrived."""

    def __init__(self, connection: Connection, answers: int) -> None:
        self.written: list[int] = []
        self._connection, self._wanted = connection, answers
        self._answers = threading.Semaphore(0)

    def work(self) -> SyncRun:
        return work(
            self._connection,
            on_pages_written=self._after_pages,
            create_client=with_page_callback(lambda _: self._answers.release()),
            prefetch_limit=4,
        )

    def _after_pages(self) -> None:
        if not self.written:
            for _ in range(self._wanted):
                assert self._answers.acquire(timeout=20)
        self.written.append(latest(self._connection).pages)


def test_pages_that_arrive_during_a_write_are_written_together(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 230))
    # Four or five: the last page may not arrive in time.
    slow = SlowWriter(connection, answers=5)
    run = slow.work()
    assert run.state == RunState.SUCCEEDED
    assert counters(run) == {"seen": 230, "imported": 230, "accounts_created": 230}
    assert len(accounts(acme)) == 230
    assert run.pages == slow.written[-1]
    assert len(slow.written) < run.pages


def test_the_result_is_the_same_as_page_by_page(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    # Several per site and unordered; repeated, special, and always free ones; one without a site.
    simulator.feed.add(
        *(a_license(simulator, place, cloud=f"site-{place % 40}") for place in range(1, 181)),
        *(a_license(simulator, place, cloud=f"site-{place % 40}") for place in range(60, 90)),
        a_license(simulator, 901, licenseType="FREE"),
        a_license(simulator, 902, cloudComplianceBoundaries=["fedramp_moderate"]),
        {**a_license(simulator, 903), "cloudId": None},
    )
    together = SlowWriter(connection, answers=4).work()
    licenses_and_traits = _stored(acme)
    License.objects.filter(product=acme).delete()
    Account.objects.filter(product=acme).delete()
    SyncRun.objects.all().update(state=RunState.WAITING, finished_at=None, pass_number=0, offset=0)
    names = (*SyncRun.COUNTERS, "attempt")
    SyncRun.objects.all().update(**dict.fromkeys(names, 0))
    one_by_one = work(connection)
    assert one_by_one.state == together.state == RunState.SUCCEEDED
    assert (counters(one_by_one), one_by_one.pages) == (counters(together), together.pages)
    assert _stored(acme) == licenses_and_traits


def _stored(product: Product) -> tuple[list[object], list[object]]:
    licenses_kept = License.objects.filter(product=product).order_by("key")
    rows = Account.objects.filter(product=product).order_by("external_id")
    return list(licenses_kept.values_list("key", "cloud_id", "fields")), list(
        rows.values_list("external_id", "traits")
    )


def test_pages_before_a_failure_are_imported(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 230))
    simulator.add_faults(ErrorStatus(on=LICENSES, status=401, offset=150))
    run = SlowWriter(connection, answers=4).work()
    assert (run.state, run.pages) == (RunState.FAILED, 3)
    assert len(accounts(acme)) == 150
    connection.refresh_from_db()
    assert connection.state == State.REQUIRES_AUTHENTICATION


def test_rejected_lists_are_noted_once_and_not_counted_as_pages(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(a_license(simulator, 1))
    simulator.add_faults(ErrorStatus(on=LICENSES, status=400, after=1, times=3))
    run = SlowWriter(connection, answers=4).work()
    assert (run.state, run.pages) == (RunState.SUCCEEDED, 1)
    assert run.note == (
        "The marketplace does not list always free licenses (400), so they are not synced. "
        "The marketplace does not list licenses of government clouds (400), so they are not "
        "synced. The marketplace does not list licenses of isolated clouds (400), so they are not "
        "synced."
    )
