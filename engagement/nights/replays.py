"""Replays: the nights of the last 26 weeks, decided again or for the first time.

A replay writes its alarms at levels below 0, which nobody reads. In its last transaction they take
the place of those that were decided before.
"""

from datetime import date, datetime
from typing import LiteralString

from core.database import locks, sql
from core.jobs import run
from core.models import Job
from engagement.models import Alarm, AlarmNight, ScoreSet
from engagement.nights.stored_alarms import copied_from, tell
from engagement.scores import active_days
from engagement.scores.active_days import DAY

NIGHTS = 26 * 7
# Before this many days, no window has eight weeks to be compared with.
LEAST_DAYS = 10 * 7
_DIRECTIONS = (Alarm.Signal.FALL, Alarm.Signal.RISE)

_FIRST_DAY: LiteralString = """
    SELECT min(day) FROM engagement_activeday
    WHERE product_id = %(product)s AND score_set_id = %(score_set)s
"""


def first_day(score_set: ScoreSet, today: date) -> date | None:
    """The first day whose night a replay decides; None if the history is too short for any."""
    own = {"product": score_set.product_id, "score_set": score_set.pk}
    ((active_from,),) = sql.fetch(_FIRST_DAY, own)
    if active_from is None:
        return None
    first = max(today - NIGHTS * DAY, active_from + (LEAST_DAYS - 1) * DAY)
    return first if first < today - DAY else None


_DELETE: LiteralString = """
    DELETE FROM engagement_alarm
    WHERE product_id = %(product)s AND workspace_id = %(workspace)s AND level < 0
"""
# As they were before the first night.
_COPY: LiteralString = """
    INSERT INTO engagement_alarm
        (product_id, workspace_id, account_id, signal, level, since, ended_on, outcome, is_stopped,
         is_replayed, window_days, observed, expected, dispersion, p, baseline_from, baseline_to,
         weekly_rate, burstiness, latest, details)
    SELECT product_id, workspace_id, account_id, signal, -1 - level, since,
           CASE WHEN ended_on < %(first)s THEN ended_on END,
           CASE WHEN ended_on < %(first)s THEN outcome ELSE '' END, is_stopped,
           is_replayed, window_days, observed, expected, dispersion, p, baseline_from, baseline_to,
           weekly_rate, burstiness, latest, details
    FROM engagement_alarm
    WHERE product_id = %(product)s AND workspace_id = %(workspace)s AND level >= 0
      AND signal IN ('fall', 'rise') AND outcome <> 'replaced'
      AND since >= %(copied_from)s AND since < %(first)s
"""


def begin(score_set: ScoreSet, first: date, job: Job) -> None:
    """Begin a replay with the alarms as they were before the night of *first*."""
    parameters = {**_own(score_set), "first": first}
    with run.holding(job):
        sql.execute(_DELETE, parameters)
        sql.execute(_COPY, {**parameters, "copied_from": copied_from(first)})
        job.cursor = {"first": first.isoformat(), "next": first.isoformat()}
        job.save(update_fields=["cursor"])


# An alarm that is decided again keeps that people were told of it.
_KEEP_TOLD: LiteralString = """
    UPDATE engagement_alarm a SET is_replayed = l.is_replayed
    FROM engagement_alarm l
    WHERE a.product_id = %(product)s AND a.workspace_id = %(workspace)s AND a.level < 0
      AND l.product_id = %(product)s AND l.workspace_id = %(workspace)s
      AND (l.account_id, l.signal, l.level, l.since)
        = (a.account_id, a.signal, (-1 - a.level)::smallint, a.since)
"""
_DELETE_SAME: LiteralString = """
    DELETE FROM engagement_alarm l
    USING engagement_alarm a
    WHERE a.product_id = %(product)s AND a.workspace_id = %(workspace)s AND a.level < 0
      AND l.product_id = %(product)s AND l.workspace_id = %(workspace)s
      AND (l.account_id, l.signal, l.level, l.since)
        = (a.account_id, a.signal, (-1 - a.level)::smallint, a.since)
"""
_REPLACE: LiteralString = """
    UPDATE engagement_alarm
    SET outcome = 'replaced', ended_on = COALESCE(ended_on, %(last)s::date)
    WHERE product_id = %(product)s AND workspace_id = %(workspace)s AND level >= 0
      AND signal IN ('fall', 'rise') AND since >= %(first)s
"""
_SHOW: LiteralString = """
    UPDATE engagement_alarm SET level = -1 - level
    WHERE product_id = %(product)s AND workspace_id = %(workspace)s AND level < 0
"""


def finish(score_set: ScoreSet, first: date, last: date, job: Job, now: datetime) -> None:
    """Have the replayed alarms take the place of those before. The set then still has to show what
    its last night could tell of the accounts."""
    parameters = {**_own(score_set), "first": first, "last": last}
    with run.holding(job):
        locks.lock_scoring(score_set.product_id)
        own = Alarm.objects.filter(
            product_id=score_set.product_id, workspace_id=score_set.workspace_id
        )
        own = own.filter(signal__in=_DIRECTIONS, since__gte=copied_from(first))
        accounts = set(own.values_list("account_id", flat=True))
        for statement in (_KEEP_TOLD, _DELETE_SAME, _REPLACE, _SHOW):
            sql.execute(statement, parameters)
        nights = AlarmNight.objects.filter(workspace=score_set.workspace_id)
        nights.filter(day__range=(first, last)).update(decided_at=now)
        nights.filter(day=last).update(score_set_id=None)
        tell(score_set, accounts)
        job.cursor = None
        job.save(update_fields=["cursor"])


# --- A clock that was ahead -----------------------------------------------------------------


def take_back(score_set: ScoreSet, today: date, job: Job) -> None:
    """Undo the nights of days that are not over: a clock was ahead. Has all active days counted
    again, because those that seemed old are gone."""
    with run.holding(job):
        locks.lock_scoring(score_set.product_id)
        nights = AlarmNight.objects.filter(workspace=score_set.workspace_id)
        nights.filter(day__gte=today).delete()
        # The rows of accounts show what a later night could tell.
        nights.filter(day=today - DAY).update(score_set_id=None)
        alarms = Alarm.objects.filter(
            product_id=score_set.product_id, workspace_id=score_set.workspace_id
        )
        onsets, ended = alarms.filter(since__gte=today), alarms.filter(ended_on__gte=today)
        accounts = {
            id for rows in (onsets, ended) for id in rows.values_list("account_id", flat=True)
        }
        onsets.delete()
        ended.update(ended_on=None, outcome=Alarm.Outcome.OPEN)
        active_days.count_again_from(score_set, None)
        tell(score_set, accounts)
        job.cursor = None
        job.save(update_fields=["cursor"])


def _own(score_set: ScoreSet) -> dict[str, int]:
    return {"product": score_set.product_id, "workspace": score_set.workspace_id}
