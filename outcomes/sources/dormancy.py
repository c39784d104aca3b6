"""Which active accounts had no active day any more: outcomes that need nothing but activity.

The unit is an account and the first day of a month, if the account had an active day in the 30 days
before. It is good if there is one in the 30 days from that day on. Days are UTC, and active by the
workspace's current definition.
"""

from datetime import date, timedelta
from typing import LiteralString

from core.database import sql
from engagement.models import ScoreSet
from engagement.scopes import ACCOUNTS
from engagement.scores.active_days import KEPT
from engagement.scores.raw import join_counted_users
from outcomes.kinds import Kind, Outcome, OutcomeSet
from outcomes.sources.units import UNITS, in_places, sample

SPAN = timedelta(days=30)
MONTHS = 13

# OFFSET 0 keeps the planner from reading all active days.
_SAMPLE: LiteralString = f"""
    {UNITS},
    sample AS MATERIALIZED (
        SELECT k.*, count(*) OVER () AS total FROM units k
        WHERE EXISTS (
            SELECT FROM {{active}} >= k.day - %(span)s AND {{day}} < k.day OFFSET 0)
        ORDER BY k.place LIMIT %(limit)s)
    SELECT k.total, k.account_id, k.day,
           EXISTS (SELECT FROM {{active}} >= k.day AND {{day}} < k.day + %(span)s)
    FROM sample k ORDER BY k.day, k.account_id
"""
_ACTIVE_DAYS: LiteralString = f"""
    engagement_activeday s
    WHERE s.product_id = %(product)s AND s.score_set_id = {sql.SCORE_SET}
      AND s.account_id = k.account_id AND s.day
"""
_DAILY_COUNTS: LiteralString = f"""
    engagement_dailycount d {{join_users}}
    LEFT JOIN engagement_scoredevent w
        ON w.score_set_id = {sql.SCORE_SET} AND w.event_name_id = d.event_name_id
    WHERE d.product_id = %(product)s AND d.account_id = k.account_id
      AND COALESCE(w.weight, %(default_weight)s) > 0 AND d.day
"""


def read(score_set: ScoreSet | None, today: date, limit: int) -> OutcomeSet:
    """The outcomes of the months of which the 30 days are over, or an even sample of them."""
    days = _days(score_set, today) if score_set else []
    if score_set is None or not days:
        return OutcomeSet(Kind.DORMANCY, [], {}, None)
    statement = _statement(score_set)
    more = {"default_weight": score_set.default_weight, "span": SPAN.days}
    rows, share = sample(
        score_set, days, limit, lambda parameters: sql.fetch(statement, parameters | more)
    )
    total = round(rows[0][0] / share) if rows else 0
    outcomes = [_outcome(*row) for _, *row in rows]
    return OutcomeSet(Kind.DORMANCY, outcomes, {}, None, total if total > len(rows) else None)


def _outcome(account_id: int, day: date, is_good: bool) -> Outcome:
    result = "active" if is_good else "dormant"
    return Outcome(account_id, day, is_good, result, day + SPAN, None, day)


def _days(score_set: ScoreSet, today: date) -> list[date]:
    """The first days of the last months of which both spans are over and their days are kept."""
    until = min(score_set.active_days_until or today, today)
    kept_from = today - KEPT if score_set.active_days_until else date.min
    days: list[date] = []
    day = until.replace(day=1)
    while len(days) < MONTHS and day.year >= until.year - 2 and day - SPAN >= kept_from:
        if day + SPAN <= until:
            days.append(day)
        day = (day - timedelta(days=1)).replace(day=1)
    return in_places(days, months=1)


def _statement(score_set: ScoreSet) -> LiteralString:
    """Before the first night, active days are not counted yet."""
    if score_set.active_days_until is not None:
        return _SAMPLE.format(active=_ACTIVE_DAYS, day="s.day")
    counts = _DAILY_COUNTS.format(join_users=join_counted_users(score_set, ACCOUNTS))
    return _SAMPLE.format(active=counts, day="d.day")
