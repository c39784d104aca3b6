"""The ledger finds what happened to customers, however the marketplace answers open questions.

The simulated marketplace prints licenses, their history, transactions, and feedback of the same
lives in each way that is possible. The connection reads them as it reads real ones.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import date, timedelta

import pytest

from engagement.models import Product
from harness.marketplace.faults import Endpoint, ErrorStatus
from harness.marketplace.lives import Life
from harness.marketplace.reports import VendorReports, license_names
from harness.marketplace.server import Simulator
from harness.marketplace.switches import (
    EventDate,
    HistoryDoor,
    Name,
    RecordCreated,
    Start,
    Switches,
)
from marketplace.ledger import recomputation
from marketplace.models import Connection, LicenseAlias, LicenseEvent
from marketplace.runs import report_sources
from marketplace.source import client
from tests.jobs import run_job
from tests.marketplace import connections
from tests.marketplace.connections import FAST_RETRY_POLICY, Kind, RunState, sync_now, work
from tests.marketplace.ledger.test_through_syncs import noon
from tests.marketplace.report_turns import Report, job_of, read
from tests.marketplace.vendor_reports import a_life

# A run has dozens of syncs.
pytestmark = [pytest.mark.django_db, pytest.mark.slow]

FIRST, LAST = date(2025, 1, 6), date(2026, 9, 24)
# Said by the marketplace, and no question of what happened.
NOT_COMPARED = {"feedback", "first_seen"}

# Of each question, the answer that the usual marketplace does not give.
ANSWERS = [
    Switches(),
    Switches(start=Start.ANNIVERSARY),
    Switches(start=Start.TRIAL),
    Switches(start=Start.TRIAL, has_latest_start=False),
    Switches(start=Start.ANNIVERSARY, has_latest_start=False),
    Switches(has_latest_start=False),
    Switches(buys_another_license=True),
    Switches(buys_another_license=True, names_trial_license=False),
    Switches(returns_with_another_license=True),
    Switches(moves_with_a_twin=True),
    Switches(moves_with_a_twin=True, shares_account=False),
    Switches(evaluation_type="NET_NEW_EVALUATION"),
    Switches(names_edition_trial=True),
    Switches(days_until_inactive=15),
    Switches(days_until_inactive=30),
    Switches(downgrade=None, payment_status="Fully paid"),
    Switches(downgrade="Barter", payment_status="Open"),
    Switches(costs_nothing=True),
    Switches(feedback_name=Name.LICENSE),
    Switches(feedback_name=Name.NOTHING),
    Switches(has_nested_details=False, event_date=EventDate.GRACE),
    Switches(report_delay=2),
    Switches(report_delay=-2),
]
HISTORIES = [
    Switches(),
    Switches(record_created=RecordCreated.DAY),
    Switches(record_created=RecordCreated.MISSING),
    Switches(shuffles_history=True, repeats_history=True),
    Switches(history_door=HistoryDoor.PAGES),
    Switches(history_door=HistoryDoor.TEXT),
    Switches(filters_snapshots=True),
]


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "BACKGROUND_RETRY_POLICY", FAST_RETRY_POLICY)


def tell_lives(first_number: int, switches: Switches) -> list[Life]:
    """What can happen to customers, each time as the same story."""
    numbers = iter(range(first_number, first_number + 100))

    def life(months: int = 12, **values: bool) -> Life:
        return a_life(next(numbers), switches, months=months, **values)

    bought = life(months=1)
    bought.evaluate(date(2026, 1, 10))
    bought.extend(date(2026, 2, 6), 14)
    bought.buy()
    bought.renew()
    bought.renew(seats=80)
    bought.renew(late=9)
    bought.cancel(bought.end - timedelta(days=12), "bugs")
    bought.lapse()

    expired = life()
    expired.evaluate(date(2026, 2, 1))
    expired.expire()

    yearly = life()
    yearly.purchase(date(2025, 3, 3))
    yearly.try_edition(date(2025, 6, 2))
    yearly.resize(date(2025, 9, 9), 75)
    yearly.renew(seats=25)

    back = life()
    back.purchase(date(2025, 2, 1))
    back.lapse()
    back.come_back(date(2026, 5, 20))

    refunded = life()
    refunded.purchase(date(2026, 3, 1))
    refunded.return_money(date(2026, 3, 19))

    undecided = life()
    undecided.purchase(date(2025, 10, 1))
    undecided.cancel(date(2026, 1, 5))
    undecided.resume(date(2026, 2, 5))

    moved = life()
    moved.purchase(date(2025, 11, 1))
    moved.move(date(2026, 4, 2))

    box = life(is_sandbox=True)
    box.purchase(date(2025, 10, 7))
    box.jitter(date(2026, 1, 7), 9)
    box.jitter(date(2026, 1, 17), 8)

    monthly = life(months=1)
    monthly.purchase(date(2026, 5, 4))
    monthly.add_users(date(2026, 5, 20), 3)
    monthly.renew()
    monthly.pay_by_year()
    return [bought, expired, yearly, back, refunded, undecided, moved, box, monthly]


@pytest.fixture
def connection(acme: Product, simulator: Simulator) -> Connection:
    """Acme's connection, whose first sync found nothing."""
    new = connections.connect(acme, simulator, noon(FIRST))
    assert work(new, noon(FIRST)).state == RunState.SUCCEEDED
    run_job(recomputation.KIND, noon(FIRST))
    return new


def look(simulator: Simulator, connection: Connection, lives: Iterable[Life], on: date) -> None:
    simulator.show(VendorReports(simulator.vendor.app, lives, on, switches=Switches()))
    assert sync_now(connection, noon(on), Kind.FULL).state == RunState.SUCCEEDED
    run_job(recomputation.KIND, noon(on))


def read_reports(on: date) -> None:
    for report in (Report.TRANSACTIONS, Report.FEEDBACK):
        reading = read(report, noon(on))
        assert reading is not None and reading.problem == ""
    run_job(recomputation.KIND, noon(on))


def read_history(connection: Connection) -> None:
    report_sources.request_history(connection, noon(LAST))
    for days in range(20):
        if job_of(Report.HISTORY) is not None:
            read(Report.HISTORY, noon(LAST + timedelta(days)))
    assert job_of(Report.HISTORY) is None
    run_job(recomputation.KIND, noon(LAST))


def events_of(product: Product, life: Life) -> Counter[tuple[str, str]]:
    """The events of all of the customer's licenses."""
    names = [name for number in range(3) for name in license_names(1, life, number).values()]
    licenses = LicenseAlias.objects.filter(product=product, name__in=names).values("license")
    events = LicenseEvent.objects.filter(
        product=product, license__in=licenses, withdrawn_at=None
    ).exclude(type__in=NOT_COMPARED)
    return Counter((event.date.isoformat(), event.type) for event in events)


def truth_of(life: Life) -> Counter[tuple[str, str]]:
    return Counter((truth.on.isoformat(), truth.event) for truth in life.truth if truth.on <= LAST)


def differences(product: Product, lives: Iterable[Life]) -> list[object]:
    """The lives whose events are not what happened."""
    return [
        (life.number, life.switches, sorted(events - truth), sorted(truth - events))
        for life in lives
        if (events := events_of(product, life)) != (truth := truth_of(life))
    ]


@pytest.mark.parametrize("first", range(0, len(ANSWERS), 5))
def test_syncs_find_what_happened_whatever_the_answers_are(
    acme: Product, simulator: Simulator, connection: Connection, first: int
) -> None:
    lives = [
        life
        for place, answers in enumerate(ANSWERS[first : first + 5])
        for life in tell_lives(1 + 100 * place, answers)
    ]
    days = {snapshot.on for life in lives for snapshot in life.snapshots} | {LAST}
    for number, on in enumerate(sorted(on for on in days if on <= LAST)):
        look(simulator, connection, lives, on)
        if number % 10 == 9 or on == LAST:
            read_reports(on)
    assert differences(acme, lives) == []


@pytest.mark.parametrize(
    "switches",
    [
        Switches(history_door=HistoryDoor.IGNORED, record_created=RecordCreated.MISSING),
        Switches(history_door=HistoryDoor.REJECTED),
        Switches(history_lacks_rows=True),
    ],
    ids=str,
)
def test_reports_that_are_refused_or_say_less_change_no_event(
    acme: Product, simulator: Simulator, connection: Connection, switches: Switches
) -> None:
    """The other reports are refused at first, and the history is missing or lacks states."""
    lives = tell_lives(1, switches)
    days = {snapshot.on for life in lives for snapshot in life.snapshots} | {LAST}
    for on in sorted(on for on in days if on <= LAST):
        look(simulator, connection, lives, on)
    simulator.show(VendorReports(simulator.vendor.app, lives, LAST, switches=switches))
    for refused in (Endpoint.TRANSACTIONS, Endpoint.TRANSACTIONS_EXPORT, Endpoint.FEEDBACK):
        simulator.add_faults(ErrorStatus(on=refused, status=403))
    for report in (Report.TRANSACTIONS, Report.FEEDBACK):
        reading = read(report, noon(LAST))
        assert reading is not None and "(403)" in reading.problem
    simulator.clear_faults()
    read_history(connection)
    read_reports(LAST + timedelta(days=30))
    assert differences(acme, lives) == []


@pytest.mark.parametrize("switches", HISTORIES, ids=str)
def test_the_history_tells_the_same_after_a_first_sync(
    acme: Product, simulator: Simulator, switches: Switches
) -> None:
    lives = tell_lives(1, switches)
    simulator.show(VendorReports(simulator.vendor.app, lives, LAST, switches=switches))
    connection = connections.connect(acme, simulator, noon(LAST))
    assert work(connection, noon(LAST)).state == RunState.SUCCEEDED
    run_job(recomputation.KIND, noon(LAST))
    read_history(connection)
    read_reports(LAST)
    assert differences(acme, lives) == []
