"""Keeps scores up to date: works off what is marked stale, and builds the sets asked for."""

from collections.abc import Callable, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from typing import LiteralString

from django.db import transaction

from engagement.database import locks, pace, sql, statistics
from engagement.models import ScoreSet
from engagement.rescoring import day_rollover, sets
from engagement.scores import (
    audiences,
    benchmarks,
    event_names,
    past_benchmarks,
    raw,
    rescore_queue,
)
from engagement.segments import counts

# So many marks of a product are worked off in one transaction: a busy subject that has many of them
# is scored once. Fewer where other products wait for their turn.
REQUESTS_PER_TRANSACTION, REQUESTS_PER_TURN = 100_000, 20_000

# The product whose turn was the last one.
_last_product = 0


def rescore(now: datetime, *, out_of_time: Callable[[], bool] = lambda: False) -> int:
    """Work off the stale marks of all products; the number of subjects scored.

    Ends when it has come to the end of the marks, or when *out_of_time* says so: marks that are
    made meanwhile gather for the next call, because a subject marked often is scored once. One
    worker at a time scores a product; whoever finds it taken leaves it to the other.
    """
    today = now.astimezone(UTC).date()
    sets.request_missing_score_sets()
    day_rollover.roll_over(today)
    statistics.analyze_grown_tables()
    scored = _work_off_in_turns(today, out_of_time)
    sets.build_requested(now, today, out_of_time)
    past_benchmarks.refresh_due(now, out_of_time)
    benchmarks.refresh_due(now)
    counts.refresh_due(now)
    sets.delete_retired(now, out_of_time)
    return scored


def _work_off_in_turns(today: date, out_of_time: Callable[[], bool]) -> int:
    """Work off marks product by product, some of each at a time; the number of subjects scored.

    Begins behind the product at which the last call ended. A product with many marks has more
    turns than others, which it does not keep waiting for longer than one of them.
    """
    global _last_product
    scored = 0
    waiting, met = _in_turn(set()), set[int]()
    while waiting:
        met |= set(waiting)
        limit = REQUESTS_PER_TRANSACTION if len(waiting) == 1 else REQUESTS_PER_TURN
        unfinished = set()
        for product_id in waiting:
            if out_of_time():
                return scored
            done, more = _rescore_some(product_id, today, limit, out_of_time)
            _last_product = product_id
            scored += done
            if more:
                unfinished.add(product_id)
        waiting = _in_turn(met - unfinished)
    return scored


def _in_turn(passed_over: Set[int]) -> list[int]:
    """The products that have marks, those apart that had all their turns, the next one first."""
    found = [product_id for (product_id,) in sql.fetch(_PRODUCTS) if product_id not in passed_over]
    return [one for one in found if one > _last_product] + [
        one for one in found if one <= _last_product
    ]


# --- Marks ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SubjectIds:
    """Users and accounts, by their ids."""

    users: set[int]
    accounts: set[int]

    def __len__(self) -> int:
        return len(self.users) + len(self.accounts)

    def without(self, others: "SubjectIds") -> "SubjectIds":
        return SubjectIds(self.users - others.users, self.accounts - others.accounts)

    def rescore_items(self, product_id: int) -> list[rescore_queue.RescoreItem]:
        users = [rescore_queue.rescore_user(product_id, id) for id in self.users]
        return users + [rescore_queue.rescore_account(product_id, id) for id in self.accounts]


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
_TAKE: LiteralString = """
    WITH taken AS (
        DELETE FROM engagement_stalemark
        WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM engagement_stalemark WHERE product_id = %(product)s
            LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
        RETURNING user_id, account_id, day)
    SELECT user_id, account_id, min(day), count(*) FROM taken GROUP BY user_id, account_id
"""


def _rescore_some(
    product_id: int, today: date, limit: int, out_of_time: Callable[[], bool]
) -> tuple[int, bool]:
    """Work off up to *limit* marks of the product, unless somebody else does: how many subjects
    that were, and whether there may be more marks.

    A mark is deleted in the transaction that scores what it names, and it was committed together
    with what made it stale: what this transaction reads after deleting it includes that. What time
    does not suffice for is marked again.
    """
    with transaction.atomic(durable=True):
        if not locks.try_lock_scoring(product_id):
            return 0, False
        marks = sql.fetch(_TAKE, {"product": product_id, "limit": limit})
        subjects = SubjectIds(
            {user for user, *_ in marks if user is not None},
            {account for _, account, *_ in marks if account is not None},
        )
        more = sum(count for *_, count in marks) == limit
        live = sets.lock_live_score_sets(product_id)
        left = _score(live, subjects, today, out_of_time)
        event_names.set_done_by(product_id, subjects.without(left).users)
        rescore_queue.enqueue(left.rescore_items(product_id))
        if marks:
            counts.invalidate([score_set.pk for score_set in live])
        if changed := [day for *_, day, _ in marks if day is not None]:
            _outdate_past(live, min(changed), more or bool(left))
    done = subjects.without(left)
    _raise_last_seen(sorted(done.users))
    return len(done), more


def _score(
    live: list[ScoreSet], subjects: SubjectIds, today: date, out_of_time: Callable[[], bool]
) -> SubjectIds:
    """Score users, and then accounts, in all of the sets, some at a time, until time is up; those
    that are left then. Some are always scored."""
    users, accounts = sorted(subjects.users), set(subjects.accounts)
    in_time = True
    while users and in_time:
        some, users = (
            users[: pace.MAX_SUBJECTS_PER_STATEMENT],
            users[pace.MAX_SUBJECTS_PER_STATEMENT :],
        )
        accounts |= _score_users(live, some, today)
        in_time = not out_of_time()
    while accounts and in_time:
        some = sorted(accounts)[: pace.MAX_SUBJECTS_PER_STATEMENT]
        accounts -= set(some)
        accounts |= _score_accounts(live, some, today) - set(some)
        in_time = not out_of_time()
    return SubjectIds(set(users), accounts)


def _score_users(live: list[ScoreSet], ids: list[int], today: date) -> set[int]:
    """Score the users in all of the sets; the accounts of those who entered or left an audience."""
    concerned: set[int] = set()
    for score_set in live:
        possibly = _passed(score_set, ScoreSet.Phase.USERS, set(ids))
        concerned |= _turn_users(score_set, possibly, today)
    return concerned


def _score_accounts(live: list[ScoreSet], ids: list[int], today: date) -> set[int]:
    """Score the accounts in all of the sets; those that their users concern who entered or left."""
    concerned: set[int] = set()
    for score_set in live:
        users = audiences.users_affected_by_accounts(score_set, ids)
        concerned |= _turn_users(score_set, _passed(score_set, ScoreSet.Phase.USERS, users), today)
        some = _passed(score_set, ScoreSet.Phase.ACCOUNTS, set(ids))
        pace.score_in_chunks(some, partial(raw.score_accounts, score_set, today=today))
    return concerned


def _turn_users(score_set: ScoreSet, ids: set[int], today: date) -> set[int]:
    score = partial(raw.score_users, score_set, today=today)
    turned = set[int]().union(*pace.score_in_chunks(ids, score))
    if turned:
        past_benchmarks.invalidate_from([score_set], audiences.first_seen_day(turned))
    return audiences.accounts_of_users(score_set, turned)


def _outdate_past(live: list[ScoreSet], day: date, more: bool) -> None:
    """Have the benchmarks from *day* on taken again once all are scored whose counts changed.

    What scores are compared with is read from the scores.
    """
    if live and more:
        rescore_queue.enqueue([rescore_queue.rescore_days_since(live[0].product_id, day)])
    else:
        past_benchmarks.invalidate_from(live, day)


def _passed(score_set: ScoreSet, phase: ScoreSet.Phase, ids: set[int]) -> set[int]:
    """Those of the users or accounts that are not still ahead of the set's building, which will
    read what made them stale: after an import that is nearly everybody."""
    phases = list(ScoreSet.Phase)
    if score_set.state != ScoreSet.State.BUILDING:
        return ids
    come_to = phases.index(ScoreSet.Phase(score_set.phase)) - phases.index(phase)
    if come_to == 0:
        return {id for id in ids if id <= score_set.built_until}
    return ids if come_to > 0 else set()


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
