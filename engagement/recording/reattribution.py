"""Moving stored events to other accounts after links that arrived late.

A batch moves few events itself. Where there are more, it stores a request for the span of the
user's time that changed hands, and ``run()`` works the requests off in bounded steps. An event in
the wrong account always lies in a request's span: links and requests are written in the same
transaction, and each step reads the links anew under the lock that keeps both from changing.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Any, LiteralString, NamedTuple

from django.db import transaction

from engagement.database import locks, retries, sql
from engagement.models.activity import NO_ACCOUNT
from engagement.recording import daily_counts
from engagement.recording.subjects import lock_users_for_update
from engagement.scores import rescore_queue
from engagement.scores.rescore_queue import ChangedCount

# A batch moves events of days with so many of them, or with twice as many as it has links.
MAX_EVENTS_PER_BATCH = 1_000
# A step in the background looks at so many: some 50 ms, for which the user's messages wait.
EVENTS_PER_STEP = 5_000
# A batch that changes more separate spans of one user asks for all that lies between them.
MAX_SPANS_PER_USER = 100


class Span(NamedTuple):
    """A span of one user's time, start included and end not; None is without a bound.

    Of the events at the very start those before ``arrival`` are left out.
    """

    product_id: int
    user_id: int
    start: datetime | None
    end: datetime | None
    arrival: int = 0


class EventAttribution(NamedTuple):
    """A stored event: the account that it is in, and the one that it belongs to by the links."""

    product_id: int
    user_id: int
    occurred_at: datetime
    arrival: int
    event_name_id: int
    account_id: int | None
    correct_account_id: int | None


# --- In the batch ---------------------------------------------------------------------------


def reattribute_spans(spans: Sequence[Span], links: int) -> set[ChangedCount]:
    """Put the events of the spans into their accounts, now or, where they are many, by a request;
    whose counts changed. *links* is how many links the batch has.

    The users must be locked and their links stored.
    """
    if not spans:
        return set()
    at_once, later = _divided(spans, max(MAX_EVENTS_PER_BATCH, 2 * links))
    _request(later)
    return _move(_examine(at_once, None))


_COUNT: LiteralString = """
    SELECT (SELECT count(*) FROM (
        SELECT FROM engagement_event e
        WHERE e.product_id = k.product_id AND e.user_id = k.user_id
          AND e.occurred_at >= COALESCE(k.start_at, '-infinity')
          AND e.occurred_at < COALESCE(k.end_at, 'infinity')
        LIMIT %(limit)s) few)
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(starts)b::timestamptz[],
                %(ends)b::timestamptz[], %(arrivals)b::bigint[])
         WITH ORDINALITY AS k(product_id, user_id, start_at, end_at, arrival, place)
    ORDER BY k.place
"""


def _divided(spans: Sequence[Span], most: int) -> tuple[list[Span], list[Span]]:
    """The spans to work on at once, with *most* events together, and the others.

    Events of the whole days around a span count: who loses a day's last event has that day looked
    through. Those of a day with several spans count once.
    """
    days = list(dict.fromkeys(map(_whole_days, spans)))
    rows = sql.fetch(_COUNT, {**_arrays(days), "limit": most + 1})
    counts = {one: count for one, (count,) in zip(days, rows, strict=True)}
    has_room: dict[Span, bool] = {}
    for one, count in counts.items():
        has_room[one] = count <= most
        most -= count if has_room[one] else 0
    at_once: list[Span] = []
    later: list[Span] = []
    for span in spans:
        one = _whole_days(span)
        if counts[one]:
            (at_once if has_room[one] else later).append(span)
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
_TAKE: LiteralString = """
    DELETE FROM engagement_reattributionrequest
    WHERE product_id = %(product)s AND user_id = ANY(%(users)b::bigint[])
    RETURNING product_id, user_id, start_at, end_at, arrival
"""
# Requests of a product that is being deleted go with it.
_NEXT: LiteralString = """
    SELECT r.product_id, r.user_id
    FROM engagement_reattributionrequest r
    JOIN engagement_product p ON p.id = r.product_id AND p.deletion_requested_at IS NULL
    ORDER BY r.id
    LIMIT 1
"""
_FIRST_OF: LiteralString = """
    SELECT user_id FROM engagement_reattributionrequest
    WHERE product_id = %(product)s AND user_id = ANY(%(users)b::bigint[])
    LIMIT 1
"""


def has_requests() -> bool:
    """Whether there are requests."""
    return bool(sql.fetch(_NEXT))


def process_requests(out_of_time: Callable[[], bool] = lambda: False) -> bool:
    """Work off the requests of all products in turns; whether time sufficed for that."""
    while not out_of_time():
        if not retries.retry_on_conflict(_step):
            return True
    return False


def _step() -> bool:
    """One bounded piece of work; whether there may be more, and nobody else is at it."""
    with transaction.atomic(durable=True):
        if not locks.try_lock_reattribution():
            return False
        rows = sql.fetch(_NEXT)
        for product_id, user_id in rows:
            if locks.share_lock_products([product_id]):
                lock_users_for_update([user_id])
                _work_off(product_id, user_id)
    return bool(rows)


def process_user_requests(product_id: int, user_ids: Collection[int]) -> bool:
    """Work off a bounded piece of the requests of these users; whether there were any.

    For whoever is about to change links or events by other means. The users must be locked.
    """
    rows = sql.fetch(_FIRST_OF, {"product": product_id, "users": list(user_ids)})
    for (user_id,) in rows:
        _work_off(product_id, user_id)
    return bool(rows)


def delete_requests(product_id: int, user_id: int) -> None:
    """Delete the requests of a user who is deleted. The user must be locked."""
    sql.execute(_TAKE, {"product": product_id, "users": [user_id]})


def _work_off(product_id: int, user_id: int) -> None:
    """Examine the first events of the user's requests; a new request keeps the rest."""
    rows = sql.fetch(_TAKE, {"product": product_id, "users": [user_id]})
    if not rows:
        return
    first, *rest = _united(Span(*row) for row in rows)
    examined = _examine([first], EVENTS_PER_STEP)
    if len(examined) == EVENTS_PER_STEP:
        last = examined[-1]
        rest.append(first._replace(start=last.occurred_at, arrival=last.arrival + 1))
    rescore_queue.enqueue(rescore_queue.rescore_changed_counts(_move(examined)))
    _insert(rest)


def _united(spans: Iterable[Span]) -> list[Span]:
    """The spans of one user in order of time, those that overlap or touch as one."""
    united: list[Span] = []
    for span in sorted(spans, key=_by_start):
        last = united[-1] if united else None
        if last is None or (
            last.end is not None and span.start is not None and span.start > last.end
        ):
            united.append(span)
        elif last.end is not None:
            end = None if span.end is None else max(last.end, span.end)
            united[-1] = last._replace(end=end)
    return united


def _by_start(span: Span) -> tuple[bool, datetime | None, int]:
    return (span.start is not None, span.start, span.arrival)


def _request(spans: Sequence[Span]) -> None:
    """Have the spans worked off in the background, bounded in number for each user."""
    by_user: dict[int, list[Span]] = {}
    for span in spans:
        by_user.setdefault(span.user_id, []).append(span)
    wanted: list[Span] = []
    for one in by_user.values():
        # The spans of a user are in order of time.
        wanted += one if len(one) <= MAX_SPANS_PER_USER else [one[0]._replace(end=one[-1].end)]
    _insert(wanted)


def _insert(spans: Sequence[Span]) -> None:
    if spans:
        sql.execute(_INSERT, _arrays(spans))


# --- Moving events --------------------------------------------------------------------------

# The latest link at or before the event; before the first link, the first one.
_EXAMINE: LiteralString = """
    SELECT e.product_id, e.user_id, e.occurred_at, e.arrival, e.event_name_id, e.account_id,
           (SELECT m.account_id FROM engagement_membership m
            WHERE m.product_id = e.product_id AND m.user_id = e.user_id
              AND m.occurred_at = COALESCE(
                  (SELECT l.occurred_at FROM engagement_membership l
                   WHERE l.product_id = e.product_id AND l.user_id = e.user_id
                     AND l.occurred_at <= e.occurred_at
                   ORDER BY l.occurred_at DESC LIMIT 1),
                  (SELECT f.occurred_at FROM engagement_membership f
                   WHERE f.product_id = e.product_id AND f.user_id = e.user_id
                   ORDER BY f.occurred_at LIMIT 1))
            ORDER BY m.arrival DESC LIMIT 1)
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(starts)b::timestamptz[],
                %(ends)b::timestamptz[], %(arrivals)b::bigint[])
         WITH ORDINALITY AS k(product_id, user_id, start_at, end_at, arrival, place)
    CROSS JOIN LATERAL (
        SELECT * FROM engagement_event e
        WHERE e.product_id = k.product_id AND e.user_id = k.user_id
          AND e.occurred_at >= COALESCE(k.start_at, '-infinity')
          AND e.occurred_at < COALESCE(k.end_at, 'infinity')
          AND (e.occurred_at, e.arrival) >= (COALESCE(k.start_at, '-infinity'), k.arrival)
        ORDER BY e.occurred_at, e.arrival
        LIMIT %(limit)s) e
    ORDER BY k.place, e.occurred_at, e.arrival
"""
_MOVE: LiteralString = """
    UPDATE engagement_event e SET account_id = k.account_id
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(at)b::timestamptz[],
                %(arrivals)b::bigint[], %(accounts)b::bigint[])
         AS k(product_id, user_id, occurred_at, arrival, account_id)
    WHERE e.product_id = k.product_id AND e.user_id = k.user_id
      AND e.occurred_at = k.occurred_at AND e.arrival = k.arrival
"""


def _examine(spans: Sequence[Span], limit: int | None) -> list[EventAttribution]:
    """The events of the spans in order of time, at most *limit* of each."""
    if not spans:
        return []
    return [
        EventAttribution(*row) for row in sql.fetch(_EXAMINE, {**_arrays(spans), "limit": limit})
    ]


def _move(examined: Iterable[EventAttribution]) -> set[ChangedCount]:
    """Move the events that are in a wrong account, and their counts; whose counts changed."""
    moving = [one for one in examined if one.account_id != one.correct_account_id]
    if not moving:
        return set()
    sql.execute(
        _MOVE,
        {
            "products": [one.product_id for one in moving],
            "users": [one.user_id for one in moving],
            "at": [one.occurred_at for one in moving],
            "arrivals": [one.arrival for one in moving],
            "accounts": [one.correct_account_id for one in moving],
        },
    )
    taken = _counted(moving, "account_id")
    added = _counted(moving, "correct_account_id")
    daily_counts.subtract(taken)
    daily_counts.add(added)
    days = daily_counts.earliest_days({**taken, **added})
    rescore_queue.enqueue(
        {
            rescore_queue.rescore_days_since(product, date.fromordinal(day))
            for product, day in days.items()
        }
    )
    return {ChangedCount(key[0], key[1], key[4]) for key in (*taken, *added)}


def _counted(events: Iterable[EventAttribution], account: str) -> daily_counts.CountsByKey:
    counts: dict[daily_counts.CountKey, tuple[int, datetime]] = {}
    for one in events:
        account_id = getattr(one, account) or NO_ACCOUNT
        at = one.occurred_at
        key = (one.product_id, one.user_id, at.toordinal(), one.event_name_id, account_id)
        count, last_at = counts.get(key, (0, at))
        counts[key] = (count + 1, max(at, last_at))
    return counts


def _arrays(spans: Sequence[Span]) -> dict[str, Any]:
    return {
        "products": [span.product_id for span in spans],
        "users": [span.user_id for span in spans],
        "starts": [span.start for span in spans],
        "ends": [span.end for span in spans],
        "arrivals": [span.arrival for span in spans],
    }
