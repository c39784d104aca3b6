"""Transactions, feedback, and what the marketplace counts are read by jobs of their own, each of
which fails alone."""

import logging
from collections.abc import Callable
from datetime import date, timedelta
from itertools import islice
from typing import Any

import pytest

from core.models import Job
from engagement.models import Product
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from harness.marketplace.faults import (
    Circle,
    EndlessLink,
    Endpoint,
    ErrorStatus,
    ExportStatus,
    Fault,
    HtmlPage,
    PaginationDrift,
    SamePage,
    TruncatedJson,
    UnexpectedJson,
)
from harness.marketplace.lives import Life, generate_lives
from harness.marketplace.reports import PLANTED
from harness.marketplace.server import Simulator
from harness.marketplace.switches import USUAL, Name, Switches
from marketplace import connecting, texts
from marketplace.ledger import recomputation
from marketplace.models import (
    Connection,
    Feedback,
    LedgerLicense,
    LicenseAlias,
    MetricEvent,
    Observation,
    ReportReading,
    Transaction,
)
from marketplace.runs import report_reading, report_sources
from marketplace.source import client
from marketplace.status.report_status import report_statuses
from tests.jobs import run_job
from tests.marketplace.connections import (
    DAY,
    FAST_RETRY_POLICY,
    HOUR,
    NOON,
    RunState,
    State,
    details_of,
    fast_client,
    sync_now,
    work,
)
from tests.marketplace.report_turns import Report, check, job_of, read, reading_of
from tests.marketplace.vendor_reports import a_life, dump, show

pytestmark = pytest.mark.django_db

TRANSACTIONS, FEEDBACK = Report.TRANSACTIONS, Report.FEEDBACK
CHURN, RENEWAL = Report.CHURN, Report.RENEWAL
# What has to fail so that the report cannot be read in any way.
ENDPOINTS = {
    TRANSACTIONS: (Endpoint.TRANSACTIONS_EXPORT, Endpoint.TRANSACTIONS),
    FEEDBACK: (Endpoint.FEEDBACK,),
    CHURN: (Endpoint.CHURN,),
    RENEWAL: (Endpoint.RENEWAL,),
}
NAMES = {
    TRANSACTIONS: "transactions",
    FEEDBACK: "customers’ feedback",
    CHURN: "counts of churn",
    RENEWAL: "counts of renewals",
}
EACH = pytest.mark.parametrize("report", NAMES)


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "BACKGROUND_RETRY_POLICY", FAST_RETRY_POLICY)


@pytest.fixture
def synced(simulator: Simulator, connection: Connection) -> Connection:
    """The connection after its first sync, of customers of whom some left."""
    show(simulator, leavers(60))
    assert work(connection).state == RunState.SUCCEEDED
    connection.refresh_from_db()
    return connection


def leavers(number: int, switches: Switches = USUAL) -> list[Life]:
    """Customers who bought and left, each with three lines and an answer."""
    lives = []
    for place in range(1, number + 1):
        life = a_life(place, switches, months=1)
        life.purchase(date(2026, 6, 1) + timedelta(days=place % 20))
        life.renew()
        life.renew()
        life.cancel(life.end - timedelta(days=5), "bugs")
        life.lapse()
        lives.append(life)
    return lives


# --- Reading ------------------------------------------------------------------------------------


def test_transactions_come_as_exports_of_years(synced: Connection, simulator: Simulator) -> None:
    simulator.requests.clear()
    reading = read(TRANSACTIONS)
    assert reading is not None
    assert (reading.problem, reading.rows, reading.read_at, reading.full_at) == (
        "",
        180,
        NOON,
        NOON,
    )
    line = Transaction.objects.order_by("transaction_id").first()
    assert line is not None
    assert line.names[0].startswith("E-") and len(line.names) == 3
    assert line.fields["saleType"] in ("New", "Renewal")
    assert line.fields["purchasePrice"] == 100.0
    first_days = [
        request.parameters.get("startDate")
        for request in simulator.requests
        if request.endpoint == Endpoint.TRANSACTIONS_EXPORT
    ]
    assert first_days == [None, *(f"{year}-01-01" for year in range(2018, 2027))]
    assert Endpoint.TRANSACTIONS not in [request.endpoint for request in simulator.requests]


def test_later_only_changed_transactions_are_requested_and_all_once_a_month(
    synced: Connection, simulator: Simulator
) -> None:
    read(TRANSACTIONS)
    simulator.requests.clear()
    read(TRANSACTIONS, NOON + 6 * HOUR)
    assert not simulator.requests
    read(TRANSACTIONS, NOON + 12 * HOUR)
    (request,) = simulator.requests
    assert request.endpoint == Endpoint.TRANSACTIONS
    assert request.parameters["lastUpdated"] == "2026-09-19"
    simulator.requests.clear()
    read(TRANSACTIONS, NOON + 31 * DAY)
    assert Endpoint.TRANSACTIONS_EXPORT in [request.endpoint for request in simulator.requests]


def test_feedback_is_read_for_400_days_and_then_for_two_weeks(
    synced: Connection, simulator: Simulator
) -> None:
    simulator.requests.clear()
    reading = read(FEEDBACK)
    assert reading is not None and (reading.problem, reading.rows) == ("", 60)
    entry = Feedback.objects.first()
    assert entry is not None
    assert (entry.type, entry.reason_key) == ("unsubscribe", "bugs")
    assert entry.reason == "The reason was: bugs."
    read(FEEDBACK, NOON + DAY)
    days = [request.parameters["startDate"] for request in simulator.requests]
    assert days == ["2025-08-20", "2025-08-20", "2026-09-10"]


def test_a_row_that_comes_again_is_written_once_and_a_changed_one_changes(
    synced: Connection, simulator: Simulator
) -> None:
    read(TRANSACTIONS)
    read(FEEDBACK)
    before = dict(Transaction.objects.values_list("transaction_id", "recorded_at"))
    lives = leavers(60)
    lives[0].lines[1] = lives[0].lines[1]._replace(price=7)
    show(simulator, lives)
    read(TRANSACTIONS, NOON + 31 * DAY)
    read(FEEDBACK, NOON + 31 * DAY)
    assert (Transaction.objects.count(), Feedback.objects.count()) == (180, 60)
    changed = Transaction.objects.exclude(recorded_at__in=before.values())
    assert [line.fields["purchasePrice"] for line in changed] == [7.0]


@pytest.mark.parametrize(
    ("switches", "names"),
    [
        (Switches(feedback_name=Name.ENTITLEMENT), 3),
        (Switches(feedback_name=Name.LICENSE), 1),
        (Switches(feedback_name=Name.NOTHING), 0),
    ],
)
def test_feedback_names_its_license_or_none(
    synced: Connection, simulator: Simulator, switches: Switches, names: int
) -> None:
    show(simulator, leavers(1, switches))
    read(FEEDBACK)
    assert [len(entry.names) for entry in Feedback.objects.all()] == [names]


@pytest.mark.parametrize(
    ("sale_type", "status"), [("Downgrade", "Fully paid"), (None, "Open"), ("Barter", "Paid")]
)
def test_unknown_kinds_of_sales_and_payments_are_stored(
    synced: Connection, simulator: Simulator, sale_type: str | None, status: str
) -> None:
    switches = Switches(downgrade=sale_type, payment_status=status)
    life = a_life(switches=switches)
    life.purchase(date(2026, 1, 10))
    life.resize(date(2026, 3, 1), 20)
    show(simulator, [life], switches=switches)
    read(TRANSACTIONS)
    lines = [line.fields for line in Transaction.objects.order_by("line_item_id")]
    assert [line.get("saleType") for line in lines] == ["New", "Refund", sale_type]
    assert {line["paymentStatus"] for line in lines} == {status}


def test_rows_of_deleted_accounts_are_left_out(
    synced: Connection, simulator: Simulator, acme: Product
) -> None:
    forgotten_id = leavers(1)[0].sites[0].cloud_id
    subject = SubjectRef(acme.pk, SubjectScope.ACCOUNT, forgotten_id)
    assert forgetting.forget(subject, NOON, suppress=True)
    read(TRANSACTIONS)
    assert Transaction.objects.count() == 177


def test_nothing_is_read_before_the_first_sync_or_while_disconnected(
    simulator: Simulator, connection: Connection
) -> None:
    show(simulator, leavers(2))
    assert read(TRANSACTIONS) is None
    work(connection)
    connecting.disconnect(connection, NOON)
    assert read(TRANSACTIONS) is None
    assert not Transaction.objects.exists()


def test_a_disconnected_connections_job_writes_nothing_more(
    synced: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = client.MarketplaceClient.page

    def page(self: Any, *arguments: Any) -> Any:
        answer = ask(self, *arguments)
        connecting.disconnect(synced, NOON)
        return answer

    monkeypatch.setattr(client.MarketplaceClient, "page", page)
    read(FEEDBACK)
    assert not Feedback.objects.exists()
    assert job_of(FEEDBACK) is None


def test_another_app_begins_without_what_was_read_of_the_first(
    synced: Connection, simulator: Simulator, acme: Product
) -> None:
    read(TRANSACTIONS)
    read(FEEDBACK)
    other = details_of(simulator, product_id=simulator.vendor.apps[1].product_id)
    read(CHURN)
    assert MetricEvent.objects.exists()
    connecting.save_connection(acme, connecting.verify_details(other, fast_client), NOON + DAY)
    for model in (
        *(Transaction, Feedback, MetricEvent),
        *(LedgerLicense, LicenseAlias, Observation, ReportReading),
    ):
        assert not model._default_manager.exists(), model
    assert read(TRANSACTIONS, NOON + DAY) is None


def rows_of(report: Report) -> int:
    if report in (CHURN, RENEWAL):
        return MetricEvent.objects.filter(metric=report.value).count()
    model: type[Transaction | Feedback] = Transaction if report == TRANSACTIONS else Feedback
    return model.objects.count()


# --- Failures -----------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (lambda on: ErrorStatus(on=on, status=403), "may not read {} (403)"),
        (lambda on: ErrorStatus(on=on, status=404), "has no report of {} for this vendor (404)"),
        (lambda on: ErrorStatus(on=on, status=400), "rejects the request for {} (400)"),
        (lambda on: ErrorStatus(on=on, status=401), "the API token for {} (401)"),
        (
            lambda on: ErrorStatus(on=on, status=502),
            "cannot send {} at the moment: it returned 502",
        ),
        (lambda on: TruncatedJson(on=on), "for {} cannot be used: it is not complete JSON"),
        (lambda on: HtmlPage(on=on), "for {} cannot be used: it is a web page"),
        (lambda on: UnexpectedJson(on=on, value={"rows": []}), "unexpected structure"),
        (lambda on: Circle(on=on, pages=1), "its list does not end"),
        (lambda on: PaginationDrift(on=on, rows=50), "its list does not end"),
        (lambda on: SamePage(on=on), "its list does not end"),
    ],
)
def test_a_failure_is_one_sentence_on_the_page_and_licenses_are_synced(
    synced: Connection,
    simulator: Simulator,
    report: Report,
    fault: Callable[[Endpoint], Fault],
    sentence: str,
) -> None:
    simulator.add_faults(*(fault(endpoint) for endpoint in ENDPOINTS[report]))
    if "does not end" in sentence and report == TRANSACTIONS:
        # Pages, not exports, go round in a circle.
        simulator.add_faults(ErrorStatus(on=Endpoint.TRANSACTIONS_EXPORT, status=404))
    simulator.requests.clear()
    reading = read(report)
    assert reading is not None
    assert len(simulator.requests) < 100
    assert sentence.format(NAMES[report]) in reading.problem
    assert reading.problem.count(". ") == 0 and reading.problem.endswith(".")
    (status,) = [row for row in report_statuses(synced) if row.level == "bad"]
    assert status.sentence == f"{reading.problem} {texts.LICENSES_UNAFFECTED}"

    show(simulator, leavers(61))
    assert sync_now(synced, NOON + HOUR).state == RunState.SUCCEEDED
    synced.refresh_from_db()
    assert (synced.state, synced.last_error) == (State.ACTIVE, "")

    simulator.clear_faults()
    reading = read(report, NOON + 2 * DAY)
    assert reading is not None and reading.problem == ""
    assert rows_of(report) == {TRANSACTIONS: 183, FEEDBACK: 61, CHURN: 61, RENEWAL: 122}[report]


@EACH
def test_an_unavailable_report_is_retried_after_a_pause(
    synced: Connection, simulator: Simulator, report: Report
) -> None:
    simulator.add_faults(*(ErrorStatus(on=on, status=503) for on in ENDPOINTS[report]))
    read(report)
    job = job_of(report)
    assert job is not None and job.failures == 1
    assert job.due_at == NOON + timedelta(minutes=10)
    simulator.clear_faults()
    reading = read(report, NOON + HOUR)
    assert reading is not None and reading.problem == ""


@EACH
def test_a_refused_report_is_requested_again_a_day_later(
    synced: Connection, simulator: Simulator, report: Report
) -> None:
    simulator.add_faults(*(ErrorStatus(on=on, status=403) for on in ENDPOINTS[report]))
    read(report)
    simulator.requests.clear()
    read(report, NOON + 23 * HOUR)
    assert not simulator.requests
    read(report, NOON + 25 * HOUR)
    assert simulator.requests


@pytest.mark.parametrize(
    "fault",
    [
        ErrorStatus(on=Endpoint.TRANSACTIONS_EXPORT, status=404),
        ErrorStatus(on=Endpoint.TRANSACTIONS_EXPORT, status=400),
        ErrorStatus(on=Endpoint.TRANSACTIONS_EXPORT, status=403),
        HtmlPage(on=Endpoint.TRANSACTIONS_EXPORT),
        ExportStatus(on=Endpoint.TRANSACTIONS_EXPORT_FILE, status="FAILED"),
    ],
)
def test_without_an_export_transactions_come_page_by_page(
    synced: Connection, simulator: Simulator, fault: Fault
) -> None:
    simulator.add_faults(fault)
    reading = read(TRANSACTIONS)
    assert reading is not None and (reading.problem, reading.rows) == ("", 180)
    assert Transaction.objects.count() == 180


def test_an_export_that_fails_again_and_again_gives_way_to_pages(
    synced: Connection, simulator: Simulator
) -> None:
    simulator.add_faults(ErrorStatus(on=Endpoint.TRANSACTIONS_EXPORT, status=503))
    for hours in (0, 1, 2):
        read(TRANSACTIONS, NOON + hours * HOUR)
    assert Transaction.objects.count() == 180
    assert reading_of(synced, TRANSACTIONS).problem == ""


def test_an_export_is_waited_for(synced: Connection, simulator: Simulator) -> None:
    simulator.add_faults(
        ExportStatus(on=Endpoint.TRANSACTIONS_EXPORT_FILE, status="QUEUED", times=1)
    )
    read(TRANSACTIONS)
    job = job_of(TRANSACTIONS)
    assert job is not None and job.due_at is not None
    assert NOON + timedelta(seconds=30) <= job.due_at < NOON + HOUR
    assert not Transaction.objects.exists()
    read(TRANSACTIONS, NOON + HOUR)
    assert Transaction.objects.count() == 180


def test_a_list_that_ends_with_empty_pages_is_read(
    synced: Connection, simulator: Simulator
) -> None:
    simulator.add_faults(EndlessLink(on=Endpoint.FEEDBACK))
    reading = read(FEEDBACK)
    assert reading is not None and (reading.problem, reading.rows) == ("", 60)


def test_a_row_that_no_decoder_takes_costs_no_other(
    synced: Connection, simulator: Simulator
) -> None:
    reports = show(simulator, leavers(3))
    reports.rows["feedback"].insert(1, {"productId": reports.app.product_id, "date": "soon"})
    reports.rows["feedback"].insert(2, {"productId": "another app", "date": "2026-09-01"})
    reading = read(FEEDBACK)
    assert reading is not None and (reading.problem, reading.rows) == ("", 3)


# --- What the account may read ------------------------------------------------------------------


def test_the_page_says_which_reports_the_marketplace_does_not_list(
    simulator: Simulator, synced: Connection
) -> None:
    simulator.other_reports.hidden_links = {"feedbackLinks"}
    check()
    listed = dict(ReportReading.objects.values_list("report", "is_listed"))
    counted = dict.fromkeys(("churn", "conversion", "renewal"), True)
    assert listed == {"transactions": True, "feedback": False, **counted}
    sentences = {status.label: status.sentence for status in report_statuses(synced)}
    assert sentences["Feedback"] == texts.REPORT_UNLISTED
    assert sentences["Transactions"] == texts.REPORT_PENDING
    # It may be wrong, so it is read all the same.
    reading = read(FEEDBACK)
    assert reading is not None and reading.problem == ""


@pytest.mark.parametrize("status", [403, 404, 502])
def test_a_check_that_fails_changes_nothing(
    simulator: Simulator, synced: Connection, status: int
) -> None:
    simulator.add_faults(ErrorStatus(on=Endpoint.CAPABILITIES, status=status))
    check()
    assert not ReportReading.objects.exists()
    assert not Job.objects.filter(failures__gt=0).exists()


# --- Contacts -----------------------------------------------------------------------------------


def test_contacts_are_nowhere_in_the_database_and_the_logs(
    simulator: Simulator, synced: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    sync_now(synced, NOON + HOUR)
    run_job(recomputation.KIND, NOON + HOUR)
    for report in NAMES:
        read(report)
    report_sources.request_history(synced, NOON)
    read(Report.HISTORY, NOON + HOUR)
    assert Observation.objects.filter(source=Observation.Source.HISTORY).exists()
    simulator.add_faults(TruncatedJson())
    for report in NAMES:
        read(report, NOON + 2 * DAY)
    assert all(rows_of(report) for report in NAMES)
    rows = dump()
    assert "bugs" in rows
    assert PLANTED not in rows
    assert PLANTED not in caplog.text


def test_reading_is_bounded_in_time(synced: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step ends after a page, and the job goes on from there."""
    monkeypatch.setattr(report_reading, "STEP_SECONDS", 0.0)
    read(FEEDBACK)
    assert Feedback.objects.count() == 60
    job = job_of(FEEDBACK)
    assert job is not None and job.steps >= 2


def test_random_lives_are_read(synced: Connection, simulator: Simulator) -> None:
    reports = show(simulator, islice(generate_lives(1, NOON.date()), 100))
    read(TRANSACTIONS)
    assert Transaction.objects.count() == len(reports.rows["transactions"])
