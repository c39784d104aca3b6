"""The figures of a day: how many users and accounts did each event, and used each feature."""

import time
from datetime import date, timedelta
from typing import LiteralString

from core.database import sql
from engagement.models.features import USED_WITHIN
from trends.models import UsageDay

# A year, and the year before.
KEPT = timedelta(days=730)
# A step begins no further statement after this time.
STEP_SECONDS = 1.0

_FIRST_DAY: LiteralString = """
    SELECT (min(first_seen_at) AT TIME ZONE 'UTC')::date FROM engagement_user
    WHERE product_id = %(product)s
"""
_COUNT: LiteralString = """
    INSERT INTO trends_usageday (product_id, feature_id, event_name_id, day, users, accounts)
    SELECT %(product)s::bigint, COALESCE(d.feature_id, 0), COALESCE(d.event_name_id, 0),
           d.day, count(DISTINCT d.user_id), count(DISTINCT d.account_id)
    FROM (
        SELECT d.day, d.event_name_id, n.feature_id, d.user_id, a.id AS account_id
        FROM engagement_dailycount d
        JOIN engagement_eventname n ON n.product_id = %(product)s AND n.id = d.event_name_id
        JOIN engagement_user u
            ON u.product_id = %(product)s AND u.id = d.user_id AND u.is_identified
        LEFT JOIN engagement_account a
            ON a.product_id = %(product)s AND a.id = d.account_id AND a.is_identified
        WHERE d.product_id = %(product)s AND d.day >= %(first)s AND d.day < %(until)s) d
    GROUP BY GROUPING SETS ((d.day, d.event_name_id), (d.day, d.feature_id), (d.day))
    HAVING GROUPING(d.feature_id) = 1 OR d.feature_id IS NOT NULL
    ON CONFLICT (product_id, feature_id, event_name_id, day) DO UPDATE
    SET users = EXCLUDED.users, accounts = EXCLUDED.accounts
"""
_SUM_UP: LiteralString = """
    INSERT INTO trends_usageday
        (product_id, feature_id, event_name_id, day, users, accounts,
         used_accounts, started_accounts, stopped_accounts)
    WITH uses AS MATERIALIZED (
        SELECT s.account_id, s.event_name_id, n.feature_id, s.first_day, s.last_day
        FROM engagement_accountuse s
        JOIN engagement_eventname n ON n.product_id = %(product)s AND n.id = s.event_name_id
        WHERE s.product_id = %(product)s)
    SELECT %(product)s::bigint, feature_id, event_name_id, %(day)s::date, 0, 0,
           count(*) FILTER (WHERE last_day > %(day)s::date - %(days)s),
           count(*) FILTER (WHERE first_day > %(day)s::date - %(days)s),
           count(*) FILTER (WHERE last_day <= %(day)s::date - %(days)s
                              AND last_day > %(day)s::date - 2 * %(days)s)
    FROM (
        SELECT 0 AS feature_id, event_name_id, first_day, last_day FROM uses
        UNION ALL
        SELECT feature_id, 0, min(first_day), max(last_day) FROM uses
        WHERE feature_id IS NOT NULL GROUP BY account_id, feature_id
        UNION ALL
        SELECT 0, 0, min(first_day), max(last_day) FROM uses GROUP BY account_id) things
    GROUP BY feature_id, event_name_id
    ON CONFLICT (product_id, feature_id, event_name_id, day) DO UPDATE
    SET used_accounts = EXCLUDED.used_accounts, started_accounts = EXCLUDED.started_accounts,
        stopped_accounts = EXCLUDED.stopped_accounts
"""


def first_day(product_id: int) -> date | None:
    """The first day on which anybody can have done anything."""
    ((day,),) = sql.fetch(_FIRST_DAY, {"product": product_id})
    return day if day is None else date.fromisoformat(str(day))


def count_days(product_id: int, first: date, until: date) -> date:
    """Count the users and accounts of each event, of each feature, and of anything, on the next
    days before *until*, for about ``STEP_SECONDS``. Returns the day to go on with."""
    days, started = 1, time.monotonic()
    while first < until and time.monotonic() < started + STEP_SECONDS:
        end = min(first + timedelta(days=days), until)
        own = UsageDay.objects.filter(product=product_id, day__gte=first, day__lt=end)
        own.update(users=0, accounts=0)
        sql.execute(_COUNT, {"product": product_id, "first": first, "until": end})
        first, days = end, 2 * days
    return first


def sum_up(product_id: int, day: date) -> None:
    """Write which accounts used what in the days until *day*, from the uses of accounts."""
    own = UsageDay.objects.filter(product=product_id, day=day)
    own.update(used_accounts=0, started_accounts=0, stopped_accounts=0)
    sql.execute(_SUM_UP, {"product": product_id, "day": day, "days": USED_WITHIN})
