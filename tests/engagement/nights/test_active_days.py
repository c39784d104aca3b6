"""The active days of accounts agree with the daily counts, whatever happened and in any order."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.jobs import run
from core.models import Job
from engagement.messages import Alias, Group, Identify, Message, Track
from engagement.models import (
    ActiveDay,
    AlarmNight,
    DailyCount,
    EventName,
    EventWeight,
    LateDay,
    Product,
    ScoreSet,
    User,
    UserEngagement,
    Workspace,
)
from engagement.nights import stored_alarms
from engagement.nights.jobs import DECIDE_ALARMS
from engagement.recording.jobs import QUEUE as MOVES
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from engagement.removal.jobs import ERASE_FORGOTTEN
from engagement.rescoring import sets
from engagement.rescoring.jobs import DELETE_RETIRED
from engagement.rescoring.rescore import rescore
from engagement.scores import active_days
from tests.cases import examples, leaves_no_rows
from tests.engagement.history import NOON, alias, identify, state, tell, track
from tests.jobs import run_due_jobs, run_job, step_job

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
PAYING = {"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"}


def night(product: Product, day: int = 0) -> None:
    """Score the product at noon of a later day. Days before that day are counted."""
    run_due_jobs(MOVES, NOON + day * DAY)
    # The first run publishes requested scores.
    for _ in range(2):
        rescore(NOON + day * DAY)
    score_set = current(product)
    assert score_set.active_days_until == score_set.scored_day == (NOON + day * DAY).date()
    assert not LateDay.objects.filter(score_set=score_set).exists()


def current(product: Product) -> ScoreSet:
    return ScoreSet.objects.get(product=product, state=ScoreSet.State.CURRENT)


def stored(product: Product) -> dict[tuple[str, date], tuple[int, int]]:
    """Users and hour, by account and day."""
    rows = ActiveDay.objects.filter(product=product, score_set=current(product))
    values = rows.values_list("account__external_id", "day", "users", "hour")
    return {(account, day): (users, hour) for account, day, users, hour in values}


def plain(product: Product) -> dict[tuple[str, date], tuple[int, int]]:
    """The same from the daily counts, in plain Python."""
    score_set = current(product)
    weights = dict(score_set.weights.values_list("event_name_id", "weight"))
    identified = User.objects.filter(product=product, is_identified=True)
    counted = set(identified.values_list("pk", flat=True))
    if score_set.audience:
        members = UserEngagement.objects.filter(score_set=score_set)
        counted &= set(members.values_list("user_id", flat=True))
    names = dict(product.account_set.filter(is_identified=True).values_list("pk", "external_id"))
    last_hours: dict[tuple[str, date], dict[int, Any]] = defaultdict(dict)
    for row in DailyCount.objects.filter(product=product, day__lt=score_set.scored_day):
        weight = weights.get(row.event_name_id, score_set.default_weight)
        if row.user_id in counted and row.account_id in names and weight:
            users = last_hours[names[row.account_id], row.day]
            users[row.user_id] = max(row.last_at, users.get(row.user_id, row.last_at))
    return {
        key: (len(users), sorted(at.hour for at in users.values())[(len(users) - 1) // 2])
        for key, users in last_hours.items()
    }


def assert_agrees(product: Product) -> None:
    assert stored(product) == plain(product)
    totals: dict[date, int] = defaultdict(int)
    for (_, day), (users, _) in stored(product).items():
        totals[day] += users
    nights = AlarmNight.objects.filter(workspace__product=product)
    assert {day: number for day, number in nights.values_list("day", "user_days") if number} == (
        totals
    )


people = st.sampled_from(["ann", "bob", "cem"])
groups = st.sampled_from(["initech", "globex"])
moments = st.integers(-30 * 24, 3 * 24).map(lambda hours: NOON + timedelta(hours=hours))
plans = st.sampled_from([{}, {"plan": "pro"}, {"plan": "free"}])
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Track, people, st.sampled_from(["opened", "pinged"]), moments, st.none() | groups),
    st.builds(Identify, people, moments, plans, st.none() | groups),
    st.builds(Group, groups, moments, st.just({}), people),
    st.builds(Alias, people, people, moments),
)
steps = st.one_of(
    st.lists(messages, min_size=1, max_size=5),
    st.builds(lambda name: ("forget", name), people),
    st.just("night"),
)


@examples(15)
@given(st.lists(steps, min_size=1, max_size=14), st.booleans(), st.booleans())
@leaves_no_rows
def test_any_history_with_late_data_leaves_the_days_of_its_counts(
    history: list[Any], has_audience: bool, is_large: bool
) -> None:
    """Late events and memberships, identification, aliases, forgetting, and audiences."""
    with pytest.MonkeyPatch.context() as patch:
        keep(patch, days=60, totals=70)
        if is_large:
            count_one_by_one(patch)
        follow(history, has_audience)


def keep(patch: pytest.MonkeyPatch, days: int, totals: int) -> None:
    """Keep active days for a shorter time, because each day is counted."""
    for module in (active_days, stored_alarms):
        patch.setattr(module, "KEPT", days * DAY)
    patch.setattr(active_days, "TOTALS_KEPT", totals * DAY)


def count_one_by_one(patch: pytest.MonkeyPatch) -> None:
    """Have each step count a day of one account."""
    patch.setattr(active_days, "ACCOUNTS_PER_COUNT", 1)
    patch.setattr(active_days, "STEP_SECONDS", 0.0)


def follow(history: list[Any], has_audience: bool) -> None:
    product = Product.create_with_workspace("Acme")
    define(product, audience=[PAYING] if has_audience else [])
    tell(product, identify("ann", -40 * 24, "initech", plan="pro"), track("ann", "pinged"))
    weigh(product, "pinged", 0)
    day = 0
    night(product)
    for step in history:
        if step == "night":
            day += 1
            night(product, day)
            assert_agrees(product)
        elif isinstance(step, tuple):
            forget(product, SubjectScope.USER, step[1])
        else:
            tell(product, *step)
    night(product, day + 4)
    assert_agrees(product)


def define(product: Product, audience: list[dict[str, Any]]) -> None:
    workspace = Workspace.objects.get(product=product)
    workspace.audience = {"match": "all", "conditions": audience} if audience else {}
    workspace.save(update_fields=["audience"])
    sets.request_score_set(workspace.pk)


def weigh(product: Product, event: str, weight: int) -> None:
    """Change the weight of an event, for which the scores are built again."""
    workspace = Workspace.objects.get(product=product)
    name = EventName.objects.get(product=product, name=event)
    EventWeight.objects.update_or_create(
        workspace=workspace, event_name=name, defaults={"weight": weight}
    )
    sets.request_score_set(workspace.pk)


def forget(product: Product, scope: SubjectScope, name: str) -> None:
    forgetting.forget(SubjectRef(product.pk, scope, name), NOON)
    run_job(ERASE_FORGOTTEN, NOON)


def days_ago(*days: int, user: str = "ann") -> Iterable[Message]:
    return (track(user, hours=-24 * day) for day in days)


def test_the_present_day_is_not_counted_until_it_is_over(acme: Product) -> None:
    tell(acme, identify("ann", -100, "initech"), *days_ago(0, 1))
    night(acme)
    yesterday, today = (NOON - DAY).date(), NOON.date()
    assert stored(acme) == {("initech", yesterday): (1, 12)}
    night(acme, 1)
    assert stored(acme) == {("initech", yesterday): (1, 12), ("initech", today): (1, 12)}


def test_a_message_of_today_notes_nothing(acme: Product) -> None:
    tell(acme, identify("ann", -100, "initech"), *days_ago(1))
    night(acme)
    tell(acme, *days_ago(0))
    rescore(NOON)
    assert not LateDay.objects.exists()
    tell(acme, *days_ago(1, 3))
    rescore(NOON)
    assert LateDay.objects.get().day == (NOON - 3 * DAY).date()


def test_a_day_says_after_how_many_days_half_of_it_was_known(acme: Product) -> None:
    def late() -> list[int]:
        return list(ActiveDay.objects.order_by("-day").values_list("late", flat=True))

    tell(acme, *(identify(name, -100, "initech") for name in ("ann", "bob", "cem", "dan")))
    tell(acme, *days_ago(1))
    night(acme)
    assert late() == [0]
    tell(acme, *days_ago(2, 3), *days_ago(1, user="bob"))
    night(acme, 1)
    assert late() == [0, 2, 3]
    tell(acme, *days_ago(2, user="bob"), *days_ago(2, user="cem"))
    night(acme, 2)
    assert late() == [0, 3, 3]
    assert_agrees(acme)


def test_what_comes_while_a_day_is_counted_in_parts_is_counted_the_next_night(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"ann": "initech", "bob": "globex", "cem": "hooli"}
    for user, account in names.items():
        tell(acme, identify(user, -100, account), *days_ago(1, user=user))
    tell(acme, identify("dan", -100, "initech"))
    night(acme)
    count_one_by_one(monkeypatch)
    tell(acme, *(track(user) for user in names))
    score_only(acme, NOON + DAY)
    parts = 0
    while step_job(DECIDE_ALARMS, NOON + DAY):
        cursor = Job.objects.values_list("cursor", flat=True).get(kind=DECIDE_ALARMS) or {}
        if "counted" in cursor:
            parts += 1
            # Otherwise its sender would look silent.
            assert not AlarmNight.objects.filter(day=NOON.date()).exists()
            tell(acme, track("dan"))
            score_only(acme, NOON + DAY)
    assert parts == len(names)
    assert stored(acme)["initech", NOON.date()] == (1, 12)
    assert LateDay.objects.get().day == NOON.date()
    night(acme, 2)
    assert stored(acme)["initech", NOON.date()] == (2, 12)
    assert_agrees(acme)


def score_only(product: Product, now: datetime) -> None:
    """Score the product, and count no days."""
    own = {"kind": DECIDE_ALARMS, "key": str(product.workspaces.get().pk)}
    job, _ = Job.objects.get_or_create(**own, defaults={"due_at": now})
    run.pause(job.pk)
    rescore(now)
    run.resume(job.pk, now)


def test_days_that_came_before_one_in_the_morning_are_complete(acme: Product) -> None:
    tell(acme, identify("ann", -100, "initech"), *days_ago(1))
    night(acme)
    after_midnight = NOON + timedelta(hours=12, minutes=59)
    rescore(after_midnight)
    assert current(acme).active_days_until == NOON.date()
    tell(acme, *days_ago(0))
    rescore(after_midnight + timedelta(minutes=1))
    assert not LateDay.objects.exists()
    assert len(stored(acme)) == 2


def test_a_new_score_set_counts_with_its_weights(acme: Product) -> None:
    tell(acme, identify("ann", -100, "initech"), track("ann", "pinged", -24), *days_ago(2))
    night(acme)
    assert len(stored(acme)) == 2
    old = current(acme)
    weigh(acme, "pinged", 0)
    night(acme)
    assert current(acme) != old
    assert list(stored(acme)) == [("initech", (NOON - 2 * DAY).date())]
    assert ActiveDay.objects.filter(score_set=old).exists()
    run_job(DELETE_RETIRED, NOON + DAY)
    assert not ActiveDay.objects.filter(score_set_id=old.pk).exists()


def test_an_import_has_its_days_counted_again(acme: Product) -> None:
    for number in range(30):
        tell(acme, identify(f"user {number}", -100 * 24, f"account {number}"))
        tell(acme, *days_ago(1, user=f"user {number}"))
    night(acme)
    tell(acme, *(track(f"user {number}", hours=-50 * 24) for number in range(4)))
    rescore(NOON)
    assert LateDay.objects.count() == 4
    night(acme, 1)
    assert_agrees(acme)


def test_old_days_are_kept_in_total_and_then_deleted(acme: Product) -> None:
    old, older = active_days.KEPT.days, active_days.TOTALS_KEPT.days
    tell(acme, identify("ann", -24 * 700, "initech"), *days_ago(1, old, old + 1, older, older + 1))
    night(acme)
    days = {(NOON - DAY).date(), NOON.date() - old * DAY}
    assert {day for _, day in stored(acme)} == days
    totals = AlarmNight.objects.filter(workspace__product=acme, user_days=1)
    days_kept = {*days, NOON.date() - (old + 1) * DAY, NOON.date() - older * DAY}
    assert set(totals.values_list("day", flat=True)) == days_kept
    night(acme, 1)
    assert {day for _, day in stored(acme)} == {(NOON - DAY).date()}


def test_a_forgotten_account_leaves_no_active_day(acme: Product) -> None:
    tell(acme, identify("ann", -100, "initech"), identify("bob", -100, "globex"))
    tell(acme, *days_ago(1, 2), *days_ago(1, user="bob"))
    night(acme)
    tell(acme, *days_ago(3))
    rescore(NOON)
    forget(acme, SubjectScope.ACCOUNT, "initech")
    rescore(NOON)
    night(acme, 1)
    assert ActiveDay.objects.count() == 1
    assert_agrees(acme)


def test_a_deleted_workspace_takes_its_active_days_along(acme: Product) -> None:
    tell(acme, identify("ann", -100, "initech"), *days_ago(1))
    night(acme)
    Workspace.objects.filter(product=acme).get().delete()
    assert not ActiveDay.objects.exists()
    assert not AlarmNight.objects.exists()


def test_joined_users_count_once(acme: Product) -> None:
    tell(acme, identify("ann", -100, "initech"), identify("anna", -100, "initech"))
    tell(acme, *days_ago(1), *days_ago(1, user="anna"))
    night(acme)
    assert list(stored(acme).values()) == [(2, 12)]
    tell(acme, alias("anna", "ann"))
    night(acme, 1)
    assert list(stored(acme).values()) == [(1, 12)]
    assert state(acme)["joined ids"] == {"anna": "ann"}
