"""A weekly look at stored counts begins, continues, and ends alarms, and each look happens once."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from django.db import connection

from core.models import Job
from engagement.activity.reading import told_to_nobody
from engagement.models import (
    Account,
    AccountEngagement,
    Alarm,
    AlarmNight,
    DailyCount,
    EventName,
    HabitPart,
    Product,
    ScoredEvent,
    ScoreSet,
    User,
    UserEngagement,
)
from engagement.nights.jobs import CHANGED_HABITS
from engagement.scores import uses
from notifications.watching.sweep import sweep
from tests.engagement.history import NOON
from tests.engagement.nights.kills import kill_at_each
from tests.engagement.rows import TODAY, account
from tests.jobs import run_job, step_job
from tests.notifications.rows import Clock, a_destination, outbox_texts, subscribe

pytestmark = pytest.mark.django_db

ACCOUNTS, NAMES = 40, ("opened", "edited", "shared")
WEEK = timedelta(days=7)
_EVERY_THIRD_DAY = """
    INSERT INTO engagement_dailycount
        (product_id, user_id, day, event_name_id, account_id, count, last_at)
    SELECT u.product_id, u.id, d.day, n.id, u.account_id, 1, d.day + interval '9 hours'
    FROM engagement_user u
    JOIN engagement_eventname n ON n.product_id = u.product_id
    CROSS JOIN (
        SELECT (%(today)s::date - 1 - 3 * age) AS day FROM generate_series(0, 55) age) d
    WHERE u.product_id = %(product)s
"""


@pytest.fixture
def busy(scores: ScoreSet) -> ScoreSet:
    """40 accounts of five users who do three events every third day, for 24 weeks."""
    product_id = scores.product_id
    EventName.objects.bulk_create(EventName(product_id=product_id, name=name) for name in NAMES)
    rows = [account(scores, f"a{n}", last_active_at=NOON, total_users=5) for n in range(ACCOUNTS)]
    User.objects.bulk_create(
        User(
            product_id=product_id,
            external_id=f"{row.account.external_id}u{place}",
            account_id=row.account_id,
            is_identified=True,
            first_seen_at=NOON,
            last_seen_at=NOON,
        )
        for row in rows
        for place in range(5)
    )
    with connection.cursor() as cursor:
        cursor.execute(_EVERY_THIRD_DAY, {"product": product_id, "today": TODAY})
    return scores


def silence(days: int, accounts: Sequence[str], **filters: Any) -> None:
    """Have the accounts' counts that the filters name not be there in the last days."""
    pks = Account.objects.filter(external_id__in=accounts).values_list("pk", flat=True)
    since = TODAY - timedelta(days=days)
    DailyCount.objects.filter(account_id__in=list(pks), day__gte=since, **filters).delete()


def repeat(week: int) -> None:
    """Let everybody do in the week, 1 for that from today on, what they did in the one before."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO engagement_dailycount "
            "(product_id, user_id, day, event_name_id, account_id, count, last_at) "
            "SELECT product_id, user_id, day + 7, event_name_id, account_id, count, last_at "
            "FROM engagement_dailycount WHERE day >= %s AND day < %s",
            [TODAY + (week - 2) * WEEK, TODAY + (week - 1) * WEEK],
        )


def user_ids(*names: str) -> list[int]:
    return list(
        User.objects.filter(external_id__in=names).order_by("pk").values_list("pk", flat=True)
    )


def alarms(**filters: Any) -> list[tuple[str, str, int]]:
    rows = Alarm.objects.filter(**filters).order_by("account_id", "signal", "level")
    return list(rows.values_list("account__external_id", "signal", "level"))


def look(weeks: int = 0) -> None:
    run_job(CHANGED_HABITS, NOON + weeks * WEEK)


# --- What a look finds ------------------------------------------------------------------------


def test_nothing_is_told_of_accounts_that_stay_as_they_were(busy: ScoreSet) -> None:
    look()
    assert alarms() == [] and not HabitPart.objects.exists()


def test_an_event_that_is_no_longer_used(busy: ScoreSet) -> None:
    silence(30, ["a7"], event_name__name="edited")
    look()
    # 1 of 120 habits ended, and the account has three: less often than level 1 allows.
    assert alarms() == [("a7", "feature", level) for level in (1, 2, 3, 4)]
    alarm = Alarm.objects.get(level=2)
    (event,) = alarm.details["events"]
    assert (event["name"], event["comparable"], event["ended"]) == ("edited", 120, 1)
    assert (alarm.since, alarm.window_days, alarm.observed) == (TODAY - timedelta(days=1), 28, 0)
    assert alarm.workspace_id == busy.workspace_id
    busy.refresh_from_db()
    assert busy.watches_stale and busy.cached_counts_stale


def test_users_who_no_longer_come_and_the_most_active_one(busy: ScoreSet) -> None:
    silence(30, ["a7"], user_id__in=user_ids("a7u0", "a7u1", "a7u2"))
    # One of five has no great share; of two, one has half.
    silence(400, ["a8"], user_id__in=user_ids("a8u2", "a8u3", "a8u4"))
    silence(30, ["a8", "a9"], user_id__in=user_ids("a8u0", "a9u0"))
    look()
    assert alarms() == [("a7", "leaving", 0), ("a8", "key_user", 0)]
    leaving, key_user = Alarm.objects.order_by("account_id")
    assert leaving.details["users"] == user_ids("a7u0", "a7u1", "a7u2")
    assert (leaving.details["quiet"], leaving.details["regular"]) == (3, 5)
    assert key_user.details["users"] == user_ids("a8u0")
    assert key_user.details["share"] == 0.5
    assert key_user.details["last_day"] == (TODAY - timedelta(days=31)).isoformat()


def test_what_does_not_count_is_left_out(busy: ScoreSet, acme: Product) -> None:
    """Neither an event without weight nor a user whom nobody has identified."""
    edited = EventName.objects.get(name="edited")
    ScoredEvent.objects.create(score_set=busy, event_name=edited, weight=0)
    User.objects.filter(external_id__in=["a7u0", "a7u1"]).update(is_identified=False)
    silence(30, ["a7"], event_name=edited)
    silence(30, ["a7"], user_id__in=user_ids("a7u0", "a7u1"))
    look()
    assert alarms() == []


def test_a_workspace_with_an_audience_looks_at_its_users(busy: ScoreSet) -> None:
    ScoreSet.objects.filter(pk=busy.pk).update(audience={"match": "all", "conditions": [{}]})
    for own in User.objects.exclude(external_id__in=["a7u0", "a7u1"]):
        UserEngagement.objects.create(
            product_id=busy.product_id,
            score_set=busy,
            user=own,
            raw=1,
            event_count=1,
            active_days=1,
        )
    silence(30, ["a7"], user_id__in=user_ids("a7u0", "a7u1"))
    silence(30, ["a8"], user_id__in=user_ids("a8u0", "a8u1"))
    look()
    assert alarms() == [("a8", "leaving", 0)]


def edit_again(scores: ScoreSet) -> None:
    """Have a7 edit on two user-days of this week, as it opens."""
    opened = DailyCount.objects.filter(event_name__name="opened", day__gte=TODAY)
    own = opened.filter(account_id=Account.objects.get(external_id="a7").pk)
    edited = EventName.objects.get(name="edited")
    for row in own.order_by("day", "user_id")[:2]:
        DailyCount.objects.create(
            product_id=scores.product_id,
            user_id=row.user_id,
            day=row.day,
            event_name=edited,
            account_id=row.account_id,
            count=1,
            last_at=row.last_at,
        )


# --- What a first look finds ------------------------------------------------------------------


def lose(days: int) -> None:
    """Let a7 no longer use an event, a8 lose three of five users, and a9 the first of two."""
    silence(days, ["a7"], event_name__name="edited")
    silence(days, ["a8"], user_id__in=user_ids("a8u0", "a8u1", "a8u2"))
    silence(400, ["a9"], user_id__in=user_ids("a9u2", "a9u3", "a9u4"))
    silence(days, ["a9"], user_id__in=user_ids("a9u0"))
    rest(20)


def rest(accounts: int) -> None:
    """Let accounts rest for some days two months ago, so that their users are comparable to those
    who came for the last time weeks ago."""
    names = [f"a{n}" for n in range(ACCOUNTS - accounts, ACCOUNTS)]
    pks = list(Account.objects.filter(external_id__in=names).values_list("pk", flat=True))
    days = (TODAY - timedelta(days=70), TODAY - timedelta(days=58))
    DailyCount.objects.filter(account_id__in=pks, day__range=days).delete()


def onsets() -> set[tuple[str, int, bool]]:
    """The signal of each alarm, how many days before the last day it began, and if it is old."""
    yesterday = TODAY - timedelta(days=1)
    rows = Alarm.objects.values_list("signal", "since", "is_replayed")
    return {(signal, (yesterday - since).days, is_old) for signal, since, is_old in rows}


# The last day with a use is one of every third: the one before the silence.
@pytest.mark.parametrize(("days", "ago"), [(30, None), (36, 8), (45, 17)])
def test_a_first_look_tells_nobody_of_what_ended_weeks_ago(
    busy: ScoreSet, days: int, ago: int | None
) -> None:
    lose(days)
    AlarmNight.objects.create(
        workspace_id=busy.workspace_id,
        day=TODAY - timedelta(days=1),
        user_days=0,
        decided_at=NOON,
    )
    look()
    assert onsets() == {
        (signal, ago or 0, ago is not None) for signal in ("feature", "leaving", "key_user")
    }
    for signal in (Alarm.Signal.FEATURE, Alarm.Signal.LEAVING, Alarm.Signal.KEY_USER):
        accounts = set(Alarm.objects.filter(signal=signal).values_list("account", flat=True))
        assert accounts and told_to_nobody(busy, signal, accounts) == (accounts if ago else set())
    (event,) = Alarm.objects.get(signal="feature", level=2).details["events"]
    assert event["since"] == (TODAY - timedelta(days=1 + (ago or 0))).isoformat()


def test_users_who_left_weeks_ago_are_old_news_also_where_another_one_is_away(
    busy: ScoreSet,
) -> None:
    silence(45, ["a8"], user_id__in=user_ids("a8u0", "a8u1", "a8u2"))
    silence(30, ["a8"], user_id__in=user_ids("a8u3"))
    rest(20)
    look()
    assert onsets() == {("leaving", 17, True)}
    (alarm,) = Alarm.objects.all()
    assert alarm.details["users"] == user_ids("a8u0", "a8u1", "a8u2", "a8u3")


def test_an_event_that_ended_now_is_news_beside_one_that_ended_weeks_ago(busy: ScoreSet) -> None:
    silence(45, ["a7"], event_name__name="edited")
    silence(30, ["a7"], event_name__name="shared")
    look()
    alarm = Alarm.objects.get(level=4)
    ended = {event["name"]: event["since"] for event in alarm.details["events"]}
    yesterday = TODAY - timedelta(days=1)
    since = yesterday - timedelta(days=17)
    assert ended == {"edited": since.isoformat(), "shared": yesterday.isoformat()}
    assert (alarm.since, alarm.is_replayed) == (since, False)


def test_a_later_look_tells_of_all_that_it_finds_unless_counts_were_imported(
    busy: ScoreSet,
) -> None:
    look()
    repeat(1)
    silence(24, ["a7"], event_name__name="edited")
    look(1)
    assert onsets() == {("feature", -7, False)}
    Alarm.objects.all().delete()
    repeat(2)
    AlarmNight.objects.create(
        workspace_id=busy.workspace_id,
        day=TODAY + 2 * WEEK - timedelta(days=1),
        user_days=0,
        is_replayed=True,
        decided_at=NOON,
    )
    look(2)
    assert {is_old for _, _, is_old in onsets()} == {True}


# --- How alarms go on and end -----------------------------------------------------------------


def test_an_event_that_is_used_again_ends_its_alarm(busy: ScoreSet) -> None:
    silence(30, ["a7"], event_name__name="edited")
    look()
    repeat(1)
    look(1)
    assert len(alarms(ended_on=None)) == 4
    edit_again(busy)
    repeat(2)
    look(2)
    ends = set(Alarm.objects.values_list("outcome", "ended_on"))
    assert ends == {("recovered", TODAY + 2 * WEEK - timedelta(days=1))}


def test_what_stays_lost_is_usual_after_a_quarter_and_never_told_of_again(busy: ScoreSet) -> None:
    silence(30, ["a7"], event_name__name="edited")
    silence(30, ["a8"], user_id__in=user_ids("a8u0", "a8u1", "a8u2"))
    look()
    assert {name for name, *_ in alarms(ended_on=None)} == {"a7", "a8"}
    for week in range(1, 20):
        repeat(week)
        look(week)
    assert set(Alarm.objects.values_list("outcome", flat=True)) == {"settled"}
    feature = Alarm.objects.get(signal="feature", level=2)
    assert feature.ended_on == feature.since + 13 * WEEK
    assert Alarm.objects.filter(signal="leaving").count() == 1


# --- Each look happens once -------------------------------------------------------------------


def test_a_look_reads_a_few_accounts_a_step_and_comes_once_a_week(
    busy: ScoreSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence(30, ["a7"], event_name__name="edited")
    monkeypatch.setattr(uses, "ACCOUNTS_PER_PART", 15)
    assert step_job(CHANGED_HABITS, NOON)
    assert HabitPart.objects.count() == 1 and alarms() == []
    # A worker that dies between two steps loses nothing. The day stays that of the first step.
    assert run_job(CHANGED_HABITS, NOON + timedelta(days=1)) == 2
    assert len(alarms()) == 4 and Alarm.objects.filter(since=TODAY - timedelta(days=1)).exists()
    latest = Alarm.objects.values_list("latest", flat=True)[0]
    assert run_job(CHANGED_HABITS, NOON + timedelta(days=6)) == 0
    assert Alarm.objects.values_list("latest", flat=True)[0] == latest
    assert run_job(CHANGED_HABITS, NOON + WEEK) == 3


def test_a_range_of_large_accounts_has_fewer_of_them(
    busy: ScoreSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uses, "USERS_PER_PART", 50)
    assert run_job(CHANGED_HABITS, NOON) == 4
    AccountEngagement.objects.filter(account__external_id="a0").update(total_users=1_000)
    assert run_job(CHANGED_HABITS, NOON + WEEK) == 5


def test_a_replaced_score_set_is_looked_at_no_more(
    busy: ScoreSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uses, "ACCOUNTS_PER_PART", 15)
    assert step_job(CHANGED_HABITS, NOON)
    ScoreSet.objects.filter(pk=busy.pk).update(state=ScoreSet.State.RETIRED)
    assert run_job(CHANGED_HABITS, NOON) == 0
    busy.delete()
    assert not HabitPart.objects.exists()


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_look_whose_workers_are_killed_anywhere_tells_each_alarm_once(
    busy: ScoreSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uses, "ACCOUNTS_PER_PART", 25)
    silence(30, ["a7"], event_name__name="edited")
    silence(30, ["a8"], user_id__in=user_ids("a8u0", "a8u1", "a8u2"))
    repeat(1)
    edit_again(busy)
    repeat(2)
    weeks = range(3)
    for week in weeks:
        look(week)
    undisturbed = list(Alarm.objects.order_by("pk").values())
    assert {alarm["outcome"] for alarm in undisturbed} == {"recovered", "settled"}
    Alarm.objects.all().delete()
    Job.objects.all().delete()
    destination, clock = a_destination(busy.product), Clock()
    for trigger in ("insight_started", "insight_ended"):
        for insight in ("breadth_narrowing", "users_leaving"):
            where = {"workspace": busy.workspace, "scope": "account"}
            subscribe(destination, trigger, insight=insight, **where)
    sweep(clock.step())
    for week in weeks:
        clock.now = NOON + week * WEEK
        kills = kill_at_each(CHANGED_HABITS, count(1), clock, lambda _: sweep(clock.step()))
        assert kills > 10
        sweep(clock.step())
    assert list(Alarm.objects.order_by("pk").values()) == undisturbed
    assert sorted(outbox_texts()) == [
        "a7 has the insight “Fewer events in use”.",
        "a7 no longer has the insight “Fewer events in use”: back to usual.",
        "a8 has the insight “Users leaving”.",
        "a8 no longer has the insight “Users leaving”: usual by now.",
    ]
