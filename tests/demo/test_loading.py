"""A copied population is the one that would have been recorded, and it is scored at the end."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db.models import Count, Sum

from engagement.models import (
    Account,
    AccountEngagement,
    DailyCount,
    Event,
    EventName,
    Product,
    RescoreRequest,
    TraitName,
    User,
    UserEngagement,
    last_seen,
)
from engagement.rescoring.rescore import rescore
from harness.demo import copy_writer, loading, vocabulary
from harness.demo.population import Size, generate
from harness.demo.vocabulary import BOARDS
from tests.demo.recorded import record_customers
from tests.engagement.history import state

NOW = datetime(2026, 9, 24, 14, 30, tzinfo=UTC)
SIZE = Size(accounts=8, users=60, days=25, event_days=4)

pytestmark = pytest.mark.django_db


def fill(product: Product, size: Size = SIZE) -> None:
    assert sum(loading.populate(product, BOARDS, size, NOW)) == size.users


def score(product: Product) -> None:
    loading.score_products([product], lambda: NOW, lambda how_far: False)


def without_arrivals(product: Product) -> dict[str, Any]:
    """The rows without their places in the order of arrival."""
    rows = state(product)
    users = {
        name: (traits, {name: at for name, (at, _) in stamps.items()}, *others)
        for name, (traits, stamps, *others) in rows["users"].items()
    }
    accounts = {
        name: (traits, {name: at for name, (at, _) in stamps.items()}, *others)
        for name, (traits, stamps, *others) in rows["accounts"].items()
    }
    events = sorted(event[1:] for event in rows["events"])
    memberships = sorted(rows["memberships"])
    return {
        **rows,
        "users": users,
        "accounts": accounts,
        "events": events,
        "memberships": memberships,
    }


def times(product: Product) -> dict[str, list[tuple[Any, ...]]]:
    """The times that ``state`` leaves out."""
    users = User.objects.filter(product=product)
    accounts = Account.objects.filter(product=product)
    return {
        "users": sorted(users.values_list("external_id", last_seen(product.pk), "created_at")),
        "accounts": sorted(accounts.values_list("external_id", "last_seen_at", "created_at")),
    }


def trait_names(product: Product) -> set[str]:
    return set(TraitName.objects.filter(product=product).values_list("name", flat=True))


def scores(product: Product) -> dict[str, Any]:
    numbers = ("raw", "raw_yesterday", "raw_last_period", "event_count", "active_days")
    users = UserEngagement.objects.filter(product=product)
    accounts = AccountEngagement.objects.filter(product=product)
    return {
        "users": sorted(users.values_list("user__external_id", *numbers)),
        "accounts": sorted(
            accounts.values_list("account__external_id", "active_users", "total_users", *numbers)
        ),
    }


def test_copied_rows_equal_recorded_rows(
    acme: Product, globex: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_writer, "PEOPLE_PER_BATCH", 7)
    fill(globex)
    monkeypatch.setattr(copy_writer, "copy_customers", record_customers)
    fill(acme)
    score(acme)
    score(globex)
    assert without_arrivals(globex) == without_arrivals(acme)
    assert times(globex) == times(acme)
    assert scores(globex) == scores(acme)
    assert trait_names(globex) == trait_names(acme) >= {"name", "email", "role"}
    assert RescoreRequest.objects.count() == 0


def test_daily_counts_agree_with_the_population_and_with_single_events(acme: Product) -> None:
    fill(acme)
    uses = [
        use
        for customer in generate(BOARDS, SIZE, NOW, seed=1)
        for person in customer.people
        for use in person.event_uses
    ]
    assert DailyCount.objects.aggregate(n=Sum("count"))["n"] == sum(use.event_count for use in uses)
    recent = NOW.date() - timedelta(days=SIZE.event_days - 1)
    counted = DailyCount.objects.filter(day__gte=recent).values("user_id", "day", "event_name_id")
    events = Event.objects.values("user_id", "occurred_at__date", "event_name_id")
    assert sorted(counted.values_list("user_id", "day", "event_name_id", "count")) == sorted(
        events.annotate(n=Count("pk")).values_list(
            "user_id", "occurred_at__date", "event_name_id", "n"
        )
    )


def test_raw_scores_are_counts_times_the_catalogs_weights(acme: Product) -> None:
    fill(acme)
    score(acme)
    weights = {feature.event: feature.weight for feature in BOARDS.features}
    since = NOW.date() - timedelta(days=6)
    expected = {
        customer.external_id: sum(
            use.event_count * weights[use.event]
            for person in customer.people
            for use in person.event_uses
            if use.last_at.date() >= since
        )
        for customer in generate(BOARDS, SIZE, NOW, seed=1)
    }
    rows = AccountEngagement.objects.filter(product=acme)
    assert dict(rows.values_list("account__external_id", "raw")) == expected
    assert sum(expected.values()) > 0


def test_all_workspaces_are_scored_and_published_with_90_days_of_history(acme: Product) -> None:
    loading.add_workspaces(acme)
    fill(acme)
    score(acme)
    workspaces = acme.workspaces.select_related("scores").order_by("pk")
    assert [workspace.name for workspace in workspaces] == ["Default", "Monthly", "Admins"]
    for workspace in workspaces:
        assert workspace.scores is not None and workspace.scores.account_benchmark
        assert workspace.scores.daily_benchmarks.count() == 90
        assert workspace.segments.filter(is_default=False).count() == len(vocabulary.SEGMENTS)
    admins = UserEngagement.objects.filter(score_set=workspaces[2].scores)
    assert set(admins.values_list("user__traits__role", flat=True)) == {"admin"}


def test_a_population_without_users_has_accounts(acme: Product) -> None:
    fill(acme, Size(accounts=3, users=0, days=5))
    score(acme)
    assert AccountEngagement.objects.filter(product=acme, raw=0).count() == 3


def test_waiting_for_scores_stops_on_request(acme: Product) -> None:
    fill(acme)
    loading.score_products([acme], lambda: NOW, lambda how_far: True)
    assert not acme.workspaces.exclude(scores=None).exists()
    rescore(NOW)
    assert acme.workspaces.exclude(scores=None).exists()


def test_batches_are_bounded(acme: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_writer, "PEOPLE_PER_BATCH", 10)
    EventName.objects.bulk_create(
        EventName(product=acme, name=feature.event) for feature in BOARDS.features
    )
    customers = generate(BOARDS, SIZE, NOW, seed=1)
    pieces = list(copy_writer.copy_customers(acme.pk, customers))
    assert len(pieces) >= 3 and sum(pieces) == SIZE.users
