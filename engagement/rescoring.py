"""Recomputes the scores of whatever is marked stale, from the daily counts, in set-based SQL."""

import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import LiteralString

from django.db import transaction
from django.db.models import Q

from engagement import sql
from engagement.models import Workspace

# So many marks are worked off in one transaction: seconds of work where each is of another
# subject, much less where busy subjects have many.
MARKS_PER_TRANSACTION = 100_000
# Benchmarks may take up to this share of the time: on large workspaces they are taken less often.
BENCHMARK_TIME_SHARE = 0.02
# Any number that no other advisory lock of the service uses.
LOCK_CLASS = 0x5C0FE


def rescore(now: datetime, *, out_of_time: Callable[[], bool] = lambda: False) -> int:
    """Work off the stale marks of all products; the number of subjects scored.

    Ends when it has come to the end of the marks, or when *out_of_time* says so: marks that are
    made meanwhile gather for the next call, because a subject marked often is scored once. One
    worker at a time scores a product; whoever finds it taken leaves it to the other.
    """
    today = now.astimezone(UTC).date()
    turn_day(today)
    scored = 0
    for product_id in _products_with_marks():
        more = True
        while more and not out_of_time():
            done, more = _rescore_some(product_id, today)
            scored += done
    refresh_benchmarks(now)
    return scored


# --- Marks ----------------------------------------------------------------------------------

# Walks the index from product to product instead of reading every mark.
_PRODUCTS: LiteralString = """
    WITH RECURSIVE found AS (
        (SELECT product_id FROM engagement_stalemark ORDER BY product_id LIMIT 1)
        UNION ALL
        SELECT (SELECT m.product_id FROM engagement_stalemark m
                WHERE m.product_id > f.product_id ORDER BY m.product_id LIMIT 1)
        FROM found f WHERE f.product_id IS NOT NULL)
    SELECT product_id FROM found WHERE product_id IS NOT NULL
"""
_LOCK: LiteralString = "SELECT pg_try_advisory_xact_lock(%(class)s, %(product)s::integer)"
_TAKE: LiteralString = """
    WITH taken AS (
        DELETE FROM engagement_stalemark
        WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM engagement_stalemark WHERE product_id = %(product)s
            LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
        RETURNING user_id, account_id)
    SELECT user_id, account_id, count(*) FROM taken GROUP BY user_id, account_id
"""


def _products_with_marks() -> list[int]:
    return [product_id for (product_id,) in sql.fetch(_PRODUCTS)]


def _rescore_some(product_id: int, today: date) -> tuple[int, bool]:
    """Work off up to MARKS_PER_TRANSACTION marks of the product, unless somebody else does: how
    many subjects that were, and whether there may be more marks.

    A mark is deleted in the transaction that scores what it names, and it was committed together
    with what made it stale: what this transaction reads after deleting it includes that.
    """
    with transaction.atomic(durable=True):
        ((mine,),) = sql.fetch(_LOCK, {"class": LOCK_CLASS, "product": product_id % 2**31})
        if not mine:
            return 0, False
        marks = sql.fetch(_TAKE, {"product": product_id, "limit": MARKS_PER_TRANSACTION})
        users = sorted(user for user, _, _ in marks if user is not None)
        accounts = sorted(account for _, account, _ in marks if account is not None)
        for workspace in Workspace.objects.filter(product_id=product_id):
            score_users(workspace, users, today)
            score_accounts(workspace, accounts, today)
    _raise_last_seen(users)
    return len(marks), sum(count for _, _, count in marks) == MARKS_PER_TRANSACTION


# --- Raw scores -----------------------------------------------------------------------------

# Subjects are found by id alone: a condition on their product as well would tempt the planner, as
# long as a young table has no statistics, to walk all of the product's subjects instead.
_WEIGHTED: LiteralString = """
    LEFT JOIN engagement_eventweight ew
        ON ew.workspace_id = %(workspace)s AND ew.event_name_id = d.event_name_id
    WHERE d.product_id = %(product)s AND COALESCE(ew.weight, %(default_weight)s) > 0
"""
_SCORE_USERS: LiteralString = (
    """
    INSERT INTO engagement_userengagement AS e
        (product_id, workspace_id, user_id, raw, event_count, active_days, last_active_at)
    SELECT u.product_id, %(workspace)s, u.id, COALESCE(w.raw, 0), COALESCE(w.events, 0),
           COALESCE(w.days, 0), COALESCE(w.last_at, earlier.last_at)
    FROM engagement_user u
    LEFT JOIN LATERAL (
        SELECT sum(d.count * COALESCE(ew.weight, %(default_weight)s)) AS raw,
               sum(d.count) AS events, count(DISTINCT d.day) AS days, max(d.last_at) AS last_at
        FROM engagement_dailycount d"""
    + _WEIGHTED
    + """ AND d.user_id = u.id AND d.day BETWEEN %(first_day)s AND %(last_day)s) w ON true
    LEFT JOIN LATERAL (
        SELECT max(d.last_at) AS last_at
        FROM engagement_dailycount d"""
    + _WEIGHTED
    + """ AND w.last_at IS NULL AND d.user_id = u.id AND d.day < %(first_day)s) earlier ON true
    WHERE u.id = ANY(%(subjects)b::bigint[]) AND u.is_identified
    ORDER BY u.id
    ON CONFLICT (product_id, workspace_id, user_id) DO UPDATE
    SET raw = EXCLUDED.raw, event_count = EXCLUDED.event_count,
        active_days = EXCLUDED.active_days, last_active_at = EXCLUDED.last_active_at
    WHERE (e.raw, e.event_count, e.active_days, e.last_active_at) IS DISTINCT FROM
          (EXCLUDED.raw, EXCLUDED.event_count, EXCLUDED.active_days, EXCLUDED.last_active_at)
"""
)
# An account's score counts the users that are known.
_SCORED_USER: LiteralString = """
    JOIN engagement_user u ON u.id = d.user_id AND u.is_identified
"""
_SCORE_ACCOUNTS: LiteralString = (
    """
    INSERT INTO engagement_accountengagement AS e
        (product_id, workspace_id, account_id, raw, event_count, active_days, active_users,
         last_active_at)
    SELECT a.product_id, %(workspace)s, a.id, COALESCE(w.raw, 0), COALESCE(w.events, 0),
           COALESCE(w.days, 0), COALESCE(w.users, 0), COALESCE(w.last_at, earlier.last_at)
    FROM engagement_account a
    LEFT JOIN LATERAL (
        SELECT sum(d.count * COALESCE(ew.weight, %(default_weight)s)) AS raw,
               sum(d.count) AS events, count(DISTINCT d.day) AS days,
               count(DISTINCT d.user_id) AS users, max(d.last_at) AS last_at
        FROM engagement_dailycount d"""
    + _SCORED_USER
    + _WEIGHTED
    + """ AND d.account_id = a.id AND d.day BETWEEN %(first_day)s AND %(last_day)s) w ON true
    LEFT JOIN LATERAL (
        SELECT max(d.last_at) AS last_at
        FROM engagement_dailycount d"""
    + _SCORED_USER
    + _WEIGHTED
    + """ AND w.last_at IS NULL AND d.account_id = a.id AND d.day < %(first_day)s) earlier ON true
    WHERE a.id = ANY(%(subjects)b::bigint[]) AND a.is_identified
    ORDER BY a.id
    ON CONFLICT (product_id, workspace_id, account_id) DO UPDATE
    SET raw = EXCLUDED.raw, event_count = EXCLUDED.event_count,
        active_days = EXCLUDED.active_days, active_users = EXCLUDED.active_users,
        last_active_at = EXCLUDED.last_active_at
    WHERE (e.raw, e.event_count, e.active_days, e.active_users, e.last_active_at)
          IS DISTINCT FROM (EXCLUDED.raw, EXCLUDED.event_count, EXCLUDED.active_days,
                            EXCLUDED.active_users, EXCLUDED.last_active_at)
"""
)


def window(lookback_days: int, today: date) -> tuple[date, date]:
    """First and last UTC day of the window: *lookback_days* days, today the last of them."""
    return today - timedelta(days=lookback_days - 1), today


def score_users(workspace: Workspace, user_ids: list[int], today: date) -> None:
    """Compute these users' numbers in the workspace; unidentified ones are passed over."""
    _score(_SCORE_USERS, workspace, user_ids, today)


def score_accounts(workspace: Workspace, account_ids: list[int], today: date) -> None:
    """Compute these accounts' numbers, from the events of their known users."""
    _score(_SCORE_ACCOUNTS, workspace, account_ids, today)


def _score(
    statement: LiteralString, workspace: Workspace, subject_ids: list[int], today: date
) -> None:
    if not subject_ids:
        return
    first_day, last_day = window(workspace.lookback_days, today)
    written = sql.execute(
        statement,
        {
            "product": workspace.product_id,
            "workspace": workspace.pk,
            "default_weight": workspace.default_weight,
            "subjects": subject_ids,
            "first_day": first_day,
            "last_day": last_day,
        },
    )
    if written:
        Workspace.objects.filter(pk=workspace.pk, benchmarks_stale=False).update(
            benchmarks_stale=True
        )


# Sorted and short: recording identifies users while this runs.
_RAISE_LAST_SEEN: LiteralString = """
    WITH latest AS (
        SELECT u.id, c.last_at
        FROM engagement_user u
        CROSS JOIN LATERAL (
            SELECT max(d.last_at) AS last_at FROM engagement_dailycount d
            WHERE d.product_id = u.product_id AND d.user_id = u.id AND d.day = (
                SELECT max(l.day) FROM engagement_dailycount l
                WHERE l.product_id = u.product_id AND l.user_id = u.id)) c
        WHERE u.id = ANY(%(users)b::bigint[]) AND c.last_at > u.last_seen_at
        ORDER BY u.id
        FOR NO KEY UPDATE OF u)
    UPDATE engagement_user u SET last_seen_at = GREATEST(u.last_seen_at, latest.last_at)
    FROM latest WHERE u.id = latest.id
"""


def _raise_last_seen(user_ids: list[int], chunk: int = 2000) -> None:
    for start in range(0, len(user_ids), chunk):
        with transaction.atomic(durable=True):
            sql.execute(_RAISE_LAST_SEEN, {"users": user_ids[start : start + chunk]})


# --- Whole workspaces -----------------------------------------------------------------------

_MARK_ALL: LiteralString = """
    INSERT INTO engagement_stalemark (product_id, user_id, account_id)
    SELECT product_id, id, NULL FROM engagement_user
    WHERE product_id = %(product)s AND is_identified
    UNION ALL
    SELECT product_id, NULL, id FROM engagement_account
    WHERE product_id = %(product)s AND is_identified
"""
_MARK_DAYS: LiteralString = """
    WITH crossing AS (
        SELECT DISTINCT d.user_id, NULLIF(d.account_id, 0) AS account_id
        FROM engagement_dailycount d
        WHERE d.product_id = %(product)s
          AND ((d.day >= %(left_from)s AND d.day < %(left_until)s)
               OR (d.day > %(entered_after)s AND d.day <= %(entered_until)s)))
    INSERT INTO engagement_stalemark (product_id, user_id, account_id)
    SELECT DISTINCT %(product)s::bigint, user_id, NULL::bigint FROM crossing
    UNION ALL
    SELECT DISTINCT %(product)s::bigint, NULL::bigint, account_id FROM crossing
    WHERE account_id IS NOT NULL
"""


def request_rescore(workspace_id: int) -> None:
    """Have every subject of the workspace scored again: its weights or its lookback changed."""
    Workspace.objects.filter(pk=workspace_id).update(scored_day=None)


def turn_day(today: date) -> None:
    """Mark stale whoever had activity on a day that leaves or enters a workspace's window.

    Workspaces that were never scored, or are to be scored anew, have everybody marked.
    """
    due = Q(scored_day__lt=today) | Q(scored_day=None)
    for pk in Workspace.objects.filter(due).values_list("pk", flat=True):
        with transaction.atomic(durable=True):
            locked = Workspace.objects.select_for_update(skip_locked=True).filter(due, pk=pk)
            for workspace in locked:
                _mark_turn(workspace, today)
                workspace.scored_day = today
                workspace.save(update_fields=["scored_day"])


def _mark_turn(workspace: Workspace, today: date) -> None:
    if workspace.scored_day is None:
        sql.execute(_MARK_ALL, {"product": workspace.product_id})
        return
    left_from, entered_after = window(workspace.lookback_days, workspace.scored_day)
    left_until, entered_until = window(workspace.lookback_days, today)
    sql.execute(
        _MARK_DAYS,
        {
            "product": workspace.product_id,
            "left_from": left_from,
            "left_until": left_until,
            "entered_after": entered_after,
            "entered_until": entered_until,
        },
    )


# --- Benchmarks -----------------------------------------------------------------------------

_BENCHMARKS: LiteralString = """
    SELECT
        (SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY raw) FROM engagement_userengagement
         WHERE workspace_id = %(workspace)s AND raw > 0),
        (SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY raw) FROM engagement_accountengagement
         WHERE workspace_id = %(workspace)s AND raw > 0)
"""


def refresh_benchmarks(now: datetime) -> None:
    """Take the benchmarks of the workspaces whose scores changed, where they are due again.

    A benchmark is the 90th percentile, linearly interpolated, of the raw scores above zero; None
    where there are none. Every score of the workspace changes with it, at the cost of one UPDATE.
    """
    for workspace in Workspace.objects.filter(benchmarks_stale=True):
        if _is_due(workspace, now):
            _take_benchmarks(workspace, now)


def _is_due(workspace: Workspace, now: datetime) -> bool:
    if workspace.benchmarks_at is None:
        return True
    pause = max(1.0, workspace.benchmark_seconds / BENCHMARK_TIME_SHARE)
    return now >= workspace.benchmarks_at + timedelta(seconds=pause)


def _take_benchmarks(workspace: Workspace, now: datetime) -> None:
    # Cleared first: scores that change while this reads them make it stale again.
    Workspace.objects.filter(pk=workspace.pk).update(benchmarks_stale=False)
    started = time.monotonic()
    ((users, accounts),) = sql.fetch(_BENCHMARKS, {"workspace": workspace.pk})
    Workspace.objects.filter(pk=workspace.pk).update(
        user_benchmark=users,
        account_benchmark=accounts,
        benchmarks_at=now,
        benchmark_seconds=time.monotonic() - started,
    )
