"""Counts of score sets: live for small sets, cached for large ones."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from core.models import Job
from engagement.metric_names import Scope
from engagement.models import AccountEngagement, CachedCounts, Product, ScoreSet, Segment, Workspace
from engagement.recording import suppression
from engagement.recording.suppression import SubjectRef
from engagement.removal import forgetting
from engagement.rescoring.jobs import COUNTS
from engagement.rescoring.rescore import rescore
from engagement.segments import counts
from engagement.segments import members as segments
from engagement.segments.counts import SubjectTotals
from tests.engagement.history import NOON, group, identify, tell, track
from tests.engagement.rows import account, moved, user
from tests.jobs import pretend_duration, run_job

pytestmark = pytest.mark.django_db


def seconds(number: float) -> datetime:
    return NOON + timedelta(seconds=number)


def segment(scores: ScoreSet, name: str, scope: Scope = "account") -> Segment:
    return Segment.objects.get(workspace=scores.workspace, name=name, scope=scope)


def members(scores: ScoreSet, name: str, scope: Scope = "account") -> int:
    """The number of members that people see."""
    own = segment(scores, name, scope)
    return counts.segment_counts(ScoreSet.objects.get(pk=scores.pk), [own])[own.pk]


def totals(scores: ScoreSet) -> SubjectTotals:
    return counts.subject_totals([ScoreSet.objects.get(pk=scores.pk)])[scores.pk]


def make_large(scores: ScoreSet, duration: float = 6.0) -> None:
    """Count the set at noon, as if that had taken *duration* seconds."""
    counts.recount(scores, NOON)
    CachedCounts.objects.update(seconds=duration)


def invalidate(scores: ScoreSet) -> None:
    counts.invalidate([scores.pk])


# --- Members of segments --------------------------------------------------------------------


def test_a_small_set_is_counted_live(scores: ScoreSet) -> None:
    make_large(scores, duration=counts.LIVE_COUNT_SECONDS)
    account(scores, "initech", raw=50)
    assert members(scores, "All Active") == 1


def test_a_large_set_has_cached_counts(scores: ScoreSet) -> None:
    account(scores, "initech", raw=50)
    make_large(scores)
    account(scores, "globex", raw=50)
    assert members(scores, "All Active") == 1


def test_a_set_without_cached_counts_is_counted_live(scores: ScoreSet) -> None:
    account(scores, "initech", raw=50)
    assert members(scores, "All Active") == 1


def test_cached_counts_equal_live_counts(scores: ScoreSet) -> None:
    for number in range(40):
        user(scores, f"user {number}", raw=number * 7, raw_last_period=100 - number)
        account(scores, f"account {number}", raw=number * 5, total_users=number % 3)
    own = list(Segment.objects.filter(workspace=scores.workspace))
    exact = segments.count_members_by_segment(scores, own)
    make_large(scores)
    cached = counts.segment_counts(ScoreSet.objects.get(pk=scores.pk), own)
    assert cached == exact
    assert {exact[each.pk] for each in own} != {0, 40}


@pytest.mark.parametrize("operator", ["at_least", "at_most"])
def test_a_segment_that_was_edited_since_is_counted_live(scores: ScoreSet, operator: str) -> None:
    own = Segment.objects.create(workspace=scores.workspace, scope="account", name="Own")
    account(scores, "quiet", raw=1)
    account(scores, "busy", raw=99)
    account(scores, "busier", raw=100)
    make_large(scores)
    assert members(scores, "Own") == 3
    own.conditions = [
        {"kind": "metric", "metric": "raw_score", "operator": operator, "value": 50, "upper": None}
    ]
    own.save()
    assert members(scores, "Own") == {"at_least": 2, "at_most": 1}[operator]


def test_a_new_segment_is_counted_live_beside_cached_ones(scores: ScoreSet) -> None:
    account(scores, "initech")
    make_large(scores)
    account(scores, "globex")
    Segment.objects.create(workspace=scores.workspace, scope="account", name="Everybody")
    own = [segment(scores, "All"), segment(scores, "Everybody")]
    members = counts.segment_counts(ScoreSet.objects.get(pk=scores.pk), own)
    assert [members[each.pk] for each in own] == [1, 2]


def test_a_page_does_not_wait_for_a_segment_of_a_large_set(scores: ScoreSet) -> None:
    account(scores, "initech", raw=50)
    own = [segment(scores, "All Active"), segment(scores, "All")]
    assert counts.known_segment_counts(scores, own) == {own[0].pk: 1, own[1].pk: 1}
    make_large(scores)
    edited = Segment.objects.create(workspace=scores.workspace, scope="account", name="Everybody")
    large = ScoreSet.objects.get(pk=scores.pk)
    assert counts.known_segment_counts(large, [own[0], edited]) == {own[0].pk: 1}


def test_cached_counts_cost_one_query(scores: ScoreSet, django_assert_num_queries: Any) -> None:
    make_large(scores)
    own = list(Segment.objects.filter(workspace=scores.workspace))
    alone = ScoreSet.objects.get(pk=scores.pk)
    together = ScoreSet.objects.select_related("cached_counts").get(pk=scores.pk)
    with django_assert_num_queries(1):
        counts.segment_counts(alone, own)
    with django_assert_num_queries(0):
        counts.segment_counts(together, own)
        counts.subject_totals([together])


# --- Totals ---------------------------------------------------------------------------------


def test_totals_have_all_and_active_subjects(scores: ScoreSet) -> None:
    for number, raw in enumerate((0, 3, 5)):
        user(scores, f"user {number}", raw=raw)
    for number, raw in enumerate((0, 0, 0, 1)):
        account(scores, f"account {number}", raw=raw)
    assert totals(scores) == SubjectTotals(users=3, active_users=2, accounts=4, active_accounts=1)
    make_large(scores)
    user(scores, "one more", raw=1)
    assert totals(scores) == SubjectTotals(users=3, active_users=2, accounts=4, active_accounts=1)


def test_totals_of_an_empty_set_are_zero(scores: ScoreSet) -> None:
    assert totals(scores) == SubjectTotals(0, 0, 0, 0)


def test_totals_keep_sets_apart(scores: ScoreSet, globex: Product) -> None:
    theirs = ScoreSet.objects.create(
        product=globex,
        workspace=globex.workspaces.get(),
        state=ScoreSet.State.CURRENT,
        lookback_days=7,
        default_weight=1,
        scored_day=NOON.date(),
    )
    user(scores, "ann", raw=1)
    account(theirs, "umbrella")
    make_large(theirs)
    assert counts.subject_totals(ScoreSet.objects.all()) == {
        scores.pk: SubjectTotals(users=1, active_users=1),
        theirs.pk: SubjectTotals(accounts=1),
    }


# --- When sets are counted ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("duration", "after", "is_counted"),
    [
        # Counting a large set may take a twentieth of the time.
        (6.0, 119, False),
        (6.0, 121, True),
        (0.5, 9, False),
        (0.5, 11, True),
        # A small set is checked now and then, because it may have grown.
        (0.01, 599, False),
        (0.01, 601, True),
    ],
)
def test_a_set_that_changed_is_counted_again_when_it_is_due(
    scores: ScoreSet,
    monkeypatch: pytest.MonkeyPatch,
    duration: float,
    after: float,
    is_counted: bool,
) -> None:
    monkeypatch.setattr(counts, "SMALL_SET", 0)
    monkeypatch.setattr(counts, "LIVE_COUNT_SECONDS", 0.0 if duration > 0.1 else 1e9)
    pretend_duration(monkeypatch, duration)
    run_job(COUNTS, NOON)
    account(scores, "initech")
    invalidate(scores)
    # A change waits until the set is due.
    run_job(COUNTS, seconds(1))
    assert CachedCounts.objects.get().accounts == 0
    run_job(COUNTS, seconds(after))
    assert CachedCounts.objects.get().accounts == is_counted


@pytest.mark.parametrize(
    ("limit", "small_set", "is_large"), [(0.0, 2, True), (1e9, 2, False), (0.0, 3, False)]
)
def test_a_set_is_large_if_counting_it_is_slow_and_it_is_not_small(
    scores: ScoreSet,
    monkeypatch: pytest.MonkeyPatch,
    limit: float,
    small_set: int,
    is_large: bool,
) -> None:
    user(scores, "ann")
    account(scores, "initech")
    monkeypatch.setattr(counts, "SMALL_SET", small_set)
    monkeypatch.setattr(counts, "LIVE_COUNT_SECONDS", limit)
    counts.recount(scores, NOON)
    cached = counts.counted_at(ScoreSet.objects.get(pk=scores.pk))
    assert (cached is not None) == is_large
    # What is large may become small again.
    monkeypatch.setattr(counts, "LIVE_COUNT_SECONDS", 1e9)
    counts.recount(scores, NOON)
    assert counts.counted_at(ScoreSet.objects.get(pk=scores.pk)) is None


def test_a_set_that_did_not_change_is_not_counted_again(scores: ScoreSet) -> None:
    run_job(COUNTS, NOON)
    run_job(COUNTS, seconds(3600))
    run_job(COUNTS, seconds(3600))
    assert CachedCounts.objects.get().counted_at == NOON
    assert not Job.objects.filter(kind=COUNTS).exists()


def test_only_current_sets_are_counted(scores: ScoreSet) -> None:
    for state in (ScoreSet.State.BUILDING, ScoreSet.State.RETIRED):
        ScoreSet.objects.update(state=state)
        run_job(COUNTS, NOON)
    assert not CachedCounts.objects.exists()


def current(product: Product) -> ScoreSet:
    return ScoreSet.objects.get(product=product, state=ScoreSet.State.CURRENT)


def test_scores_are_counted_before_they_are_published(acme: Product) -> None:
    tell(acme, identify("ann", group="initech"), track("ann"))
    rescore(NOON)
    assert current(acme).cached_counts.active_accounts == 1
    assert not Job.objects.filter(kind=COUNTS).exists()


def rescored_large(product: Product) -> ScoreSet:
    """The product's scores, rescored at noon, as if counting had taken six seconds."""
    rescore(NOON)
    CachedCounts.objects.update(seconds=6.0)
    rests_until = seconds(6.0 / 0.05)
    Job.objects.create(kind=COUNTS, key=str(current(product).pk), due_at=rests_until)
    assert not current(product).cached_counts_stale
    return current(product)


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([track("ann")], id="a score"),
        # No score depends on these.
        pytest.param([identify("ann", plan="gold")], id="a trait"),
        pytest.param([group("initech", industry="oil")], id="an account's trait"),
        pytest.param([identify("bob")], id="a new user"),
    ],
)
def test_recording_makes_cached_counts_stale(acme: Product, messages: list[Any]) -> None:
    tell(acme, identify("ann", group="initech"), track("ann"))
    rescored_large(acme)
    tell(acme, *messages)
    rescore(seconds(60))
    assert current(acme).cached_counts_stale


def test_counts_follow_recorded_events(acme: Product) -> None:
    tell(acme, identify("ann", group="initech"), track("ann"))
    scores = rescored_large(acme)
    tell(acme, identify("bob", group="globex"), track("bob"))
    rescore(seconds(60))
    assert members(scores, "All Active") == 1
    rescore(seconds(180))
    assert members(scores, "All Active") == 2


def test_other_products_are_not_counted_again(acme: Product, globex: Product) -> None:
    tell(acme, identify("ann"), track("ann"))
    rescore(NOON)
    # The first night follows the first scores.
    rescore(NOON)
    ScoreSet.objects.update(cached_counts_stale=False)
    Job.objects.filter(kind=COUNTS).delete()
    rescored_large(acme)
    rescored_large(globex)
    tell(globex, identify("cem"), track("cem"))
    rescore(seconds(60))
    assert not current(acme).cached_counts_stale


def test_cached_counts_are_deleted_with_their_scores(acme: Product) -> None:
    tell(acme, identify("ann"), track("ann"))
    rescore(NOON)
    Workspace.objects.filter(product=acme).get().delete()
    assert not CachedCounts.objects.exists()


# --- Top movers -----------------------------------------------------------------------------


def top_movers(
    scores: ScoreSet,
) -> tuple[list[tuple[str, float, float | None]], list[tuple[str, float, float | None]]]:
    movers = counts.top_movers(ScoreSet.objects.get(pk=scores.pk))
    rising, falling = (
        [
            (mover.account.external_id, mover.scores.now, mover.scores.complete_change)
            for mover in side
        ]
        for side in (movers.rising, movers.falling)
    )
    return rising, falling


# With a benchmark of 100, and of 200 in the previous period.
ROWS = {
    # 100·(1 - 10^-1) = 90.0; 100·(1 - 10^-0.5) = 68.4
    "up": (100, 100),
    # 100·(1 - 10^-0.5) = 68.4; 0
    "back": (50, 0),
    "steady": (50, 100),
    # 0; 90.0
    "gone": (0, 200),
    # 100·(1 - 10^-0.1) = 20.6; 68.4
    "sleepy": (10, 100),
    "never": (0, 0),
}
MOVED = (
    [("back", 68.4, 68.4), ("up", 90.0, 21.6)],
    [("gone", 0.0, -90.0), ("sleepy", 20.6, -47.8)],
)


def test_top_movers(scores: ScoreSet) -> None:
    for name, (raw, before) in ROWS.items():
        moved(scores, name, raw, before)
    # Today, which is not over, moves nobody.
    account(scores, "today only", raw=90, raw_last_period=0)
    assert top_movers(scores) == MOVED
    make_large(scores)
    assert top_movers(scores) == MOVED


def test_new_accounts_neither_rise_nor_fall(scores: ScoreSet) -> None:
    for days, name in ((13, "new"), (14, "old")):
        seen_at = NOON - timedelta(days=days)
        moved(scores, f"{name} up", 50, 0, first_seen_at=seen_at)
        moved(scores, f"{name} down", 1, 100, first_seen_at=seen_at)
    for _ in ("live", "cached"):
        assert [[name for name, *_ in side] for side in top_movers(scores)] == [
            ["old up"],
            ["old down"],
        ]
        new = counts.top_movers(ScoreSet.objects.get(pk=scores.pk)).new
        assert [mover.account.external_id for mover in new] == ["new up", "new down"]
        make_large(scores)


def test_five_movers_are_listed_per_side(scores: ScoreSet) -> None:
    for number in range(7):
        moved(scores, f"up {number}", 20 + number, 0)
        moved(scores, f"down {number}", 0, 20 + number)
    rising, falling = top_movers(scores)
    assert [name for name, *_ in rising] == [f"up {number}" for number in (6, 5, 4, 3, 2)]
    assert [name for name, *_ in falling] == [f"down {number}" for number in (6, 5, 4, 3, 2)]


def test_cached_movers_have_current_scores(scores: ScoreSet) -> None:
    row = moved(scores, "initech", 10, 0)
    make_large(scores)
    own = AccountEngagement.objects.filter(account=row.account_id)
    own.update(raw=50, raw_yesterday=50)
    assert top_movers(scores) == ([("initech", 68.4, 68.4)], [])


def test_a_forgotten_cached_mover_is_left_out(scores: ScoreSet, acme: Product) -> None:
    moved(scores, "initech", 10, 0)
    moved(scores, "globex", 20, 0)
    make_large(scores)
    forgetting.forget(
        SubjectRef(acme.pk, suppression.SubjectScope.ACCOUNT, "globex"), NOON, suppress=False
    )
    assert [name for name, *_ in top_movers(scores)[0]] == ["initech"]


def test_an_unscored_set_has_no_movers(scores: ScoreSet) -> None:
    ScoreSet.objects.update(scored_day=None)
    assert top_movers(scores) == ([], [])


def test_the_movers_of_a_small_set_cost_three_queries(
    scores: ScoreSet, django_assert_num_queries: Any
) -> None:
    moved(scores, "initech", 10, 0)
    moved(scores, "globex", 0, 10)
    score_set = ScoreSet.objects.select_related("cached_counts").get(pk=scores.pk)
    with django_assert_num_queries(3):
        movers = counts.top_movers(score_set)
        assert [mover.account.external_id for mover in movers.rising] == ["initech"]
