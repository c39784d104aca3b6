"""Parts an id from a user again, with what came with it: events, their counts, and memberships.

The aliases that name the id are deleted. So the user's other ids are one person only as far as the
remaining aliases say: what the id alone held together, comes apart, too. Each part that leaves
gets a row of its own at once, and a job of the product moves its events and memberships there in
bounded steps, with their counts, so that both agree at any time.

Traits stay with the user: nothing says with which id they came. So do counts whose events are no
longer stored.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from django.db import transaction

from core.database import distribution, locks, retries, sql
from engagement.models.activity import NO_ACCOUNT
from engagement.recording import attribution, daily_counts, joining, moving, reattribution
from engagement.recording.aliases import StoredAlias, current_id
from engagement.recording.attribution import MembershipRecord
from engagement.recording.batch import ExternalKey
from engagement.recording.daily_counts import CountKey
from engagement.recording.joining import Person
from engagement.recording.reattribution import Span
from engagement.recording.resolve import lock_rows, lock_users_for_update
from engagement.scores import rescore_queue

# A background step moves at most this many events, and as many memberships.
ROWS_PER_STEP = 5_000


class Part(NamedTuple):
    """Ids that leave a user together, and the one that stands for them."""

    current: str
    ids: list[str]


class Division(NamedTuple):
    """What becomes of a user: the ids that stay, and the parts that leave."""

    staying: Part
    leaving: list[Part]


class Preview(NamedTuple):
    """A part that leaves, and how many events and memberships would move."""

    part: Part
    events: int
    memberships: int


class PartError(Exception):
    """The id cannot be parted. The message tells why."""


# --- Who leaves -----------------------------------------------------------------------------


def divide(shown_id: str, aliases: Collection[StoredAlias], parted: str) -> Division:
    """What becomes of the user with these aliases, shown as *shown_id*, without the aliases that
    name *parted*. Depends on nothing else."""
    rest = [alias for alias in aliases if parted not in (alias.previous_id, alias.new_id)]
    ids = {id for alias in aliases for id in (alias.previous_id, alias.new_id)} - {parted}
    groups: dict[str, set[str]] = {id: {id} for id in ids}
    for alias in rest:
        previous, own = groups[alias.previous_id], groups[alias.new_id]
        if previous is not own:
            own |= previous
            groups |= dict.fromkeys(previous, own)
    distinct = sorted({id(group): sorted(group) for group in groups.values()}.values())
    parts = [
        Part(_current(group, [alias for alias in rest if alias.new_id in group]), group)
        for group in distinct
    ]
    # The part that is shown stays, or the one that joined last.
    last_joined = max(
        (alias for alias in aliases if alias not in rest),
        key=lambda alias: alias.stamp,
    )
    kept_id = shown_id if shown_id != parted else last_joined.previous_id
    kept_id = kept_id if kept_id != parted else last_joined.new_id
    (staying,) = (part for part in parts if kept_id in part.ids)
    return Division(
        staying, [Part(parted, [parted]), *(part for part in parts if part is not staying)]
    )


def _current(ids: Sequence[str], aliases: Sequence[StoredAlias]) -> str:
    return current_id(aliases) if aliases else ids[0]


_ALIASES: LiteralString = """
    SELECT previous_id, new_id, occurred_at, arrival FROM engagement_alias
    WHERE product_id = %(product)s AND user_id = %(user)s
"""
_NUMBERS: LiteralString = """
    SELECT COALESCE(id_number, id) FROM engagement_user
    WHERE product_id = %(product)s AND external_id = ANY(%(ids)b::text[])
"""
_COUNT: LiteralString = """
    SELECT (SELECT count(*) FROM engagement_event
            WHERE product_id = %(product)s AND user_id = %(user)s
              AND COALESCE(id_number, user_id) = ANY(%(numbers)b::bigint[])),
           (SELECT count(*) FROM engagement_membership
            WHERE product_id = %(product)s AND user_id = %(user)s
              AND COALESCE(id_number, user_id) = ANY(%(numbers)b::bigint[]))
"""


def preview(product_id: int, user_id: int, shown_id: str, parted: str) -> list[Preview]:
    """What would leave the user. Raises PartError if the id is not one of several of the user."""
    rows = sql.fetch(_ALIASES, {"product": product_id, "user": user_id})
    aliases = [StoredAlias(previous, new, (at, arrival)) for previous, new, at, arrival in rows]
    _check(aliases, parted)
    previews = []
    for part in divide(shown_id, aliases, parted).leaving:
        numbers = _numbers_of(product_id, part.ids)
        parameters = {"product": product_id, "user": user_id, "numbers": numbers}
        ((events, memberships),) = sql.fetch(_COUNT, parameters)
        previews.append(Preview(part, events, memberships))
    return previews


def _check(aliases: Iterable[StoredAlias], parted: str) -> None:
    if not any(parted in (alias.previous_id, alias.new_id) for alias in aliases):
        raise PartError("The user has no other id with this name any more.")


def _numbers_of(product_id: int, ids: Sequence[str]) -> list[int]:
    rows = sql.fetch(_NUMBERS, {"product": product_id, "ids": list(ids)})
    return [number for (number,) in rows]


# --- Parting --------------------------------------------------------------------------------


def part(product_id: int, parted: str, now: datetime) -> list[Preview]:
    """Part the id from its user. Returns what leaves; its rows follow in the background.

    Raises PartError if the id has no user that has others.
    """

    def work() -> list[Preview]:
        with transaction.atomic(durable=True):
            if not locks.share_lock_products([product_id]):
                raise PartError("The product was deleted.")
            with distribution.on_node_of(product_id):
                return _part(product_id, parted, now)

    return retries.retry_on_conflict(work)


def _part(product_id: int, parted: str, now: datetime) -> list[Preview]:
    persons = joining.lock_known({(product_id, parted)}, set())
    if not persons or not persons[0].aliases:
        raise PartError("The user has no other id with this name any more.")
    person = persons[0]
    user_id, shown_id = person.user.id, person.key[1]
    previews = preview(product_id, user_id, shown_id, parted)
    division = divide(shown_id, person.aliases.values(), parted)
    _delete_aliases(product_id, user_id, parted)
    if division.staying.current != shown_id:
        key: ExternalKey = (product_id, division.staying.current)
        joining.exchange_ids({key: person})
    for each in previews:
        _separate(person, each, now)
    return previews


_DELETE_ALIASES: LiteralString = """
    DELETE FROM engagement_alias
    WHERE product_id = %(product)s AND user_id = %(user)s
      AND %(parted)s IN (previous_id, new_id)
"""


def _delete_aliases(product_id: int, user_id: int, parted: str) -> None:
    sql.execute(_DELETE_ALIASES, {"product": product_id, "user": user_id, "parted": parted})


_FREE: LiteralString = """
    UPDATE engagement_user
    SET joined_to_id = NULL, is_identified = %(identified)s, account_id = NULL,
        account_since = NULL, first_seen_at = %(last)s, last_seen_at = %(last)s
    WHERE product_id = %(product)s AND external_id = %(current)s
    RETURNING id
"""
_LEAD: LiteralString = """
    UPDATE engagement_user SET joined_to_id = %(target)s
    WHERE product_id = %(product)s AND external_id = ANY(%(ids)b::text[]) AND id <> %(target)s
"""
_MOVE_ALIASES: LiteralString = """
    UPDATE engagement_alias SET user_id = %(target)s
    WHERE product_id = %(product)s AND user_id = %(user)s
      AND new_id = ANY(%(ids)b::text[])
"""
_REQUEST: LiteralString = """
    INSERT INTO engagement_partrequest
        (product_id, user_id, target_id, numbers, after_arrival, moved, total, requested_at)
    VALUES (%(product)s, %(user)s, %(target)s, %(numbers)b::bigint[], 0, 0, %(total)s, %(now)s)
"""


def _separate(person: Person, leaving: Preview, now: datetime) -> None:
    """Give the part a row of its own, and request its rows."""
    user, ids = person.user, leaving.part.ids
    common = {"product": user.product_id, "user": user.id, "ids": ids}
    ((target,),) = sql.fetch(
        _FREE,
        {
            **common,
            "current": leaving.part.current,
            "identified": user.is_identified,
            # Until its earliest message is there.
            "last": user.last_seen_at,
        },
    )
    sql.execute(_LEAD, {**common, "target": target})
    sql.execute(_MOVE_ALIASES, {**common, "target": target})
    request = {
        **common,
        "target": target,
        "numbers": _numbers_of(user.product_id, ids),
        "total": leaving.events,
        "now": now,
    }
    del request["ids"]
    sql.execute(_REQUEST, request)
    rescore_queue.enqueue(
        {rescore_queue.rescore_user(user.product_id, id) for id in (user.id, target)}
    )


# --- In the background ----------------------------------------------------------------------


class Request(NamedTuple):
    """A request, with the users that its two rows are joined to by now."""

    id: int
    product_id: int
    user_id: int
    numbers: list[int]
    after_at: datetime | None
    after_arrival: int
    source_id: int
    target_id: int


# Rows that are still to be joined come first: they may have what is to be parted.
_FIND: LiteralString = """
    SELECT r.id, r.product_id, r.user_id, r.numbers, r.after_at, r.after_arrival,
           COALESCE(s.joined_to_id, s.id, r.user_id), COALESCE(t.joined_to_id, t.id, r.target_id)
    FROM engagement_partrequest r
    LEFT JOIN engagement_user s ON s.id = r.user_id AND s.product_id = r.product_id
    LEFT JOIN engagement_user t ON t.id = r.target_id AND t.product_id = r.product_id
"""
_NOT_JOINING: LiteralString = """
    NOT EXISTS (
        SELECT FROM engagement_joinrequest j
        JOIN engagement_user u ON u.id = j.user_id AND u.product_id = j.product_id
        WHERE j.product_id = r.product_id
          AND u.joined_to_id IN (COALESCE(s.joined_to_id, s.id), COALESCE(t.joined_to_id, t.id)))
"""
NEXT: LiteralString = f"""
    {_FIND}
    WHERE r.product_id = %(product)s AND {_NOT_JOINING}
    ORDER BY r.id LIMIT 1
"""
_ANY_OF: LiteralString = f"""
    {_FIND}
    WHERE r.product_id = %(product)s
      AND (COALESCE(s.joined_to_id, s.id, r.user_id) = ANY(%(users)b::bigint[])
           OR COALESCE(t.joined_to_id, t.id, r.target_id) = ANY(%(users)b::bigint[]))
    ORDER BY r.id LIMIT 1
"""
_AGAIN: LiteralString = f"{_FIND} WHERE r.product_id = %(product)s AND r.id = %(id)s"
_DELETE: LiteralString = """
    DELETE FROM engagement_partrequest WHERE product_id = %(product)s AND id = %(id)s
"""
_ADVANCE: LiteralString = """
    UPDATE engagement_partrequest
    SET user_id = %(source)s, after_at = %(at)s, after_arrival = %(arrival)s,
        moved = moved + %(moved)s
    WHERE product_id = %(product)s AND id = %(id)s
"""


def process_user_requests(product_id: int, user_ids: Collection[int]) -> bool:
    """Process a bounded part of the requests to or from these users. Returns whether there were
    any. The product must be locked."""
    rows = sql.fetch(_ANY_OF, {"product": product_id, "users": list(user_ids)})
    for row in rows:
        process(*row)
    return bool(rows)


def process(*row: Any) -> None:
    """Move some of the rows of the request."""
    request = Request._make(row)
    own = {"product": request.product_id, "id": request.id}
    lock_users_for_update([request.source_id, request.target_id])
    if [tuple(request)] != [tuple(row) for row in sql.fetch(_AGAIN, own)]:
        # One of them was joined to yet another user meanwhile. The next step sees that one.
        return
    if request.source_id == request.target_id:
        # An alias has joined them again.
        sql.execute(_DELETE, own)
        return
    if request.source_id != request.user_id:
        request = request._replace(after_at=None, after_arrival=0)
    events = _next_events(request)
    if events:
        _move_events(request, events)
        at, arrival = events[-1]
        advanced = {"source": request.source_id, "at": at, "arrival": arrival}
        sql.execute(_ADVANCE, {**own, **advanced, "moved": len(events)})
    if len(events) < ROWS_PER_STEP and _move_memberships(request):
        sql.execute(_DELETE, own)
        _finish(request)


_NEXT_EVENTS: LiteralString = """
    SELECT occurred_at, arrival FROM engagement_event
    WHERE product_id = %(product)s AND user_id = %(source)s
      AND COALESCE(id_number, user_id) = ANY(%(numbers)b::bigint[])
      AND (%(at)s::timestamptz IS NULL
           OR (occurred_at, arrival) > (%(at)s::timestamptz, %(arrival)s::bigint))
    ORDER BY occurred_at, arrival LIMIT %(limit)s
"""
_MOVE_EVENTS: LiteralString = """
    UPDATE engagement_event e
    SET user_id = %(target)s, id_number = NULLIF(COALESCE(e.id_number, e.user_id), %(target)s)
    FROM unnest(%(at)b::timestamptz[], %(arrivals)b::bigint[]) AS k(occurred_at, arrival)
    WHERE e.product_id = %(product)s AND e.user_id = %(source)s
      AND e.occurred_at = k.occurred_at AND e.arrival = k.arrival
    RETURNING e.occurred_at, e.event_name_id, COALESCE(e.account_id, 0)
"""


def _next_events(request: Request) -> list[tuple[datetime, int]]:
    rows = sql.fetch(
        _NEXT_EVENTS,
        {
            **_parameters(request),
            "numbers": request.numbers,
            "at": request.after_at,
            "arrival": request.after_arrival,
        },
    )
    return [(at, arrival) for at, arrival in rows]


def _move_events(request: Request, events: Sequence[tuple[datetime, int]]) -> None:
    """Move the events and their counts, which stay in their accounts."""
    parameters = _parameters(request)
    del parameters["limit"]
    rows = sql.fetch(_MOVE_EVENTS, {**parameters, **sql.arrays(events, "at", "arrivals")})
    removed = _count(request.product_id, request.source_id, rows)
    added = _count(request.product_id, request.target_id, rows)
    daily_counts.subtract(removed)
    daily_counts.add(added)
    _widen(request, [at for at, *_ in rows])
    rescore_queue.enqueue(daily_counts.rescore_items([*removed, *added]))


def _count(
    product_id: int, user_id: int, events: Iterable[sql.Row]
) -> dict[CountKey, tuple[int, datetime]]:
    counts: dict[CountKey, tuple[int, datetime]] = {}
    for at, name, account in events:
        key = (product_id, user_id, at.toordinal(), name, account or NO_ACCOUNT)
        count, last_at = counts.get(key, (0, at))
        counts[key] = (count + 1, max(at, last_at))
    return counts


_WIDEN: LiteralString = """
    UPDATE engagement_user SET first_seen_at = LEAST(first_seen_at, %(first)s)
    WHERE product_id = %(product)s AND id = %(target)s
"""


def _widen(request: Request, times: Collection[datetime]) -> None:
    if times:
        parameters = {"product": request.product_id, "target": request.target_id}
        sql.execute(_WIDEN, {**parameters, "first": min(times)})


# A membership that several ids said stays, and is copied.
_TAKE_MEMBERSHIPS: LiteralString = """
    DELETE FROM engagement_membership WHERE product_id = %(product)s AND ctid = ANY(ARRAY(
        SELECT ctid FROM engagement_membership
        WHERE product_id = %(product)s AND user_id = %(source)s
          AND COALESCE(id_number, user_id) = ANY(%(numbers)b::bigint[])
        LIMIT %(limit)s))
    RETURNING occurred_at, arrival, account_id, COALESCE(id_number, user_id)
"""
_READ_COMMON: LiteralString = """
    SELECT occurred_at, arrival, account_id, id_number FROM engagement_membership
    WHERE product_id = %(product)s AND user_id = %(source)s AND id_number = 0
"""


def _move_memberships(request: Request) -> bool:
    """Move some memberships. Returns whether all are moved."""
    parameters = {**_parameters(request), "numbers": request.numbers}
    del parameters["target"]
    rows = sql.fetch(_TAKE_MEMBERSHIPS, parameters)
    is_last = len(rows) < ROWS_PER_STEP
    if is_last:
        common = {"product": request.product_id, "source": request.source_id}
        rows += sql.fetch(_READ_COMMON, common)
    if rows:
        ((_, target),) = lock_rows([request.target_id])
        records = list(map(MembershipRecord._make, rows))
        changed = moving.store_memberships(target, records)
        _widen(request, [record.at for record in records])
        rescore_queue.enqueue(daily_counts.rescore_items(changed))
    return is_last


_SET_ACCOUNT: LiteralString = """
    UPDATE engagement_user SET account_id = %(account)s, account_since = %(since)s
    WHERE product_id = %(product)s AND id = %(user)s
"""


def _finish(request: Request) -> None:
    """Bring the user's current account, and the accounts of the events of both, up to date."""
    product_id, source_id = request.product_id, request.source_id
    ((_, source),) = lock_rows([source_id])
    current = attribution.current_accounts(product_id, [source_id])
    account_id, since = current.get(source_id, (None, None))
    accounts = {id for id in (source.account_id, account_id) if id is not None}
    sql.execute(
        _SET_ACCOUNT,
        {"product": product_id, "user": source_id, "account": account_id, "since": since},
    )
    users = sorted((source_id, request.target_id))
    reattribution.request_spans([Span(product_id, user_id, None, None) for user_id in users])
    rescore_queue.enqueue(
        {rescore_queue.rescore_user(product_id, user_id) for user_id in users}
        | {rescore_queue.rescore_account(product_id, id) for id in accounts}
    )


def _parameters(request: Request) -> dict[str, Any]:
    return {
        "product": request.product_id,
        "source": request.source_id,
        "target": request.target_id,
        "limit": ROWS_PER_STEP,
    }
