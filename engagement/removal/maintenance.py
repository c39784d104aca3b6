"""Periodic maintenance of the domain. Any worker may run it."""

from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from core import retention
from core.database import clocks, nodes, packing, retries, sql
from core.database.partitions import maintain_partitions
from core.jobs.kinds import Blocked, Done, Later, More, Outcome
from core.models import Job
from core.retention import OutOfTime, Retention
from engagement import traces
from engagement.limits import limits
from engagement.models import (
    ForgottenSubject,
    Product,
    ProductUsage,
    StoredOrder,
    SubjectTrace,
)
from engagement.models.kept_defaults import event_retention_days

# A membership that arrives at most this late is sorted in exactly.
LATE_MEMBERSHIP_WINDOW = timedelta(days=7)
# Of a user with more memberships older than that, only the last of each day is kept.
MAX_OLD_MEMBERSHIPS = 10_000
# After this time no message that arrived before its subject was forgotten can still be waiting.
FORGOTTEN_RETENTION = timedelta(days=30)
USERS_PER_STATEMENT = 20_000


def register() -> None:
    """Register the times and the retention of the domain."""
    clocks.register(StoredOrder, dict.fromkeys(("computed_at", "used_at"), clocks.NOW))
    clocks.register(ProductUsage, {"counted_at": clocks.NOW})
    erased = Q(is_suppressed=False, row_id=None)
    retention.register(
        "engagement",
        Retention(ForgottenSubject, "forgotten_at", lambda: FORGOTTEN_RETENTION, erased),
        Retention(SubjectTrace, "recorded_at", lambda: traces.RETENTION),
    )


def maintain(now: datetime, out_of_time: OutOfTime = lambda: False) -> None:
    """Reset times in the future, maintain the partitions, and delete what is past its retention.

    Safe to repeat.
    """
    clocks.reset_future_times(now)
    with retries.without_missing_nodes():
        maintain_partitions(now.astimezone(UTC).date(), event_retention_days())
    limits.count_usage(now)
    retention.delete_expired("engagement", now, out_of_time)
    _delete_old_trait_changes(now, out_of_time)
    _give_up_packing()


PACK_EVENTS = "pack events"
# Somebody reads or writes all the time. The next moment may be a better one.
PACKING_PAUSE = timedelta(minutes=1)


def _give_up_packing() -> None:
    """Remove the table of a packing that rests: forgotten people must not be in it until it goes
    on."""
    resting = Job.objects.filter(Q(is_paused=True) | Q(failures__gt=0), kind=PACK_EVENTS)
    with transaction.atomic():
        if resting.select_for_update(skip_locked=True).first():
            packing.give_up()


def pack_events(job: Job, now: datetime) -> Outcome:
    """A step of a job: go on with packing the events of a week that is over."""
    if nodes.missing_products():
        return Blocked()
    try:
        cursor = packing.pack_some(job.cursor, now.astimezone(UTC).date())
    except packing.Busy:
        return Later(now + PACKING_PAUSE, job.cursor)
    return Done() if cursor is None else More(cursor)


_DELETE_TRAIT_CHANGES: LiteralString = """
    DELETE FROM engagement_traitchange
    WHERE product_id = %(product)s AND (account_id, name, day) IN (
        SELECT account_id, name, day FROM engagement_traitchange
        WHERE product_id = %(product)s AND day < %(before)s LIMIT %(limit)s)
"""


def _delete_old_trait_changes(now: datetime, out_of_time: OutOfTime) -> None:
    """Product by product, because the table is distributed."""
    products = nodes.reachable(Product.objects.all(), "pk").order_by("pk")
    before = (now - timedelta(days=settings.TRAIT_HISTORY_RETENTION_DAYS)).date()
    for product_id in products.values_list("pk", flat=True):
        rows = {"product": product_id, "before": before, "limit": retention.CHUNK_ROWS}
        while not out_of_time() and sql.execute(_DELETE_TRAIT_CHANGES, rows) == rows["limit"]:
            pass


_NEXT_USER: LiteralString = """
    SELECT min(user_id) FROM engagement_membership
    WHERE product_id = %(product)s AND user_id >= %(first)s
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
    WHERE m.product_id = %(product)s AND m.user_id = r.user_id
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


def thin_memberships(job: Job, now: datetime) -> Outcome:
    """A step of a job: delete memberships of the next users of a product that say nothing new.

    Those are older than LATE_MEMBERSHIP_WINDOW and repeat the one before. A user with more than
    MAX_OLD_MEMBERSHIPS keeps one a day.
    """
    last_product, first = job.cursor or (0, 0)
    products = nodes.reachable(Product.objects.filter(pk__gte=last_product), "pk")
    product = products.order_by("pk").first()
    if product is None:
        return Done()
    users: dict[str, Any] = {
        "product": product.pk,
        "first": first if product.pk == last_product else 0,
    }
    ((start,),) = sql.fetch(_NEXT_USER, users)
    if start is None:
        return More([product.pk + 1, 0])
    end, before = start + USERS_PER_STATEMENT, now - LATE_MEMBERSHIP_WINDOW
    users |= {"first": start, "end": end, "before": before, "most": MAX_OLD_MEMBERSHIPS}
    sql.execute(_THIN, users)
    sql.execute(_COMPACT, users)
    return More([product.pk, end])
