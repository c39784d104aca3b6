"""The turn of the UTC day: windows move, and whoever was active at one of their ends is stale."""

from datetime import date, timedelta
from typing import LiteralString

from django.db import transaction
from django.db.models import Q

from engagement.database import locks, sql
from engagement.models import ScoreSet
from engagement.scores import audiences, event_names, past_benchmarks, rescore_queue
from engagement.scores.raw import USERS_SEEN_WITHIN_DAYS

_MARK: LiteralString = """
    WITH crossing AS (
        SELECT DISTINCT d.user_id, NULLIF(d.account_id, 0) AS account_id
        FROM engagement_dailycount d
        WHERE d.product_id = %(product)s
          AND (d.day BETWEEN %(ended_from)s AND %(ended_until)s
               OR d.day BETWEEN %(passed_from)s AND %(passed_until)s
               OR d.day BETWEEN %(entered_from)s AND %(entered_until)s))
    INSERT INTO engagement_stalemark (product_id, user_id, account_id)
    SELECT DISTINCT %(product)s::bigint, user_id, NULL::bigint FROM crossing
    UNION ALL
    SELECT DISTINCT %(product)s::bigint, NULL::bigint, account_id FROM crossing
    WHERE account_id IS NOT NULL
"""
# An account's users may have left it without any window noticing.
_MARK_ACCOUNTS_SEEN: LiteralString = """
    INSERT INTO engagement_stalemark (product_id, user_id, account_id)
    SELECT DISTINCT d.product_id, NULL::bigint, d.account_id FROM engagement_dailycount d
    WHERE d.product_id = %(product)s AND d.account_id <> 0
      AND d.day BETWEEN %(unseen_from)s AND %(unseen_until)s
"""


def roll_over(today: date) -> None:
    """Mark stale whoever had activity on a day that leaves or enters a window of a set's.

    The days that ended get their benchmarks anew: those in which nobody scored have none, and the
    last one's is as old as the last scoring before midnight.
    """
    due = Q(scored_day__lt=today) & ~Q(state=ScoreSet.State.RETIRED)
    turning = dict(ScoreSet.objects.filter(due).values_list("pk", "product_id"))
    for pk in turning:
        with transaction.atomic(durable=True):
            held = ScoreSet.objects.select_for_update(skip_locked=True, no_key=True)
            for score_set in held.filter(due, pk=pk):
                _mark(score_set, today)
                assert score_set.scored_day is not None
                rescore_queue.enqueue(
                    [rescore_queue.rescore_days_since(score_set.product_id, score_set.scored_day)]
                )
                score_set.scored_day = today
                score_set.benchmarks_stale = True
                score_set.save(update_fields=["scored_day", "benchmarks_stale"])
    for product_id in sorted(set(turning.values())):
        _check_event_names(product_id)
    past_benchmarks.delete_expired(today)


def _check_event_names(product_id: int) -> None:
    """Whoever did a name may have been forgotten since."""
    with transaction.atomic(durable=True):
        locks.lock_scoring(product_id)
        event_names.refresh_done_by(product_id)


def _mark(score_set: ScoreSet, today: date) -> None:
    """Mark the days that the windows of today, yesterday and the last period leave and enter.

    From *before* to *today*, each window leaves the days at its old end and enters those at its
    new one; the windows of yesterday and the last period end where others begin.
    """
    before, lookback = score_set.scored_day, timedelta(days=score_set.lookback_days)
    assert before is not None
    day = timedelta(days=1)
    sql.execute(
        _MARK,
        {
            "product": score_set.product_id,
            "ended_from": before - 2 * lookback + day,
            "ended_until": today - 2 * lookback,
            "passed_from": before - lookback,
            "passed_until": today - lookback,
            "entered_from": before,
            "entered_until": today,
        },
    )
    sql.execute(
        _MARK_ACCOUNTS_SEEN,
        {
            "product": score_set.product_id,
            "unseen_from": before - (USERS_SEEN_WITHIN_DAYS - 1) * day,
            "unseen_until": today - USERS_SEEN_WITHIN_DAYS * day,
        },
    )
    audiences.enqueue_changed_members(score_set, today)
