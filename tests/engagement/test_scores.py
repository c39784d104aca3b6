"""Scores, with the worked examples of the metrics' definition."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError

from engagement.messages import Message
from engagement.models import (
    AccountEngagement,
    DailyBenchmark,
    EventName,
    EventWeight,
    Product,
    RescoreRequest,
    ScoreSet,
    User,
    UserEngagement,
    Workspace,
    last_seen,
)
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from engagement.rules.rules import parse_rule
from engagement.scores import history, metrics, past_benchmarks
from engagement.scores.formula import compute_score, window_bounds
from engagement.segments import members
from tests.cases import each
from tests.engagement.history import NOON, at, group, identify, tell, track
from tests.jobs import pretend_duration

RAW_SCORES = [475, 89, 101, 7, 3, 21, 2, 149, 223, 1, 13, 9, 37]
SCORES = [99.5, 62.6, 67.3, 7.4, 3.3, 20.7, 2.2, 80.8, 91.5, 1.1, 13.4, 9.5, 33.6]


# --- The formula ----------------------------------------------------------------------------


@each(("raw", "expected"), list(zip(RAW_SCORES, SCORES, strict=True)))
def test_the_worked_example_of_scores(raw: int, expected: float) -> None:
    assert round(compute_score(raw, 208.2), 1) == expected


def test_the_benchmark_itself_scores_90() -> None:
    assert math.isclose(compute_score(208, 208.0), 90.0)


def test_no_activity_scores_0_and_any_activity_at_least_1() -> None:
    assert compute_score(0, 208.2) == 0.0
    assert compute_score(1, 1_000_000.0) == 1.0


def test_a_workspace_without_a_benchmark_scores_0() -> None:
    assert compute_score(5, None) == 0.0


def test_a_higher_raw_score_never_scores_lower() -> None:
    scores = [compute_score(raw, 37.5) for raw in range(2000)]
    assert scores == sorted(scores)
    assert max(scores) <= 100.0


# --- From events to raw scores --------------------------------------------------------------

pytestmark = pytest.mark.django_db


def workspace_of(product: Product) -> Workspace:
    return Workspace.objects.get(product=product)


def scores_of(product: Product) -> ScoreSet:
    """The scores that the product's workspace shows."""
    scores = workspace_of(product).scores
    assert scores is not None
    return scores


def weigh(workspace: Workspace, **weights: int) -> None:
    for name, weight in weights.items():
        event_name, _ = EventName.objects.get_or_create(product=workspace.product, name=name)
        EventWeight.objects.create(workspace=workspace, event_name=event_name, weight=weight)
    sets.request_score_set(workspace.pk)


def users(product: Product) -> dict[str, int]:
    """The raw score of each scored user, as the product's workspace shows it."""
    # The replaced set is still there for its readers.
    rows = UserEngagement.objects.filter(product=product, score_set__state="current")
    return dict(rows.values_list("user__external_id", "raw"))


def accounts(product: Product) -> dict[str, int]:
    rows = AccountEngagement.objects.filter(product=product, score_set__state="current")
    return dict(rows.values_list("account__external_id", "raw"))


def test_the_worked_example_of_a_raw_score(acme: Product) -> None:
    weigh(workspace_of(acme), a=9, b=7, c=5, d=3, e=1)
    counts = {"a": 3, "b": 5, "c": 10, "d": 20, "e": 15}
    tell(acme, identify("ann", group="initech"))
    tell(acme, *(track("ann", name) for name, count in counts.items() for _ in range(count)))
    rescore(NOON)
    assert users(acme) == {"ann": 187}
    assert accounts(acme) == {"initech": 187}


def test_the_worked_example_of_a_benchmark(acme: Product) -> None:
    for number, raw in enumerate(RAW_SCORES):
        name = f"user {number}"
        tell(acme, identify(name), *(track(name) for _ in range(raw)))
    tell(acme, identify("idle"))
    rescore(NOON)
    benchmark = scores_of(acme).user_benchmark
    assert benchmark is not None and round(benchmark, 1) == 208.2
    assert scores_of(acme).account_benchmark is None


def test_unlisted_events_weigh_the_default_weight(acme: Product) -> None:
    Workspace.objects.filter(product=acme).update(default_weight=4)
    weigh(workspace_of(acme), listed=10)
    tell(acme, identify("ann"), track("ann", "listed"), track("ann", "other"))
    rescore(NOON)
    assert users(acme) == {"ann": 14}


def test_a_default_weight_of_0_scores_only_listed_events(acme: Product) -> None:
    Workspace.objects.filter(product=acme).update(default_weight=0)
    weigh(workspace_of(acme), listed=2)
    tell(acme, identify("ann"), track("ann", "listed", 1), track("ann", "other", 2))
    rescore(NOON)
    row = UserEngagement.objects.get(product=acme)
    assert (row.raw, row.event_count, row.active_days, row.last_active_at) == (2, 1, 1, at(1))


@pytest.mark.parametrize("default_weight", [0, 1])
def test_an_event_that_weighs_0_is_not_scored(acme: Product, default_weight: int) -> None:
    """It counts as an event below a default weight of 0 does: in no metric at all."""
    Workspace.objects.filter(product=acme).update(default_weight=default_weight)
    weigh(workspace_of(acme), opened=2, pinged=0)
    tell(acme, identify("ann", group="org"), identify("bob", group="org"))
    tell(acme, track("ann", "opened", -240), track("ann", "opened", -1))
    tell(acme, *(track(name, "pinged", -0.5 * n) for name in ("ann", "bob") for n in range(200)))
    rescore(NOON)
    ann, bob = UserEngagement.objects.filter(product=acme).order_by("user_id")
    org = AccountEngagement.objects.get(product=acme)
    for row in (ann, org):
        assert (row.raw, row.event_count, row.active_days, row.name_count) == (2, 1, 1, 1)
        assert row.last_active_at == at(-1)
    assert (bob.raw, bob.event_count, bob.active_days, bob.last_active_at) == (0, 0, 0, None)
    assert org.active_users == 1
    scores = scores_of(acme)
    # Adoption counts scored names only, also when all names but one are scored.
    assert scores.scored_event_name_count == 1
    computed = metrics.compute_user_metrics(
        ann, scores, history.all_time_totals(scores, "user", ann.user_id)
    )
    assert (computed.adoption, computed.adoption_all_time, computed.overall_scored_events) == (
        1,
        1,
        2,
    )
    assert [event.name for event in history.score_breakdown(scores, "user", ann.user_id)] == [
        "opened"
    ]
    for metric in ("overall_scored_events", "adoption_all_time"):
        condition = {"kind": "metric", "metric": metric, "operator": "at_least", "value": 0.5}
        rule = parse_rule({"match": "all", "conditions": [condition]}, "user")
        rows = members.engagement_rows(scores, "user").filter(members.members_filter(scores, rule))
        assert [row.user_id for row in rows] == [ann.user_id], metric


def test_the_database_keeps_weights_between_0_and_10(acme: Product) -> None:
    weigh(workspace_of(acme), opened=0)
    with pytest.raises(IntegrityError):
        weigh(workspace_of(acme), shared=11)


@pytest.mark.parametrize(("lookback", "expected"), [(1, 1), (7, 11), (30, 111)])
def test_the_window_is_today_and_the_days_before_it(
    acme: Product, lookback: int, expected: int
) -> None:
    Workspace.objects.filter(product=acme).update(lookback_days=lookback)
    weigh(workspace_of(acme), week=10)
    tell(acme, identify("ann"), track("ann", "today"))
    # The first day of the week's window, and the last day before it; the same for the month.
    tell(acme, track("ann", "week", -6 * 24))
    tell(acme, *(track("ann", "month", -7 * 24) for _ in range(50)))
    tell(acme, *(track("ann", "month", -29 * 24) for _ in range(50)))
    tell(acme, track("ann", "outside", -30 * 24))
    rescore(NOON)
    assert users(acme) == {"ann": expected}


def test_frequency_counts_days_and_last_activity_reaches_past_the_window(acme: Product) -> None:
    tell(acme, identify("ann"), identify("bob"))
    tell(acme, track("ann", hours=0), track("ann", hours=1), track("ann", hours=-48))
    tell(acme, track("bob", hours=-24 * 60))
    rescore(NOON)
    ann = UserEngagement.objects.get(user__external_id="ann")
    bob = UserEngagement.objects.get(user__external_id="bob")
    assert (ann.active_days, ann.last_active_at) == (2, at(1))
    assert (bob.raw, bob.active_days, bob.last_active_at) == (0, 0, at(-24 * 60))


def test_an_account_sums_the_events_that_happened_in_it(acme: Product) -> None:
    tell(acme, identify("ann", -3, group="initech"), identify("bob", -3, group="initech"))
    tell(acme, track("ann", hours=-2), track("bob", hours=-2), identify("bob", -1, group="hooli"))
    tell(acme, track("bob", hours=0), track("bob", hours=1))
    rescore(NOON)
    assert accounts(acme) == {"initech": 2, "hooli": 2}
    initech = AccountEngagement.objects.get(account__external_id="initech")
    assert (initech.active_users, initech.active_days, initech.last_active_at) == (2, 1, at(-2))


def test_a_user_has_no_score_until_identified(acme: Product) -> None:
    tell(acme, group("initech"), track("ann", group="initech"), track("ann"))
    rescore(NOON)
    assert (users(acme), accounts(acme)) == ({}, {"initech": 0})
    tell(acme, identify("ann", 1))
    rescore(NOON)
    assert (users(acme), accounts(acme)) == ({"ann": 2}, {"initech": 2})


def test_identified_users_without_events_rank_with_0(acme: Product) -> None:
    tell(acme, identify("ann", group="initech"))
    rescore(NOON)
    assert (users(acme), accounts(acme)) == ({"ann": 0}, {"initech": 0})


def test_a_moved_event_changes_both_accounts(acme: Product) -> None:
    tell(acme, identify("ann", -3, group="initech"), track("ann", hours=-1))
    rescore(NOON)
    tell(acme, identify("ann", -2, group="hooli"))
    rescore(NOON)
    assert accounts(acme) == {"initech": 0, "hooli": 1}


def test_each_workspace_scores_with_its_own_weights(acme: Product, globex: Product) -> None:
    doubled = Workspace.objects.create(product=acme, name="Doubled", default_weight=2)
    tell(acme, identify("ann"), track("ann"))
    tell(globex, identify("zed"), track("zed"))
    rescore(NOON)
    rows = UserEngagement.objects.filter(product=acme).values_list(
        "score_set__workspace__name", "raw"
    )
    assert dict(rows) == {"Default": 1, doubled.name: 2}
    assert users(globex) == {"zed": 1}


# --- When scores are computed again ---------------------------------------------------------


def test_only_enqueued_subjects_are_scored(acme: Product) -> None:
    tell(acme, identify("ann"), identify("bob"), track("ann"))
    assert rescore(NOON) == 2
    assert RescoreRequest.objects.count() == 0
    tell(acme, track("ann"))
    assert rescore(NOON) == 1
    assert rescore(NOON) == 0


def test_events_raise_last_seen_once_a_day_and_the_time_is_exact(acme: Product) -> None:
    ann = User.objects.filter(product=acme, external_id="ann")
    tell(acme, identify("ann", hours=-24))
    for hours, on_the_row, exact in (
        (-23, -24, -23),
        (-2, -2, -2),
        (3, -2, 3),
        (1, -2, 3),
        (12, 12, 12),
    ):
        tell(acme, track("ann", hours=hours))
        rescore(at(12))
        times = ann.values_list("last_seen_at", last_seen(acme.pk)).get()
        assert times == (at(on_the_row), at(exact))


def test_day_rollover_rescores_users_active_on_the_day_that_leaves(
    acme: Product,
) -> None:
    tell(acme, identify("ann"), identify("bob"))
    tell(acme, track("ann", hours=-6 * 24), track("bob", hours=-3 * 24))
    rescore(NOON)
    assert users(acme) == {"ann": 1, "bob": 1}
    assert rescore(NOON + timedelta(days=1)) == 1
    assert users(acme) == {"ann": 0, "bob": 1}
    assert scores_of(acme).scored_day == (NOON + timedelta(days=1)).date()


@pytest.mark.usefixtures("no_nights")
def test_rollover_over_several_days(acme: Product) -> None:
    tell(acme, identify("ann", group="initech"))
    tell(acme, *(track("ann", hours=-24 * day) for day in range(7)))
    rescore(NOON)
    rescore(NOON + timedelta(days=4))
    assert (users(acme), accounts(acme)) == ({"ann": 3}, {"initech": 3})
    rescore(NOON + timedelta(days=400))
    assert (users(acme), accounts(acme)) == ({"ann": 0}, {"initech": 0})


@pytest.mark.usefixtures("no_nights")
def test_a_clock_that_was_ahead_leaves_no_scores_of_its_day(acme: Product) -> None:
    tell(acme, identify("ann", group="initech"), identify("bob"))
    tell(acme, *(track("ann", hours=-24 * day) for day in range(7)), track("bob", hours=-9 * 24))
    rescore(NOON)
    before = (users(acme), accounts(acme))
    assert before == ({"ann": 7, "bob": 0}, {"initech": 7})
    for days in (1, 40):
        rescore(NOON + timedelta(days=days))
        assert users(acme) != before[0]
        rescore(NOON)
        assert (users(acme), accounts(acme)) == before
        assert scores_of(acme).scored_day == NOON.date()
        assert not DailyBenchmark.objects.filter(day__gt=NOON.date()).exists()
    # The clocks of two machines differ around midnight.
    midnight = NOON + timedelta(hours=12)
    rescore(midnight)
    rescore(midnight - timedelta(minutes=30))
    assert scores_of(acme).scored_day == midnight.date()


def test_an_event_minutes_ahead_of_midnight_counts_on_its_own_day(acme: Product) -> None:
    before_midnight = datetime(2026, 9, 24, 23, 58, tzinfo=UTC)
    tell(acme, identify("ann"), track("ann", hours=12.01))
    rescore(before_midnight)
    assert users(acme) == {"ann": 0}
    rescore(before_midnight + timedelta(minutes=5))
    assert users(acme) == {"ann": 1}


def test_an_event_minutes_ahead_of_midnight_is_the_last_one_at_once(acme: Product) -> None:
    before_midnight = datetime(2026, 9, 24, 23, 58, tzinfo=UTC)
    tell(acme, identify("ann", group="initech"))
    tell(acme, track("ann", hours=1), track("ann", hours=12.01))
    rescore(before_midnight)
    scores = scores_of(acme)
    user = UserEngagement.objects.get(score_set=scores)
    account = AccountEngagement.objects.get(score_set=scores)
    assert (user.last_active_at, account.last_active_at) == (at(12.01), at(12.01))
    assert history.all_time_totals(scores, "user", user.user_id).event_count == 2
    # Its day has not begun.
    for row in (user, account):
        assert (row.raw, row.event_count, row.active_days, row.name_count) == (1, 1, 1, 1)


def test_a_changed_weight_rescores_the_workspace(acme: Product) -> None:
    tell(acme, identify("ann", group="initech"), track("ann", "opened"))
    rescore(NOON)
    weigh(workspace_of(acme), opened=9)
    rescore(NOON)
    assert (users(acme), accounts(acme)) == ({"ann": 9}, {"initech": 9})


def test_a_new_workspace_scores_everybody(acme: Product) -> None:
    tell(acme, identify("ann"), track("ann"))
    rescore(NOON)
    late = Workspace.objects.create(product=acme, name="Late")
    rescore(NOON)
    assert UserEngagement.objects.get(score_set__workspace=late).raw == 1


def test_out_of_time_leaves_requests_for_the_next_call(acme: Product) -> None:
    tell(acme, identify("ann"), track("ann"))
    assert rescore(NOON, out_of_time=lambda: True) == 0
    assert RescoreRequest.objects.count() > 0
    rescore(NOON + timedelta(minutes=1))
    assert users(acme) == {"ann": 1}


# --- Benchmarks -----------------------------------------------------------------------------


def test_a_benchmark_follows_the_scores(acme: Product) -> None:
    tell(acme, identify("ann", group="initech"), track("ann"), track("ann"))
    rescore(NOON)
    assert (scores_of(acme).user_benchmark, scores_of(acme).account_benchmark) == (2.0, 2.0)


def benchmark_after(product: Product, seconds: float, *messages: Message) -> float | None:
    """The users' benchmark, so many seconds after noon."""
    tell(product, *messages)
    rescore(NOON + timedelta(seconds=seconds))
    return scores_of(product).user_benchmark


def test_a_benchmark_waits_a_second_and_is_then_computed(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_duration(monkeypatch, 0.001)
    assert benchmark_after(acme, 0, identify("ann"), track("ann")) == 1.0
    assert benchmark_after(acme, 0, track("ann")) == 2.0
    assert benchmark_after(acme, 0, track("ann")) == 2.0
    assert benchmark_after(acme, 60) == 3.0


def test_the_first_benchmark_waits_for_nothing(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_duration(monkeypatch, 60.0)
    assert benchmark_after(acme, 0, identify("ann")) is None
    assert benchmark_after(acme, 1, identify("bob")) is None
    assert benchmark_after(acme, 60, track("ann")) == 1.0


def test_a_slow_benchmark_is_computed_less_often(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_duration(monkeypatch, 1.0)
    benchmark_after(acme, 0, identify("ann"), track("ann"))
    assert benchmark_after(acme, 0, track("ann")) == 2.0
    assert benchmark_after(acme, 40, track("ann")) == 2.0
    assert benchmark_after(acme, 100) == 3.0


def test_samples_affect_history_only_and_no_comparison(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_benchmarks, "USER_SAMPLE_SIZE", 1)
    people = [f"user {number}" for number in range(20)]
    tell(acme, *(identify(name) for name in people))
    for raw, name in enumerate(people, 1):
        tell(acme, *(track(name, hours=-24 * day) for day in (1, 7) for _ in range(raw)))
    rescore(NOON)
    scores = scores_of(acme)
    # The 90th percentile of 2, 4, … 40, which is a day ago, and of 1, 2, … 20, a lookback ago.
    compared = (scores.user_benchmark_yesterday, scores.user_benchmark_last_period)
    assert compared == pytest.approx((36.2, 18.1))


def test_without_scores_there_is_no_benchmark(acme: Product) -> None:
    tell(acme, identify("ann"), track("ann"))
    rescore(NOON)
    rescore(NOON + timedelta(days=30))
    assert scores_of(acme).user_benchmark is None


def test_the_window_has_lookback_days() -> None:
    today = NOON.date()
    assert window_bounds(1, today) == (today, today)
    assert window_bounds(7, today) == (today - timedelta(days=6), today)
