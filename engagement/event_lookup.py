"""Looks up a product's stored events by when they arrived."""

from collections.abc import Mapping
from datetime import datetime
from typing import LiteralString, NamedTuple

from core.database import sql


class EventRow(NamedTuple):
    arrival: int
    user_id: int
    account_id: int | None
    event_name_id: int
    occurred_at: datetime
    received_at: datetime


_EVENTS: LiteralString = """
    SELECT arrival, user_id, account_id, event_name_id, occurred_at, received_at
    FROM engagement_event
    WHERE product_id = %(product)s{which}
    ORDER BY arrival DESC LIMIT %(limit)s
"""
_CONDITIONS: dict[str, LiteralString] = {
    "user": " AND user_id = %(user)s",
    "account": " AND account_id = %(account)s",
    "name": " AND event_name_id = %(name)s",
    "since": " AND received_at >= %(since)s",
    "at": " AND received_at = %(at)s",
}


def newest_events(
    product_id: int,
    limit: int,
    ids: Mapping[str, int],
    *,
    since: datetime | None = None,
    at: datetime | None = None,
) -> list[EventRow]:
    """The last events with these *ids* of a "user", an "account", and a "name", newest arrival
    first.

    *since* and *at* are times of receipt; all events of a request share one. The key finds those
    of a user; without one, only a time of receipt keeps the search short.
    """
    times = {"since": since, "at": at}
    query = {**ids, **{key: time for key, time in times.items() if time is not None}}
    which: LiteralString = "".join(_CONDITIONS[key] for key in query)
    rows = sql.fetch(_EVENTS.format(which=which), {"product": product_id, "limit": limit, **query})
    return [EventRow(*row) for row in rows]
