"""Scores of past days follow the data, whenever it arrives."""

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest

from core.database import locks
from engagement.messages import Message
from engagement.models import (
    AccountEngagement,
    DailyBenchmark,
    Product,
    RescoreRequest,
    ScoreSet,
    Segment,
    UserEngagement,
    Workspace,
)
from engagement.rescoring import rescore as rescoring
from engagement.rescoring.jobs import PAST_BENCHMARKS
from engagement.rescoring.rescore import rescore
from engagement.scores import metrics, past_benchmarks
from engagement.scores.history import score_history
from engagement.segments import members
from tests.engagement.history import NOON, identify, tell, track
from tests.jobs import pretend_duration, run_job

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
PEOPLE = [(f"user {number}", f"account {number % 4}") for number in range(12)]


def steady(day: int) -> Iterator[Message]:
    """The events of all users on a day before today. Half of them do more and more, half less."""
    for number, (user, account) in enumerate(PEOPLE):
        times = 1 + number % 5 + (day // 7 if number % 2 else (60 - day) // 9)
        for _ in range(times):
            yield track(user, "opened", -24 * day, account)


def introductions(first_day: int = 60) -> Iterator[Message]:
    for user, account in PEOPLE:
        yield identify(user, -24 * first_day, account)


def scores_of(workspace: Workspace) -> ScoreSet:
    scores = Workspace.objects.select_related("scores").get(pk=workspace.pk).scores
    assert scores is not None
    return scores


def api_row(workspace: Workspace) -> dict[str, Any]:
    """Everything about past days that the workspace shows."""
    scores = scores_of(workspace)
    users = UserEngagement.objects.filter(score_set=scores).select_related("user")
    accounts = AccountEngagement.objects.filter(score_set=scores).select_related("account")
    days = DailyBenchmark.objects.filter(score_set=scores).order_by("day")
    return {
        "users": {
            row.user.external_id: (metrics.compute_scores(row, scores), score_history(scores, row))
            for row in users
        },
        "accounts": {
            row.account.external_id: (
                metrics.compute_scores(row, scores),
                score_history(scores, row),
            )
            for row in accounts
        },
        "segments": {
            (segment.scope, segment.name): members.count_members_by_segment(scores, [segment])[
                segment.pk
            ]
            for segment in Segment.objects.filter(workspace=workspace)
        },
        "benchmarks": list(days.values_list("day", "users", "accounts")),
    }


def afresh(product: Product, **definition: Any) -> Workspace:
    """A new workspace with the same definition as the product's first."""
    workspace = Workspace.objects.create(product=product, name="Afresh", **definition)
    rescore(NOON + 10 * MINUTE)
    return workspace


def default_of(product: Product) -> Workspace:
    return product.workspaces.get(name="Default")


@pytest.mark.slow
def test_a_backfill_in_batches_scores_the_past_like_a_new_workspace(
    acme: Product,
) -> None:
    rescore(NOON)
    tell(acme, *introductions())
    batches = [list(range(first, first + 15)) for first in (0, 15, 30, 45)]
    for number, days in enumerate(batches):
        tell(acme, *(message for day in days for message in steady(day)))
        rescore(NOON + number * timedelta(seconds=2))
    rescore(NOON + MINUTE)
    default, new = api_row(default_of(acme)), api_row(afresh(acme))
    assert default == new
    changes = [scores.change for scores, _ in default["accounts"].values()]
    assert any(change > 0 for change in changes) and any(change < 0 for change in changes)


def test_events_of_a_past_day_change_the_benchmarks_of_their_windows(
    acme: Product,
) -> None:
    tell(acme, *introductions(), *(message for day in range(60) for message in steady(day)))
    rescore(NOON)
    before = api_row(default_of(acme))["benchmarks"]
    tell(acme, *(track(user, "opened", -24 * 20, account) for user, account in PEOPLE * 3))
    rescore(NOON + MINUTE)
    now = api_row(default_of(acme))
    changed = [
        (NOON.date() - new[0]).days
        for new, old in zip(now["benchmarks"], before, strict=True)
        if new != old
    ]
    assert changed == [20, 19, 18, 17, 16, 15, 14]
    assert now == api_row(afresh(acme))


@pytest.mark.slow
def test_events_that_move_to_another_account_change_the_past_of_accounts(acme: Product) -> None:
    tell(acme, *introductions())
    tell(acme, *(track(user, "opened", -24 * day) for user, _ in PEOPLE for day in range(60)))
    rescore(NOON)
    tell(acme, *(identify(user, -24 * 40 + 1, "account 9") for user, _ in PEOPLE[:3]))
    rescore(NOON + MINUTE)
    assert api_row(default_of(acme)) == api_row(afresh(acme))


def test_events_before_a_user_is_identified_count_in_the_past(acme: Product) -> None:
    tell(acme, *(message for day in range(60) for message in steady(day)))
    tell(acme, identify("user 1"))
    rescore(NOON)
    tell(acme, *introductions(0))
    rescore(NOON + MINUTE)
    assert api_row(default_of(acme)) == api_row(afresh(acme))


@pytest.mark.slow
def test_events_before_a_user_enters_the_audience_count_in_the_past(acme: Product) -> None:
    condition = {"kind": "trait", "trait": "role", "operator": "is", "value": "admin"}
    audience = {"match": "all", "conditions": [condition]}
    admins = Workspace.objects.create(product=acme, name="Admins", audience=audience)
    tell(acme, *introductions(), *(message for day in range(60) for message in steady(day)))
    tell(acme, identify("user 1", role="admin"))
    rescore(NOON)
    tell(acme, *(identify(user, role="admin") for user, _ in PEOPLE[:6]))
    rescore(NOON + MINUTE)
    assert api_row(admins) == api_row(afresh(acme, audience=audience))


# --- Days without scoring -----------------------------------------------------------------


def test_days_on_which_nothing_was_scored_get_their_benchmarks(acme: Product) -> None:
    tell(acme, *introductions(), *(message for day in range(60) for message in steady(day)))
    rescore(NOON - 3 * DAY)
    rescore(NOON)
    rescore(NOON + MINUTE)
    assert_same_past_as_a_new_workspace(acme)


@pytest.mark.slow
def test_events_scored_after_midnight_count_in_the_benchmark_of_their_day(acme: Product) -> None:
    tell(acme, *introductions(), *(message for day in range(1, 60) for message in steady(day)))
    before_midnight = NOON + timedelta(hours=11, minutes=59)
    rescore(before_midnight)
    tell(acme, *steady(0))
    rescore(before_midnight + 2 * MINUTE)
    rescore(before_midnight + 4 * MINUTE)
    new = Workspace.objects.create(product=acme, name="Afresh")
    rescore(before_midnight + 20 * MINUTE)
    assert api_row(default_of(acme))["accounts"] == api_row(new)["accounts"]


def assert_same_past_as_a_new_workspace(product: Product) -> None:
    default, new = api_row(default_of(product)), api_row(afresh(product))
    assert default["accounts"] == new["accounts"]
    assert default["users"] == new["users"]


# --- What it costs ------------------------------------------------------------------------


@pytest.fixture
def computed_days(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The days, as so many before today, whose benchmarks are taken: from and until."""
    calls: list[tuple[int, int]] = []
    take_days = past_benchmarks._compute_days

    def note(score_set: ScoreSet, today: date, first: date, last: date) -> None:
        calls.append(((today - first).days, (today - last).days))
        take_days(score_set, today, first, last)

    monkeypatch.setattr(past_benchmarks, "_compute_days", note)
    return calls


@pytest.fixture
def scored(acme: Product, computed_days: list[tuple[int, int]]) -> Product:
    tell(acme, *introductions(), *(message for day in range(20) for message in steady(day)))
    rescore(NOON)
    rescore(NOON + MINUTE)
    computed_days.clear()
    return acme


def test_events_of_today_compute_no_past_benchmark(
    scored: Product, computed_days: list[tuple[int, int]]
) -> None:
    tell(scored, *steady(0))
    rescore(NOON + 2 * MINUTE)
    assert computed_days == []


def test_events_that_are_a_day_late_compute_only_the_benchmark_of_that_day(
    scored: Product, computed_days: list[tuple[int, int]]
) -> None:
    tell(scored, *steady(1))
    rescore(NOON + 2 * MINUTE)
    assert computed_days == [(1, 1)]


def test_at_most_90_past_days_are_computed_in_steps(
    scored: Product, computed_days: list[tuple[int, int]]
) -> None:
    tell(scored, *steady(300))
    rescore(NOON + 2 * MINUTE)
    assert computed_days == [(89, 60), (59, 30), (29, 1)]


def test_a_slow_computation_of_the_past_runs_less_often(
    scored: Product, computed_days: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_duration(monkeypatch, 20.0)
    tell(scored, *steady(30))
    rescore(NOON + 2 * MINUTE)
    assert computed_days == [(30, 1)]
    tell(scored, *steady(30))
    rescore(NOON + 2 * MINUTE + timedelta(seconds=1999))
    assert computed_days == [(30, 1)]
    pretend_duration(monkeypatch, 0.001)
    rescore(NOON + 3 * MINUTE + timedelta(seconds=2000))
    assert computed_days == [(30, 1)] * 2
    tell(scored, *steady(30))
    rescore(NOON + 3 * MINUTE + timedelta(seconds=2009))
    assert computed_days == [(30, 1)] * 2
    rescore(NOON + 4 * MINUTE + timedelta(seconds=2000))
    assert computed_days == [(30, 1)] * 3


def invalidate(product: Product, days: int) -> None:
    """Have the benchmarks of so many days computed again."""
    past_benchmarks.invalidate_from([scores_of(default_of(product))], NOON.date() - days * DAY)


def test_an_interrupted_computation_resumes(
    scored: Product, computed_days: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, times = locks.try_lock_scoring, iter([True, True, False])

    def hold_twice(product_id: int) -> bool:
        return hold(product_id) and next(times, True)

    tell(scored, *steady(80))
    monkeypatch.setattr(locks, "try_lock_scoring", hold_twice)
    invalidate(scored, days=80)
    run_job(PAST_BENCHMARKS, NOON + 2 * MINUTE)
    assert computed_days == [(80, 51), (50, 21)]
    run_job(PAST_BENCHMARKS, NOON + 2 * MINUTE)
    assert computed_days == [(80, 51), (50, 21), (20, 1)]
    assert scores_of(default_of(scored)).past_benchmarks_stale_from is None


def test_days_that_become_stale_behind_a_step_wait_for_the_next_run(
    scored: Product, computed_days: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    step = past_benchmarks._step

    def step_and_outdate(score_set: ScoreSet, go_on_from: date | None) -> date | None:
        following = step(score_set, go_on_from)
        if go_on_from is None:
            past_benchmarks.invalidate_from([score_set], NOON.date() - 70 * DAY)
        return following

    monkeypatch.setattr(past_benchmarks, "_step", step_and_outdate)
    invalidate(scored, days=40)
    run_job(PAST_BENCHMARKS, NOON + 2 * MINUTE)
    assert computed_days == [(40, 11), (10, 1)]
    assert scores_of(default_of(scored)).past_benchmarks_stale_from == NOON.date() - 70 * DAY


@pytest.mark.slow
def test_the_past_waits_until_all_changed_counts_are_scored(
    scored: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescoring, "REQUESTS_PER_TRANSACTION", 3)
    tell(scored, *steady(1))
    calls = iter([False])
    rescore(NOON + 2 * MINUTE, out_of_time=lambda: next(calls, True))
    assert scores_of(default_of(scored)).past_benchmarks_stale_from is None
    assert RescoreRequest.objects.filter(day=NOON.date() - DAY).exists()
    rescore(NOON + 3 * MINUTE)
    assert api_row(default_of(scored)) == api_row(afresh(scored))
