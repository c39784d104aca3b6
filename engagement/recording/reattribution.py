"""Moves stored events to other accounts after memberships that arrived late.

A batch moves few events itself. For more events it stores a request for the span of the user's time
that changed, and a job of the product moves them in bounded steps. An event in the wrong account
always lies in the span of a request: memberships and requests are written in the same transaction,
and each step reads the memberships again, under the lock that keeps both from changing.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, LiteralString, NamedTuple

from core.database import sql
from engagement.models.activity import NO_ACCOUNT
from engagement.recording import daily_counts, moves
from engagement.recording.daily_counts import CountKey
from engagement.recording.resolve import lock_users_for_update
from engagement.scores import rescore_queue

# A batch moves the events of days with at most this many, or twice as many as it has memberships.
MAX_EVENTS_PER_BATCH = 1_000
# A background step examines at most this many events. The user's messages wait for it.
EVENTS_PER_STEP = 5_000
# A batch that changes more separate spans of one user requests all that lies between them.
MAX_SPANS_PER_USER = 100


class Span(NamedTuple):
    """A span of one user's time, with its start and without its end; None is without a bound.

    Events at the very start that arrived before ``arrival`` are left out.
    """

    product_id: int
    user_id: int
    start: datetime | None
    end: datetime | None
    arrival: int = 0


class EventAttribution(NamedTuple):
    """A stored event: the account that it is in, and the one that it belongs to."""

    product_id: int
    user_id: int
    occurred_at: datetime
    arrival: int
    event_name_id: int
    account_id: int | None
    correct_account_id: int | None


# --- In the batch ---------------------------------------------------------------------------


def reattribute_spans(spans: Sequence[Span], membership_count: int) -> set[CountKey]:
    """Move the events of the spans into their accounts: at once or, where there are many, by a
    request. Returns which counts changed.

    *membership_count* is the number of memberships in the batch. The users must be locked and
    their memberships stored.
    """
    if not spans:
        return set()
    at_once, later = _split_spans(spans, max(MAX_EVENTS_PER_BATCH, 2 * membership_count))
    if at_once and (incomplete := _incomplete_users({span.user_id for span in at_once})):
        later += [span for span in at_once if span.user_id in incomplete]
        at_once = [span for span in at_once if span.user_id not in incomplete]
    request_spans(later)
    return _move(_examine(at_once, None))


_INCOMPLETE: LiteralString = f"""
    SELECT DISTINCT u.joined_to_id
    FROM engagement_joinrequest r
    JOIN engagement_user u ON u.id = r.user_id AND u.product_id = r.product_id
    WHERE u.joined_to_id = ANY(%(users)b::bigint[]) AND {sql.on_node("r")}
"""


def _incomplete_users(user_ids: Collection[int]) -> set[int]:
    """Those of the users who wait for events of joined users. Counts and events must agree, so
    theirs are moved later."""
    return {id for (id,) in sql.fetch(_INCOMPLETE, {"users": list(user_ids)})}


_COUNT: LiteralString = f"""
    SELECT (SELECT count(*) FROM (
        SELECT FROM engagement_event e
        WHERE e.product_id = k.product_id AND e.user_id = k.user_id
          AND e.occurred_at >= COALESCE(k.start_at, '-infinity')
          AND e.occurred_at < COALESCE(k.end_at, 'infinity') AND {sql.on_node("e")}
        LIMIT %(limit)s) few)
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(starts)b::timestamptz[],
                %(ends)b::timestamptz[], %(arrivals)b::bigint[])
         WITH ORDINALITY AS k(product_id, user_id, start_at, end_at, arrival, place)
    ORDER BY k.place
"""


def _split_spans(spans: Sequence[Span], max_events: int) -> tuple[list[Span], list[Span]]:
    """The spans to process at once, with at most *max_events* together, and the others.

    Counts the events of the whole days around a span, because moving the last event of a day reads
    that day. Counts a day with several spans once.
    """
    days = list(dict.fromkeys(map(_whole_days, spans)))
    rows = sql.fetch(_COUNT, {**_span_arrays(days), "limit": max_events + 1})
    counts = {day: count for day, (count,) in zip(days, rows, strict=True)}
    has_room: dict[Span, bool] = {}
    for day, count in counts.items():
        has_room[day] = count <= max_events
        max_events -= count if has_room[day] else 0
    at_once: list[Span] = []
    later: list[Span] = []
    for span in spans:
        day = _whole_days(span)
        if counts[day]:
            (at_once if has_room[day] else later).append(span)
    return at_once, later


def _whole_days(span: Span) -> Span:
    start = span.start and _midnight(span.start)
    end = span.end and _midnight(span.end)
    try:
        return span._replace(start=start, end=end and end + timedelta(days=1))
    except OverflowError:
        return span._replace(start=start, end=None)


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


# --- In the background ----------------------------------------------------------------------

_INSERT: LiteralString = """
    INSERT INTO engagement_reattributionrequest
        (product_id, user_id, start_at, end_at, arrival)
    SELECT * FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(starts)b::timestamptz[],
                         %(ends)b::timestamptz[], %(arrivals)b::bigint[])
"""
_DELETE: LiteralString = """
    DELETE FROM engagement_reattributionrequest
    WHERE product_id = %(product)s AND user_id = ANY(%(users)b::bigint[])
    RETURNING product_id, user_id, start_at, end_at, arrival
"""
# Leaves out users who wait for events of joined users (``engagement.recording.moving``).
NEXT: LiteralString = """
    SELECT r.product_id, r.user_id
    FROM engagement_reattributionrequest r
    WHERE r.product_id = %(product)s AND NOT EXISTS (
        SELECT 1 FROM engagement_joinrequest j
        JOIN engagement_user u ON u.id = j.user_id AND u.product_id = j.product_id
        WHERE j.product_id = r.product_id AND u.joined_to_id = r.user_id)
    ORDER BY r.id
    LIMIT 1
"""
_ANY_OF: LiteralString = """
    SELECT user_id FROM engagement_reattributionrequest
    WHERE product_id = %(product)s AND user_id = ANY(%(users)b::bigint[])
    LIMIT 1
"""


def process(product_id: int, user_id: int) -> None:
    """Examine the first events of the user's requests."""
    lock_users_for_update([user_id])
    _process_first(product_id, user_id)


def process_user_requests(product_id: int, user_ids: Collection[int]) -> bool:
    """Process a bounded part of the requests of these users. Returns whether there were any.

    For callers that are about to change memberships or events. The users must be locked.
    """
    rows = sql.fetch(_ANY_OF, {"product": product_id, "users": list(user_ids)})
    for (user_id,) in rows:
        _process_first(product_id, user_id)
    return bool(rows)


def delete_requests(product_id: int, user_id: int) -> None:
    """Delete the requests of a user who is being deleted. The user must be locked."""
    sql.execute(_DELETE, {"product": product_id, "users": [user_id]})


def _process_first(product_id: int, user_id: int) -> None:
    """Examine the first events of the user's requests, and request the rest again."""
    rows = sql.fetch(_DELETE, {"product": product_id, "users": [user_id]})
    if not rows:
        return
    first, *rest = _merge_spans(Span(*row) for row in rows)
    limit = min(EVENTS_PER_STEP, moves.steps.size)
    examined = _examine([first], limit)
    if len(examined) == limit:
        last = examined[-1]
        rest.append(first._replace(start=last.occurred_at, arrival=last.arrival + 1))
    rescore_queue.enqueue(daily_counts.rescore_items(_move(examined)))
    _insert(rest)


def _merge_spans(spans: Iterable[Span]) -> list[Span]:
    """The spans of one user in order of time; those that overlap or touch become one."""
    merged: list[Span] = []
    for span in sorted(spans, key=_by_start):
        last = merged[-1] if merged else None
        if last is None or (
            last.end is not None and span.start is not None and span.start > last.end
        ):
            merged.append(span)
        elif last.end is not None:
            end = None if span.end is None else max(last.end, span.end)
            merged[-1] = last._replace(end=end)
    return merged


def _by_start(span: Span) -> tuple[bool, datetime | None, int]:
    return (span.start is not None, span.start, span.arrival)


def request_spans(spans: Sequence[Span]) -> None:
    """Request the spans, at most MAX_SPANS_PER_USER for each user."""
    by_user: dict[int, list[Span]] = {}
    for span in spans:
        by_user.setdefault(span.user_id, []).append(span)
    spans_to_request: list[Span] = []
    for own in by_user.values():
        # The spans of a user are in order of time.
        spans_to_request += (
            own if len(own) <= MAX_SPANS_PER_USER else [own[0]._replace(end=own[-1].end)]
        )
    _insert(spans_to_request)


def _insert(spans: Sequence[Span]) -> None:
    if spans:
        sql.execute(_INSERT, _span_arrays(spans))


def _span_arrays(spans: Iterable[Span]) -> dict[str, list[Any]]:
    return sql.arrays(spans, "products", "users", "starts", "ends", "arrivals")


# --- Moving events --------------------------------------------------------------------------

# The account of the latest membership at or before {at}; before the first one, of that.
ACCOUNT_AT: LiteralString = f"""
    (SELECT m.account_id FROM engagement_membership m
     WHERE m.product_id = {{row}}.product_id AND m.user_id = {{row}}.user_id
       AND {sql.on_node("m")}
       AND m.occurred_at = COALESCE(
           (SELECT l.occurred_at FROM engagement_membership l
            WHERE l.product_id = {{row}}.product_id AND l.user_id = {{row}}.user_id
              AND l.occurred_at <= {{row}}.{{at}} AND {sql.on_node("l")}
            ORDER BY l.occurred_at DESC LIMIT 1),
           (SELECT f.occurred_at FROM engagement_membership f
            WHERE f.product_id = {{row}}.product_id AND f.user_id = {{row}}.user_id
              AND {sql.on_node("f")}
            ORDER BY f.occurred_at LIMIT 1))
     ORDER BY m.arrival DESC LIMIT 1)
"""
_EXAMINE: LiteralString = f"""
    SELECT e.product_id, e.user_id, e.occurred_at, e.arrival, e.event_name_id, e.account_id,
           {ACCOUNT_AT.format(row="e", at="occurred_at")}
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(starts)b::timestamptz[],
                %(ends)b::timestamptz[], %(arrivals)b::bigint[])
         WITH ORDINALITY AS k(product_id, user_id, start_at, end_at, arrival, place)
    CROSS JOIN LATERAL (
        SELECT * FROM engagement_event e
        WHERE e.product_id = k.product_id AND e.user_id = k.user_id
          AND e.occurred_at >= COALESCE(k.start_at, '-infinity')
          AND e.occurred_at < COALESCE(k.end_at, 'infinity')
          AND (e.occurred_at, e.arrival) >= (COALESCE(k.start_at, '-infinity'), k.arrival)
          AND {sql.on_node("e")}
        ORDER BY e.occurred_at, e.arrival
        LIMIT %(limit)s) e
    ORDER BY k.place, e.occurred_at, e.arrival
"""
_MOVE: LiteralString = f"""
    UPDATE engagement_event e SET account_id = k.account_id
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(at)b::timestamptz[],
                %(arrivals)b::bigint[], %(accounts)b::bigint[])
         AS k(product_id, user_id, occurred_at, arrival, account_id)
    WHERE e.product_id = k.product_id AND e.user_id = k.user_id
      AND e.occurred_at = k.occurred_at AND e.arrival = k.arrival
      AND e.user_id = ANY(%(all_users)b::bigint[]) AND e.occurred_at BETWEEN %(first)s AND %(last)s
      AND {sql.on_node("e")}
"""
_KEY_AND_ACCOUNT = attrgetter(
    "product_id", "user_id", "occurred_at", "arrival", "correct_account_id"
)


def _examine(spans: Sequence[Span], limit: int | None) -> list[EventAttribution]:
    """The events of the spans in order of time, at most *limit* of each."""
    if not spans:
        return []
    rows = sql.fetch(_EXAMINE, {**_span_arrays(spans), "limit": limit})
    return list(map(EventAttribution._make, rows))


def _move(examined: Iterable[EventAttribution]) -> set[CountKey]:
    """Move the events that are in a wrong account, and their counts. Returns which counts
    changed."""
    moving = [event for event in examined if event.account_id != event.correct_account_id]
    if not moving:
        return set()
    arrays = sql.arrays(
        map(_KEY_AND_ACCOUNT, moving), "products", "users", "at", "arrivals", "accounts"
    )
    # Bounds, without which the planner may read all events of the product to join them.
    times = arrays["at"]
    bounds = {"all_users": sorted(set(arrays["users"])), "first": min(times), "last": max(times)}
    sql.execute(_MOVE, {**arrays, **bounds})
    removed_counts = _count(moving, lambda event: event.account_id)
    added = _count(moving, lambda event: event.correct_account_id)
    daily_counts.subtract(removed_counts)
    daily_counts.add(added)
    return {*removed_counts, *added}


def _count(
    events: Iterable[EventAttribution], account_of: Callable[[EventAttribution], int | None]
) -> daily_counts.CountsByKey:
    counts: dict[daily_counts.CountKey, tuple[int, datetime]] = {}
    for event in events:
        at = event.occurred_at
        account_id = account_of(event) or NO_ACCOUNT
        key = (event.product_id, event.user_id, at.toordinal(), event.event_name_id, account_id)
        count, last_at = counts.get(key, (0, at))
        counts[key] = (count + 1, max(at, last_at))
    return counts
