"""When what happens: the job of each workspace after a day is over.

It counts late accounts again and then the days that ended (``active_days``), and decides the alarms
of each day that has none yet, the oldest first (``deciding``). The first night of a workspace with
a history, and one after an import, decides the last 26 weeks (``replays``).
"""

import time
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from typing import Any, LiteralString

from django.db.models import QuerySet

from core.database import locks, nodes, sql
from core.jobs import run
from core.jobs.kinds import Blocked, Done, Later, More, Outcome
from core.models import Job
from engagement.models import AlarmNight, ScoreSet
from engagement.nights import replays
from engagement.nights.stored_alarms import Levels
from engagement.scores import active_days
from engagement.scores.active_days import DAY

# What senders, the inbox, and the rescore queue still have of a day arrives after it.
FIRST_TIME = time_of_day(1, tzinfo=UTC)
# An import changes more than this share of the accounts, on days at least this long ago.
IMPORT_SHARE, IMPORT_AGE = 0.1, timedelta(days=7)
# Of a replay, a step decides as many nights.
STEP_SECONDS = 2.0
# The place in the pass over late accounts when it is over.
_PASSED = -1

_DUE: LiteralString = f"""
    SELECT s.workspace_id
    FROM engagement_scoreset s
    LEFT JOIN LATERAL (
        SELECT day, score_set_id FROM engagement_alarmnight n
        WHERE n.workspace_id = s.workspace_id AND n.decided_at IS NOT NULL
        ORDER BY n.day DESC LIMIT 1) last ON true
    WHERE s.state = 'current' AND s.scored_day IS NOT NULL
      AND (s.active_days_until IS DISTINCT FROM s.scored_day
           OR last.day IS DISTINCT FROM s.scored_day - 1
           OR last.score_set_id IS DISTINCT FROM s.id)
      AND {nodes.among_reachable("s")}
    ORDER BY s.workspace_id
"""


def due_workspaces() -> list[int]:
    """The keys of the job: the workspaces with a complete day that is not decided."""
    return [id for (id,) in sql.fetch(_DUE, {"reachable": nodes.reachable_products()})]


def current_sets() -> QuerySet[ScoreSet, int]:
    """The keys of a job: the sets that readers see, each of which has a look a week."""
    current = nodes.reachable(ScoreSet.objects.filter(state=ScoreSet.State.CURRENT))
    return current.order_by("pk").values_list("pk", flat=True)


def take_step(job: Job, now: datetime) -> Outcome:
    """A step of the job: count some days, or decide a night, or some nights of a replay."""
    score_set = _current_set(job)
    if score_set is None or score_set.scored_day is None:
        return Done()
    if score_set.product_id in nodes.missing_products():
        return Blocked()
    today = score_set.scored_day
    begins_at = datetime.combine(today, FIRST_TIME)
    if now < begins_at:
        # Until then, the last night that is due is the one before.
        today -= DAY
        if _is_decided(score_set, today):
            return Later(begins_at, job.cursor)
    return _count(job, score_set, today) or _decide(job, score_set, today, now)


def _current_set(job: Job) -> ScoreSet | None:
    current = ScoreSet.objects.filter(state=ScoreSet.State.CURRENT, workspace_id=job.key)
    current = current.filter(product__deletion_requested_at=None).select_related("workspace")
    return current.defer("user_quantiles", "account_quantiles").first()


def _is_decided(score_set: ScoreSet, today: date) -> bool:
    """Whether nothing is left to do of the days before *today*."""
    until = score_set.active_days_until
    if until != today:
        return until is not None and until > today
    last = AlarmNight.latest_of(score_set.workspace_id).first()
    return last is not None and (last.day, last.score_set_id) == (today - DAY, score_set.pk)


# --- Counting -------------------------------------------------------------------------------


def _count(job: Job, score_set: ScoreSet, today: date) -> Outcome | None:
    """Count some of the days before *today*; None if they are counted."""
    until = score_set.active_days_until
    if until == today:
        return None
    if until is not None and until > today:
        replays.take_back(score_set, today, job)
        return More()
    with run.holding(job):
        if not locks.try_lock_scoring(score_set.product_id) or _current_set(job) != score_set:
            return Blocked()
        cursor = {**(job.cursor or {})}
        if until is None:
            # Nobody notes late accounts of a set before its days are counted.
            cursor["late"] = _PASSED
        if cursor.get("late") == _PASSED:
            _count_days(score_set, today, cursor)
        elif "late" not in cursor and (day := _imported_from(score_set, today)):
            active_days.count_again_from(score_set, day)
            cursor |= {"late": _PASSED, "import": True}
        else:
            last = active_days.count_late(score_set, cursor.get("late", 0), today)
            cursor["late"] = _PASSED if last is None else last
        if score_set.active_days_until == today:
            cursor.pop("late", None)
        job.cursor = cursor or None
        job.save(update_fields=["cursor"])
    return More(job.cursor)


def _count_days(score_set: ScoreSet, today: date, cursor: dict[str, Any]) -> None:
    """Count some days. If the next one is counted for some accounts, the cursor says so."""
    place = [score_set.pk, str(score_set.active_days_until)]
    *counted_place, account, user_days = cursor.pop("counted", (0, 0))
    counted = (account, user_days) if counted_place == place else (0, 0)
    counted = active_days.count_days(score_set, today, counted)
    if counted[0]:
        cursor["counted"] = [score_set.pk, str(score_set.active_days_until), *counted]


def _imported_from(score_set: ScoreSet, today: date) -> date | None:
    """The first day of the counts of an import since the last night; None without one."""
    number, day = active_days.late_accounts(score_set, today - IMPORT_AGE)
    if not number:
        return None
    night = AlarmNight.latest_of(score_set.workspace_id).first()
    is_import = night and number > IMPORT_SHARE * (night.summary or {}).get("accounts", 0)
    return day if is_import else None


# --- Deciding -------------------------------------------------------------------------------


def _decide(job: Job, score_set: ScoreSet, today: date, now: datetime) -> Outcome:
    # numpy takes 0.1 s and 20 MB, and processes that serve pages import this module.
    from engagement.nights import deciding

    cursor: dict[str, Any] = job.cursor or {}
    last = AlarmNight.latest_of(score_set.workspace_id).first()
    try:
        if "next" in cursor:
            return _replay(job, score_set, today, now)
        if (last is None or "import" in cursor) and (first := replays.first_day(score_set, today)):
            replays.begin(score_set, first, job)
            return More(job.cursor)
        if last is not None and last.day >= today:
            replays.take_back(score_set, today, job)
        elif last is None or last.day < today - DAY:
            day = today - DAY
            if last is not None:
                day = max(last.day + DAY, today - replays.NIGHTS * DAY)
            deciding.write(deciding.decide(score_set, day, Levels()), job, now)
        elif last.score_set_id != score_set.pk:
            deciding.show(deciding.decide(score_set, last.day, Levels()), job)
        else:
            return Done()
    except deciding.NoLongerCurrent:
        pass
    return More(job.cursor)


def _replay(job: Job, score_set: ScoreSet, today: date, now: datetime) -> Outcome:
    """Decide the next nights of the replay, or finish it."""
    from engagement.nights import deciding

    cursor: dict[str, Any] = {**job.cursor}  # type: ignore[dict-item]
    first, day = (date.fromisoformat(cursor[name]) for name in ("first", "next"))
    started = time.monotonic()
    # None is left if a worker died between the last night and the end.
    while day < today:
        night, day = deciding.decide(score_set, day, Levels(first)), day + DAY
        deciding.write(night, job, now, {**cursor, "next": day.isoformat()})
        if time.monotonic() > started + STEP_SECONDS:
            break
    if day == today:
        replays.finish(score_set, first, today - DAY, job, now)
    return More(job.cursor, progress=(day - first).days, total=(today - first).days)
