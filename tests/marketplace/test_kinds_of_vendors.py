"""Licenses arrive from every kind of vendor: large ones, and those of an older report."""

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from engagement.models import Product
from harness.marketplace.faults import (
    ConnectionDrop,
    Endpoint,
    ErrorStatus,
    ExportStatus,
    TruncatedJson,
)
from harness.marketplace.records import UNREADABLE
from harness.marketplace.server import Simulator
from harness.marketplace.vendor import WithoutStart
from marketplace import connecting, texts
from marketplace.models import Connection, License, Report, SyncRun
from tests.marketplace.connections import (
    HOUR,
    NOON,
    Kind,
    RunState,
    State,
    a_license,
    accounts,
    counters,
    details_of,
    fast_client,
    keys,
    latest,
    license_requests,
    licenses,
    sync_now,
    traits,
    work,
)

pytestmark = pytest.mark.django_db

LICENSES = Endpoint.LICENSES


def become(simulator: Simulator, **kind: Any) -> None:
    """Make the simulated vendor another kind."""
    simulator.vendor = dataclasses.replace(simulator.vendor, **kind)


def work_to_the_end(connection: Connection) -> SyncRun:
    """The run, worked on whenever it is due."""
    run = latest(connection)
    for _ in range(60):
        if run.is_over:
            return run
        run = work(connection, max(run.due_at, NOON))
    raise AssertionError("It never ends.")


def requests_to(simulator: Simulator, endpoint: Endpoint) -> list[dict[str, str]]:
    return [request.parameters for request in simulator.requests if request.endpoint == endpoint]


# --- Only exports ---------------------------------------------------------------------------


def test_licenses_of_a_vendor_too_large_for_pages_arrive_as_an_export(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    rows = licenses(simulator, 120)
    simulator.feed.add(*rows, *UNREADABLE, a_license(simulator, 500, licenseType="FREE"))
    become(simulator, max_report_rows=-1)
    run = work_to_the_end(connection)
    assert (run.kind, run.state, run.report) == (Kind.FIRST, RunState.SUCCEEDED, Report.EXPORT)
    assert counters(run) == {
        **{"seen": 121 + len(UNREADABLE), "imported": 121, "failed": len(UNREADABLE)},
        "accounts_created": 121,
    }
    assert run.note == (
        f"The licenses were read as an export, because it returned 500. {texts.NOT_COMPARED}"
    )
    assert run.finished_at is not None
    assert run.finished_at - NOON == timedelta(minutes=30)
    # The next sync begins with what worked, and asks for the free licenses, too.
    simulator.requests.clear()
    simulator.feed.touch(1, NOON.date(), tier="77 Users")
    assert sync_now(connection, NOON + 6 * HOUR).state == RunState.SUCCEEDED
    assert traits(acme, "site-0001")["am.tier"] == "77 Users"
    assert not license_requests(simulator)
    assert [
        "showLifeTimeFreeLicenses" in parameters
        for parameters in requests_to(simulator, Endpoint.EXPORT)
    ] == [False, True]


def test_a_late_page_that_always_fails_leads_to_an_export(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 170))
    simulator.add_faults(ErrorStatus(on=Endpoint.LICENSES, status=504, offset=100))
    run = work_to_the_end(connection)
    assert (run.state, run.report, run.seen) == (RunState.SUCCEEDED, Report.EXPORT, 170)
    assert len(accounts(acme)) == run.accounts_created == 170


def test_an_outage_leads_to_no_other_way(simulator: Simulator, connection: Connection) -> None:
    simulator.feed.add(*licenses(simulator, 60))
    simulator.add_faults(ErrorStatus(status=503))
    for _ in range(8):
        work(connection, max(latest(connection).due_at, NOON))
    assert latest(connection).state == RunState.WAITING
    simulator.clear_faults()
    run = work_to_the_end(connection)
    assert (run.state, run.report, run.note) == (RunState.SUCCEEDED, Report.PAGES, "")


@pytest.mark.parametrize("status", ["QUEUED", "IN_PROGRESS"])
def test_a_worker_does_not_wait_for_an_export(
    simulator: Simulator, connection: Connection, status: str
) -> None:
    simulator.feed.add(*licenses(simulator, 60))
    Connection.objects.update(report=Report.EXPORT)
    simulator.add_faults(
        ExportStatus(on=Endpoint.EXPORT_STATUS, status=status, times=1),
        ErrorStatus(on=Endpoint.EXPORT_FILE, status=404, times=1),
    )
    for turn in range(2):
        now = NOON + turn * timedelta(seconds=30)
        run = work(connection, now)
        assert (run.state, run.backoff_count) == (RunState.WAITING, 0)
        assert run.due_at == now + timedelta(seconds=30)
    run = work_to_the_end(connection)
    assert (run.state, run.imported) == (RunState.SUCCEEDED, 60)
    assert len(requests_to(simulator, Endpoint.EXPORT)) == 4, "one for each list"


@pytest.mark.slow
def test_an_export_that_never_becomes_ready_is_given_up(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 60))
    Connection.objects.update(report=Report.EXPORT)
    simulator.add_faults(ExportStatus(on=Endpoint.EXPORT_STATUS, status="QUEUED"))
    run = work(connection)
    while not run.is_over:
        run = work(connection, run.due_at + timedelta(minutes=5))
    assert run.finished_at is not None
    assert 2 * HOUR < run.finished_at - NOON < 3 * HOUR
    assert (run.state, run.report) == (RunState.SUCCEEDED, Report.DATES)
    assert "it does not become ready" in run.note


def test_an_interrupted_export_resumes_where_it_stopped(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 230))
    Connection.objects.update(report=Report.EXPORT)

    class Killed(BaseException):
        pass

    def kill() -> None:
        if latest(connection).offset >= 100:
            raise Killed

    with pytest.raises(Killed):
        work(connection, on_pages_written=kill)
    assert (latest(connection).state, latest(connection).offset) == (RunState.RUNNING, 100)
    run = work_to_the_end(connection)
    assert run.attempt == 2
    assert counters(run) == {"seen": 230, "imported": 230, "accounts_created": 230}
    assert len(requests_to(simulator, Endpoint.EXPORT)) == 4


@pytest.mark.parametrize("is_failing", [False, True])
def test_an_export_that_disappears_midway_counts_no_license_twice(
    acme: Product, simulator: Simulator, connection: Connection, is_failing: bool
) -> None:
    simulator.feed.add(*UNREADABLE, *licenses(simulator, 222))
    free = [a_license(simulator, number, licenseType="FREE") for number in range(500, 620)]
    simulator.feed.add(*free)
    Connection.objects.update(report=Report.EXPORT)

    class Killed(BaseException):
        pass

    # Once in the middle of each list. The next export has another order.
    for list_number in range(2):

        def kill(here: tuple[int, int] = (list_number, 100)) -> None:
            if (latest(connection).pass_number, latest(connection).offset) == here:
                raise Killed

        now = max(latest(connection).due_at, NOON)
        with pytest.raises(Killed):
            work(connection, now, on_pages_written=kill)
        if is_failing:
            # All other ways fail, too, and then the run is put off.
            simulator.add_faults(
                ExportStatus(on=Endpoint.EXPORT_STATUS, status="FAILED", times=1),
                ErrorStatus(on=LICENSES, status=500),
            )
            for _ in range(3):
                assert work(connection, now).state == RunState.WAITING
            assert latest(connection).due_at > now
            simulator.clear_faults()
        simulator.exports.clear()
        simulator.feed.add(*licenses(simulator, 3), at=0)
        for _ in range(3):
            simulator.feed.remove(len(UNREADABLE) + 3)
    run = work_to_the_end(connection)
    assert (run.state, run.note) == (RunState.SUCCEEDED, "")
    assert counters(run) == {
        **{"seen": 342 + len(UNREADABLE), "imported": 342, "failed": len(UNREADABLE)},
        "accounts_created": 342,
    }
    assert run.failed_records.count() == len(UNREADABLE)
    assert len(keys(acme)) == len(accounts(acme)) == 342


@pytest.mark.parametrize("fault", [TruncatedJson, ConnectionDrop])
def test_an_export_that_is_cut_off_is_no_success(
    simulator: Simulator, connection: Connection, fault: Any
) -> None:
    simulator.feed.add(*licenses(simulator, 120))
    Connection.objects.update(report=Report.EXPORT)
    simulator.add_faults(fault(on=Endpoint.EXPORT_FILE, times=1))
    run = work(connection)
    assert run.state in (RunState.FAILED, RunState.WAITING)
    assert "page" not in run.error


def test_an_export_that_disappears_is_requested_again(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 120))
    Connection.objects.update(report=Report.EXPORT)
    simulator.add_faults(ErrorStatus(on=Endpoint.EXPORT_STATUS, status=404, times=2))
    assert work_to_the_end(connection).state == RunState.SUCCEEDED
    assert len(accounts(acme)) == 120


# --- By start date --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("export", ["missing", "failing", "unavailable"])
def test_without_an_export_a_large_list_is_read_in_parts(
    acme: Product, simulator: Simulator, connection: Connection, export: str
) -> None:
    for number in range(1, 121):
        started = f"{2017 + number % 9}-05-{number % 28 + 1:02}"
        simulator.feed.add(a_license(simulator, number, maintenanceStartDate=started))
    become(simulator, max_report_rows=50, has_exports=export != "missing")
    if export == "failing":
        simulator.add_faults(ExportStatus(on=Endpoint.EXPORT_STATUS, status="FAILED"))
    if export == "unavailable":
        simulator.add_faults(ErrorStatus(on=Endpoint.EXPORT, status=500))
    run = work_to_the_end(connection)
    assert (run.state, run.report, run.seen) == (RunState.SUCCEEDED, Report.DATES, 120)
    assert len(accounts(acme)) == 120
    assert run.unlisted == 0
    connection.refresh_from_db()
    assert connection.report == Report.DATES
    assert sync_now(connection, NOON + 6 * HOUR).state == RunState.SUCCEEDED


def test_a_vendor_that_no_way_reaches_gets_a_bounded_number_of_attempts(
    simulator: Simulator, connection: Connection
) -> None:
    become(simulator, max_report_rows=-1, has_exports=False)
    run = work_to_the_end(connection)
    assert (run.state, run.attempt) == (RunState.FAILED, 14)
    assert run.error.startswith("Page 1 of the list of licenses failed 6 times in a row: it ret")


# --- Data insights --------------------------------------------------------------------------


@pytest.mark.parametrize("report", [Report.PAGES, Report.EXPORT])
def test_where_data_insights_need_a_start_date_the_list_is_split(
    acme: Product, simulator: Simulator, connection: Connection, report: Report
) -> None:
    Connection.objects.update(report=report)
    insights = {"installedOnSandbox": "No", "parentProductEdition": "Premium"}
    for number, day in enumerate(["2016-02-01", "2018-06-30", "2018-07-01", "2024-01-01"], 1):
        simulator.feed.add(
            a_license(simulator, number, maintenanceStartDate=day, **insights),
        )
    # The same license in both halves: the row with insights counts, in any order.
    twice = a_license(simulator, 9, tier="25 Users", **insights)
    for day in ("2018-06-30", "2018-07-01"):
        simulator.feed.add({**twice, "maintenanceStartDate": day}, at=0)
    become(simulator, without_start=WithoutStart.REJECTED)
    connecting.verify_details(details_of(simulator), fast_client)
    run = work_to_the_end(connection)
    assert (run.state, run.error, run.unlisted) == (RunState.SUCCEEDED, "", 0)
    stored = {row.key: row.fields.get("parentProductEdition") for row in License.objects.all()}
    assert stored == {
        **{"E-0001": None, "E-0002": None},
        **{"E-0003": "Premium", "E-0004": "Premium", "E-0009": "Premium"},
    }
    for kind in (Kind.FULL, Kind.RECENT, Kind.FULL):
        assert sync_now(connection, NOON + HOUR, kind).imported == 0
    assert traits(acme, "site-0009")["am.parentProductEdition"] == "Premium"


@pytest.mark.parametrize("kind", list(WithoutStart))
def test_licenses_and_insights_that_a_list_without_dates_hides_arrive(
    acme: Product, simulator: Simulator, connection: Connection, kind: WithoutStart
) -> None:
    # The oldest licenses are of servers, and one license has a row in each half.
    simulator.feed.add(
        *(
            a_license(simulator, number, cloudId=None, maintenanceStartDate="2015-01-01")
            for number in range(100, 160)
        )
    )
    days = {1: "2018-06-30", 2: "2018-07-01", 3: "2024-01-01", 9: "2018-07-01"}
    for number, day in [*days.items(), (9, "2018-06-30")]:
        simulator.feed.add(
            a_license(
                *(simulator, number),
                maintenanceStartDate=day,
                parentProductEdition="Premium",
            )
        )
    become(simulator, without_start=kind)
    run = work_to_the_end(connection)
    is_split = kind != WithoutStart.COMPLETE
    assert (run.state, run.splits_insights, run.unlisted) == (RunState.SUCCEEDED, is_split, 0)
    is_hidden = kind in (WithoutStart.WITHOUT_INSIGHTS, WithoutStart.WITHOUT_OLD_LICENSES)
    assert ("read in two parts" in run.note) == is_hidden
    assert (run.seen, run.skipped) == (65, 60), "no row counts twice"
    stored = {row.key: row.fields.get("parentProductEdition") for row in License.objects.all()}
    assert stored == {
        "E-0001": None if is_split else "Premium",
        **dict.fromkeys(("E-0002", "E-0003", "E-0009"), "Premium"),
    }
    # It is remembered, and the rows of one license do not take turns.
    for sync, sync_kind in enumerate((Kind.FULL, Kind.RECENT, Kind.FULL), 1):
        later = sync_now(connection, NOON + sync * HOUR, sync_kind)
        assert (later.state, later.imported, later.unlisted) == (RunState.SUCCEEDED, 0, 0)
        assert (later.attempt, later.splits_insights) == (1, is_split)


def test_a_list_that_cannot_be_compared_fails_no_sync_and_the_sync_says_so(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 60))
    become(simulator, has_date_filter=False)
    run = work_to_the_end(connection)
    assert (run.state, run.seen, run.splits_insights) == (RunState.SUCCEEDED, 60, False)
    assert run.note == texts.NOT_COMPARED
    # All four lists, the end of the first one twice.
    request_count = len(license_requests(simulator))
    simulator.add_faults(ErrorStatus(on=Endpoint.LICENSES, status=401, after=request_count - 1))
    assert sync_now(connection, NOON + HOUR, Kind.FULL).state == RunState.FAILED
    connection.refresh_from_db()
    assert connection.state == State.REQUIRES_AUTHENTICATION, "the token ended at the last request"
