"""Seats are compared with active users where each of these needs one."""

from typing import Any

import pytest

from engagement.insight_kinds import ABOUT_SEATS
from engagement.models import AccountEngagement, Product, RescoreRequest, ScoreSet, Seats
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from engagement.scores.history import AllTimeTotals
from engagement.scores.insights import account_facts, apply_rules
from engagement.scores.metrics import compute_account_metrics
from engagement.segments.insight_filters import insight_filter
from engagement.segments.seats import choose_seats
from tests.engagement.history import NOON
from tests.engagement.rows import TODAY, account, members

pytestmark = pytest.mark.django_db

RENEWAL = {"am.maintenanceEndDate": str(TODAY)}


def two_accounts(scores: ScoreSet) -> None:
    """One that uses few of its seats before its renewal, and one with more users than seats."""
    account(scores, "few", active_users=1, traits={"am.tier.number": 100, **RENEWAL})
    account(scores, "many", active_users=9, traits={"am.tier.number": 3})


def choose(product: Product, seats: Seats) -> ScoreSet:
    is_site = seats == Seats.SITE
    choose_seats(product, Seats.APP if is_site else seats, has_site_users=is_site)
    return ScoreSet.objects.get(product=product)


def in_list(score_set: ScoreSet, kind: Any) -> set[str]:
    rows = AccountEngagement.objects.filter(product=score_set.product_id, score_set=score_set)
    ids = rows.filter(insight_filter(kind, score_set)).values_list("account__external_id")
    return {name for (name,) in ids}


def on_page(score_set: ScoreSet, name: str) -> set[str]:
    rows = AccountEngagement.objects.filter(score_set=score_set).select_related("account")
    facts = account_facts(score_set, rows.get(account__external_id=name))
    return {insight.kind for insight in apply_rules(facts) if insight.kind in ABOUT_SEATS}


def utilization(score_set: ScoreSet, name: str) -> float | None:
    rows = AccountEngagement.objects.filter(score_set=score_set).select_related("account")
    row = rows.get(account__external_id=name)
    metrics = compute_account_metrics(row, score_set, AllTimeTotals(0, 0), row.account.traits)
    return metrics.license_utilization


@pytest.mark.parametrize(
    ("seats", "is_compared", "share"),
    [(Seats.APP, True, 0.01), (Seats.HOST, False, 0.01), (Seats.SITE, False, None)],
)
def test_insights_and_the_utilization_follow_the_settings(
    acme: Product, scores: ScoreSet, seats: Seats, is_compared: bool, share: float | None
) -> None:
    two_accounts(scores)
    score_set = choose(acme, seats)
    assert in_list(score_set, "seats_unused") == ({"few"} if is_compared else set())
    assert in_list(score_set, "seats_exceeded") == ({"many"} if is_compared else set())
    assert on_page(score_set, "few") == ({"seats_unused"} if is_compared else set())
    assert on_page(score_set, "many") == ({"seats_exceeded"} if is_compared else set())
    assert utilization(score_set, "few") == share
    few = {"kind": "metric", "metric": "license_utilization", "operator": "at_most", "value": 0.5}
    assert members(score_set, "account", few) == (set() if share is None else {"few"})


def test_by_default_seats_are_for_users_of_the_host(acme: Product) -> None:
    assert (acme.licensed_for, acme.has_site_users, acme.seats) == ("host", False, Seats.HOST)
    rescore(NOON)
    assert ScoreSet.objects.get(product=acme).seats == Seats.HOST


def test_a_later_score_set_has_the_settings(acme: Product) -> None:
    choose_seats(acme, Seats.APP, has_site_users=False)
    sets.request_score_set(acme.workspaces.get().pk)
    assert ScoreSet.objects.get(product=acme).compares_seats


def test_readers_of_changes_learn_of_accounts_with_seats(acme: Product, scores: ScoreSet) -> None:
    two_accounts(scores)
    account(scores, "without seats")
    ScoreSet.objects.update(cached_counts_stale=False, watches_stale=False)
    # Nothing is different.
    choose(acme, Seats.APP)
    assert not RescoreRequest.objects.exists()
    score_set = choose(acme, Seats.SITE)
    assert (score_set.cached_counts_stale, score_set.watches_stale) == (True, True)
    few_and_many = AccountEngagement.objects.filter(account__external_id__in=["few", "many"])
    requested = set(RescoreRequest.objects.values_list("account_id", flat=True))
    assert requested == set(few_and_many.values_list("account_id", flat=True))


def test_other_products_keep_theirs(acme: Product, globex: Product, scores: ScoreSet) -> None:
    choose_seats(globex, Seats.APP, has_site_users=True)
    scores.refresh_from_db()
    assert scores.seats == Seats.APP
