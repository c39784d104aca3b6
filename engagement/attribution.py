"""Which account a user's events belong to.

An event belongs to the account that the user was in when it happened: that of the latest sighting
at or before it; before the first sighting, the first one's. Sightings and events arrive in any
order, so a late sighting moves the events that it concerns.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import LiteralString, NamedTuple, TypeAlias

from engagement import sql, stale
from engagement.subjects import UserState, lock_to_move


class Link(NamedTuple):
    """A user was seen in an account at a time. Of two at the same time the later arrival counts."""

    at: datetime
    arrival: int
    account_id: int


# From when on the user was in which account; the first start is None, "from the beginning".
Timeline: TypeAlias = list[tuple[datetime | None, int]]


class Stretch(NamedTuple):
    """A span of one user's time, start included and end not, that belongs to another account
    than before; None is without a bound."""

    start: datetime | None
    end: datetime | None
    account_id: int


class Touched(NamedTuple):
    """Whose counts changed; ``account_id`` is 0 for counts in no account."""

    product_id: int
    user_id: int
    account_id: int


def timeline(links: Iterable[Link]) -> Timeline:
    """The accounts that the user was in, from their sightings in any order."""
    by_time = {link.at: link.account_id for link in sorted(links)}
    changes: Timeline = []
    for at, account_id in by_time.items():
        if not changes:
            changes.append((None, account_id))
        elif changes[-1][1] != account_id:
            changes.append((at, account_id))
    return changes


def moved(before: Timeline, after: Timeline) -> list[Stretch]:
    """Where *after* names another account than *before*."""
    starts = {start for start, _ in before} | {start for start, _ in after}
    ordered = sorted(starts, key=_from_the_beginning)
    stretches = []
    for start, end in pairwise([*ordered, None]):
        account_id = _at(after, start)
        if account_id is not None and account_id != _at(before, start):
            stretches.append(Stretch(start, end, account_id))
    return stretches


def _at(changes: Timeline, moment: datetime | None) -> int | None:
    account_id = None
    for start, started in changes:
        if _from_the_beginning(start) <= _from_the_beginning(moment):
            account_id = started
    return account_id


def _from_the_beginning(moment: datetime | None) -> tuple[bool, datetime | None]:
    """Sorts None before every time."""
    return (moment is not None, moment)


def changes_attribution(user: UserState, links: Sequence[Link]) -> bool:
    """Whether the links say anything new about where the user's events belong."""
    return any(
        link.account_id != user.account_id
        or (user.account_since is not None and link.at < user.account_since)
        for link in links
    )


# --- Sightings ------------------------------------------------------------------------------

_STORE_LINKS: LiteralString = """
    INSERT INTO engagement_membership AS m (product_id, user_id, occurred_at, account_id, arrival)
    SELECT * FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(at)b::timestamptz[],
                         %(accounts)b::bigint[], %(arrivals)b::bigint[])
    ON CONFLICT (product_id, user_id, occurred_at, account_id)
    DO UPDATE SET arrival = GREATEST(m.arrival, EXCLUDED.arrival)
"""
_READ_LINKS: LiteralString = """
    SELECT m.user_id, m.occurred_at, m.arrival, m.account_id
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[]) AS k(product_id, user_id)
    JOIN engagement_membership m USING (product_id, user_id)
"""


def link(links: dict[int, list[Link]], users: dict[int, UserState]) -> set[Touched]:
    """Store the links, by user id, and bring the users' attribution up to date.

    The users' ``account_id`` and ``account_since`` follow; the caller writes them. Stored events
    that now belong to another account are moved to it, with their daily counts; returned is
    whose counts changed.
    """
    changing = [users[id] for id, new in links.items() if changes_attribution(users[id], new)]
    known = [user for user in changing if not user.created]
    lock_to_move(user.id for user in known)
    before = stored_links([(user.product_id, user.id) for user in known])
    _store(links, users)
    stretches: list[tuple[UserState, Stretch]] = []
    for user in changing:
        old = before.get(user.id, [])
        after = timeline([*old, *links[user.id]])
        user.account_since, user.account_id = after[-1]
        if not user.created:
            stretches += [(user, stretch) for stretch in moved(timeline(old), after)]
    return _move_events(stretches)


def _store(links: dict[int, list[Link]], users: dict[int, UserState]) -> None:
    # One row a key: a statement must not meet the same row twice. Sorted by it against deadlocks.
    latest: dict[tuple[int, int, datetime, int], int] = {}
    for user_id, new in links.items():
        for at, arrival, account_id in sorted(new):
            latest[users[user_id].product_id, user_id, at, account_id] = arrival
    rows = sorted(latest.items())
    sql.execute(
        _STORE_LINKS,
        {
            "products": [key[0] for key, _ in rows],
            "users": [key[1] for key, _ in rows],
            "at": [key[2] for key, _ in rows],
            "accounts": [key[3] for key, _ in rows],
            "arrivals": [arrival for _, arrival in rows],
        },
    )


def stored_links(users: Sequence[tuple[int, int]]) -> dict[int, list[Link]]:
    """The links of each user that has any, by user id; *users* are (product id, user id)."""
    if not users:
        return {}
    products, ids = (list(column) for column in zip(*users, strict=True))
    stored: dict[int, list[Link]] = {}
    for user_id, at, arrival, account_id in sql.fetch(
        _READ_LINKS, {"products": products, "users": ids}
    ):
        stored.setdefault(user_id, []).append(Link(at, arrival, account_id))
    return stored


_ACCOUNTS_OF: LiteralString = """
    SELECT DISTINCT m.product_id, m.account_id
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[]) AS k(product_id, user_id)
    JOIN engagement_membership m USING (product_id, user_id)
"""


def accounts_of(users: Iterable[UserState]) -> list[tuple[int, int]]:
    """(product id, account id) of every account that any of the users was ever seen in."""
    wanted = list(users)
    if not wanted:
        return []
    rows = sql.fetch(_ACCOUNTS_OF, _user_arrays(wanted))
    return [(product_id, account_id) for product_id, account_id in rows]


def _user_arrays(users: Sequence[UserState]) -> dict[str, list[int]]:
    return {"products": [user.product_id for user in users], "users": [user.id for user in users]}


# --- Events before the current account ------------------------------------------------------

_ACCOUNT_AT: LiteralString = """
    SELECT COALESCE(latest.account_id, first.account_id)
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(at)b::timestamptz[])
         WITH ORDINALITY AS k(product_id, user_id, at, place)
    LEFT JOIN LATERAL (
        SELECT m.account_id FROM engagement_membership m
        WHERE m.product_id = k.product_id AND m.user_id = k.user_id AND m.occurred_at <= k.at
        ORDER BY m.occurred_at DESC, m.arrival DESC LIMIT 1) latest ON true
    LEFT JOIN LATERAL (
        SELECT m.account_id FROM engagement_membership m
        WHERE m.product_id = k.product_id AND m.user_id = k.user_id
        AND m.occurred_at = (
            SELECT min(f.occurred_at) FROM engagement_membership f
            WHERE f.product_id = k.product_id AND f.user_id = k.user_id)
        ORDER BY m.arrival DESC LIMIT 1) first ON latest.account_id IS NULL
    ORDER BY k.place
"""


def accounts_at(moments: Sequence[tuple[UserState, datetime]]) -> list[int | None]:
    """The account that each user was in at each moment; None for a user never seen in one."""
    found: list[int | None] = []
    earlier: list[int] = []
    for place, (user, at) in enumerate(moments):
        found.append(user.account_id)
        if user.account_since is not None and at < user.account_since:
            earlier.append(place)
    if earlier:
        rows = sql.fetch(
            _ACCOUNT_AT,
            {
                "products": [moments[place][0].product_id for place in earlier],
                "users": [moments[place][0].id for place in earlier],
                "at": [moments[place][1] for place in earlier],
            },
        )
        for place, (account_id,) in zip(earlier, rows, strict=True):
            found[place] = account_id
    return found


# --- Moving events --------------------------------------------------------------------------

_MOVE: LiteralString = """
    WITH moved AS (
        UPDATE engagement_event e SET account_id = k.account_id
        FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(starts)b::timestamptz[],
                    %(ends)b::timestamptz[], %(accounts)b::bigint[])
             AS k(product_id, user_id, start_at, end_at, account_id)
        WHERE e.product_id = k.product_id AND e.user_id = k.user_id
          AND e.occurred_at >= COALESCE(k.start_at, '-infinity')
          AND e.occurred_at < COALESCE(k.end_at, 'infinity')
          AND e.account_id IS DISTINCT FROM k.account_id
        RETURNING e.product_id, e.user_id, (e.occurred_at AT TIME ZONE 'UTC')::date AS day)
    SELECT DISTINCT product_id, user_id, day FROM moved
"""
_FORGET_DAYS: LiteralString = """
    DELETE FROM engagement_dailycount d
    USING unnest(%(products)b::bigint[], %(users)b::bigint[], %(days)b::date[])
          AS k(product_id, user_id, day)
    WHERE d.product_id = k.product_id AND d.user_id = k.user_id AND d.day = k.day
    RETURNING d.product_id, d.user_id, d.account_id
"""
_COUNT_DAYS: LiteralString = """
    INSERT INTO engagement_dailycount
        (product_id, user_id, day, event_name_id, account_id, count, last_at)
    SELECT e.product_id, e.user_id, k.day, e.event_name_id, COALESCE(e.account_id, 0),
           count(*), max(e.occurred_at)
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(days)b::date[])
         AS k(product_id, user_id, day)
    JOIN engagement_event e ON e.product_id = k.product_id AND e.user_id = k.user_id
        AND e.occurred_at >= k.day::timestamp AT TIME ZONE 'UTC'
        AND e.occurred_at < (k.day + 1)::timestamp AT TIME ZONE 'UTC'
    GROUP BY 1, 2, 3, 4, 5
    RETURNING product_id, user_id, account_id
"""


def _move_events(stretches: Sequence[tuple[UserState, Stretch]]) -> set[Touched]:
    """Move stored events and count their days anew; whose counts changed.

    A day is counted from its events, which retention drops by the month: the counts of days
    without events stay as they are.
    """
    if not stretches:
        return set()
    days = sql.fetch(
        _MOVE,
        {
            "products": [user.product_id for user, _ in stretches],
            "users": [user.id for user, _ in stretches],
            "starts": [stretch.start for _, stretch in stretches],
            "ends": [stretch.end for _, stretch in stretches],
            "accounts": [stretch.account_id for _, stretch in stretches],
        },
    )
    if not days:
        return set()
    products, users, dates = (list(column) for column in zip(*days, strict=True))
    stale.mark({stale.since(product, day) for product, day in zip(products, dates, strict=True)})
    arrays = {"products": products, "users": users, "days": dates}
    rows = sql.fetch(_FORGET_DAYS, arrays) + sql.fetch(_COUNT_DAYS, arrays)
    return {Touched(*row) for row in rows}
