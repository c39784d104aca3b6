"""Makes the demo's products look as if their messages had come through the inbox.

The events of the last days become messages again, and the drain's own functions log them. A few
dropped ones and a few refused requests are added.
"""

import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import LiteralString

import msgspec

from core import credentials
from core.database import sql
from core.database.arrivals import take_arrivals
from engagement.messages import Group, Identify, ReceivedMessage, Track
from engagement.models import Account, User
from ingestion import timestamps
from ingestion.errors import missing_field
from ingestion.log import drops, hours, recent
from ingestion.log.drops import Drop
from ingestion.log.last_24h import HOURS
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
# How many of the newest messages the log lists.
TRACKS, USERS, ACCOUNTS = recent.KEPT_AT_ONCE, 8, 3
# Among the tracks, counted from the newest: one with seconds in place of milliseconds, and one from
# the future.
WRONG_UNIT, FROM_THE_FUTURE = -8, -4

# A weekend has few events, so that the newest ones may be days old.
_EVENTS: LiteralString = """
    SELECT u.external_id, n.name, e.received_at, a.external_id
    FROM engagement_event e
    JOIN engagement_user u ON u.id = e.user_id AND u.product_id = e.product_id
    JOIN engagement_eventname n ON n.id = e.event_name_id AND n.product_id = e.product_id
    LEFT JOIN engagement_account a ON a.id = e.account_id AND a.product_id = e.product_id
    WHERE e.product_id = %(product)s AND e.received_at <= %(now)s
      AND e.received_at > %(now)s - interval '4 days'
    ORDER BY e.received_at, e.arrival
"""


def fill_last_24h(product_id: int, now: datetime, seed: int) -> None:
    """Count the product's events of the last 24 hours, list the newest messages, and add drops,
    refused requests, and a message in quarantine."""
    events = sql.fetch(_EVENTS, {"product": product_id, "now": now})
    tracks = _received(product_id, [Track(*row) for row in events])
    since = hours.start_of_hour(now) - timedelta(hours=HOURS - 1)
    recorded = [track for track in tracks if track.received_at >= since]
    dropped = list(_make_drops(recorded, random.Random(seed)))
    drops.save_drops(dropped, now)
    hours.add_counts([hours.count_by_hour(recorded, [], dropped)])
    subjects = _received(product_id, [*_newest_accounts(product_id), *_newest_users(product_id)])
    newest = [*subjects, *_with_wrong_times(tracks[-TRACKS:])]
    recent.save([recent.Sampler().choose(newest, [])])
    _add_refused(product_id, now)
    _add_quarantined(product_id, now)


def _received(
    product_id: int, messages: Sequence[Track | Group | Identify]
) -> list[ReceivedMessage]:
    """The messages as they arrived, at their own times."""
    arrivals = take_arrivals(len(messages))
    return [
        ReceivedMessage(product_id, arrival, message.timestamp, message)
        for arrival, message in zip(arrivals, messages, strict=True)
    ]


def _newest_accounts(product_id: int) -> list[Group]:
    rows = Account.objects.filter(product=product_id, is_identified=True).order_by("-last_seen_at")
    return [Group(row.external_id, row.last_seen_at, row.traits) for row in rows[:ACCOUNTS]][::-1]


def _newest_users(product_id: int) -> list[Identify]:
    rows = User.objects.filter(product=product_id, is_identified=True).order_by("-last_seen_at")
    return [Identify(row.external_id, row.last_seen_at, row.traits) for row in rows[:USERS]][::-1]


def _with_wrong_times(tracks: Sequence[ReceivedMessage]) -> Iterator[ReceivedMessage]:
    for place, track in enumerate(tracks, -len(tracks)):
        at = timestamp = track.received_at
        if place == WRONG_UNIT:
            timestamp = timestamps.from_milliseconds(int(at.timestamp()), at)
        elif place == FROM_THE_FUTURE:
            timestamp = timestamps.clamp_to_receipt(at + timedelta(days=365), at)
        message = msgspec.structs.replace(track.message, timestamp=timestamp)
        yield msgspec.structs.replace(track, message=message)


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


def _make_drops(received: Sequence[ReceivedMessage], generator: random.Random) -> Iterator[Drop]:
    for arrival, track in zip(take_arrivals(len(received)), received, strict=True):
        number, product_id, at = generator.random(), track.product_id, track.received_at
        assert isinstance(track.message, Track)
        if number < DUPLICATE_SHARE:
            message_id = f"{track.message.user_id}-{arrival}"
            duplicate = msgspec.structs.replace(track.message, group_id=None, message_id=message_id)
            yield Drop(arrival, product_id, DropReason.DUPLICATE, "", duplicate, at)
        elif number < DUPLICATE_SHARE + ANONYMOUS_SHARE:
            reason = DropReason.ANONYMOUS
            anonymous = UnusableMessage(reason, "track", "", track.message.event)
            yield Drop(arrival, product_id, reason, "", anonymous, at)
