"""Which active accounts had no active day any more: outcomes that need nothing but activity.

The unit is an account and the first day of a month, if the account had an active day in the 30 days
before. It is good if there is one in the 30 days from that day on. Days are UTC, and active by the
workspace's current definition.
"""

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any, LiteralString

from core.database import sql
from engagement.models import ScoreSet
from engagement.scopes import ACCOUNTS
from engagement.scores.active_days import KEPT
from engagement.scores.raw import join_counted_users
from outcomes.kinds import Kind, Outcome, OutcomeSet

SPAN = timedelta(days=30)
MONTHS = 13
# Units whose days are looked up at most: a second on a large product.
MAX_CANDIDATES = 100_000

_COUNT: LiteralString = f"""
    SELECT count(*) FROM engagement_accountengagement
    WHERE product_id = %(product)s AND score_set_id = {sql.SCORE_SET}
"""
# Each unit has a place in [0, 1) by a hash, and those below the share are the sample. The places of
# an account's months are equally far apart, so one hash an account and few rows suffice.
# OFFSET 0 keeps the planner from reading all active days.
_UNITS: LiteralString = f"""
    WITH hashed AS (
        SELECT account_id, %(months)s * ((hashint8extended(account_id, 0) & 281474976710655)
                                         / 281474976710656::float8) AS turn
        FROM engagement_accountengagement
        WHERE product_id = %(product)s AND score_set_id = {sql.SCORE_SET}),
    units AS MATERIALIZED (
        SELECT account_id, (turn - floor(turn) + step) / %(months)s AS place,
               (%(days)b::date[])[1 + (floor(turn)::int + step) %% %(months)s] AS day
        FROM hashed CROSS JOIN generate_series(0, floor(%(share)s * %(months)s)::int) AS step
        WHERE step < %(months)s AND (turn - floor(turn) + step) / %(months)s < %(share)s),
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
    days = list(_days(score_set, today)) if score_set else []
    if score_set is None or not days:
        return OutcomeSet(Kind.DORMANCY, [], {}, None)
    own = {"product": score_set.product_id, "score_set": score_set.pk}
    ((accounts,),) = sql.fetch(_COUNT, own)
    units = max(1, accounts * len(days))
    largest = min(1.0, MAX_CANDIDATES / units)
    share = largest if largest == 1.0 else min(largest, 4 * limit / units)
    rows = _sample(score_set, days, share, limit)
    if len(rows) < limit and share < largest:
        share = min(largest, share * 1.2 * limit / max(1, len(rows)))
        rows = _sample(score_set, days, share, limit)
    total = round(rows[0][0] / share) if rows else 0
    return OutcomeSet(
        Kind.DORMANCY,
        [_outcome(*row) for _, *row in rows],
        {},
        None,
        total if total > len(rows) else None,
    )


def _outcome(account_id: int, day: date, is_good: bool) -> Outcome:
    result = "active" if is_good else "dormant"
    return Outcome(account_id, day, is_good, result, day + SPAN, None, day)


def _days(score_set: ScoreSet, today: date) -> Iterator[date]:
    """The first days of the last months of which both spans are over and their days are kept. The
    order is such that a month keeps its place when another one is over."""
    until = min(score_set.active_days_until or today, today)
    days, day = [], until.replace(day=1)
    for _ in range(MONTHS + 2):
        if day + SPAN <= until and (not _has_active_days(score_set) or day - SPAN >= today - KEPT):
            days.append(day)
        day = (day - timedelta(days=1)).replace(day=1)
    days = days[:MONTHS]
    return iter(sorted(days, key=lambda day: (12 * day.year + day.month) % len(days)))


def _has_active_days(score_set: ScoreSet) -> bool:
    return score_set.active_days_until is not None


def _sample(score_set: ScoreSet, days: list[date], share: float, limit: int) -> list[Any]:
    """The first units by their place that had an active day before, and the number of all whose
    place is below the share."""
    active, day = _ACTIVE_DAYS, "s.day"
    if not _has_active_days(score_set):
        active, day = (
            _DAILY_COUNTS.format(join_users=join_counted_users(score_set, ACCOUNTS)),
            "d.day",
        )
    return sql.fetch(
        _UNITS.format(active=active, day=day),
        {
            "product": score_set.product_id,
            "score_set": score_set.pk,
            "default_weight": score_set.default_weight,
            "days": days,
            "months": len(days),
            "share": share,
            "span": SPAN.days,
            "limit": limit,
        },
    )
