"""Moves the rows of joined users to the users that they are joined to.

A batch moves few rows itself. For a user with more it stores a request, and a job of the product
moves them in bounded steps: first the daily counts, from which scores derive, then the events, and
then the memberships. No new rows come meanwhile, because messages of a joined user are recorded for
the other one.

Events keep their accounts when they move. Only when all of a user's events are there, they are
moved to the accounts that all memberships together say (``reattribution``).
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, LiteralString, NamedTuple

from core.database import sql
from engagement.recording import attribution, daily_counts, moves, reattribution
from engagement.recording.attribution import MembershipRecord
from engagement.recording.daily_counts import CountKey
from engagement.recording.reattribution import Span
from engagement.recording.resolve import UserState, lock_rows, lock_users_for_update
from engagement.scores import rescore_queue

# A batch moves at most this many rows, of at most this many users: each costs some 10 ms.
MAX_ROWS_PER_BATCH = 2_000
MAX_USERS_PER_BATCH = 20
# A background step moves at most this many rows of each kind. The user's messages wait for it.
ROWS_PER_STEP = 5_000

_MICROSECOND = timedelta(microseconds=1)


class JoinedUser(NamedTuple):
    """A joined user, and the one that it is joined to."""

    product_id: int
    user_id: int
    kept_id: int


# --- In the batch ---------------------------------------------------------------------------


def move_or_request(joined: Iterable[tuple[int, int, int]]) -> None:
    """Move the rows of the users (product, user, joined to): at once or, where there are many, by a
    request. All of the users must be locked."""
    users = list(map(JoinedUser._make, joined))
    if not users:
        return
    _move_requests(users)
    at_once, later = _split_users(users)
    # First, because spans of users with requests are not reattributed at once.
    _insert(later)
    for user in at_once:
        _move(user, MAX_ROWS_PER_BATCH + 1)


# Events of the other user at the same moment may have earlier arrivals.
_MOVE_REATTRIBUTION: LiteralString = """
    UPDATE engagement_reattributionrequest SET user_id = %(kept)s, arrival = 0
    WHERE product_id = %(product)s AND user_id = %(user)s
"""


def _move_requests(users: Iterable[JoinedUser]) -> None:
    for product_id, user_id, kept_id in users:
        sql.execute(_MOVE_REATTRIBUTION, {"product": product_id, "user": user_id, "kept": kept_id})


_COUNT: LiteralString = f"""
    SELECT (SELECT count(*) FROM (
                SELECT FROM engagement_dailycount r
                WHERE r.product_id = k.product_id AND r.user_id = k.user_id
                  AND {sql.on_node("r")} LIMIT %(limit)s) few)
         + (SELECT count(*) FROM (
                SELECT FROM engagement_event r
                WHERE r.product_id = k.product_id AND r.user_id = k.user_id
                  AND {sql.on_node("r")} LIMIT %(limit)s) few)
         + (SELECT count(*) FROM (
                SELECT FROM engagement_membership r
                WHERE r.product_id = k.product_id AND r.user_id = k.user_id
                  AND {sql.on_node("r")} LIMIT %(limit)s) few)
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[])
         WITH ORDINALITY AS k(product_id, user_id, place)
    ORDER BY k.place
"""


def _split_users(users: list[JoinedUser]) -> tuple[list[JoinedUser], list[JoinedUser]]:
    """The users with few rows together, and the others. Leaves out users without rows."""
    arrays = sql.arrays(((user.product_id, user.user_id) for user in users), "products", "users")
    counts = sql.fetch(_COUNT, {**arrays, "limit": MAX_ROWS_PER_BATCH + 1})
    at_once: list[JoinedUser] = []
    later: list[JoinedUser] = []
    room = MAX_ROWS_PER_BATCH
    for user, (count,) in zip(users, counts, strict=True):
        if count and count <= room and len(at_once) < MAX_USERS_PER_BATCH:
            room -= count
            at_once.append(user)
        elif count:
            later.append(user)
    return at_once, later


# --- In the background ----------------------------------------------------------------------

_INSERT: LiteralString = """
    INSERT INTO engagement_joinrequest (product_id, user_id)
    SELECT * FROM unnest(%(products)b::bigint[], %(users)b::bigint[])
"""
_DELETE: LiteralString = """
    DELETE FROM engagement_joinrequest
    WHERE product_id = %(product)s AND user_id = ANY(%(users)b::bigint[])
"""
NEXT: LiteralString = """
    SELECT product_id, user_id FROM engagement_joinrequest
    WHERE product_id = %(product)s
    ORDER BY id
    LIMIT 1
"""
_ANY_OF: LiteralString = """
    SELECT r.user_id
    FROM engagement_joinrequest r
    JOIN engagement_user u ON u.id = r.user_id AND u.product_id = r.product_id
    WHERE r.product_id = %(product)s
      AND (u.id = ANY(%(users)b::bigint[]) OR u.joined_to_id = ANY(%(users)b::bigint[]))
    LIMIT 1
"""
_JOINED_TO: LiteralString = f"""
    SELECT joined_to_id FROM engagement_user u
    WHERE id = %(user)s AND joined_to_id IS NOT NULL AND {sql.on_node("u")}
"""


def process_user_requests(product_id: int, user_ids: Collection[int]) -> bool:
    """Process a bounded part of the requests of these users, and of users that are joined to them.
    Returns whether there were any. The product must be locked."""
    rows = sql.fetch(_ANY_OF, {"product": product_id, "users": list(user_ids)})
    for (user_id,) in rows:
        process(product_id, user_id)
    return bool(rows)


def delete_requests(product_id: int, user_ids: Collection[int]) -> None:
    """Delete the requests of users who are being deleted."""
    sql.execute(_DELETE, {"product": product_id, "users": list(user_ids)})


def process(product_id: int, user_id: int) -> None:
    """Move some of the user's rows, and request the rest again."""
    survivor_rows = sql.fetch(_JOINED_TO, {"user": user_id})
    lock_users_for_update([user_id, *(id for (id,) in survivor_rows)])
    if survivor_rows != sql.fetch(_JOINED_TO, {"user": user_id}):
        # It was joined to yet another user meanwhile. The next step sees that one.
        return
    sql.execute(_DELETE, {"product": product_id, "users": [user_id]})
    for (kept_id,) in survivor_rows:
        user = JoinedUser(product_id, user_id, kept_id)
        # Until the last step, so that nothing is reattributed before all events are there.
        _insert([user])
        if _move(user, min(ROWS_PER_STEP, moves.steps.size)):
            sql.execute(_DELETE, {"product": product_id, "users": [user_id]})
            reattribution.request_spans([Span(product_id, kept_id, None, None)])


def _insert(users: Iterable[JoinedUser]) -> None:
    if rows := [(user.product_id, user.user_id) for user in users]:
        sql.execute(_INSERT, sql.arrays(rows, "products", "users"))


# --- Moving rows ----------------------------------------------------------------------------


def _move(user: JoinedUser, limit: int) -> bool:
    """Move up to *limit* rows of each kind. Returns whether all are moved."""
    if _move_counts(user, limit) == limit:
        return False
    times = _move_events(user, limit)
    if len(times) == limit:
        return False
    memberships = _take_memberships(user, limit)
    ((_, survivor),) = lock_rows([user.kept_id])
    changed: set[CountKey] = set()
    if memberships:
        changed |= store_memberships(survivor, memberships)
    if times and survivor.account_id is not None:
        span = Span(user.product_id, survivor.id, min(times), max(times) + _MICROSECOND)
        changed |= reattribution.reattribute_spans([span], len(memberships))
    rescore_queue.enqueue(daily_counts.rescore_items(changed))
    return len(memberships) < limit


_TAKE: LiteralString = """
    DELETE FROM {table} WHERE product_id = %(product)s AND ctid = ANY(ARRAY(
        SELECT ctid FROM {table} WHERE product_id = %(product)s AND user_id = %(user)s
        LIMIT %(limit)s))
    RETURNING {columns}
"""
_TAKE_COUNTS = _TAKE.format(
    table="engagement_dailycount", columns="day, event_name_id, account_id, count, last_at"
)
_TAKE_MEMBERSHIPS = _TAKE.format(
    table="engagement_membership",
    columns="occurred_at, arrival, account_id, COALESCE(id_number, user_id)",
)


def _move_counts(user: JoinedUser, limit: int) -> int:
    rows = sql.fetch(_TAKE_COUNTS, _parameters(user, limit))
    if not rows:
        return 0
    product, survivor = user.product_id, user.kept_id
    counts: dict[CountKey, tuple[int, datetime]] = {
        (product, survivor, day.toordinal(), name, account): (count, last_at)
        for day, name, account, count, last_at in rows
    }
    daily_counts.add(counts)
    rescore_queue.enqueue(daily_counts.rescore_items(counts))
    return len(rows)


_LAST_OF_STEP: LiteralString = """
    SELECT occurred_at, arrival FROM engagement_event
    WHERE product_id = %(product)s AND user_id = %(user)s
    ORDER BY occurred_at, arrival
    OFFSET %(limit)s - 1 LIMIT 1
"""
_MOVE_EVENTS: LiteralString = """
    UPDATE engagement_event
    SET user_id = %(kept)s, id_number = NULLIF(COALESCE(id_number, user_id), %(kept)s)
    WHERE product_id = %(product)s AND user_id = %(user)s
      AND (%(at)s::timestamptz IS NULL
           OR (occurred_at, arrival) <= (%(at)s::timestamptz, %(arrival)s::bigint))
    RETURNING occurred_at
"""


def _move_events(user: JoinedUser, limit: int) -> list[datetime]:
    """Move the user's earliest events. Returns their times."""
    parameters = _parameters(user, limit)
    last = sql.fetch(_LAST_OF_STEP, parameters)
    at, arrival = last[0] if last else (None, None)
    rows = sql.fetch(_MOVE_EVENTS, {**parameters, "at": at, "arrival": arrival})
    return [occurred_at for (occurred_at,) in rows]


def _take_memberships(user: JoinedUser, limit: int) -> list[MembershipRecord]:
    rows = sql.fetch(_TAKE_MEMBERSHIPS, _parameters(user, limit))
    return list(map(MembershipRecord._make, rows))


_SET_ACCOUNT: LiteralString = f"""
    UPDATE engagement_user u SET account_id = %(account)s, account_since = %(since)s
    WHERE id = %(user)s AND {sql.on_node("u")}
"""


def store_memberships(survivor: UserState, memberships: list[MembershipRecord]) -> set[CountKey]:
    """Store the memberships, as if they had been the other user's from the first."""
    accounts = {membership.account_id for membership in memberships}
    if survivor.account_id is not None:
        accounts.add(survivor.account_id)
    changed = attribution.store_memberships({survivor.id: memberships}, {survivor.id: survivor})
    sql.execute(
        _SET_ACCOUNT,
        {"user": survivor.id, "account": survivor.account_id, "since": survivor.account_since},
    )
    rescore_queue.enqueue(
        {rescore_queue.rescore_account(survivor.product_id, account_id) for account_id in accounts}
    )
    return changed


def _parameters(user: JoinedUser, limit: int) -> dict[str, Any]:
    return {
        "product": user.product_id,
        "user": user.user_id,
        "kept": user.kept_id,
        "limit": limit,
    }
