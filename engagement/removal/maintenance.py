"""What the domain needs done now and then, whoever happens to run it."""

from datetime import UTC, date, datetime, timedelta
from typing import LiteralString

from django.conf import settings
from django.db import transaction

from engagement.database import sql
from engagement.database.partitions import maintain_partitions
from engagement.logins import throttle
from engagement.models import DailyJob, ForgottenSubject

# A link may arrive this much late and still be sorted in exactly.
LATE_MEMBERSHIP_WINDOW = timedelta(days=7)
# Of a user with more links older than that, the last of each day is kept.
MAX_OLD_MEMBERSHIPS = 10_000
# By then nothing that arrived before somebody was forgotten can still be on its way.
FORGOTTEN_RETENTION = timedelta(days=30)
# So many users' links are looked at by one statement.
USERS_PER_STATEMENT = 20_000


def maintain(now: datetime) -> None:
    """Keep the partitions, let go of old requests to forget and of what is left of old logins and,
    once a day, thin the links.

    Safe to repeat.
    """
    today = now.astimezone(UTC).date()
    maintain_partitions(today, settings.EVENT_RETENTION_DAYS)
    over = ForgottenSubject.objects.filter(is_suppressed=False, row_id=None)
    over.filter(forgotten_at__lt=now - FORGOTTEN_RETENTION).delete()
    throttle.delete_expired(now)
    if _is_due("thin links", today):
        thin_memberships(now)


def _is_due(chore: str, today: date) -> bool:
    """Whether the chore has not been done today; from now on it counts as done."""
    with transaction.atomic(durable=True):
        done, _ = DailyJob.objects.select_for_update().get_or_create(name=chore)
        if done.day == today:
            return False
        done.day = today
        done.save(update_fields=["day"])
    return True


_USER_RANGES: LiteralString = """
    SELECT product_id, min(user_id), max(user_id) FROM engagement_membership GROUP BY product_id
"""
# A link that repeats the account of the one before it says nothing new once it is too old for
# another to be sorted in between.
_THIN: LiteralString = """
    WITH ranked AS (
        SELECT product_id, user_id, occurred_at, account_id,
               lag(account_id) OVER (
                   PARTITION BY product_id, user_id ORDER BY occurred_at, arrival) AS before,
               lead(occurred_at) OVER (
                   PARTITION BY product_id, user_id ORDER BY occurred_at, arrival) AS next_at,
               lag(occurred_at) OVER (
                   PARTITION BY product_id, user_id ORDER BY occurred_at, arrival) AS before_at
        FROM engagement_membership
        WHERE product_id = %(product)s AND user_id >= %(first)s AND user_id < %(end)s)
    DELETE FROM engagement_membership m
    USING ranked r
    WHERE m.product_id = r.product_id AND m.user_id = r.user_id
      AND m.occurred_at = r.occurred_at AND m.account_id = r.account_id
      AND r.before = r.account_id AND r.occurred_at < %(before)s
      AND r.before_at < r.occurred_at
      AND r.next_at IS DISTINCT FROM r.occurred_at
"""


# The first link stays too: it says where the user was before. Events still to be moved need
# the links as they are.
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
    """Delete links older than LINKS_KEPT that only repeat the one before, and those of users who
    have very many down to one a day; how many."""
    thinned = 0
    for product_id, first, last in sql.fetch(_USER_RANGES):
        for start in range(first, last + 1, USERS_PER_STATEMENT):
            span = {
                "product": product_id,
                "first": start,
                "end": start + USERS_PER_STATEMENT,
                "before": now - LATE_MEMBERSHIP_WINDOW,
            }
            thinned += sql.execute(_THIN, span)
            thinned += sql.execute(_COMPACT, {**span, "most": MAX_OLD_MEMBERSHIPS})
    return thinned
