"""Stores the events of a batch and counts them by day."""

from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString

from core.database import sql
from engagement.models.activity import NO_ACCOUNT
from engagement.recording import attribution, daily_counts
from engagement.recording.batch import Batch, TrackMessage
from engagement.recording.daily_counts import CountKey
from engagement.recording.resolve import BatchRows
from engagement.scores.rescore_queue import ChangedCount

_COPY_EVENTS: LiteralString = """
    COPY engagement_event
        (product_id, user_id, occurred_at, arrival, account_id, event_name_id, received_at,
         id_number)
    FROM STDIN (FORMAT BINARY)
"""
_EVENT_TYPES = ("int8", "int8", "timestamptz", "int8", "int8", "int8", "timestamptz", "int8")


def write_events(batch: Batch, rows: BatchRows) -> tuple[set[ChangedCount], dict[int, int]]:
    """Store the events and add them to the daily counts.

    Returns whose counts changed, and the earliest day of each product's events, as an ordinal.
    """
    counts: dict[CountKey, tuple[int, datetime]] = {}
    if events := _count_events(counts, batch.tracks, rows):
        sql.copy(_COPY_EVENTS, _EVENT_TYPES, events)
    for message in batch.counts:
        account_id = rows.account_ids[message.account] if message.account else NO_ACCOUNT
        user_id, name_id = rows.users[message.user].id, rows.event_name_ids[message.event]
        key = (message.user[0], user_id, message.last_at.toordinal(), name_id, account_id)
        count, last_at = counts.get(key, (0, message.last_at))
        counts[key] = (count + message.count, max(last_at, message.last_at))
    daily_counts.add(counts)
    changed = {ChangedCount(key[0], key[1], key[4]) for key in counts}
    return changed, daily_counts.earliest_days(counts)


def _count_events(
    counts: dict[CountKey, tuple[int, datetime]], tracks: Sequence[TrackMessage], rows: BatchRows
) -> list[sql.Row]:
    """Add the events to *counts*; returns their rows."""
    users = rows.users
    accounts = attribution.accounts_at([(users[track.user], track.at) for track in tracks])
    events: list[sql.Row] = []
    for track, account_id in zip(tracks, accounts, strict=True):
        user = users[track.user]
        at, product, user_id = track.at, track.user[0], user.id
        name_id = rows.event_name_ids[track.event]
        number = track.id_number or user.id_number
        events.append(
            (product, user_id, at, track.arrival, account_id, name_id, track.received_at)
            + ((None,) if number == user_id else (number,))
        )
        key = (product, user_id, at.toordinal(), name_id, account_id or NO_ACCOUNT)
        count, last_at = counts.get(key, (0, at))
        counts[key] = (count + 1, at if at > last_at else last_at)
    return events
