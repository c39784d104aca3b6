"""Makes the demo's products look as if their messages had come through the inbox.

It counts the events of the last 24 hours, and lists the newest messages, a few dropped ones, and a
few refused requests.
"""

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, LiteralString

from core import credentials
from core.database import sql
from core.database.arrivals import take_arrivals
from engagement.messages import Track
from engagement.models import User
from engagement.recording.rejection_details import name_traits
from ingestion import timestamps
from ingestion.errors import missing_field
from ingestion.log import drops, hours, recent
from ingestion.log.drops import Drop
from ingestion.log.last_24h import HOURS
from ingestion.log.recent import RecentRow
from ingestion.models import (
    DropReason,
    IngestionKey,
    QuarantinedMessage,
    RefusedCount,
    RefusedRequest,
)
from ingestion.payloads import UnusableMessage, encode

# As shares of all messages.
DUPLICATE_SHARE, ANONYMOUS_SHARE = 0.03, 0.01

_COUNT_EVENTS: LiteralString = """
    INSERT INTO ingestion_hourcount (product_id, hour, reason, count)
    SELECT product_id, date_trunc('hour', received_at, 'UTC'), '', count(*)
    FROM engagement_event
    WHERE product_id = %(product)s AND received_at >= %(since)s AND received_at <= %(now)s
    GROUP BY 1, 2
"""
_RECENT_EVENTS: LiteralString = """
    SELECT u.external_id, n.name, e.received_at
    FROM engagement_event e
    JOIN engagement_user u ON u.id = e.user_id AND u.product_id = e.product_id
    JOIN engagement_eventname n ON n.id = e.event_name_id AND n.product_id = e.product_id
    WHERE e.product_id = %(product)s AND e.received_at >= %(since)s AND e.received_at <= %(now)s
    ORDER BY e.received_at, e.arrival
    LIMIT 10000
"""
_NEWEST_EVENTS: LiteralString = """
    SELECT e.* FROM (
        SELECT u.external_id AS user_id, COALESCE(a.external_id, '') AS account_id, n.name,
               e.received_at
        FROM engagement_event e
        JOIN engagement_user u ON u.id = e.user_id AND u.product_id = e.product_id
        JOIN engagement_eventname n ON n.id = e.event_name_id AND n.product_id = e.product_id
        LEFT JOIN engagement_account a ON a.id = e.account_id AND a.product_id = e.product_id
        WHERE e.product_id = %(product)s AND e.received_at <= %(now)s
          AND e.received_at > %(now)s - interval '4 days'
        ORDER BY e.received_at DESC LIMIT 30) AS e
    ORDER BY e.received_at
"""
_NEWEST: LiteralString = """
    SELECT s.* FROM (
        SELECT external_id, ARRAY(SELECT jsonb_object_keys(traits)), last_seen_at FROM {table}
        WHERE product_id = %(product)s AND is_identified AND last_seen_at <= %(now)s
        ORDER BY last_seen_at DESC LIMIT {limit}) AS s
    ORDER BY last_seen_at
"""
_NEWEST_USERS = _NEWEST.format(table="engagement_user", limit="8")
_NEWEST_ACCOUNTS = _NEWEST.format(table="engagement_account", limit="3")
# Places in the list of newest events.
WRONG_UNIT, FROM_THE_FUTURE = 22, 26


def fill_last_24h(product_id: int, now: datetime, seed: int) -> None:
    """Count the product's events of the last 24 hours, and add drops of duplicate and anonymous
    messages."""
    since = hours.start_of_hour(now) - timedelta(hours=HOURS - 1)
    parameters = {"product": product_id, "since": since, "now": now}
    sql.execute(_COUNT_EVENTS, parameters)
    dropped = list(_make_drops(product_id, parameters, random.Random(seed)))
    drops.save_drops(dropped, now)
    hours.add_counts([hours.count_by_hour([], [], dropped)])
    recent.save([list(_make_recent(product_id, now))])
    _add_refused(product_id, now)
    _add_quarantined(product_id, now)


def _arrived(statement: LiteralString, parameters: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """The rows that the statement returns, each after the next place in the order of arrival."""
    rows = sql.fetch(statement, parameters)
    for arrival, row in zip(take_arrivals(len(rows)), rows, strict=True):
        yield arrival, *row


def _make_recent(product_id: int, now: datetime) -> Iterator[RecentRow]:
    """The newest messages, one of them with seconds in place of milliseconds, and one from the
    future."""
    parameters = {"product": product_id, "now": now}
    for number, row in enumerate(_arrived(_NEWEST_EVENTS, parameters)):
        arrival, user, account, event, at = row
        timestamp = at
        if number == WRONG_UNIT:
            timestamp = timestamps.from_milliseconds(int(at.timestamp()), at)
        elif number == FROM_THE_FUTURE:
            timestamp = timestamps.clamp_to_receipt(at + timedelta(days=365), at)
        yield _row(product_id, "track", arrival, at, timestamp, user, account, event)
    for arrival, user, traits, at in _arrived(_NEWEST_USERS, parameters):
        yield _row(product_id, "identify", arrival, at, at, user, "", "", name_traits(traits))
    for arrival, account, traits, at in _arrived(_NEWEST_ACCOUNTS, parameters):
        yield _row(product_id, "group", arrival, at, at, "", account, "", name_traits(traits))


def _row(
    product_id: int,
    kind: str,
    arrival: int,
    at: datetime,
    timestamp: datetime,
    user: str,
    account: str,
    event: str,
    detail: str = "",
) -> RecentRow:
    slot = arrival % recent.SLOTS
    return RecentRow(
        product_id, kind, slot, arrival, at, timestamp, user, "", account, event, "", detail
    )


def _add_refused(product_id: int, now: datetime) -> None:
    """A few requests that got an error."""
    error = missing_field("userId")
    hint = "You sent user_id; this endpoint expects userId."
    for number, message in enumerate((f"{error.message} {hint}", error.message)):
        RefusedRequest.objects.create(
            product_id=product_id,
            received_at=now - timedelta(minutes=4 + 7 * number),
            endpoint="/v2/track",
            kind="track",
            status=error.status,
            code=error.code,
            message=message,
            field=error.field or "",
            user_agent="python-requests/2.34.2",
        )
    RefusedCount.objects.get_or_create(
        product_id=product_id,
        hour=hours.start_of_hour(now),
        code=error.code,
        defaults={"count": 17},
    )


def _add_quarantined(product_id: int, now: datetime) -> None:
    """A message that failed repeatedly, if the product has a key that it can be retried with."""
    key = IngestionKey.objects.filter(product=product_id).first()
    user = User.objects.filter(product=product_id, is_identified=True).first()
    if key is None or user is None:
        return
    received_at = now - timedelta(minutes=50)
    message = Track(user.external_id, "Report_Created", received_at, message_id="demo-failed")
    QuarantinedMessage.objects.create(
        id=take_arrivals(1)[0],
        product_id=product_id,
        received_at=received_at,
        key_digest=credentials.digest(key.secret),
        key_hint=key.hint,
        payload=encode(message),
        attempts=5,
        error="OperationalError: canceling statement due to lock timeout",
        quarantined_at=received_at + timedelta(minutes=3),
    )


def _make_drops(
    product_id: int, parameters: dict[str, object], generator: random.Random
) -> Iterator[Drop]:
    for arrival, user, event, at in _arrived(_RECENT_EVENTS, parameters):
        number = generator.random()
        if number < DUPLICATE_SHARE:
            duplicate = Track(user, event, at, message_id=f"{user}-{arrival}")
            yield Drop(arrival, product_id, DropReason.DUPLICATE, "", duplicate, at)
        elif number < DUPLICATE_SHARE + ANONYMOUS_SHARE:
            anonymous = UnusableMessage(DropReason.ANONYMOUS, "track", "", event)
            yield Drop(arrival, product_id, DropReason.ANONYMOUS, "", anonymous, at)
