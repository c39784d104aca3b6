"""Periodic maintenance of the domain. Any worker may run it."""

from datetime import UTC, date, datetime, timedelta
from typing import LiteralString

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from core import retention
from core.database import clocks, retries, sql
from core.database.partitions import maintain_partitions
from core.retention import OutOfTime, Retention
from engagement import traces
from engagement.limits import limits
from engagement.models import (
    DailyJob,
    ForgottenSubject,
    ProductUsage,
    StoredOrder,
    SubjectTrace,
)

# A membership that arrives at most this late is sorted in exactly.
LATE_MEMBERSHIP_WINDOW = timedelta(days=7)
# Of a user with more memberships older than that, only the last of each day is kept.
MAX_OLD_MEMBERSHIPS = 10_000
# After this time no message that arrived before its subject was forgotten can still be waiting.
FORGOTTEN_RETENTION = timedelta(days=30)
USERS_PER_STATEMENT = 20_000


def register() -> None:
    """Register the times and the retention of the domain."""
    for model, columns in (
        (StoredOrder, ("computed_at", "used_at")),
        (ProductUsage, ("counted_at",)),
    ):
        clocks.register(model, dict.fromkeys(columns, clocks.NOW))
    erased = Q(is_suppressed=False, row_id=None)
    retention.register(
        "engagement",
        Retention(ForgottenSubject, "forgotten_at", lambda: FORGOTTEN_RETENTION, erased),
        Retention(SubjectTrace, "recorded_at", lambda: traces.RETENTION),
    )


def maintain(now: datetime, out_of_time: OutOfTime = lambda: False) -> None:
    """Reset times in the future, maintain the partitions, delete what is past its retention and,
    once a day, thin the memberships.

    Safe to repeat.
    """
    today = now.astimezone(UTC).date()
    clocks.reset_future_times(now)
    with retries.without_missing_nodes():
        maintain_partitions(today, settings.EVENT_RETENTION_DAYS)
    limits.count_usage(now)
    retention.delete_expired("engagement", now, out_of_time)
    if _claim_today("thin links", today):
        thin_memberships(now)


def _claim_today(name: str, today: date) -> bool:
    """Mark the job as done today. Returns False if it was already."""
    with transaction.atomic(durable=True):
        job, _ = DailyJob.objects.select_for_update().get_or_create(name=name)
        if job.day == today:
            return False
        job.day = today
        job.save(update_fields=["day"])
    return True


_USER_RANGES: LiteralString = """
    SELECT product_id, min(user_id), max(user_id) FROM engagement_membership GROUP BY product_id
"""
# A membership that repeats the account of the one before it says nothing new once it is too old for
# another to be sorted in between. If another id of the user said it, it is kept: the ids may part.
_THIN: LiteralString = """
    WITH ranked AS (
        SELECT product_id, user_id, occurred_at, account_id,
               lag(account_id) OVER (
                   PARTITION BY product_id, user_id ORDER BY occurred_at, arrival) AS before,
               lead(occurred_at) OVER (
                   PARTITION BY product_id, user_id ORDER BY occurred_at, arrival) AS next_at,
               COALESCE(id_number, user_id) AS number,
               lag(COALESCE(id_number, user_id)) OVER (
                   PARTITION BY product_id, user_id ORDER BY occurred_at, arrival) AS number_before,
               lag(occurred_at) OVER (
                   PARTITION BY product_id, user_id ORDER BY occurred_at, arrival) AS before_at
        FROM engagement_membership
        WHERE product_id = %(product)s AND user_id >= %(first)s AND user_id < %(end)s)
    DELETE FROM engagement_membership m
    USING ranked r
    WHERE m.product_id = r.product_id AND m.user_id = r.user_id
      AND m.occurred_at = r.occurred_at AND m.account_id = r.account_id
      AND r.before = r.account_id AND r.number_before = r.number AND r.occurred_at < %(before)s
      AND r.before_at < r.occurred_at
      AND r.next_at IS DISTINCT FROM r.occurred_at
"""


# Keeps the first membership: it says where the user was before. Leaves out users with events that
# are still to be moved, because these need the memberships as they are.
_COMPACT: LiteralString = """
    WITH crowded AS MATERIALIZED (
        SELECT user_id FROM engagement_membership
        WHERE product_id = %(product)s AND user_id >= %(first)s AND user_id < %(end)s
          AND occurred_at < %(before)s
        GROUP BY user_id HAVING count(*) > %(most)s),
    ranked AS (
        SELECT m.user_id, m.occurred_at, m.account_id,
               row_number() OVER (
                   PARTITION BY m.user_id, (m.occurred_at AT TIME ZONE 'UTC')::date
                   ORDER BY m.occurred_at DESC, m.arrival DESC) AS from_end,
               min(m.occurred_at) OVER (PARTITION BY m.user_id) AS first_at
        FROM crowded c
        JOIN engagement_membership m ON m.product_id = %(product)s AND m.user_id = c.user_id
        WHERE m.occurred_at < %(before)s
          AND NOT EXISTS (
              SELECT FROM engagement_reattributionrequest r
              WHERE r.product_id = %(product)s AND r.user_id = c.user_id))
    DELETE FROM engagement_membership m
    USING ranked r
    WHERE m.product_id = %(product)s AND m.user_id = r.user_id
      AND m.occurred_at = r.occurred_at AND m.account_id = r.account_id
      AND r.from_end > 1 AND r.occurred_at > r.first_at
"""


def thin_memberships(now: datetime) -> int:
    """Delete old memberships that say nothing new. Returns how many.

    Those are older than LATE_MEMBERSHIP_WINDOW and repeat the one before. A user with more than
    MAX_OLD_MEMBERSHIPS keeps one a day.
    """
    thinned = 0
    for product_id, first, last in sql.fetch(_USER_RANGES):
        for start in range(first, last + 1, USERS_PER_STATEMENT):
            users = {
                "product": product_id,
                "first": start,
                "end": start + USERS_PER_STATEMENT,
                "before": now - LATE_MEMBERSHIP_WINDOW,
            }
            thinned += sql.execute(_THIN, users)
            thinned += sql.execute(_COMPACT, {**users, "most": MAX_OLD_MEMBERSHIPS})
    return thinned
