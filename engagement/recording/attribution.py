"""Decides which account a user's events belong to.

An event belongs to the account that the user was in when it happened: the account of the latest
membership at or before it, or of the first membership where there is none before. Memberships and
events arrive in any order, so a late membership moves the events that it concerns.

Storing a membership reads only its stored neighbors, so it costs the same for a user with ten
memberships as for one with a million.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import date, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, LiteralString, NamedTuple, TypeAlias

from core.database import sql
from engagement.models.subjects import SEVERAL_IDS
from engagement.recording import reattribution
from engagement.recording.daily_counts import CountKey
from engagement.recording.reattribution import Span
from engagement.recording.resolve import UserState, lock_users_for_update


class MembershipRecord(NamedTuple):
    """A user belongs to an account from a time on. Of two at one time the later arrival counts.

    ``id_number`` is that of the id which said so, where the membership is to be stored.
    """

    at: datetime
    arrival: int
    account_id: int
    id_number: int = SEVERAL_IDS


# Each account that the user was in, with the start; the first start is None, "from the beginning".
Timeline: TypeAlias = list[tuple[datetime | None, int]]
# A start and an end; None where there is no bound.
Interval: TypeAlias = tuple[datetime | None, datetime | None]


def build_timeline(memberships: Iterable[MembershipRecord]) -> Timeline:
    """The accounts that the user was in. The memberships may be in any order."""
    timeline: Timeline = []
    for at, account_id in _account_by_time(memberships).items():
        if not timeline:
            timeline.append((None, account_id))
        elif timeline[-1][1] != account_id:
            timeline.append((at, account_id))
    return timeline


def _account_by_time(memberships: Iterable[MembershipRecord]) -> dict[datetime, int]:
    """The account that counts at the time of each membership, in order of time."""
    return {membership.at: membership.account_id for membership in sorted(memberships)}


def changed_spans(before: Timeline, after: Timeline) -> list[Interval]:
    """The spans of time in which the timelines differ, in order, each as long as possible."""
    spans: list[Interval] = []
    steps = sorted(
        [(*_from_the_beginning(start), 0, account_id) for start, account_id in before]
        + [(*_from_the_beginning(start), 1, account_id) for start, account_id in after],
        key=itemgetter(0, 1),
    )
    accounts: list[int | None] = [None, None]
    starts: list[datetime | None] = []
    for (_, moment), changes in groupby(steps, key=itemgetter(0, 1)):
        for _, _, which, account_id in changes:
            accounts[which] = account_id
        if (accounts[0] != accounts[1]) == bool(starts):
            continue
        if starts:
            spans.append((starts.pop(), moment))
        else:
            starts.append(moment)
    return spans + [(start, None) for start in starts]


def _from_the_beginning(moment: datetime | None) -> tuple[bool, datetime | None]:
    """Sorts None before every time."""
    return (moment is not None, moment)


def changes_attribution(user: UserState, memberships: Sequence[MembershipRecord]) -> bool:
    """Whether the memberships change which account the user's events belong to."""
    return any(
        membership.account_id != user.account_id
        or (user.account_since is not None and membership.at < user.account_since)
        for membership in memberships
    )


# --- Storing memberships --------------------------------------------------------------------

_STORE: LiteralString = """
    INSERT INTO engagement_membership AS m
        (product_id, user_id, occurred_at, account_id, arrival, id_number)
    SELECT product_id, user_id, occurred_at, account_id, arrival, NULLIF(id_number, user_id)
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(at)b::timestamptz[],
                %(accounts)b::bigint[], %(arrivals)b::bigint[], %(numbers)b::bigint[])
         AS k(product_id, user_id, occurred_at, account_id, arrival, id_number)
    ON CONFLICT (product_id, user_id, occurred_at, account_id)
    DO UPDATE SET
        arrival = GREATEST(m.arrival, EXCLUDED.arrival),
        id_number = CASE WHEN m.id_number IS NOT DISTINCT FROM EXCLUDED.id_number
                         THEN m.id_number ELSE 0 END
"""


def store_memberships(
    memberships: dict[int, list[MembershipRecord]], users: dict[int, UserState]
) -> set[CountKey]:
    """Store the memberships, by user id, and update the users' attribution. Returns which counts
    changed.

    Sets the users' ``account_id`` and ``account_since``; the caller writes them. Moves the stored
    events that now belong to another account, with their daily counts: at once, or soon after
    (``reattribution``).
    """
    changing = [users[id] for id, new in memberships.items() if changes_attribution(users[id], new)]
    existing = [user for user in changing if not user.is_new]
    lock_users_for_update(user.id for user in existing)
    before = _neighbors(existing, memberships)
    _store(memberships, users)
    for user in changing:
        if user.is_new:
            user.account_since, user.account_id = build_timeline(memberships[user.id])[-1]
    _set_current_accounts(existing, before, memberships)
    spans = [
        Span(user.product_id, user.id, *span)
        for user in existing
        for span in _changed_by(before.get(user.id, []), memberships[user.id])
    ]
    return reattribution.reattribute_spans(spans, sum(map(len, memberships.values())))


def _changed_by(neighbors: list[MembershipRecord], new: list[MembershipRecord]) -> list[Interval]:
    """The spans in which the new memberships change the timeline.

    Their stored neighbors suffice: between two of these without a new one nothing changes.
    """
    return changed_spans(build_timeline(neighbors), build_timeline([*neighbors, *new]))


def _store(memberships: dict[int, list[MembershipRecord]], users: dict[int, UserState]) -> None:
    # One row per key: a statement must not write the same row twice. Sorted against deadlocks.
    latest: dict[tuple[int, int, datetime, int], tuple[int, int]] = {}
    for user_id, new in memberships.items():
        for at, arrival, account_id, number in sorted(new):
            key = (users[user_id].product_id, user_id, at, account_id)
            is_same = latest.get(key, (arrival, number))[1] == number
            latest[key] = (arrival, number if is_same else SEVERAL_IDS)
    rows = [(*key, *row) for key, row in sorted(latest.items())]
    columns = ("products", "users", "at", "accounts", "arrivals", "numbers")
    sql.execute(_STORE, sql.arrays(rows, *columns))


# The times before, at, and after each new membership that have memberships, with the one that
# counts at each. Each lookup is one descent of the key, so outdated statistics do not mislead the
# planner.
_READ_NEIGHBORS: LiteralString = f"""
    WITH near AS MATERIALIZED (
        SELECT DISTINCT k.product_id, k.user_id, moment.at
        FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(at)b::timestamptz[])
             AS k(product_id, user_id, at)
        CROSS JOIN LATERAL (VALUES
            (k.at),
            ((SELECT b.occurred_at FROM engagement_membership b
              WHERE b.product_id = k.product_id AND b.user_id = k.user_id AND b.occurred_at < k.at
                AND {sql.on_node("b")}
              ORDER BY b.occurred_at DESC LIMIT 1)),
            ((SELECT a.occurred_at FROM engagement_membership a
              WHERE a.product_id = k.product_id AND a.user_id = k.user_id AND a.occurred_at > k.at
                AND {sql.on_node("a")}
              ORDER BY a.occurred_at LIMIT 1))) AS moment(at)
        WHERE moment.at IS NOT NULL)
    SELECT n.user_id, m.occurred_at, m.arrival, m.account_id
    FROM near n
    CROSS JOIN LATERAL (
        SELECT * FROM engagement_membership m
        WHERE m.product_id = n.product_id AND m.user_id = n.user_id AND m.occurred_at = n.at
          AND {sql.on_node("m")}
        ORDER BY m.arrival DESC LIMIT 1) m
"""


def _neighbors(
    users: Sequence[UserState], memberships: dict[int, list[MembershipRecord]]
) -> dict[int, list[MembershipRecord]]:
    """The stored memberships that count at each new one, and directly before and after it."""
    moments = [(user, at) for user in users for at in {new.at for new in memberships[user.id]}]
    neighbors: dict[int, list[MembershipRecord]] = {}
    if moments:
        for user_id, *stored in sql.fetch(_READ_NEIGHBORS, _moment_arrays(moments)):
            neighbors.setdefault(user_id, []).append(MembershipRecord(*stored))
    return neighbors


# --- The current account --------------------------------------------------------------------

# The first membership after the latest time, up to a bound, at which another account counts.
_FIND_SINCE: LiteralString = f"""
    SELECT k.user_id, (
        SELECT n.occurred_at FROM engagement_membership n
        WHERE n.product_id = k.product_id AND n.user_id = k.user_id
          AND n.occurred_at > other.occurred_at AND {sql.on_node("n")}
        ORDER BY n.occurred_at LIMIT 1)
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(accounts)b::bigint[],
                %(bounds)b::timestamptz[])
         AS k(product_id, user_id, account_id, bound)
    LEFT JOIN LATERAL (
        SELECT m.occurred_at FROM engagement_membership m
        WHERE m.product_id = k.product_id AND m.user_id = k.user_id
          AND m.occurred_at <= COALESCE(k.bound, 'infinity') AND m.account_id <> k.account_id
          AND m.arrival = (
              SELECT max(l.arrival) FROM engagement_membership l
              WHERE l.product_id = m.product_id AND l.user_id = m.user_id
                AND l.occurred_at = m.occurred_at AND {sql.on_node("l")})
          AND {sql.on_node("m")}
        ORDER BY m.occurred_at DESC LIMIT 1) other ON true
"""


def _set_current_accounts(
    users: Sequence[UserState],
    neighbors: dict[int, list[MembershipRecord]],
    memberships: dict[int, list[MembershipRecord]],
) -> None:
    """Set each user's current account by their memberships, which are stored now."""
    searched: list[tuple[UserState, datetime | None]] = []
    for user in users:
        accounts = _account_by_time([*neighbors.get(user.id, []), *memberships[user.id]])
        new = {membership.at for membership in memberships[user.id]}
        last = next(reversed(accounts))
        # The user stays in the same account where a stored membership is later than all new ones.
        account_id = accounts[last] if last in new else user.account_id
        if account_id != user.account_id:
            user.account_id = account_id
            is_certain, user.account_since = _entered_at(accounts, new, account_id)
            if not is_certain:
                searched.append((user, None))
            continue
        # All stored memberships from account_since on name this account, so a membership of
        # another account is new or earlier.
        bounds = [at for at in new if accounts[at] != account_id]
        if user.account_since is not None:
            bounds.append(user.account_since)
        if bounds:
            searched.append((user, max(bounds)))
    if searched:
        since = _find_since(
            (user.product_id, user.id, user.account_id, bound) for user, bound in searched
        )
        for user, _ in searched:
            user.account_since = since[user.id]


def _entered_at(
    accounts: dict[datetime, int], new: Collection[datetime], account_id: int | None
) -> tuple[bool, datetime | None]:
    """Whether the new memberships and their neighbors tell since when the user is in this last
    account, and that time."""
    since = None
    for at, account in reversed(accounts.items()):
        if account != account_id:
            return True, since
        if at not in new:
            # What is stored before this membership was not read.
            return False, None
        since = at
    return True, None


def _find_since(
    rows: Iterable[tuple[int, int, int | None, datetime | None]],
) -> dict[int, datetime | None]:
    """Since when each user is in their account, by user id. Rows: product, user, account, bound."""
    return dict(sql.fetch(_FIND_SINCE, sql.arrays(rows, "products", "users", "accounts", "bounds")))


# --- All memberships of a user --------------------------------------------------------------

_ACCOUNTS_OF: LiteralString = f"""
    SELECT m.product_id, m.account_id, min(k.day)
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(days)b::date[])
         AS k(product_id, user_id, day)
    JOIN engagement_membership m USING (product_id, user_id)
    WHERE {sql.on_node("m")}
    GROUP BY m.product_id, m.account_id
"""


def all_accounts_of(users: Iterable[UserState]) -> dict[tuple[int, int], date]:
    """Every account (product id, account id) that any of the users was ever in, and the first day
    of such a user."""
    rows = [(user.product_id, user.id, user.first_seen_at.date()) for user in users]
    if not rows:
        return {}
    rows_by_account = sql.fetch(_ACCOUNTS_OF, sql.arrays(rows, "products", "users", "days"))
    return {(product_id, account_id): day for product_id, account_id, day in rows_by_account}


_FIND_LAST: LiteralString = """
    SELECT k.user_id, m.account_id
    FROM unnest(%(users)b::bigint[]) AS k(user_id)
    CROSS JOIN LATERAL (
        SELECT account_id FROM engagement_membership m
        WHERE m.product_id = %(product)s AND m.user_id = k.user_id
          AND m.occurred_at = (
              SELECT l.occurred_at FROM engagement_membership l
              WHERE l.product_id = %(product)s AND l.user_id = k.user_id
              ORDER BY l.occurred_at DESC LIMIT 1)
        ORDER BY m.arrival DESC LIMIT 1) m
"""


def current_accounts(
    product_id: int, user_ids: Collection[int]
) -> dict[int, tuple[int, datetime | None]]:
    """Each user's current account, and since when; None since the beginning. Users without
    memberships are left out."""
    last: dict[int, int] = dict(
        sql.fetch(_FIND_LAST, {"product": product_id, "users": list(user_ids)})
    )
    since = _find_since((product_id, user_id, last[user_id], None) for user_id in last)
    return {user_id: (last[user_id], since[user_id]) for user_id in last}


def _moment_arrays(moments: Iterable[tuple[UserState, datetime]]) -> dict[str, list[Any]]:
    rows = ((user.product_id, user.id, at) for user, at in moments)
    return sql.arrays(rows, "products", "users", "at")


# --- Events before the current account ------------------------------------------------------

_ACCOUNT_AT: LiteralString = f"""
    SELECT {reattribution.ACCOUNT_AT.format(row="k", at="at")}
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(at)b::timestamptz[])
         WITH ORDINALITY AS k(product_id, user_id, at, place)
    ORDER BY k.place
"""


def accounts_at(moments: Sequence[tuple[UserState, datetime]]) -> list[int | None]:
    """The account that each user was in at each moment; None for a user without memberships."""
    accounts: list[int | None] = []
    earlier: list[int] = []
    for place, (user, at) in enumerate(moments):
        accounts.append(user.account_id)
        if user.account_since is not None and at < user.account_since:
            earlier.append(place)
    if earlier:
        rows = sql.fetch(_ACCOUNT_AT, _moment_arrays(moments[place] for place in earlier))
        for place, (account_id,) in zip(earlier, rows, strict=True):
            accounts[place] = account_id
    return accounts
