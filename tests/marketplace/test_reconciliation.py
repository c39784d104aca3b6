"""The marketplace's own counts are read, matched with the ledger's events, and change nothing."""

from datetime import date, datetime, timedelta
from random import Random

import pytest

from engagement.models import Product
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from harness.marketplace.faults import Endpoint, ErrorStatus
from harness.marketplace.lives import Life
from harness.marketplace.reports import license_names
from harness.marketplace.server import Simulator
from harness.marketplace.switches import USUAL, EventDate, Switches
from marketplace.ledger import recomputation, reconciliation
from marketplace.ledger.reconciliation import (
    CountedEvent,
    Matching,
    Metric,
    MonthCounts,
)
from marketplace.models import (
    Connection,
    LedgerLicense,
    LicenseAlias,
    LicenseEvent,
    MetricEvent,
    Observation,
)
from marketplace.runs import report_sources
from marketplace.source import client
from tests.jobs import run_job
from tests.marketplace.connections import DAY, FAST_RETRY_POLICY, HOUR, NOON, Kind, sync_now, work
from tests.marketplace.report_turns import Report, read, reading_of
from tests.marketplace.vendor_reports import TODAY, a_life, show

SINCE, UNTIL = date(2025, 10, 1), date(2026, 10, 1)


def on(license: str, day: str, term: str = "") -> CountedEvent:
    return CountedEvent(license, date.fromisoformat(f"2026-{day}"), term)


# --- Matching -----------------------------------------------------------------------------------


def test_events_of_a_license_match_within_a_month() -> None:
    ours = [on("A", "05-01"), on("B", "05-01"), on("C", "05-01")]
    theirs = [on("A", "05-04"), on("B", "06-01"), on("C", "06-02")]
    matching = reconciliation.match(ours, theirs)
    assert matching == Matching(
        [(ours[0], theirs[0]), (ours[1], theirs[1])], [ours[2]], [theirs[2]]
    )
    # Definitions explain three days.
    assert [reconciliation.differs(*side) for side in matching.sides()] == [False, True, True, True]


def test_a_near_event_is_matched_before_a_distant_one() -> None:
    """Monthly renewals: the one of May does not take the place of June's."""
    ours = [on("A", "05-01"), on("A", "06-01")]
    theirs = [on("A", "06-02")]
    assert reconciliation.match(ours, theirs) == Matching([(ours[1], theirs[0])], [ours[0]], [])


def test_each_event_matches_once_and_licenses_never_mix() -> None:
    ours = [on("A", "05-01"), on("A", "05-02")]
    theirs = [on("A", "05-02"), on("B", "05-01")]
    assert reconciliation.match(ours, theirs) == Matching(
        [(ours[1], theirs[0])], [ours[0]], [theirs[1]]
    )


def test_the_order_of_the_rows_does_not_matter() -> None:
    chance = Random(5)
    ours = [on("AB"[chance.randrange(2)], f"0{chance.randrange(1, 6)}-15") for _ in range(9)]
    theirs = [on("AB"[chance.randrange(2)], f"0{chance.randrange(1, 6)}-18") for _ in range(9)]
    ours, theirs = sorted(set(ours)), sorted(set(theirs))
    expected = reconciliation.match(ours, theirs)
    for _ in range(20):
        chance.shuffle(ours)
        chance.shuffle(theirs)
        assert reconciliation.match(ours, theirs) == expected


def test_counts_by_month_and_term() -> None:
    """Both sides of a pair are of one term, and each in the month of its own date."""
    ours = [on("A", "05-01", "other"), on("B", "05-30", "annual"), on("C", "07-01", "monthly")]
    theirs = [on("A", "05-02", "monthly"), on("B", "06-03", "monthly")]
    counts = reconciliation.count_by_month(reconciliation.match(ours, theirs))
    assert counts == [
        MonthCounts(date(2026, 5, 1), "annual", 1, 0, 1),
        MonthCounts(date(2026, 5, 1), "monthly", 1, 1, 0),
        MonthCounts(date(2026, 6, 1), "annual", 0, 1, 1),
        MonthCounts(date(2026, 7, 1), "monthly", 1, 0, 1),
    ]


# --- Reading ------------------------------------------------------------------------------------


@pytest.fixture
def synced(
    simulator: Simulator, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> Connection:
    """The connection after its first sync, of a customer without events."""
    monkeypatch.setattr(client, "BACKGROUND_RETRY_POLICY", FAST_RETRY_POLICY)
    life = a_life(999)
    life.purchase(date(2026, 9, 1))
    show(simulator, [life])
    work(connection)
    connection.refresh_from_db()
    simulator.requests.clear()
    return connection


def customers(switches: Switches = USUAL) -> list[Life]:
    """Customers who tried the app for a month, bought it, renewed once, and left."""
    lives = []
    for number in range(1, 71):
        life = a_life(number, switches, months=1)
        life.evaluate(date(2026, 3, 1) + timedelta(days=number))
        life.buy()
        life.renew()
        life.lapse()
        lives.append(life)
    return lives


def read_all(now: datetime = NOON) -> None:
    for report in report_sources.METRICS:
        read(report, now)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "switches",
    [
        Switches(),
        Switches(has_nested_details=False),
        Switches(event_date=EventDate.NEXT_DAY),
        Switches(has_nested_details=False, event_date=EventDate.GRACE),
    ],
    ids=["usual", "flat", "next day", "flat, grace"],
)
def test_the_marketplaces_events_agree_with_the_ledger(
    synced: Connection, acme: Product, simulator: Simulator, switches: Switches
) -> None:
    lives = customers(switches)
    show(simulator, lives, switches=switches)
    sync_now(synced, NOON + HOUR, Kind.FULL)
    report_sources.request_history(synced, NOON)
    run_job(recomputation.KIND, NOON + HOUR)
    read(Report.HISTORY, NOON + HOUR)
    run_job(recomputation.KIND, NOON + 2 * HOUR)
    before = events()
    read_all(NOON + 2 * HOUR)
    run_job(recomputation.KIND, NOON + 3 * HOUR)
    for metric in Metric:
        matching = reconciliation.compare(acme.pk, metric, SINCE, UNTIL)
        assert len(matching.pairs) == len(list(matching.sides())) == 70, metric
        for ours, theirs in matching.pairs:
            is_next_month = ours.date.month != theirs.date.month
            assert reconciliation.differs(ours, theirs) is is_next_month, metric
        terms = {count.term for count in reconciliation.count_by_month(matching)}
        assert terms == ({""} if metric == Metric.CONVERSION else {"monthly"})
    # What the marketplace counts changes no event.
    assert events() == before


def events() -> list[tuple[str, str, str]]:
    return sorted(LicenseEvent.objects.values_list("license", "type", "anchor"))


@pytest.mark.django_db
def test_a_year_is_read_by_months_and_then_what_may_still_change(
    synced: Connection, simulator: Simulator
) -> None:
    assert [start for start, _ in _read_months(simulator, NOON)][::12] == [
        *("2025-09-01", "2026-09-01")
    ]
    assert not _read_months(simulator, NOON + 6 * HOUR)
    assert _read_months(simulator, NOON + 12 * HOUR) == [
        *(("2026-08-01", "2026-08-31"), ("2026-09-01", "2026-09-30"))
    ]
    assert len(_read_months(simulator, NOON + 31 * DAY)) == 13


def _read_months(simulator: Simulator, now: datetime) -> list[tuple[str, str]]:
    simulator.requests.clear()
    read(Report.CHURN, now)
    return [
        (request.parameters["startDate"], request.parameters["endDate"])
        for request in simulator.requests
    ]


@pytest.mark.django_db
def test_what_the_marketplace_no_longer_counts_goes(
    synced: Connection, simulator: Simulator
) -> None:
    show(simulator, customers())
    read(Report.CHURN)
    assert MetricEvent.objects.count() == 70
    show(simulator, customers()[1:-1])
    read(Report.CHURN, NOON + DAY)
    # The first customer left in May, which was not read again, and the last one in August.
    assert MetricEvent.objects.count() == 69
    read(Report.CHURN, NOON + 31 * DAY)
    assert MetricEvent.objects.count() == 68


@pytest.mark.django_db
def test_a_metric_that_is_refused_leaves_the_others(
    synced: Connection, simulator: Simulator
) -> None:
    show(simulator, customers())
    simulator.add_faults(ErrorStatus(on=Endpoint.CHURN, status=403))
    read_all()
    counts = {metric: MetricEvent.objects.filter(metric=metric).count() for metric in Metric}
    assert counts == {Metric.CHURN: 0, Metric.CONVERSION: 70, Metric.RENEWAL: 70}
    assert "may not read counts of churn (403)" in reading_of(synced, Report.CHURN).problem


@pytest.mark.django_db
def test_rows_that_cannot_be_compared_are_left_out(
    synced: Connection, simulator: Simulator, acme: Product
) -> None:
    lives = customers()
    reports = show(simulator, lives)
    sync_now(synced, NOON + HOUR, Kind.FULL)
    rows = reports.rows["churn"]
    # On the customer's own servers, without a Cloud ID; the details spell it like this.
    rows[0] |= {"hosting": "Data center"}
    rows[0]["licenseDetails"].pop("cloudId")
    rows[1] |= {"eventDate": "soon"}
    rows[2] |= {"productId": "another app"}
    rows[3] |= {"hosting": "Data center"}
    forgotten = SubjectRef(acme.pk, SubjectScope.ACCOUNT, lives[4].sites[0].cloud_id)
    assert forgetting.forget(forgotten, NOON, suppress=True)
    read(Report.CHURN)
    assert reading_of(synced, Report.CHURN).problem == ""
    stored = set(MetricEvent.objects.values_list("name", flat=True))
    assert len(stored) == 66
    assert license_names(1, lives[3], 0)["appEntitlementNumber"] in stored


# --- Why they differ ----------------------------------------------------------------------------


def add_license(product: Product, license: str, first_day: str, **facts: str) -> None:
    """A license of the ledger that was first seen on a day."""
    values = {"as_of": date.fromisoformat(first_day), "digest": b""}
    state = {"fields": {}, "first_seen": NOON, "last_seen": NOON, "source": "sync"}
    LedgerLicense.objects.create(
        product=product, license=license, key=license, cloud_id="site-a", facts=facts, **values
    )
    LicenseAlias.objects.create(product=product, name=license, license=license)
    Observation.objects.create(product=product, license=license, **values, **state)


def add_event(product: Product, license: str, type: str, day: str) -> None:
    on = date.fromisoformat(day)
    LicenseEvent.objects.create(
        product=product,
        license=license,
        type=type,
        anchor=day,
        date=on,
        known_on=on,
        details={},
        sources=["sync"],
        recorded_at=NOON,
        changed_at=NOON,
    )


def count(product: Product, name: str, day: str, metric: Metric = Metric.CHURN) -> None:
    """Have the marketplace count an event of the license."""
    MetricEvent.objects.create(
        product=product,
        metric=metric,
        date=date.fromisoformat(day),
        name=name,
        names=[name],
        cloud_id="site-b",
        seen_at=NOON,
    )


def differences(
    product: Product, metric: Metric = Metric.CHURN
) -> dict[str, tuple[str, str, str, str]]:
    """The site, both days, and the reason of each license that differs."""
    matching = reconciliation.compare(product.pk, metric, SINCE, UNTIL)
    sides = [side for side in matching.sides() if reconciliation.differs(*side)]
    return {
        row.license: (row.cloud_id, str(row.ours or ""), str(row.theirs or ""), row.reason)
        for row in reconciliation.explain(product.pk, metric, sides, TODAY)
    }


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("type", "day", "reason"),
    [
        (
            "became_free",
            "2026-06-20",
            "The license became free on 20 Jun 2026. The marketplace counts the move from STARTER "
            "to FREE as churn.",
        ),
        (
            "moved_site",
            "2026-06-01",
            "The license moved to another site on 1 Jun 2026. The marketplace counts the old site "
            "as lost.",
        ),
        ("evaluation_expired", "2026-06-20", "The ledger has: Evaluation expired, 20 Jun 2026."),
        ("evaluation_expired", "2026-08-20", ""),
        ("seats_up", "2026-06-20", ""),
    ],
)
def test_what_the_ledger_has_instead_is_a_reason(
    acme: Product, type: str, day: str, reason: str
) -> None:
    add_license(acme, "E-1", "2026-01-01")
    add_event(acme, "E-1", type, day)
    count(acme, "E-1", "2026-06-15")
    assert differences(acme) == {"E-1": ("site-b", "", "2026-06-15", reason)}


@pytest.mark.django_db
def test_a_moved_license_that_was_free_for_a_day_moved(acme: Product) -> None:
    add_license(acme, "E-1", "2026-01-01")
    add_event(acme, "E-1", "became_free", "2026-06-15")
    add_event(acme, "E-1", "moved_site", "2026-06-20")
    count(acme, "E-1", "2026-06-15")
    assert "moved to another site" in differences(acme)["E-1"][3]


@pytest.mark.django_db
def test_what_the_ledger_cannot_know_is_a_reason(acme: Product) -> None:
    add_license(acme, "E-1", "2026-07-01")
    count(acme, "E-1", "2026-06-15")
    count(acme, "E-2", "2026-06-15")
    assert differences(acme) == {
        "E-1": (
            *("site-b", "", "2026-06-15"),
            "The ledger’s first state of this license is of 1 Jul 2026.",
        ),
        "E-2": ("site-b", "", "2026-06-15", "The ledger does not know this license."),
    }


@pytest.mark.django_db
def test_churn_that_the_ledger_waits_for_is_said(acme: Product) -> None:
    for license, days in (("E-1", 29), ("E-2", 30)):
        add_license(acme, license, "2026-01-01")
        add_event(acme, license, "cancelled", str(TODAY - timedelta(days=days)))
        count(acme, license, str(TODAY - timedelta(days=days)))
    reasons = {license: row[3] for license, row in differences(acme).items()}
    assert reasons["E-1"] == "The ledger waits for 30 days: it may still count this."
    assert reasons["E-2"].startswith("The ledger has: Subscription cancelled, ")


@pytest.mark.django_db
def test_both_sides_on_other_days_or_in_other_months_differ(acme: Product) -> None:
    for license, ours, theirs in (
        ("E-1", "2026-05-31", "2026-06-01"),
        ("E-2", "2026-06-10", "2026-06-20"),
        ("E-3", "2026-06-10", "2026-06-13"),
    ):
        add_license(acme, license, "2026-01-01")
        add_event(acme, license, "churned", ours)
        count(acme, license, theirs)
    assert {license: row[3] for license, row in differences(acme).items()} == {
        "E-1": "Both have it, in different months.",
        "E-2": "Both have it, on different days.",
    }


@pytest.mark.django_db
def test_only_ours_may_come_later_or_be_of_a_sandbox(acme: Product) -> None:
    for license, day in (("E-1", "2026-06-15"), ("E-2", "2026-06-15"), ("E-3", str(TODAY))):
        add_license(acme, license, "2026-01-01", **SANDBOX if license == "E-1" else {})
        add_event(acme, license, "churned", day)
    late = "The marketplace’s reports lag behind: it may still count this."
    assert differences(acme) == {
        "E-1": ("site-a", "2026-06-15", "", "The license is on a sandbox."),
        "E-2": ("site-a", "2026-06-15", "", ""),
        "E-3": ("site-a", str(TODAY), "", late),
    }


SANDBOX = {"installedOnSandbox": "Yes"}


@pytest.mark.django_db
def test_an_event_is_found_by_each_name_of_its_license_and_counts_once(acme: Product) -> None:
    add_license(acme, "E-1", "2026-01-01")
    LicenseAlias.objects.create(product=acme, name="L-1", license="E-1")
    add_event(acme, "E-1", "renewed", "2026-06-15")
    for name in ("L-1", "E-1"):
        count(acme, name, "2026-06-16", Metric.RENEWAL)
    matching = reconciliation.compare(acme.pk, Metric.RENEWAL, SINCE, UNTIL)
    assert (len(matching.pairs), matching.only_ours, matching.only_theirs) == (1, [], [])


@pytest.mark.django_db
def test_other_products_are_not_compared(acme: Product, globex: Product) -> None:
    add_license(acme, "E-1", "2026-01-01")
    add_event(acme, "E-1", "churned", "2026-06-15")
    count(globex, "E-1", "2026-06-15")
    matching = reconciliation.compare(acme.pk, Metric.CHURN, SINCE, UNTIL)
    assert (len(matching.only_ours), matching.only_theirs) == (1, [])
