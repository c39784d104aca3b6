"""What became of licenses, as the job stores it: that of random lives, corrected, and once for
ledgers of earlier releases."""

from collections.abc import Iterator
from datetime import date
from itertools import islice, pairwise
from typing import Any

import pytest

from engagement.models import Product
from harness.marketplace.lives import EVALUATION, PAID, Life, Snapshot, generate_lives
from harness.marketplace.server import Simulator
from harness.marketplace.switches import Switches
from marketplace.ledger import recomputation
from marketplace.models import Connection, Ledger, LicenseEvent
from outcomes.models import LicenseOutcome, LicenseRevision
from outcomes.sources.licenses import OutcomeRow
from tests.jobs import run_job
from tests.marketplace.connections import DAY, NOON, Kind, licenses, sync_now
from tests.marketplace.ledger.examples import row
from tests.marketplace.ledger.test_through_syncs import a_record, list_only, sync_on
from tests.marketplace.ledger.test_through_syncs import connection as early
from tests.marketplace.test_history import begin, fast, finish
from tests.marketplace.vendor_reports import TODAY

pytestmark = pytest.mark.django_db
early, fast = early, fast

# By kind and day: the result, and why it is left out.
Results = dict[tuple[str, date], tuple[str, str]]


def plain(life: Life) -> Results:
    """What became of a customer, from the story of its life alone."""
    snapshots = [snapshot for snapshot in life.snapshots if snapshot.on <= TODAY]
    terms = list(_terms(snapshots))
    results: Results = {
        ("evaluation", day): (result, "") for day, result in _evaluations(snapshots)
    }  # fmt: skip
    if life.months == 12:
        results |= {("renewal", day): (result, "") for _, day, result in terms}
    else:
        results |= {("monthly_stay", day): (result, "") for day, result in _quarters(terms)}
    return {
        key: (result, "sandbox" if life.is_sandbox else "open" if result == "open" else "")
        for key, (result, _) in results.items()
    }


def _terms(snapshots: list[Snapshot]) -> Iterator[tuple[date, date, str]]:
    """First day, last day, and result of each paid term."""
    by_end: dict[date, list[Snapshot]] = {}
    for snapshot in snapshots:
        if snapshot.type == PAID:
            by_end.setdefault(snapshot.end, []).append(snapshot)
    for own, after in pairwise([*by_end.values(), None]):
        assert own is not None
        end = own[0].end
        if after is not None and after[0].start == end:
            result = "renewed_lower" if after[0].seats < own[-1].seats else "renewed"
        else:
            result = "churned" if after or own[-1].status == "inactive" else "open"
        yield own[0].start, end, result


def _quarters(terms: list[tuple[date, date, str]]) -> Iterator[tuple[date, str]]:
    by_quarter: dict[date, list[tuple[date, date, str]]] = {}
    for term in terms:
        first = term[1].replace(month=(term[1].month - 1) // 3 * 3 + 1, day=1)
        by_quarter.setdefault(first, []).append(term)
    for first, own in by_quarter.items():
        if own[0][0] > first:
            continue
        for result in ("churned", "open"):
            days = [day for _, day, each in own if each == result]
            if days:
                yield days[-1], result
                break
        else:
            yield own[-1][1], "stayed"


def _evaluations(snapshots: list[Snapshot]) -> Iterator[tuple[date, str]]:
    for trial in {snapshot.trial for snapshot in snapshots if snapshot.type == EVALUATION}:
        own = [each for each in snapshots if each.type == EVALUATION and each.trial == trial]
        after = snapshots[snapshots.index(own[-1]) + 1 :]
        is_bought = bool(after) and after[0].type == PAID
        is_over = own[-1].status == "inactive"
        yield own[-1].end, "bought" if is_bought else "not_bought" if is_over else "open"


def stored(product: Product) -> dict[str, Results]:
    """By Cloud ID."""
    results: dict[str, Results] = {}
    rows = LicenseOutcome.objects.filter(product=product)
    for site, kind, day, *values in rows.values_list(
        "cloud_id", "kind", "day", "result", "exclusion"
    ):
        results.setdefault(site, {})[kind, day] = (values[0], values[1])
    return results


@pytest.mark.parametrize("seed", range(2))
def test_outcomes_are_those_of_the_customers_lives(
    acme: Product, simulator: Simulator, connection: Connection, seed: int
) -> None:
    lives = list(islice(generate_lives(seed, TODAY), 90))
    begin(simulator, connection, lives, Switches())
    finish(connection)
    run_job(recomputation.KIND, NOON)
    expected = {life.sites[0].cloud_id: plain(life) for life in lives}
    results = stored(acme)
    for site, own in expected.items():
        assert results.get(site, {}) == own, site
    kinds = {(kind, *values) for own in results.values() for (kind, _), values in own.items()}
    assert {result for _, result, _ in kinds} >= {
        "renewed", "renewed_lower", "churned", "stayed", "bought", "not_bought", "open",
    }  # fmt: skip


def outcomes(product: Product) -> list[tuple[Any, ...]]:
    rows = LicenseOutcome.objects.filter(product=product).order_by("license", "kind", "day")
    return list(rows.values_list(*OutcomeRow._fields))


def test_a_late_row_corrects_what_became_of_a_term(
    acme: Product, simulator: Simulator, early: Connection
) -> None:
    term = row("25-03-01 C a 25-03-01→26-03-01 10")
    for on in (date(2025, 3, 1), date(2026, 4, 2)):
        list_only(simulator, a_record(simulator, "A", term))
        sync_on(early, on)
    churned = LicenseOutcome.objects.get(product=acme)
    assert (churned.result, churned.known_on) == ("churned", date(2026, 3, 31))
    assert (churned.day, churned.began_on) == (date(2026, 3, 1), date(2025, 3, 1))
    revision = Ledger.objects.get(product=acme).revision
    renewed = row("26-04-05 C a 26-03-01→27-03-01 5")
    list_only(simulator, a_record(simulator, "A", renewed))
    sync_on(early, date(2026, 4, 5))
    first, running = LicenseOutcome.objects.filter(product=acme).order_by("day")
    assert (first.result, first.known_on, first.exclusion) == (
        "renewed_lower", date(2026, 4, 5), "",
    )  # fmt: skip
    assert (running.day, running.exclusion, running.seats) == (date(2027, 3, 1), "open", 5)
    assert LicenseRevision.objects.get(product=acme).revision > revision


def test_a_ledger_of_an_earlier_release_gets_its_outcomes_once(
    acme: Product,
    simulator: Simulator,
    early: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulator.feed.add(*licenses(simulator, 5))
    sync_on(early, NOON.date())
    before = outcomes(acme)
    assert len(before) == 5
    changes = set(LicenseEvent.objects.values_list("license", "changed_at"))
    LicenseOutcome.objects.all().delete()
    LicenseRevision.objects.all().delete()
    monkeypatch.setattr(recomputation, "BATCH_SIZE", 2)
    assert recomputation._products_with_work() == [acme.pk]
    assert run_job(recomputation.KIND, NOON) >= 4, "three batches, and a step that finds no more"
    assert outcomes(acme) == before
    assert set(LicenseEvent.objects.values_list("license", "changed_at")) == changes
    ledger = Ledger.objects.get(product=acme)
    assert LicenseRevision.objects.get(product=acme).revision == ledger.revision
    assert recomputation._products_with_work() == []


def test_a_sync_without_a_change_writes_no_outcome(
    acme: Product, simulator: Simulator, early: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 3))
    sync_on(early, NOON.date())
    revision = LicenseRevision.objects.get(product=acme).revision
    sync_now(early, NOON + DAY, Kind.FULL)
    run_job(recomputation.KIND, NOON + DAY)
    assert recomputation._products_with_work() == []
    assert LicenseRevision.objects.get(product=acme).revision == revision
