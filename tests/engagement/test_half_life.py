"""With a half-life, rows agree with all events ever, whatever came late and whoever turned up."""

from collections import defaultdict
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engagement.models import (
    AccountEngagement,
    DailyCount,
    Product,
    ScoreSet,
    User,
    UserEngagement,
    Workspace,
)
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal.forgetting import forget
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from engagement.scores import formula
from engagement.scores.formula import age_factor, points_on, rounded_score
from engagement.scores.history import score_history
from engagement.scores.metrics import compute_scores
from tests.cases import examples, leaves_no_rows
from tests.engagement import plain
from tests.engagement.history import NOON, alias, group, identify, tell, track
from tests.engagement.plain import Definition
from tests.jobs import run_due_jobs

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_nights")]

DAY = timedelta(days=1)
USERS = ("ann", "bob", "cyd", "dan")
ACCOUNTS = ("initech", "hooli")


def by_half_life(product: Product, half_life: int, **audience: Any) -> Workspace:
    workspace = Workspace.objects.get(product=product)
    workspace.lookback_days, workspace.half_life_days = 30, half_life
    if audience:
        workspace.audience = {"match": "all", "conditions": [audience]}
    workspace.save()
    sets.request_score_set(workspace.pk)
    return workspace


def scores_of(product: Product) -> ScoreSet:
    scores = Workspace.objects.get(product=product).scores
    assert scores is not None
    return scores


def points_until(product: Product, subject: str, day: date) -> dict[int, float]:
    """The points of the day of each user or account, in plain Python, from the daily counts."""
    scores = scores_of(product)
    weights = dict(scores.weights.values_list("event_name_id", "weight"))
    counted = set(
        User.objects.filter(product=product, is_identified=True).values_list("id", flat=True)
    )
    if scores.audience:
        counted = set(
            UserEngagement.objects.filter(score_set=scores).values_list("user_id", flat=True)
        )
    points = defaultdict[int, float](float)
    for count in DailyCount.objects.filter(product=product, day__lte=day):
        if count.user_id in counted:
            weight = weights.get(count.event_name_id, scores.default_weight)
            age = (day - count.day).days / (scores.half_life_days or 0)
            points[getattr(count, subject)] += count.count * weight * 0.5**age
    return points


def assert_rows_are_right(product: Product, today: date) -> None:
    scores = scores_of(product)
    assert scores.scored_day == today
    for model, subject in ((UserEngagement, "user_id"), (AccountEngagement, "account_id")):
        days = {
            "raw": today,
            "raw_yesterday": today - DAY,
            "raw_last_period": today - 30 * DAY,
            "raw_yesterday_last_period": today - 31 * DAY,
        }
        expected = {column: points_until(product, subject, day) for column, day in days.items()}
        for row in model._default_manager.filter(score_set=scores).values(subject, *days):
            for column, day in days.items():
                points = points_on(scores, row[column], day)
                assert points == pytest.approx(
                    expected[column][row[subject]], rel=1e-6, abs=1e-3
                ), (subject, row[subject], column)


actions = st.one_of(
    st.tuples(
        st.just("track"),
        st.sampled_from(USERS),
        st.sampled_from(["opened", "paid"]),
        st.one_of(
            st.integers(0, 3), st.sampled_from([29, 30, 31, 32, 60, 61]), st.integers(0, 300)
        ),
    ),
    st.tuples(
        st.just("join"), st.sampled_from(USERS), st.sampled_from(ACCOUNTS), st.integers(0, 200)
    ),
    st.tuples(st.just("identify"), st.sampled_from(USERS), st.sampled_from(["free", "paid"])),
    st.tuples(st.just("alias"), st.sampled_from(USERS), st.sampled_from(USERS)),
    st.tuples(st.just("forget"), st.sampled_from(USERS)),
    st.tuples(st.just("turn"), st.sampled_from([0, 0, 1, 1, 2, 30, 45, 70])),
)


def act(product: Product, now: datetime, action: tuple[Any, ...]) -> datetime:
    hours = (now - NOON).total_seconds() / 3600
    match action:
        case "track", user, name, ago:
            tell(product, track(user, name, hours - 24 * ago))
        case "join", user, account, ago:
            tell(product, group(account, hours - 24 * ago, user))
        case "identify", user, plan:
            tell(product, identify(user, hours, plan=plan))
        case "alias", previous, user:
            tell(product, alias(previous, user, hours))
        case "forget", user:
            forget(SubjectRef(product.pk, SubjectScope.USER, user), now)
        case "turn", days:
            now += days * DAY
            # Events that move between accounts or users, and users who are being forgotten.
            for queue in ("moves", "removal"):
                run_due_jobs(queue, now)
            rescore(now)
    return now


@examples(3)
@given(
    half_life=st.integers(7, 180),
    has_audience=st.booleans(),
    actions=st.lists(actions, min_size=5, max_size=40),
)
@leaves_no_rows
def test_rows_follow_all_that_happens(
    half_life: int, has_audience: bool, actions: list[tuple[Any, ...]]
) -> None:
    product = Product.create_with_workspace("Acme")
    paying = {"kind": "trait", "trait": "plan", "operator": "is", "value": "paid"}
    by_half_life(product, half_life, **(paying if has_audience else {}))
    tell(product, *(identify(user, -24 * 400, group="initech") for user in USERS[:2]))
    now = act(product, NOON, ("turn", 0))
    for action in actions:
        now = act(product, now, action)
        if action[0] == "turn":
            assert_rows_are_right(product, now.date())
    now = act(product, now, ("turn", 0))
    assert_rows_are_right(product, now.date())


def test_a_set_moves_to_a_new_reference_day_and_keeps_its_scores(acme: Product) -> None:
    """Two users are active all the time, the others for a while, through several reference days."""
    by_half_life(acme, 7)
    tell(acme, *(identify(user, -24 * 400, group="initech") for user in USERS))
    references, worst = set(), 0.0
    for days in range(0, 200, 12):
        now = NOON + days * DAY
        active = USERS if days % 90 < 40 else USERS[:2]
        tell(acme, *(track(user, hours=24 * days) for user in active for _ in range(days % 7 + 1)))
        rescore(now)
        rescore(now)
        scores = scores_of(acme)
        assert scores.reference_day is not None
        references.add(scores.reference_day)
        age = (now.date() - scores.reference_day).days
        worst = max(worst, age / 7)
        assert_rows_are_right(acme, now.date())
        points = points_until(acme, "user_id", now.date())
        benchmark = plain.benchmark(
            points[row.user_id]
            for row in UserEngagement.objects.filter(score_set=scores, event_count__gt=0)
        )
        for row in UserEngagement.objects.filter(score_set=scores):
            expected = rounded_score(points[row.user_id], benchmark)
            assert compute_scores(row, scores).now == pytest.approx(expected, abs=0.1)
    assert len(references) >= 3
    assert worst <= formula.MAX_HALF_LIVES + 2


def test_a_new_day_changes_no_row_and_no_score_without_new_events(acme: Product) -> None:
    by_half_life(acme, 30)
    tell(acme, *(identify(user, -24 * 99, group="initech") for user in USERS))
    for number, user in enumerate(USERS):
        tell(acme, *(track(user, hours=-24 * (3 + ago * ago)) for ago in range(number + 1)))
    rescore(NOON)

    def state() -> list[Any]:
        rows = UserEngagement.objects.filter(score_set=scores_of(acme)).order_by("user_id")
        scores = scores_of(acme)
        return [(row.raw, compute_scores(row, scores).now, row.settled_before) for row in rows]

    before = state()
    rescore(NOON + DAY)
    assert state() == before
    rescore(NOON + 2 * DAY)
    assert state() == before


def test_events_before_the_settled_days_are_not_read_again(acme: Product) -> None:
    """What is written behind the back of the service tells what scoring reads."""
    by_half_life(acme, 60)
    tell(acme, identify("ann", -24 * 400, group="initech"), track("ann", hours=-24 * 200))
    rescore(NOON)
    before = UserEngagement.objects.get()
    DailyCount.objects.update(count=1000)
    tell(acme, track("ann"))
    rescore(NOON)
    after = UserEngagement.objects.get()
    assert points_on(scores_of(acme), after.raw - before.raw, NOON.date()) == pytest.approx(1)
    # A late event says that the days since changed.
    tell(acme, track("ann", "paid", -24 * 150))
    rescore(NOON)
    assert_rows_are_right(acme, NOON.date())


def test_a_late_event_of_any_day_counts(acme: Product) -> None:
    by_half_life(acme, 60)
    tell(acme, identify("ann", -24 * 400, group="initech"))
    for turn in range(2):
        rescore(NOON + turn * DAY)
        for ago in (0, 1, 28, 29, 30, 31, 32, 45, 60, 61, 62, 90, 200):
            tell(acme, track("ann", hours=24 * (turn - ago)))
            rescore(NOON + turn * DAY)
            assert_rows_are_right(acme, (NOON + turn * DAY).date())


def test_the_last_days_of_the_history_are_those_of_the_row(acme: Product) -> None:
    by_half_life(acme, 20)
    tell(acme, identify("ann", -24 * 99), identify("bob", -24 * 99))
    tell(acme, *(track("ann", hours=-24 * ago) for ago in (0, 1, 5, 31, 70, 95)))
    tell(acme, *(track("bob", hours=-24 * ago) for ago in (2, 2, 3, 64, 80)))
    rescore(NOON)
    scores = scores_of(acme)
    for row in UserEngagement.objects.filter(score_set=scores):
        by_day = dict(score_history(scores, row))
        displayed = compute_scores(row, scores)
        for ago, score in (
            (0, displayed.now),
            (1, displayed.yesterday),
            (30, displayed.last_period),
            (31, displayed.yesterday_last_period),
        ):
            assert by_day[NOON.date() - ago * DAY] == score


def test_the_factor_of_an_age() -> None:
    halving = Definition(30, half_life=10)
    counting = ScoreSet(lookback_days=halving.lookback, half_life_days=halving.half_life)
    assert [age_factor(counting, age) for age in (-1, 0, 10, 40)] == [0, 1, 0.5, 0.0625]
    window = ScoreSet(lookback_days=7)
    assert [age_factor(window, age) for age in (-1, 0, 6, 7)] == [0, 1, 1, 0]
