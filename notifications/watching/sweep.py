"""Sweeps: what changed in the watched sets since the last one, sent exactly once.

A sweep compares a watched set with its stored members. It writes the present members and the
messages in one transaction, so a crash leaves both as they were, and the next sweep finds the same
changes. The first sweep of a subscription stores the members and sends nothing.
"""

import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import LiteralString

from django.db import transaction
from django.db.models import F

from core.database import locks, nodes, sql
from engagement.models import ScoreSet
from notifications.models import Destination, Subscription, Watch
from notifications.watching import conditions, outbox
from notifications.watching.changes import Changes, store_changes
from notifications.watching.watches import WatchedSet, current_scores, is_about_product

logger = logging.getLogger(__name__)

# The largest share of the time that sweeps of all watches together may take.
MAX_TIME_SHARE = 0.1
# The shortest time between two sweeps of a watch.
MIN_PAUSE = timedelta(seconds=10)
# The time between two looks at a condition of a product.
CONDITION_PAUSE = timedelta(minutes=1)
# How long a sweep waits for waiting rescore requests and benchmarks, so that it does not tell of
# what is half computed: ordinarily, and after the day rollover.
MAX_WAIT = timedelta(minutes=1)
MAX_WAIT_FOR_NEW_DAY = timedelta(minutes=15)
# Limit of each statement.
STATEMENT_TIMEOUT_SECONDS = 60.0
MEMBERS_PER_DELETION = 20_000


def sweep(now: datetime, *, out_of_time: Callable[[], bool] = lambda: False) -> int:
    """Sweep the watches that are due. Returns how many. One worker at a time sweeps a watch."""
    _take_over_marks()
    swept = 0
    for pk in _due_watches(now):
        if out_of_time():
            break
        swept += _try_sweep(pk, now)
    return swept


def _take_over_marks() -> None:
    """Mark the watches as stale whose scores changed. Scores that change later mark them again.

    Each set is marked by itself: scoring locks several, and would wait in a circle.
    """
    marked_sets = ScoreSet.objects.filter(watches_stale=True, state=ScoreSet.State.CURRENT)
    workspace_ids = Watch.objects.filter(workspace__isnull=False).values("workspace_id")
    rows = marked_sets.filter(workspace_id__in=workspace_ids).values_list("pk", "workspace_id")
    for pk, workspace_id in rows:
        with transaction.atomic():
            # Waits for scoring that is under way, and then sees what it wrote.
            if ScoreSet.objects.filter(pk=pk, watches_stale=True).update(watches_stale=False):
                Watch.objects.filter(workspace=workspace_id).update(is_stale=True)


def _due_watches(now: datetime) -> list[int]:
    """The ids of the watches that are due, the longest unswept first."""
    rows = nodes.reachable(Watch.objects.only("workspace_id", "is_stale", "swept_at", "seconds"))
    watches = list(rows.order_by(F("swept_at").asc(nulls_first=True), "pk"))
    seconds = sum(watch.seconds for watch in watches)
    pause = max(MIN_PAUSE, timedelta(seconds=seconds / MAX_TIME_SHARE))
    due = []
    for watch in watches:
        is_condition = watch.workspace_id is None
        wait = CONDITION_PAUSE if is_condition else pause
        is_wanted = is_condition or watch.is_stale
        if watch.swept_at is None or (is_wanted and now >= watch.swept_at + wait):
            due.append(watch)
    return [watch.pk for watch in due]


def _try_sweep(pk: int, now: datetime) -> int:
    """Sweep the watch. After a timeout it waits as after a sweep that took that long."""
    try:
        with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
            return _sweep_watch(pk, now)
    except sql.StatementTimeout:
        logger.warning("Sweeping watch %d took too long.", pk)
        Watch.objects.filter(pk=pk).update(swept_at=now, seconds=STATEMENT_TIMEOUT_SECONDS)
        return 0


def _sweep_watch(pk: int, now: datetime) -> int:
    """In the caller's transaction. Returns 1, or 0 if there was nothing to do."""
    product_id = Watch.objects.filter(pk=pk).values_list("product_id", flat=True).first()
    # Keeps forgetting and deletion apart from this transaction.
    if product_id is None or not locks.share_lock_products([product_id]):
        return 0
    free = Watch.objects.select_for_update(skip_locked=True, no_key=True, of=("self",))
    related = ("product", "segment", "workspace__scores")
    watch = free.filter(pk=pk).select_related(*related).first()
    if watch is None:
        return 0
    subscriptions = _live_subscriptions(watch)
    if not subscriptions:
        return _rest(watch, now)
    started = time.monotonic()
    if is_about_product(subscriptions[0]):
        conditions.sweep_condition(watch, subscriptions, now)
    else:
        score_set = current_scores(watch.workspace)
        if score_set is None or _must_wait(watch, score_set, now):
            return 0
        _sweep_set(watch, subscriptions, score_set, now)
    Subscription.objects.filter(pk__in=[each.pk for each in subscriptions], started_at=None).update(
        started_at=now
    )
    watch.swept_at, watch.seconds = now, time.monotonic() - started
    watch.save()
    return 1


def _live_subscriptions(watch: Watch) -> list[Subscription]:
    """Those that are enabled and whose destination is verified. A paused one is notified later."""
    rows = Subscription.objects.filter(watch=watch, is_enabled=True)
    rows = rows.exclude(destination__state=Destination.State.UNVERIFIED)
    related = ("destination", "product", "workspace", "segment", "filter_segment")
    return list(rows.select_related(*related).order_by("pk"))


def _rest(watch: Watch, now: datetime) -> int:
    """A watch without live subscriptions. Deletes it if it has none at all."""
    if Subscription.objects.filter(watch=watch).exists():
        Watch.objects.filter(pk=watch.pk).update(swept_at=now)
    elif not delete_members(watch.product_id, watch.pk):
        watch.delete()
    return 0


_DELETE_MEMBERS: LiteralString = f"""
    DELETE FROM notifications_watchedmember m WHERE {sql.on_node("m")} AND ctid = ANY(ARRAY(
        SELECT ctid FROM notifications_watchedmember
        WHERE product_id = %(product)s AND watch_id = %(watch)s LIMIT %(rows)s))
"""


def delete_members(product_id: int, watch_id: int) -> bool:
    """Delete some stored members of the watch. Returns whether there were any."""
    parameters = {"product": product_id, "watch": watch_id, "rows": MEMBERS_PER_DELETION}
    return bool(sql.execute(_DELETE_MEMBERS, parameters))


# --- One set --------------------------------------------------------------------------------

_HAS_REQUESTS: LiteralString = """
    SELECT EXISTS (SELECT FROM engagement_stalemark WHERE product_id = %(product)s)
"""


def _must_wait(watch: Watch, score_set: ScoreSet, now: datetime) -> bool:
    """Whether to wait until the scores agree with each other. Remembers since when it waits."""
    ((has_requests,),) = sql.fetch(_HAS_REQUESTS, {"product": score_set.product_id})
    if not has_requests and not score_set.benchmarks_stale:
        watch.waiting_since = None
        return False
    if watch.waiting_since is None:
        watch.waiting_since = now
        Watch.objects.filter(pk=watch.pk).update(waiting_since=now)
    is_new_day = watch.swept_day is not None and watch.swept_day != score_set.scored_day
    if now < watch.waiting_since + (MAX_WAIT_FOR_NEW_DAY if is_new_day else MAX_WAIT):
        return True
    watch.waiting_since = None
    return False


def _sweep_set(
    watch: Watch, subscriptions: Sequence[Subscription], score_set: ScoreSet, now: datetime
) -> None:
    watched = WatchedSet(watch, subscriptions[0], score_set)
    is_same_rule = watch.definition == watched.definition
    changes = store_changes(watch, watched)
    _tell(subscriptions, watched, changes, is_same_rule, now)
    watch.definition = watched.definition
    watch.is_stale = False
    watch.swept_day = score_set.scored_day


def _tell(
    subscriptions: Sequence[Subscription],
    watched: WatchedSet,
    changes: Changes,
    is_same_rule: bool,
    now: datetime,
) -> None:
    if not changes:
        return
    for subscription in subscriptions:
        is_told = is_same_rule or subscription.tells_changed_rules
        if subscription.started_at is not None and is_told:
            outbox.write_changes(subscription, watched, changes, now)
