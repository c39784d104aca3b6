"""The marketplace's own counts are matched with the ledger's events, and change nothing."""

from datetime import date, timedelta

import pytest

from harness.marketplace.faults import Circle, Endpoint, ErrorStatus, TruncatedJson
from harness.marketplace.lives import Truth
from harness.marketplace.reports import METRICS, license_names
from harness.marketplace.server import Simulator
from harness.marketplace.switches import EventDate, Switches
from marketplace.models import Connection
from marketplace.runs import reconciliation
from marketplace.runs.reconciliation import CountedEvent, Matching, Metric, MonthCounts
from marketplace.source.client import Credentials, MarketplaceClient
from marketplace.source.errors import EndlessList, MarketplaceForbidden, UnexpectedResponse
from tests.marketplace.connections import fast_client
from tests.marketplace.vendor_reports import a_life, show

FIRST, LAST = date(2026, 1, 1), date(2026, 12, 31)


def on(license: str, day: str) -> CountedEvent:
    return CountedEvent(license, date.fromisoformat(f"2026-{day}"))


def client_of(simulator: Simulator) -> MarketplaceClient:
    return fast_client(Credentials(simulator.vendor.user_name, simulator.vendor.token))


def test_events_of_a_license_match_within_three_days() -> None:
    ours = [on("A", "05-01"), on("B", "05-01")]
    theirs = [on("A", "05-04"), on("B", "04-28")]
    assert reconciliation.match(ours, theirs) == Matching(
        [(ours[0], theirs[0]), (ours[1], theirs[1])], [], []
    )


def test_then_within_31_days_and_not_later() -> None:
    ours = [on("A", "05-01"), on("B", "05-01")]
    theirs = [on("A", "06-01"), on("B", "06-02")]
    assert reconciliation.match(ours, theirs) == Matching(
        [(ours[0], theirs[0])], [ours[1]], [theirs[1]]
    )


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


def test_counts_by_month() -> None:
    ours = [on("A", "05-01"), on("B", "05-30"), on("C", "07-01")]
    theirs = [on("A", "05-02"), on("B", "06-01")]
    counts = reconciliation.count_by_month(ours, theirs)
    months = [MonthCounts(date(2026, 5, 1), 2, 1), MonthCounts(date(2026, 6, 1), 0, 1)]
    assert counts == [*months, MonthCounts(date(2026, 7, 1), 1, 0)]
    assert [count.difference for count in counts] == [1, -1, 1]


@pytest.mark.django_db
@pytest.mark.parametrize("metric", Metric)
@pytest.mark.parametrize(
    "switches",
    [
        Switches(),
        Switches(has_nested_details=False),
        Switches(event_date=EventDate.NEXT_DAY),
        Switches(has_nested_details=False, event_date=EventDate.GRACE),
    ],
    ids=str,
)
def test_the_marketplaces_events_match_what_happened(
    simulator: Simulator, connection: Connection, metric: Metric, switches: Switches
) -> None:
    lives = []
    for number in range(1, 71):
        life = a_life(number, switches)
        life.evaluate(date(2025, 1, 1) + timedelta(days=number))
        life.buy()
        life.renew()
        life.lapse()
        lives.append(life)
    show(simulator, lives, date(2027, 6, 1), switches)
    rows = list(
        reconciliation.read_metric_events(
            client_of(simulator), connection, metric, date(2025, 1, 1), date(2027, 6, 1)
        )
    )
    names = {
        name: str(life.number) for life in lives for name in license_names(1, life, 0).values()
    }
    ours = [
        CountedEvent(str(life.number), truth.on)
        for life in lives
        for truth in life.truth
        if _is_counted(truth, metric)
    ]
    matching = reconciliation.match(ours, reconciliation.count_theirs(rows, names))
    assert len(matching.pairs) == 70
    assert (matching.only_ours, matching.only_theirs) == ([], [])


def _is_counted(truth: Truth, metric: Metric) -> bool:
    return truth.event == METRICS[metric]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (ErrorStatus(on=Endpoint.DETAILS, status=403), MarketplaceForbidden),
        (TruncatedJson(on=Endpoint.DETAILS), UnexpectedResponse),
        (Circle(on=Endpoint.DETAILS, pages=1), EndlessList),
    ],
    ids=["403", "half", "endless"],
)
def test_a_failure_reaches_the_caller(
    simulator: Simulator,
    connection: Connection,
    fault: ErrorStatus | TruncatedJson | Circle,
    error: type[Exception],
) -> None:
    lives = [a_life(number) for number in range(60)]
    for life in lives:
        life.purchase(date(2025, 3, 1))
        life.renew()
    show(simulator, lives)
    simulator.add_faults(fault)
    with pytest.raises(error):
        list(
            reconciliation.read_metric_events(
                client_of(simulator), connection, Metric.RENEWAL, FIRST, LAST
            )
        )
