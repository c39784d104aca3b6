"""Midnight in UTC: windows move, so subjects active at their ends are enqueued.

The day that ended gets its benchmark, names of events are checked, and ``stamping.py`` notes whom
the day moves between segments. Windows move back, too, after a clock that was ahead.
"""

from datetime import date, timedelta
from typing import LiteralString

from django.db import transaction
from django.db.models import Q

from core.database import locks, nodes, sql
from engagement.models import DailyBenchmark, ScoreSet
from engagement.models.scores import FORMULA_VERSION
from engagement.rescoring import stamping
from engagement.scores import audiences, event_names, past_benchmarks, rescore_queue
from engagement.scores.raw import USERS_SEEN_WITHIN_DAYS

_ENQUEUE_CROSSING: LiteralString = """
    INSERT INTO engagement_stalemark (product_id, user_id, account_id, day)
    WITH crossing AS (
        SELECT DISTINCT d.user_id, NULLIF(d.account_id, 0) AS account_id
        FROM engagement_dailycount d
        WHERE d.product_id = %(product)s
          AND (d.day BETWEEN %(ended_from)s AND %(ended_until)s
               OR d.day BETWEEN %(passed_from)s AND %(passed_until)s
               OR d.day BETWEEN %(entered_from)s AND %(entered_until)s))
    SELECT DISTINCT %(product)s::bigint, user_id, NULL::bigint, %(unchanged)s::date FROM crossing
    UNION ALL
    SELECT DISTINCT %(product)s::bigint, NULL::bigint, account_id, %(unchanged)s::date FROM crossing
    WHERE account_id IS NOT NULL
"""
# Users stop counting for an account USERS_SEEN_WITHIN_DAYS after their last event in it.
_ENQUEUE_ACCOUNTS_SEEN: LiteralString = """
    INSERT INTO engagement_stalemark (product_id, user_id, account_id, day)
    SELECT %(product)s::bigint, NULL::bigint, account_id, %(unchanged)s FROM (
        SELECT DISTINCT d.account_id FROM engagement_dailycount d
        WHERE d.product_id = %(product)s AND d.account_id <> 0
          AND d.day BETWEEN %(unseen_from)s AND %(unseen_until)s) AS unseen
"""
# Rows that a worker of the release before has written, also in sets of this formula.
_ENQUEUE_INCOMPLETE: LiteralString = """
    INSERT INTO engagement_stalemark (product_id, user_id, account_id)
    SELECT product_id, user_id, NULL::bigint FROM engagement_userengagement
    WHERE product_id = %(product)s AND score_set_id = %(score_set)s
      AND raw_yesterday_last_period IS NULL
    UNION ALL
    SELECT product_id, NULL::bigint, account_id FROM engagement_accountengagement
    WHERE product_id = %(product)s AND score_set_id = %(score_set)s
      AND raw_yesterday_last_period IS NULL
"""


def roll_over(today: date, latest: date | None = None) -> None:
    """Enqueue the subjects with activity on a day that leaves or enters a window of a set.

    Those of sets of a day after *latest*, by default *today*, go back.

    The benchmarks of the days that ended are invalidated: days without scoring have none, and those
    of the last day are as old as the last scoring before midnight.
    """
    is_other_day = Q(scored_day__lt=today) | Q(scored_day__gt=latest or today)
    is_due = is_other_day & ~Q(state=ScoreSet.State.RETIRED)
    due_sets = nodes.reachable(ScoreSet.objects.filter(is_due))
    products = dict(due_sets.values_list("pk", "product_id"))
    for pk in products:
        with transaction.atomic(durable=True):
            unlocked = ScoreSet.objects.select_for_update(skip_locked=True, no_key=True)
            for score_set in unlocked.filter(is_due, pk=pk):
                _roll_over_set(score_set, today)
    for product_id in sorted(set(products.values())):
        _refresh_event_names(product_id)
    if products:
        past_benchmarks.delete_expired(today)


def _roll_over_set(score_set: ScoreSet, today: date) -> None:
    assert score_set.scored_day is not None
    earlier, later = sorted((score_set.scored_day, today))
    _enqueue_subjects(score_set, earlier, later)
    if score_set.formula_version >= FORMULA_VERSION:
        own = {"product": score_set.product_id, "score_set": score_set.pk}
        sql.execute(_ENQUEUE_INCOMPLETE, own)
    audiences.enqueue_changed_members(score_set, today)
    rescore_queue.enqueue([rescore_queue.rescore_days_since(score_set.product_id, earlier)])
    DailyBenchmark.objects.filter(score_set=score_set, day__gt=today).delete()
    stamping.note_turned_day(score_set, score_set.scored_day, today)
    score_set.scored_day = today
    score_set.benchmarks_stale = True
    score_set.save(update_fields=["scored_day", "benchmarks_stale"])


def _refresh_event_names(product_id: int) -> None:
    """The users in ``done_by`` may have been forgotten."""
    with transaction.atomic(durable=True):
        locks.lock_scoring(product_id)
        event_names.refresh_done_by(product_id)


def _enqueue_subjects(score_set: ScoreSet, before: date, today: date) -> None:
    """Enqueue the subjects with counts on the days that a window leaves or enters.

    From *before* to *today* each window leaves the days at its old start and enters those after
    its old end; on the way back it is the other way round. The windows of yesterday, of the last
    period, and of the one before yesterday's end where others start, or a day later.
    """
    lookback, day = timedelta(days=score_set.lookback_days), timedelta(days=1)
    sql.execute(
        _ENQUEUE_CROSSING,
        {
            "product": score_set.product_id,
            "unchanged": rescore_queue.UNCHANGED,
            "ended_from": before - 2 * lookback,
            "ended_until": today - 2 * lookback,
            "passed_from": before - lookback,
            "passed_until": today - lookback,
            "entered_from": before,
            "entered_until": today,
        },
    )
    sql.execute(
        _ENQUEUE_ACCOUNTS_SEEN,
        {
            "product": score_set.product_id,
            "unchanged": rescore_queue.UNCHANGED,
            "unseen_from": before - (USERS_SEEN_WITHIN_DAYS - 1) * day,
            "unseen_until": today - USERS_SEEN_WITHIN_DAYS * day,
        },
    )
