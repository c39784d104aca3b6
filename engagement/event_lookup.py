"""Looks up a product's stored events by when they arrived."""

from datetime import datetime
from typing import Any, LiteralString, NamedTuple

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
    WHERE product_id = %(product)s AND {which}
    ORDER BY arrival DESC LIMIT %(limit)s
"""
_OF_USER = _EVENTS.format(which="user_id = %(id)s")
_RECEIVED_AT = _EVENTS.format(which="received_at = %(at)s")
_SINCE = _EVENTS.format(which="received_at >= %(since)s")
_OF_ACCOUNT = _EVENTS.format(which="received_at >= %(since)s AND account_id = %(id)s")
_OF_NAME = _EVENTS.format(which="received_at >= %(since)s AND event_name_id = %(id)s")


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
