"""The weekly look at the habits of a score set's accounts: events that they no longer use, and
users who no longer come.

A look reads the daily counts of 24 weeks, some accounts a step, and keeps a part of each step. Its
last step decides from all parts and deletes them. So a worker that dies repeats one step.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta

from core.database import locks, nodes, pace
from core.jobs.kinds import Blocked, Done, Later, More, Outcome
from core.models import Job
from engagement.models import Alarm, AlarmNight, EventName, HabitPart, ScoreSet
from engagement.nights import habit_alarms
from engagement.nights.stored_alarms import tell
from engagement.scores import uses

# The first hour of a UTC day in which a look begins. What came late to the day before is there.
FIRST_HOUR = time(2, tzinfo=UTC)


def look(job: Job, now: datetime) -> Outcome:
    """A step of a job: read some accounts, or decide once all are read."""
    score_set = ScoreSet.objects.filter(pk=job.key, state=ScoreSet.State.CURRENT).first()
    if score_set is None:
        return Done()
    if score_set.product_id in nodes.missing_products():
        return Blocked()
    parts = HabitPart.objects.filter(score_set=score_set)
    cursor = job.cursor or {"last": None}
    if "after" not in cursor:
        parts.delete()
        yesterday = now.astimezone(UTC).date() - timedelta(days=1)
        cursor |= {"day": yesterday.isoformat(), "after": 0}
    day, after = date.fromisoformat(cursor["day"]), cursor["after"]
    if accounts := uses.next_accounts(score_set, day, after):
        pace.score_in_chunks(accounts, lambda chunk: _read(score_set, day, chunk))
        progress = job.progress + len(accounts)
        return More({**cursor, "after": accounts[-1]}, progress=progress)
    if not locks.try_lock_scoring(score_set.product_id):
        return Blocked()
    _decide(score_set, day, is_first=_is_first(score_set, cursor["last"]))
    parts.delete()
    next_day = day + timedelta(days=1) + habit_alarms.EVERY
    return Later(datetime.combine(next_day, FIRST_HOUR), {"last": cursor["day"]})


def _is_first(score_set: ScoreSet, last: str | None) -> bool:
    """Whether no look has seen these counts: the last one was by another definition, or before an
    import."""
    if last is None:
        return True
    nights = AlarmNight.latest_of(score_set.workspace_id)
    return nights.filter(is_replayed=True, day__gt=date.fromisoformat(last)).exists()


# --- Reading ----------------------------------------------------------------------------------


def _read(score_set: ScoreSet, day: date, accounts: list[int]) -> None:
    """Keep what the look needs of these accounts."""
    # Only workers that look load numpy.
    from engagement.alarms import habits

    names, users = habits.uses_of(uses.count_uses(score_set, day, accounts))
    regular = habits.regular_users_of(users)
    quiet = habits.is_quiet(regular)
    HabitPart.objects.create(
        score_set=score_set,
        habits=habits.habits_of(names, users).tobytes(),
        users=habits.with_quiet(regular).tobytes(),
        user_ends=habits.count_ends(regular["expected"], quiet).tolist(),
    )


# --- Deciding ---------------------------------------------------------------------------------


def _decide(score_set: ScoreSet, day: date, *, is_first: bool) -> None:
    """Begin, continue, and end the alarms of the workspace."""
    from engagement.alarms import habits

    parts = list(HabitPart.objects.filter(score_set=score_set).order_by("pk"))
    users = habits.unpack(habits.REGULAR, [part.users for part in parts])
    ends = habits.total_ends([part.user_ends for part in parts])
    leaving, key_users = habits.quiet_users(users, ends)
    ended = habits.ended_habits(habits.unpack(habits.HABIT, [part.habits for part in parts]))
    open_alarms = list(
        Alarm.objects.filter(
            product_id=score_set.product_id,
            workspace_id=score_set.workspace_id,
            signal__in=habit_alarms.SIGNALS,
            ended_on=None,
        )
    )
    accounts = {alarm.account_id for alarm in open_alarms}
    recent = uses.recent_uses(score_set, day, habit_alarms.RECENT_DAYS, accounts)
    look = habit_alarms.Look(day, ended, leaving, key_users, *recent, is_first=is_first)
    if alarms := habit_alarms.follow(look, open_alarms):
        _name_events(score_set, alarms)
        _store(score_set, alarms)


def _name_events(score_set: ScoreSet, alarms: Sequence[Alarm]) -> None:
    """Put the names of events into the details of the alarms."""
    events = [event for alarm in alarms for event in alarm.details.get("events", ())]
    names = EventName.objects.filter(product=score_set.product_id)
    by_id = names.in_bulk(list({event["id"] for event in events}))
    for event in events:
        event["name"] = by_id[event["id"]].name if event["id"] in by_id else ""


_KEY = ["product", "workspace", "account", "signal", "level", "since"]
_VALUES = ["ended_on", "outcome", "latest", "details"]


def _store(score_set: ScoreSet, alarms: Sequence[Alarm]) -> None:
    for alarm in alarms:
        alarm.product_id, alarm.workspace_id = score_set.product_id, score_set.workspace_id
    Alarm.objects.bulk_create(
        alarms, update_conflicts=True, unique_fields=_KEY, update_fields=_VALUES
    )
    tell(score_set, {alarm.account_id for alarm in alarms})
