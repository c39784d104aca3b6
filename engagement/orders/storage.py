"""Computes the stored orders in the background, with a bounded share of the time.

A score set is large for a scope if sorting its rows takes too long for a page. Its standard columns
have stored orders, and so does each trait by which somebody sorts, and each feature
(``engagement.orders.matches``). An order that was used in the last days is kept fresh, the others
are computed again once a day. The orders of a set are deleted with the set.
"""

import logging
import time
from array import array
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import LiteralString

from django.db.models import BooleanField, ExpressionWrapper, F, Func, Q, QuerySet, Value

from core.database import locks, nodes, sql
from core.jobs.kinds import Blocked, Done, Later, Outcome
from core.models import Job
from engagement.metric_names import BOTH_SCOPES
from engagement.models import CachedCounts, OrderChunk, ScoreSet, StoredOrder
from engagement.orders import matches
from engagement.orders.columns import TRAIT_PREFIX, sorted_rows, standard_columns
from engagement.orders.matches import (
    FEATURE_PREFIX,
    MAX_FEATURE_ORDERS,
    MAX_SEGMENT_ORDERS,
    SEGMENT_PREFIX,
)
from engagement.scopes import ACCOUNTS, SubjectKind, get_kind

logger = logging.getLogger(__name__)

# Sorting more rows than this takes too long for a page.
MAX_LIVE_ROWS = 30_000
CHUNK_SIZE = 2_000
# Limit of a statement that computes an order.
STATEMENT_TIMEOUT_SECONDS = 180.0
# A walk through the version before the last one has at least this time.
MIN_INTERVAL = timedelta(minutes=2)
# How long an order is kept fresh after its last use, and how old an unused one may become.
FRESH_AFTER_USE = timedelta(days=2)
UNUSED_INTERVAL = timedelta(days=1)
# An order that somebody asked for is deleted when nobody has used it for this time.
ASKED_RETENTION = timedelta(days=7)
MAX_TRAIT_ORDERS = 20


def is_large(score_set: ScoreSet, kind: SubjectKind) -> bool:
    """Whether the set has too many rows of the kind to sort them for each page."""
    cached: CachedCounts | None = getattr(score_set, "cached_counts", None)
    return cached is not None and getattr(cached, kind.plural) > MAX_LIVE_ROWS


def has_order(score_set: ScoreSet, kind: SubjectKind, column: str) -> bool:
    """Whether the set is large and its order by the column has been computed."""
    orders = StoredOrder.objects.filter(score_set=score_set, scope=kind.scope, column=column)
    return is_large(score_set, kind) and orders.filter(version__gt=0).exists()


def request_order(score_set: ScoreSet, kind: SubjectKind, column: str, now: datetime) -> None:
    """Have an order computed soon, unless the set has too many of its sort already."""
    own = StoredOrder.objects.filter(score_set=score_set, scope=kind.scope)
    limits = {
        TRAIT_PREFIX: MAX_TRAIT_ORDERS,
        FEATURE_PREFIX: MAX_FEATURE_ORDERS,
        SEGMENT_PREFIX: MAX_SEGMENT_ORDERS,
    }
    for prefix, limit in limits.items():
        if column.startswith(prefix) and own.filter(column__startswith=prefix).count() >= limit:
            return
    StoredOrder.objects.bulk_create(
        [_new_order(score_set, kind, column, used_at=now)], ignore_conflicts=True
    )


def _new_order(
    score_set: ScoreSet, kind: SubjectKind, column: str, used_at: datetime | None = None
) -> StoredOrder:
    return StoredOrder(
        product_id=score_set.product_id,
        score_set=score_set,
        scope=kind.scope,
        column=column,
        used_at=used_at,
    )


# --- Refreshing -----------------------------------------------------------------------------


def awaited_orders() -> QuerySet[StoredOrder, int]:
    """The keys of a job: the orders that somebody wants to read and cannot yet."""
    awaited = StoredOrder.objects.filter(computed_at=None, used_at__isnull=False)
    of_current = awaited.filter(score_set__state=ScoreSet.State.CURRENT)
    return nodes.reachable(of_current).order_by("pk").values_list("pk", flat=True)


def compute_awaited(job: Job, now: datetime) -> Outcome:
    """A step of a job: compute the order."""
    order = StoredOrder.objects.filter(pk=job.key).first()
    return Done() if order is None or try_compute(order, now) else Blocked()


def refresh(job: Job, now: datetime) -> Outcome:
    """A step of a job: compute the order that has been due longest."""
    large_sets = _large_sets()
    if not large_sets:
        return Done()
    _delete_unused(now)
    stored_orders = StoredOrder.objects.filter(score_set__in=large_sets)
    # Another worker may have added some of them.
    missing = _missing_orders(large_sets, stored_orders)
    StoredOrder.objects.bulk_create(missing, ignore_conflicts=True)
    due = [each for each in stored_orders.all() if _is_due(each, large_sets, now)]
    due.sort(key=lambda order: (order.computed_at is not None, _due_at(order, now)))
    if not due:
        return Done()
    return Later() if any(try_compute(order, now) for order in due) else Blocked()


def _large_sets() -> dict[int, ScoreSet]:
    too_many = Q(cached_counts__users__gt=MAX_LIVE_ROWS)
    too_many |= Q(cached_counts__accounts__gt=MAX_LIVE_ROWS)
    current = ScoreSet.objects.filter(too_many, state=ScoreSet.State.CURRENT)
    rows = current.select_related("cached_counts").defer("user_quantiles", "account_quantiles")
    return {score_set.pk: score_set for score_set in nodes.reachable(rows)}


def _missing_orders(
    large_sets: Mapping[int, ScoreSet], orders: Iterable[StoredOrder]
) -> list[StoredOrder]:
    """The orders of standard columns that the sets do not have yet."""
    existing = {(order.score_set_id, order.scope, order.column) for order in orders}
    return [
        _new_order(score_set, get_kind(scope), column)
        for score_set in large_sets.values()
        for scope in BOTH_SCOPES
        if is_large(score_set, get_kind(scope))
        for column in _all_columns(score_set, get_kind(scope))
        if (score_set.pk, scope, column) not in existing
    ]


def _all_columns(score_set: ScoreSet, kind: SubjectKind) -> list[str]:
    own = matches.standard_columns(score_set) if kind is ACCOUNTS else []
    return standard_columns(kind.scope) + own


def _delete_unused(now: datetime) -> None:
    prefixes = TRAIT_PREFIX, FEATURE_PREFIX, SEGMENT_PREFIX
    on_demand = Q(*(Q(column__startswith=each) for each in prefixes), _connector=Q.OR)
    for order in StoredOrder.objects.filter(on_demand, used_at__lt=now - ASKED_RETENTION):
        _delete(order)


def _due_at(order: StoredOrder, now: datetime) -> datetime:
    if order.computed_at is None:
        return now
    is_used = order.used_at is not None and now < order.used_at + FRESH_AFTER_USE
    return order.computed_at + (MIN_INTERVAL if is_used else UNUSED_INTERVAL)


def _is_due(order: StoredOrder, large_sets: Mapping[int, ScoreSet], now: datetime) -> bool:
    if order.computed_at is None:
        return True
    # Scores and traits that change make the cached counts stale, too.
    score_set = large_sets[order.score_set_id]
    counts: CachedCounts = score_set.cached_counts
    is_changed = score_set.cached_counts_stale or counts.counted_at > order.computed_at
    return is_changed and now >= _due_at(order, now)


# --- Computing ------------------------------------------------------------------------------


def try_compute(order: StoredOrder, now: datetime) -> bool:
    """Compute the order, in the caller's transaction. Returns False if another worker scores its
    product.

    After a timeout the version before stays.
    """
    # Nobody forgets a subject or deletes the set meanwhile.
    if not locks.try_lock_scoring(order.product_id):
        return False
    try:
        with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
            _compute(order.pk, now)
    except sql.StatementTimeout:
        logger.warning("Computing stored order %d took too long.", order.pk)
        StoredOrder.objects.filter(pk=order.pk).update(computed_at=now)
    return True


# Enough to sort a million rows in memory.
_SORT_IN_MEMORY: LiteralString = "SET LOCAL work_mem = '64MB'"
_COPY_CHUNKS: LiteralString = """
    COPY engagement_orderchunk (product_id, order_id, version, number, ids)
    FROM STDIN (FORMAT BINARY)
"""


def _compute(order_id: int, now: datetime) -> None:
    started = time.monotonic()
    order = StoredOrder.objects.select_for_update(no_key=True).filter(pk=order_id).first()
    current = ScoreSet.objects.filter(state=ScoreSet.State.CURRENT)
    score_set = current.filter(pk=order.score_set_id).first() if order else None
    if order is None or score_set is None:
        return
    ids, present_count = _sorted_ids(score_set, get_kind(order.scope), order.column)
    version = order.version + 1
    chunks = (
        (order.product_id, order.pk, version, number, ids[start : start + CHUNK_SIZE].tolist())
        for number, start in enumerate(range(0, len(ids), CHUNK_SIZE))
    )
    sql.copy(_COPY_CHUNKS, ["int8", "int8", "int8", "int4", "int8[]"], chunks)
    stored_chunks = OrderChunk.objects.filter(product=order.product_id, order=order)
    stored_chunks.filter(version__lt=order.version).delete()
    StoredOrder.objects.filter(pk=order.pk).update(
        version=version,
        row_count=len(ids),
        present_count=present_count,
        previous_row_count=order.row_count,
        previous_present_count=order.present_count,
        computed_at=now,
        seconds=time.monotonic() - started,
    )


def _sorted_ids(score_set: ScoreSet, kind: SubjectKind, column: str) -> tuple["array[int]", int]:
    """The ids in ascending order, and how many of them have a value."""
    sql.execute(_SORT_IN_MEMORY)
    if column.startswith((FEATURE_PREFIX, SEGMENT_PREFIX)):
        matching = array("q", matches.matching_ids(score_set, kind, column))
        return matching, len(matching)
    is_present = ExpressionWrapper(Q(sort_key__isnull=False), BooleanField())
    rows = sorted_rows(score_set, kind, column, descending=False)
    query = rows.annotate(is_present=is_present).values_list(kind.id_column, "is_present").query
    ids, present_count = array("q"), 0
    for id, has_value in sql.stream(*query.sql_with_params(), at_once=20_000):
        ids.append(id)
        present_count += has_value
    return ids, present_count


# --- Deleting -------------------------------------------------------------------------------


def delete_order_of(score_set: ScoreSet) -> bool:
    """Delete one of the set's orders; return whether there was one."""
    order = StoredOrder.objects.filter(score_set=score_set).first()
    if order is not None:
        _delete(order)
    return order is not None


def forget_feature(product_id: int, feature_id: int) -> None:
    """Delete the orders by the feature: its events have changed, or it goes."""
    own = StoredOrder.objects.filter(product=product_id)
    for order in own.filter(column__startswith=f"{FEATURE_PREFIX}{feature_id}:"):
        _delete(order)


def remove_subject(product_id: int, scope: str, subject_id: int) -> None:
    """Remove a forgotten subject's id from all orders."""
    orders = StoredOrder.objects.filter(product=product_id, scope=scope)
    chunks = OrderChunk.objects.filter(
        product=product_id, order__in=list(orders.values_list("pk", flat=True))
    )
    chunks.filter(ids__contains=[subject_id]).update(
        ids=Func(F("ids"), Value(subject_id), Value(0), function="array_replace")
    )


def _delete(order: StoredOrder) -> None:
    # Naming the product lets the key find the chunks.
    OrderChunk.objects.filter(product=order.product_id, order=order).delete()
    StoredOrder.objects.filter(pk=order.pk).delete()
