"""Looks up a product's stored events, and its newest users and accounts, by when they arrived."""

from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from engagement.database import sql
from engagement.models import Account, User


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
    WHERE product_id = %(product)s AND {which}
    ORDER BY arrival DESC LIMIT %(limit)s
"""
_OF_USER = _EVENTS.format(which="user_id = %(id)s")
_RECEIVED_AT = _EVENTS.format(which="received_at = %(at)s")
_SINCE = _EVENTS.format(which="received_at >= %(since)s")
_OF_ACCOUNT = _EVENTS.format(which="received_at >= %(since)s AND account_id = %(id)s")
_OF_NAME = _EVENTS.format(which="received_at >= %(since)s AND event_name_id = %(id)s")

# By the primary key alone: nothing else tells in which order they arrived.
_NEWEST: LiteralString = """
    SELECT id FROM {table}
    WHERE id > (SELECT COALESCE(max(id), 0) FROM {table}) - %(ids)s
      AND product_id = %(product)s AND is_identified
    ORDER BY id DESC LIMIT %(limit)s
"""
_NEWEST_OF: dict[type[User] | type[Account], LiteralString] = {
    User: _NEWEST.format(table="engagement_user"),
    Account: _NEWEST.format(table="engagement_account"),
}
# The search for new users and accounts covers this many of the newest ids, of all products.
NEWEST_IDS = 5_000


def events_of_user(product_id: int, user_id: int, limit: int) -> list[EventRow]:
    """The user's last *limit* events, newest arrival first, as in all functions here."""
    return _events(_OF_USER, product_id, limit, id=user_id)


def events_of_account(
    product_id: int, account_id: int, since: datetime, limit: int
) -> list[EventRow]:
    return _events(_OF_ACCOUNT, product_id, limit, id=account_id, since=since)


def events_of_name(product_id: int, name_id: int, since: datetime, limit: int) -> list[EventRow]:
    return _events(_OF_NAME, product_id, limit, id=name_id, since=since)


def events_since(product_id: int, since: datetime, limit: int) -> list[EventRow]:
    return _events(_SINCE, product_id, limit, since=since)


def events_received_at(product_id: int, at: datetime, limit: int) -> list[EventRow]:
    """The events received at exactly this time, so in one request."""
    return _events(_RECEIVED_AT, product_id, limit, at=at)


def _events(
    statement: LiteralString, product_id: int, limit: int, **parameters: Any
) -> list[EventRow]:
    rows = sql.fetch(statement, {"product": product_id, "limit": limit, **parameters})
    return [EventRow(*row) for row in rows]


def newest_ids(model: type[User] | type[Account], product_id: int, limit: int) -> list[int]:
    """The ids of the product's newest identified users or accounts, newest first."""
    parameters = {"ids": NEWEST_IDS, "product": product_id, "limit": limit}
    return [id for (id,) in sql.fetch(_NEWEST_OF[model], parameters)]
