"""The history of licenses is read on request, in whichever way the marketplace sends it."""

import os
import random
import signal
import time
from collections.abc import Callable
from datetime import date, timedelta
from itertools import islice

import pytest
from django.db import connection as django_connection

from core.jobs import kinds, run
from core.models import Job
from engagement.models import Product
from harness.marketplace.faults import (
    Circle,
    Endpoint,
    ErrorStatus,
    Fault,
    SamePage,
    TruncatedJson,
)
from harness.marketplace.lives import Life, generate_lives
from harness.marketplace.server import Simulator
from harness.marketplace.switches import HistoryDoor, RecordCreated, Switches
from marketplace import texts
from marketplace.ledger import recomputation
from marketplace.models import Connection, LedgerLicense, License, Observation, ReportReading
from marketplace.runs import history, report_reading, report_sources
from marketplace.source import client
from marketplace.status.report_status import report_statuses
from tests.cases import FACTOR
from tests.forks import fork
from tests.jobs import run_job
from tests.marketplace.connections import (
    DAY,
    FAST_RETRY_POLICY,
    HOUR,
    NOON,
    RunState,
    sync_now,
    work,
)
from tests.marketplace.report_turns import Report, job_of, read, reading_of
from tests.marketplace.vendor_reports import TODAY, a_life, show
from tests.start.running import until

pytestmark = pytest.mark.django_db

HISTORY = Report.HISTORY


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "BACKGROUND_RETRY_POLICY", FAST_RETRY_POLICY)


def begin(
    simulator: Simulator, connection: Connection, lives: list[Life], switches: Switches
) -> None:
    """Sync the licenses as they are, and request their history."""
    show(simulator, lives, switches=switches)
    assert work(connection).state == RunState.SUCCEEDED
    run_job(recomputation.KIND, NOON)
    connection.refresh_from_db()
    report_sources.request_history(connection, NOON)


def customers(number: int, switches: Switches) -> list[Life]:
    """Customers with an evaluation and some paid months each."""
    lives = []
    for place in range(1, number + 1):
        life = a_life(place, switches, months=1)
        life.evaluate(date(2026, 3, 1) + timedelta(days=place % 20))
        life.buy()
        while life.end <= TODAY:
            life.renew()
        lives.append(life)
    return lives


def states() -> set[tuple[str, date, str]]:
    rows = Observation.objects.values_list("license", "as_of", "fields__maintenanceEndDate")
    return set(rows)


def finish(connection: Connection) -> ReportReading:
    """Have workers read until the history is complete."""
    for hours in range(1, 200):
        read(HISTORY, NOON + hours * HOUR)
        if job_of(HISTORY) is None:
            break
    return reading_of(connection, HISTORY)


@pytest.mark.parametrize(
    "switches",
    [
        Switches(),
        Switches(record_created=RecordCreated.DAY),
        Switches(record_created=RecordCreated.MISSING),
        Switches(shuffles_history=True, repeats_history=True),
        Switches(history_door=HistoryDoor.PAGES),
        Switches(history_door=HistoryDoor.PAGES, shuffles_history=True, repeats_history=True),
        Switches(history_door=HistoryDoor.TEXT),
        Switches(history_door=HistoryDoor.TEXT, record_created=RecordCreated.MISSING),
        Switches(filters_snapshots=True),
        Switches(filters_snapshots=True, history_door=HistoryDoor.PAGES),
    ],
    ids=str,
)
def test_each_state_is_observed_in_each_way(
    simulator: Simulator, connection: Connection, switches: Switches
) -> None:
    lives = customers(12, switches)
    begin(simulator, connection, lives, switches)
    reading = finish(connection)
    assert (reading.problem, reading.note, reading.requested_at) == ("", "", None)
    expected = {(snapshot.on, f"{snapshot.end}") for life in lives for snapshot in life.snapshots}
    assert {(on, end) for _, on, end in states()} == {
        (on, end) for on, end in expected if on <= TODAY
    }
    assert LedgerLicense.objects.filter(has_history=True).count() == 12


def test_a_history_waits_until_the_ledger_knows_all_licenses(
    simulator: Simulator, connection: Connection
) -> None:
    show(simulator, customers(3, Switches()))
    work(connection)
    connection.refresh_from_db()
    report_sources.request_history(connection, NOON)
    read(HISTORY)
    assert not Observation.objects.exists()
    run_job(recomputation.KIND, NOON)
    read(HISTORY, NOON + HOUR)
    assert job_of(HISTORY) is None
    assert Observation.objects.filter(source=Observation.Source.HISTORY).count() > 3


@pytest.mark.parametrize("door", [HistoryDoor.IGNORED, HistoryDoor.REJECTED])
def test_without_a_history_the_ledger_goes_on_with_syncs(
    simulator: Simulator, connection: Connection, door: HistoryDoor
) -> None:
    switches = Switches(history_door=door, record_created=RecordCreated.MISSING)
    begin(simulator, connection, customers(12, switches), switches)
    before = states()
    reading = finish(connection)
    assert states() == before and len(before) == 12
    assert reading.requested_at is None
    sentence = report_statuses(connection)[-1].sentence
    if door == HistoryDoor.IGNORED:
        assert texts.NO_HISTORY in sentence
    else:
        assert "rejects the request for the history of licenses (400)" in sentence
    assert not LedgerLicense.objects.filter(has_history=True).exists()


def test_an_incomplete_history_is_not_called_complete(
    simulator: Simulator, connection: Connection
) -> None:
    """A state that a sync saw is missing in it."""
    switches = Switches(history_lacks_rows=True)
    lives = customers(3, switches)
    left_out = lives[0].snapshots[3].on
    show(simulator, lives, left_out, switches)
    work(connection)
    show(simulator, lives, switches=switches)
    run_job(recomputation.KIND, NOON)
    sync_now(connection, NOON + DAY)
    run_job(recomputation.KIND, NOON + DAY)
    connection.refresh_from_db()
    report_sources.request_history(connection, NOON + DAY)
    finish(connection)
    assert Observation.objects.filter(as_of=left_out).exists()
    complete = LedgerLicense.objects.filter(has_history=True).count()
    assert complete < 3


def test_licenses_are_requested_one_by_one_within_a_budget(
    simulator: Simulator, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "REQUESTS_PER_HOUR", 5)
    switches = Switches(history_door=HistoryDoor.TEXT)
    begin(simulator, connection, customers(12, switches), switches)
    read(HISTORY)
    job = job_of(HISTORY)
    assert job is not None and job.due_at is not None
    assert NOON + HOUR <= job.due_at < NOON + HOUR + timedelta(minutes=1)
    queries = [request for request in simulator.requests if "text" in request.parameters]
    assert len(queries) == 5
    (status,) = [row for row in report_statuses(connection) if row.label == HISTORY.label]
    assert status.sentence.startswith("It is being read license by license: 5 licenses")
    read(HISTORY, NOON + 30 * HOUR / 60)
    assert len([request for request in simulator.requests if "text" in request.parameters]) == 5
    finish(connection)
    queries = [request for request in simulator.requests if "text" in request.parameters]
    assert len(queries) == len({request.parameters["text"] for request in queries}) == 12
    # Those with the latest ends come first.
    assert (
        queries[0].parameters["text"]
        == max(
            (license.fields["maintenanceEndDate"], license.key)
            for license in connection_licenses(connection)
        )[1]
    )


def connection_licenses(connection: Connection) -> list[License]:
    return list(License.objects.filter(product=connection.product_id))


@pytest.mark.parametrize("status", [403, 404])
def test_a_refused_history_is_one_sentence_and_is_not_requested_again(
    simulator: Simulator, connection: Connection, status: int
) -> None:
    switches = Switches()
    begin(simulator, connection, customers(2, switches), switches)
    for on in (Endpoint.HISTORY, Endpoint.HISTORY_EXPORT):
        simulator.add_faults(ErrorStatus(on=on, status=status))
    reading = finish(connection)
    assert f"({status})" in reading.problem
    simulator.requests.clear()
    read(HISTORY, NOON + 300 * HOUR)
    assert not simulator.requests
    assert sync_now(connection, NOON + HOUR).state == RunState.SUCCEEDED


@pytest.mark.parametrize("fault", [ErrorStatus(status=502), TruncatedJson()], ids=["502", "half"])
@pytest.mark.parametrize("on", [Endpoint.HISTORY_EXPORT, Endpoint.HISTORY_EXPORT_FILE])
def test_an_export_that_fails_gives_way_to_pages(
    simulator: Simulator,
    connection: Connection,
    fault: ErrorStatus | TruncatedJson,
    on: Endpoint,
) -> None:
    switches = Switches()
    lives = customers(4, switches)
    begin(simulator, connection, lives, switches)
    fault.on = on
    simulator.add_faults(fault)
    reading = finish(connection)
    assert (reading.problem, reading.note) == ("", "")
    assert len(states()) == sum(
        snapshot.on <= TODAY for life in lives for snapshot in life.snapshots
    )


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (lambda on: ErrorStatus(on=on, status=400), "rejects the request for the history"),
        (lambda on: ErrorStatus(on=on, status=403), "may not read the history"),
        (lambda on: ErrorStatus(on=on, status=404), "has no report of the history"),
        (lambda on: ErrorStatus(on=on, status=502), "at the moment: it returned 502"),
        (lambda on: TruncatedJson(on=on), "it is not complete JSON"),
        (lambda on: SamePage(on=on), "its list does not end"),
    ],
)
def test_a_history_that_fails_in_each_way_is_one_sentence_after_few_requests(
    simulator: Simulator,
    connection: Connection,
    fault: Callable[[Endpoint], Fault],
    sentence: str,
) -> None:
    switches = Switches()
    lives = customers(12, switches)
    begin(simulator, connection, lives, switches)
    simulator.add_faults(fault(Endpoint.HISTORY), fault(Endpoint.HISTORY_EXPORT))
    if "does not end" in sentence:
        # Pages, not exports, do not end; nor do those of a single license.
        simulator.clear_faults()
        simulator.add_faults(
            fault(Endpoint.HISTORY), ErrorStatus(on=Endpoint.HISTORY_EXPORT, status=404)
        )
    simulator.requests.clear()
    for hours in range(0, 60, 7):
        read(HISTORY, NOON + hours * HOUR)
    reading = reading_of(connection, HISTORY)
    assert sentence in reading.problem and reading.problem.count(". ") == 0
    # Pages come by quarters of the start date.
    assert len(simulator.requests) < 250
    (status,) = [row for row in report_statuses(connection) if row.level == "bad"]
    assert status.sentence == f"{reading.problem} {texts.LICENSES_UNAFFECTED}"

    assert sync_now(connection, NOON + 61 * HOUR).state == RunState.SUCCEEDED
    connection.refresh_from_db()
    assert (connection.state, connection.last_error) == (Connection.State.ACTIVE, "")
    simulator.clear_faults()
    report_sources.request_history(connection, NOON + 62 * HOUR)
    assert finish(connection).problem == ""
    assert LedgerLicense.objects.filter(has_history=True).count() == 12


def test_pages_that_go_round_in_a_circle_give_way_to_single_licenses(
    simulator: Simulator, connection: Connection
) -> None:
    switches = Switches(history_door=HistoryDoor.PAGES)
    begin(simulator, connection, customers(40, switches), switches)
    simulator.add_faults(Circle(on=Endpoint.HISTORY, pages=2))
    simulator.requests.clear()
    assert finish(connection).problem == ""
    assert len(simulator.requests) < 500
    assert LedgerLicense.objects.filter(has_history=True).count() == 40


def test_a_backfill_shows_how_far_it_is(
    simulator: Simulator, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_reading, "STEP_SECONDS", 0.0)
    switches = Switches()
    begin(simulator, connection, customers(4, switches), switches)
    (waiting,) = [row for row in report_statuses(connection) if row.label == HISTORY.label]
    assert waiting.sentence == texts.HISTORY_REQUESTED
    kind = report_sources.KINDS[HISTORY]
    own_kind = kinds.get(kind)
    assert own_kind is not None
    run.run_kinds([own_kind], lambda: NOON, lambda: True)
    (status,) = [row for row in report_statuses(connection) if row.label == HISTORY.label]
    assert status.sentence.startswith("It is being read:") and status.share is not None


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seed", range(max(1, round(FACTOR))))
@pytest.mark.parametrize("door", [HistoryDoor.EXPORT, HistoryDoor.PAGES, HistoryDoor.TEXT])
def test_a_backfill_whose_workers_are_killed_observes_the_same(
    acme: Product,
    simulator: Simulator,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    door: HistoryDoor,
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(report_reading, "STEP_SECONDS", 0.05)
    switches = Switches(history_door=door)
    lives = list(islice(generate_lives(seed, TODAY, switches), 60))
    begin(simulator, connection, lives, switches)
    now, kills = NOON, 0
    while job_of(HISTORY) is not None and kills < 6:
        worker = fork(lambda at=now: read(HISTORY, at))  # type: ignore[misc]
        time.sleep(0.1 + chance.random() * 0.2)
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)
        kills += 1
        # The lease of the dead worker ends, and its pause.
        now += 7 * HOUR
    until(_is_free, "the end of the killed worker's transaction")
    for _ in range(200):
        if job_of(HISTORY) is None:
            break
        now += 7 * HOUR
        read(HISTORY, now)
    assert kills >= 1
    expected = sum(snapshot.on <= TODAY for life in lives for snapshot in life.snapshots)
    assert reading_of(connection, HISTORY).problem == ""
    assert expected - len(_states_of_same_day(lives)) <= len(states()) <= expected


def _is_free() -> bool:
    django_connection.close()
    return not Job.objects.filter(kind="nobody").exists()


def _states_of_same_day(lives: list[Life]) -> list[date]:
    """States that another one of the same license and day may hide."""
    return [
        first.on
        for life in lives
        for first, second in zip(life.snapshots, life.snapshots[1:], strict=False)
        if first.on == second.on
    ]
