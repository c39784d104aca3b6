"""Which account a user's events belong to.

An event belongs to the account that the user was in when it happened: that of the latest sighting
at or before it; before the first sighting, the first one's. Sightings and events arrive in any
order, so a late sighting moves the events that it concerns.

A new link is looked at with its stored neighbours alone, so that it costs the same whether a user
has ten links or a million.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, LiteralString, NamedTuple, TypeAlias

from engagement.database import sql
from engagement.recording import reattribution
from engagement.recording.reattribution import Span
from engagement.recording.subjects import UserState, lock_users_for_update
from engagement.scores.rescore_queue import ChangedCount


class MembershipRecord(NamedTuple):
    """A user was seen in an account at a time. Of two at the same time the later arrival counts."""

    at: datetime
    arrival: int
    account_id: int


# From when on the user was in which account; the first start is None, "from the beginning".
Timeline: TypeAlias = list[tuple[datetime | None, int]]


def build_timeline(links: Iterable[MembershipRecord]) -> Timeline:
    """The accounts that the user was in, from their sightings in any order."""
    changes: Timeline = []
    for at, account_id in _winners(links).items():
        if not changes:
            changes.append((None, account_id))
        elif changes[-1][1] != account_id:
            changes.append((at, account_id))
    return changes


def _winners(links: Iterable[MembershipRecord]) -> dict[datetime, int]:
    """The account that counts at each moment of a link, in order of time."""
    return {link.at: link.account_id for link in sorted(links)}


def changed_spans(
    before: Timeline, after: Timeline
) -> list[tuple[datetime | None, datetime | None]]:
    """The spans of time in which *after* names another account than *before*, in order and apart:
    their starts and ends, None without a bound. One pass over both."""
    spans: list[tuple[datetime | None, datetime | None]] = []
    steps = sorted(
        [(*_from_the_beginning(start), 0, account_id) for start, account_id in before]
        + [(*_from_the_beginning(start), 1, account_id) for start, account_id in after],
        key=itemgetter(0, 1),
    )
    accounts: list[int | None] = [None, None]
    began: list[datetime | None] = []
    for (_, moment), there in groupby(steps, key=itemgetter(0, 1)):
        for _, _, which, account_id in there:
            accounts[which] = account_id
        if (accounts[0] != accounts[1]) == bool(began):
            continue
        if began:
            spans.append((began.pop(), moment))
        else:
            began.append(moment)
    return spans + [(start, None) for start in began]


def _from_the_beginning(moment: datetime | None) -> tuple[bool, datetime | None]:
    """Sorts None before every time."""
    return (moment is not None, moment)


def changes_attribution(user: UserState, links: Sequence[MembershipRecord]) -> bool:
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


def store_memberships(
    links: dict[int, list[MembershipRecord]], users: dict[int, UserState]
) -> set[ChangedCount]:
    """Store the links, by user id, and bring the users' attribution up to date.

    The users' ``account_id`` and ``account_since`` follow; the caller writes them. Stored events
    that now belong to another account are moved to it, with their daily counts, at once or soon
    (``reattribution``); returned is whose counts changed.
    """
    changing = [users[id] for id, new in links.items() if changes_attribution(users[id], new)]
    known = [user for user in changing if not user.created]
    lock_users_for_update(user.id for user in known)
    before = _links_around(known, links)
    _store(links, users)
    for user in changing:
        if user.created:
            user.account_since, user.account_id = build_timeline(links[user.id])[-1]
    _enter(known, before, links)
    spans = [
        Span(user.product_id, user.id, *span)
        for user in known
        for span in _changed_by(before.get(user.id, []), links[user.id])
    ]
    return reattribution.reattribute_spans(spans, sum(map(len, links.values())))


def _changed_by(
    old: list[MembershipRecord], new: list[MembershipRecord]
) -> list[tuple[datetime | None, datetime | None]]:
    """Where new links change the timeline. Of the stored links their neighbours do: between two
    of these that no new link touches nothing changes."""
    return changed_spans(build_timeline(old), build_timeline([*old, *new]))


def _store(links: dict[int, list[MembershipRecord]], users: dict[int, UserState]) -> None:
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


# The moments before, at and after each new link that have links, with those that count there. Each
# look is one descent of the key, in its order, so that no statistics lead astray.
_READ_AROUND: LiteralString = """
    WITH near AS MATERIALIZED (
        SELECT DISTINCT k.product_id, k.user_id, moment.at
        FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(at)b::timestamptz[])
             AS k(product_id, user_id, at)
        CROSS JOIN LATERAL (VALUES
            (k.at),
            ((SELECT b.occurred_at FROM engagement_membership b
              WHERE b.product_id = k.product_id AND b.user_id = k.user_id AND b.occurred_at < k.at
              ORDER BY b.occurred_at DESC LIMIT 1)),
            ((SELECT a.occurred_at FROM engagement_membership a
              WHERE a.product_id = k.product_id AND a.user_id = k.user_id AND a.occurred_at > k.at
              ORDER BY a.occurred_at LIMIT 1))) AS moment(at)
        WHERE moment.at IS NOT NULL)
    SELECT n.user_id, m.occurred_at, m.arrival, m.account_id
    FROM near n
    CROSS JOIN LATERAL (
        SELECT * FROM engagement_membership m
        WHERE m.product_id = n.product_id AND m.user_id = n.user_id AND m.occurred_at = n.at
        ORDER BY m.arrival DESC LIMIT 1) m
"""


def _links_around(
    users: Sequence[UserState], links: dict[int, list[MembershipRecord]]
) -> dict[int, list[MembershipRecord]]:
    """The stored links that count at, and directly before and after, each of the new *links*."""
    moments = [(user, at) for user in users for at in {link.at for link in links[user.id]}]
    around: dict[int, list[MembershipRecord]] = {}
    if moments:
        for user_id, *stored in sql.fetch(_READ_AROUND, _moment_arrays(moments)):
            around.setdefault(user_id, []).append(MembershipRecord(*stored))
    return around


# --- The current account --------------------------------------------------------------------

# After the latest moment, up to a bound, at which another account counts.
_FIND_SINCE: LiteralString = """
    SELECT k.user_id, (
        SELECT n.occurred_at FROM engagement_membership n
        WHERE n.product_id = k.product_id AND n.user_id = k.user_id
          AND n.occurred_at > other.occurred_at
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
                AND l.occurred_at = m.occurred_at)
        ORDER BY m.occurred_at DESC LIMIT 1) other ON true
"""


def _enter(
    users: Sequence[UserState],
    before: dict[int, list[MembershipRecord]],
    links: dict[int, list[MembershipRecord]],
) -> None:
    """Put the users into the accounts that their links, now stored, say they are in."""
    searched: list[tuple[UserState, datetime | None]] = []
    for user in users:
        winners = _winners([*before.get(user.id, []), *links[user.id]])
        new = {link.at for link in links[user.id]}
        last = next(reversed(winners))
        # Where a stored link comes after all new ones the user stays in the same account.
        account_id = winners[last] if last in new else user.account_id
        if account_id != user.account_id:
            user.account_id = account_id
            is_known, user.account_since = _entered(winners, new, account_id)
            if not is_known:
                searched.append((user, None))
            continue
        # From the known start on all stored links name this account, so others are new or before.
        bounds = [at for at in new if winners[at] != account_id]
        if user.account_since is not None:
            bounds.append(user.account_since)
        if bounds:
            searched.append((user, max(bounds)))
    if searched:
        rows = sql.fetch(
            _FIND_SINCE,
            {
                **_user_arrays([user for user, _ in searched]),
                "accounts": [user.account_id for user, _ in searched],
                "bounds": [bound for _, bound in searched],
            },
        )
        since: dict[int, datetime | None] = dict(rows)
        for user, _ in searched:
            user.account_since = since[user.id]


def _entered(
    winners: dict[datetime, int], new: Collection[datetime], account_id: int | None
) -> tuple[bool, datetime | None]:
    """Whether the links around the new ones tell since when the user is in this last account, and
    since when."""
    since = None
    for at, account in reversed(winners.items()):
        if account != account_id:
            break
        if at not in new:
            # What lies before a stored link was not read.
            return False, None
        since = at
    else:
        since = None
    return True, since


# --- All links of a user --------------------------------------------------------------------

_ACCOUNTS_OF: LiteralString = """
    SELECT DISTINCT m.product_id, m.account_id
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[]) AS k(product_id, user_id)
    JOIN engagement_membership m USING (product_id, user_id)
"""


def all_accounts_of(users: Iterable[UserState]) -> list[tuple[int, int]]:
    """(product id, account id) of every account that any of the users was ever seen in."""
    wanted = list(users)
    if not wanted:
        return []
    rows = sql.fetch(_ACCOUNTS_OF, _user_arrays(wanted))
    return [(product_id, account_id) for product_id, account_id in rows]


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
    """The account that each user who has links is in, and since when; None since the beginning."""
    last: dict[int, int] = dict(
        sql.fetch(_FIND_LAST, {"product": product_id, "users": list(user_ids)})
    )
    rows = sql.fetch(
        _FIND_SINCE,
        {
            "products": [product_id] * len(last),
            "users": list(last),
            "accounts": list(last.values()),
            "bounds": [None] * len(last),
        },
    )
    return {user_id: (last[user_id], since) for user_id, since in rows}


def _user_arrays(users: Sequence[UserState]) -> dict[str, list[int]]:
    return {"products": [user.product_id for user in users], "users": [user.id for user in users]}


def _moment_arrays(moments: Sequence[tuple[UserState, datetime]]) -> dict[str, list[Any]]:
    return {**_user_arrays([user for user, _ in moments]), "at": [at for _, at in moments]}


# --- Events before the current account ------------------------------------------------------

_ACCOUNT_AT: LiteralString = """
    SELECT (
        SELECT m.account_id FROM engagement_membership m
        WHERE m.product_id = k.product_id AND m.user_id = k.user_id
          AND m.occurred_at = COALESCE(
              (SELECT l.occurred_at FROM engagement_membership l
               WHERE l.product_id = k.product_id AND l.user_id = k.user_id
                 AND l.occurred_at <= k.at
               ORDER BY l.occurred_at DESC LIMIT 1),
              (SELECT f.occurred_at FROM engagement_membership f
               WHERE f.product_id = k.product_id AND f.user_id = k.user_id
               ORDER BY f.occurred_at LIMIT 1))
        ORDER BY m.arrival DESC LIMIT 1)
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(at)b::timestamptz[])
         WITH ORDINALITY AS k(product_id, user_id, at, place)
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
        rows = sql.fetch(_ACCOUNT_AT, _moment_arrays([moments[place] for place in earlier]))
        for place, (account_id,) in zip(earlier, rows, strict=True):
            found[place] = account_id
    return found
