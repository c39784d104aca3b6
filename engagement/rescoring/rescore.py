"""Keeps scores up to date: works through the rescore queue, and builds requested score sets."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import LiteralString

from django.db import transaction

from core.database import locks, pace, products, sql, statistics
from core.jobs.run import run_due
from engagement import changes, traces
from engagement.metric_names import Scope
from engagement.models import ScoreSet
from engagement.rescoring import activation, day_rollover, sets, stamping
from engagement.scores import (
    account_uses,
    active_days,
    audiences,
    event_names,
    past_benchmarks,
    raw,
    rescore_queue,
)
from engagement.search import entries
from engagement.segments import counts

# A large transaction scores a busy subject once for its many requests. It is smaller when other
# products wait for their turn, or waited a short time ago.
REQUESTS_PER_TRANSACTION, REQUESTS_PER_TURN = 100_000, 20_000
SHARED_SECONDS = 60.0
# While another product is unfinished, the new requests of a finished one wait this long. Each of
# its subjects is scored at most once in this time.
PAUSE_SECONDS = 1.0

QUEUE = "scoring"

# Machines whose clocks differ by less do not take each other's new day back.
CLOCK_TOLERANCE = timedelta(hours=1)

# The product that had the last turn, and when each had its last one.
_last_product = 0
_turns_at: dict[int, float] = {}


def rescore(now: datetime, *, out_of_time: Callable[[], bool] = lambda: False) -> int:
    """Score what is in the rescore queue; return the number of subjects scored.

    Stops at the end of the queue or when *out_of_time* returns true. Requests that arrive meanwhile
    wait for the next call, so that a subject with many requests is scored once. Only one worker at
    a time scores a product; the others skip it.
    """
    today, clock = now.astimezone(UTC).date(), _clock_from(now)
    sets.request_missing_score_sets(today)
    day_rollover.roll_over(today, (now + CLOCK_TOLERANCE).astimezone(UTC).date())
    statistics.analyze_grown_tables()
    scored = _work_in_turns(clock, today, out_of_time)
    run_due(QUEUE, clock, out_of_time)
    return scored


def _clock_from(now: datetime) -> Callable[[], datetime]:
    began = time.monotonic()
    return lambda: now + timedelta(seconds=time.monotonic() - began)


def _work_in_turns(
    clock: Callable[[], datetime], today: date, out_of_time: Callable[[], bool]
) -> int:
    """Work through the queue in turns of one product each; return the number of subjects scored.

    Starts after the product that had the last turn of the previous call. A product with many
    requests gets more turns, but delays the others by one turn only, also those whose requests
    arrive meanwhile.
    """
    global _last_product
    scored = 0
    waiting, met = next_products(set()), set[int]()
    finish_times: dict[int, float] = {}
    while waiting:
        met |= set(waiting)
        limit = REQUESTS_PER_TURN if _is_shared(waiting) else REQUESTS_PER_TRANSACTION
        for product_id in waiting:
            if out_of_time():
                return scored
            statistics.refresh_product(product_id)
            started = clock()
            count, has_more, subjects = _take_turn(product_id, today, limit, out_of_time)
            traces.report_scored(product_id, subjects.users, subjects.accounts, started, clock())
            _last_product = product_id
            _turns_at[product_id] = time.monotonic()
            scored += count
            if has_more:
                finish_times.pop(product_id, None)
            else:
                finish_times[product_id] = time.monotonic()
        waiting = next_products(_resting(finish_times, met))
    return scored


def _is_shared(waiting: Collection[int]) -> bool:
    """Whether several products wait, or had a turn a short time ago: the next message of a quiet
    one must not wait for a large transaction of another."""
    before = time.monotonic() - SHARED_SECONDS
    for product_id in [product_id for product_id, at in _turns_at.items() if at < before]:
        del _turns_at[product_id]
    return len(_turns_at.keys() | set(waiting)) > 1


def _resting(finish_times: Mapping[int, float], met: Set[int]) -> set[int]:
    """The finished products that get no other turn now. If all are finished, the next call is for
    what has arrived."""
    if len(finish_times) == len(met):
        return set(finish_times)
    now = time.monotonic()
    return {product_id for product_id, at in finish_times.items() if now < at + PAUSE_SECONDS}


def next_products(resting: Set[int]) -> list[int]:
    """The unfinished products with requests, in the order of their turns."""
    waiting = products.with_rows("engagement_stalemark")
    ids = [product_id for product_id in waiting if product_id not in resting]
    return sorted(ids, key=lambda product_id: (product_id <= _last_product, product_id))


# --- Turns ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SubjectIds:
    """The ids of users and accounts."""

    users: set[int]
    accounts: set[int]

    def __len__(self) -> int:
        return len(self.users) + len(self.accounts)

    @property
    def by_scope(self) -> dict[Scope, Collection[int]]:
        return {"user": self.users, "account": self.accounts}

    def without(self, others: "SubjectIds") -> "SubjectIds":
        return SubjectIds(self.users - others.users, self.accounts - others.accounts)

    def rescore_items(self, product_id: int) -> list[rescore_queue.RescoreItem]:
        users = [rescore_queue.rescore_user(product_id, id) for id in self.users]
        return users + [rescore_queue.rescore_account(product_id, id) for id in self.accounts]


# Without locking them first, because everybody who deletes them holds the scoring lock.
_TAKE: LiteralString = f"""
    WITH taken AS (
        DELETE FROM engagement_stalemark m
        WHERE {sql.on_node("m")} AND ctid = ANY(ARRAY(
            SELECT ctid FROM engagement_stalemark WHERE product_id = %(product)s
            LIMIT %(limit)s))
        RETURNING user_id, account_id, day, account_change)
    SELECT user_id, account_id, min(day), max(account_change), count(*), bool_and(day IS NOT NULL)
    FROM taken GROUP BY user_id, account_id
"""


def _take_turn(
    product_id: int, today: date, limit: int, out_of_time: Callable[[], bool]
) -> tuple[int, bool, SubjectIds]:
    """Score the subjects of up to *limit* requests; return their number, whether more remain, and
    all that were scored with them.

    Skips a product that another worker scores. A request was committed with its cause, and is
    deleted in the transaction that scores its subject, so this transaction reads that cause.
    Subjects that there is no time for are enqueued again.
    """
    with transaction.atomic(durable=True):
        if not locks.try_lock_scoring(product_id):
            return 0, False, SubjectIds(set(), set())
        requests = sql.fetch(_TAKE, {"product": product_id, "limit": limit})
        subjects = SubjectIds(
            {user for user, *_ in requests if user is not None},
            {account for _, account, *_ in requests if account is not None},
        )
        scoring = _Scoring(today, _settled(requests, today))
        has_more = sum(count for *_, count, _ in requests) == limit
        live_sets = sets.lock_live_score_sets(product_id)
        scored_subjects = SubjectIds(set(), set())
        remaining = _score(live_sets, subjects, scoring, out_of_time, scored_subjects)
        scored = subjects.without(remaining)
        event_names.set_done_by(product_id, scored.users)
        entries.index(product_id, "user", scored.users)
        entries.index(product_id, "account", scored.accounts)
        changed = {id: change for _, id, _, change, *_ in requests if change is not None}
        scored_subjects.users.update(stamping.users_shown_otherwise(product_id, changed))
        changes.stamp(product_id, scored_subjects.by_scope)
        activation.update(product_id, scored_subjects.by_scope)
        rescore_queue.enqueue(remaining.rescore_items(product_id))
        if requests:
            counts.invalidate_scored([score_set.pk for score_set in live_sets])
        late = {id: day for _, id, day, *_ in requests if id is not None and day is not None}
        active_days.note_late(live_sets, late)
        changed_days = [day for _, _, day, *_ in requests if day and day <= today]
        if past_days := [day for day in (*changed_days, *late.values()) if day < today]:
            account_uses.note_late(product_id, late, min(past_days), today)
        if changed_days:
            _invalidate_past(live_sets, min(changed_days), has_more or bool(remaining))
    _raise_last_seen(product_id, sorted(scored.users))
    return len(scored), has_more, scored_subjects


@dataclass(frozen=True)
class _Scoring:
    """The day, and the subjects whose settled counts did not change (``raw.score_users``)."""

    today: date
    settled: SubjectIds


def _settled(requests: Sequence[sql.Row], today: date) -> SubjectIds:
    """The subjects all of whose requests say that nothing changed before the recent days."""
    recent = [
        (user, account)
        for user, account, day, *_, has_days in requests
        if has_days and day >= today - raw.RECENT
    ]
    return SubjectIds({user for user, _ in recent}, {account for _, account in recent})


def _score(
    live_sets: list[ScoreSet],
    subjects: SubjectIds,
    scoring: _Scoring,
    out_of_time: Callable[[], bool],
    scored_subjects: SubjectIds,
) -> SubjectIds:
    """Score the users and then the accounts in all of the sets; return those without time.

    At least one step runs. Adds all that it scored to *scored_subjects*.
    """
    step_size = pace.MAX_SUBJECTS_PER_STATEMENT
    users, accounts = sorted(subjects.users), set(subjects.accounts)
    in_time = True
    while users and in_time:
        step, users = users[:step_size], users[step_size:]
        accounts |= _score_users(live_sets, step, scoring)
        scored_subjects.users.update(step)
        in_time = not out_of_time()
    while accounts and in_time:
        step = sorted(accounts)[:step_size]
        accounts -= set(step)
        accounts |= _score_accounts(live_sets, step, scoring, scored_subjects) - set(step)
        in_time = not out_of_time()
    return SubjectIds(set(users), accounts)


def _score_users(live_sets: list[ScoreSet], ids: list[int], scoring: _Scoring) -> set[int]:
    """Score the users in all of the sets; return the accounts of users who changed audiences."""
    accounts: set[int] = set()
    for score_set in live_sets:
        built_ids = _already_built(score_set, ScoreSet.Phase.USERS, set(ids))
        accounts |= _score_users_in_set(score_set, built_ids, scoring)
    return accounts


def _score_accounts(
    live_sets: list[ScoreSet], ids: list[int], scoring: _Scoring, subjects: SubjectIds
) -> set[int]:
    """Score the accounts in all of the sets.

    Their traits may change the audience: returns the accounts of users who entered or left.
    """
    accounts: set[int] = set()
    subjects.accounts.update(ids)
    for score_set in live_sets:
        users = audiences.users_affected_by_accounts(score_set, ids)
        subjects.users.update(users)
        built_users = _already_built(score_set, ScoreSet.Phase.USERS, users)
        accounts |= _score_users_in_set(score_set, built_users, scoring)
        built_ids = _already_built(score_set, ScoreSet.Phase.ACCOUNTS, set(ids))
        settled = scoring.settled.accounts
        score = partial(raw.score_accounts, score_set, today=scoring.today, settled=settled)
        pace.score_in_chunks(built_ids, score)
    return accounts


def _score_users_in_set(score_set: ScoreSet, ids: set[int], scoring: _Scoring) -> set[int]:
    settled = scoring.settled.users
    score = partial(raw.score_users, score_set, today=scoring.today, settled=settled)
    changed = set[int]().union(*pace.score_in_chunks(ids, score))
    accounts = audiences.accounts_of_users(score_set, changed)
    scoring.settled.accounts.difference_update(accounts)
    if changed:
        day = audiences.first_seen_day(score_set, changed)
        past_benchmarks.invalidate_from([score_set], day)
        active_days.note_late([score_set], dict.fromkeys(accounts, day), is_counted=False)
    return accounts


def _invalidate_past(live_sets: list[ScoreSet], day: date, has_more: bool) -> None:
    """Have the benchmarks from *day* on computed again, after all changed subjects are scored:
    comparison benchmarks are computed from the scores."""
    if live_sets and has_more:
        rescore_queue.enqueue([rescore_queue.rescore_days_since(live_sets[0].product_id, day)])
    else:
        past_benchmarks.invalidate_from(live_sets, day)


def _already_built(score_set: ScoreSet, phase: ScoreSet.Phase, ids: set[int]) -> set[int]:
    """The subjects that the building of the set has passed.

    It will still come to the others, and read what changed. After an import that is nearly all.
    """
    if score_set.state != ScoreSet.State.BUILDING:
        return ids
    phases = list(ScoreSet.Phase)
    phases_ahead = phases.index(ScoreSet.Phase(score_set.phase)) - phases.index(phase)
    if phases_ahead == 0:
        return {id for id in ids if id <= score_set.built_until}
    return ids if phases_ahead > 0 else set()


# Once per user and day: changing a user's row writes most of its indexes. ``last_seen`` knows the
# time. Sorted, against deadlocks, and in short transactions: recording updates users meanwhile.
_RAISE_LAST_SEEN: LiteralString = """
    WITH latest AS (
        SELECT u.id, c.last_at
        FROM engagement_user u
        CROSS JOIN LATERAL (
            SELECT d.last_at FROM engagement_dailycount d
            WHERE d.product_id = %(product)s AND d.user_id = u.id
              AND d.day > (u.last_seen_at AT TIME ZONE 'UTC')::date
            ORDER BY d.day DESC, d.last_at DESC
            LIMIT 1) c
        WHERE u.id = ANY(%(users)b::bigint[]) AND u.product_id = %(product)s
        ORDER BY u.id
        FOR NO KEY UPDATE OF u)
    UPDATE engagement_user u SET last_seen_at = GREATEST(u.last_seen_at, latest.last_at)
    FROM latest WHERE u.id = latest.id AND u.product_id = %(product)s
"""


def _raise_last_seen(product_id: int, user_ids: list[int], chunk: int = 2000) -> None:
    """Raise ``last_seen_at`` of the users to their latest event, if that is of a later day."""
    for start in range(0, len(user_ids), chunk):
        with transaction.atomic(durable=True):
            users = user_ids[start : start + chunk]
            sql.execute(_RAISE_LAST_SEEN, {"product": product_id, "users": users})
