"""The one write path: whatever enters the domain, enters by ``record()``.

The same messages in any order, in any batches, by any number of workers, give the same users,
accounts, sightings and counts.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import date, datetime
from typing import LiteralString, NamedTuple

import msgspec

from engagement.database import sql
from engagement.messages import (
    CountStatement,
    Group,
    Identify,
    MembershipStatement,
    ReceivedMessage,
    SubjectStatement,
    Track,
)
from engagement.models.activity import NO_ACCOUNT
from engagement.recording import attribution, daily_counts, subjects
from engagement.recording.attribution import MembershipRecord
from engagement.recording.daily_counts import CountKey
from engagement.recording.subjects import (
    ExternalKey,
    SubjectUpdate,
    UserState,
    get_or_create_update,
)
from engagement.recording.suppression import split_recordable
from engagement.scores import rescore_queue
from engagement.scores.rescore_queue import ChangedCount
from engagement.traits import make_stamp


class MembershipMessage(msgspec.Struct, frozen=True, gc=False):
    """A message that puts a user into an account."""

    user: ExternalKey
    account: ExternalKey
    at: datetime
    arrival: int


class TrackMessage(msgspec.Struct, frozen=True, gc=False):
    """A message that says what a user did."""

    user: ExternalKey
    event: ExternalKey
    at: datetime
    received_at: datetime
    arrival: int


class CountMessage(msgspec.Struct, frozen=True, gc=False):
    """A statement that says how often a user did something on a day."""

    user: ExternalKey
    event: ExternalKey
    account: ExternalKey | None
    count: int
    last_at: datetime


class Batch(msgspec.Struct):
    """What a batch says, in the customers' ids: before any row is looked at.

    ``mentioned`` are accounts that must exist and of whom nothing else is said.
    """

    users: dict[ExternalKey, SubjectUpdate] = {}
    accounts: dict[ExternalKey, SubjectUpdate] = {}
    mentioned: dict[ExternalKey, SubjectUpdate] = {}
    links: list[MembershipMessage] = []
    tracks: list[TrackMessage] = []
    counts: list[CountMessage] = []


class RecordResult(NamedTuple):
    """What was not recorded.

    ``refused`` are messages that name somebody who was forgotten on request, or belong to a
    product that is gone. ``crowded_out`` are the names of traits that their user or account has no
    room for, by the arrival of their message; the rest of the message is recorded.
    """

    refused: list[ReceivedMessage]
    dropped_traits: dict[int, list[str]]


def record(received: Sequence[ReceivedMessage]) -> RecordResult:
    """Record messages of any products, inside the caller's transaction; what was not recorded.

    Creates and merges users and accounts, stores links, adds events and daily counts, and marks
    stale whose scores changed. Raises what the database raises: the caller decides whether that is
    the fault of a message.
    """
    admitted, refused = split_recordable(received)
    if not admitted:
        return RecordResult(refused, {})
    batch = build_batch(admitted)
    _record(batch)
    return RecordResult(refused, _crowded_out(batch))


def _crowded_out(batch: Batch) -> dict[int, list[str]]:
    crowded_out: dict[int, list[str]] = {}
    for sightings in (batch.users, batch.accounts):
        for sighting in sightings.values():
            if sighting.refused:
                crowded_out |= sighting.refused
    return crowded_out


def _record(batch: Batch) -> None:
    events = {track.event for track in batch.tracks} | {one.event for one in batch.counts}
    event_names = _ensure_event_names(events)
    account_ids, whole = subjects.ensure_accounts({**batch.mentioned, **batch.accounts})
    linked = {link.user for link in batch.links}
    written = linked | {key for key, sighting in batch.users.items() if sighting.identified}
    users = subjects.ensure_users(batch.users, written)
    members = {key: users[key].member_of for key in written}

    moved = _link(batch, users, account_ids)
    newcomers = _identify(batch, users)
    counted, days = _add_events(batch, users, account_ids, event_names)

    _write_users(batch, users, written)
    entered = attribution.all_accounts_of(user for user in newcomers if not user.created)
    made = {account_id for _, account_id in whole}
    sightings = {account_ids[key]: sighting for key, sighting in batch.accounts.items()}
    appeared = subjects.write_accounts(
        {id: said for id, said in sightings.items() if id not in made},
        {account_id for _, account_id in entered},
    )
    rescore_queue.enqueue(
        _stale(newcomers, moved | counted)
        | {rescore_queue.rescore_account(*account) for account in (*entered, *appeared, *whole)}
        | _described(batch, users, account_ids)
        | _changed_since(days, newcomers)
        | _resettled(members, users)
    )


# --- Reading the messages -------------------------------------------------------------------


def build_batch(received: Sequence[ReceivedMessage]) -> Batch:
    """Sort out what the messages say of whom."""
    batch = Batch()
    for one in received:
        match one.message:
            case Track():
                _read_track(batch, one, one.message)
            case Identify():
                _read_identify(batch, one, one.message)
            case Group():
                _read_group(batch, one, one.message)
            case SubjectStatement():
                _read_seen(batch, one.product_id, one.message)
            case MembershipStatement():
                _read_linked(batch, one, one.message)
            case CountStatement():
                _read_counted(batch, one.product_id, one.message)
    return batch


def _read_track(batch: Batch, one: ReceivedMessage, message: Track) -> None:
    user = (one.product_id, message.user_id)
    at = message.timestamp
    get_or_create_update(batch.users, user, at)
    event = (one.product_id, message.event)
    batch.tracks.append(TrackMessage(user, event, at, one.received_at, one.arrival))
    if message.group_id is not None:
        account = (one.product_id, message.group_id)
        get_or_create_update(batch.accounts, account, at)
        batch.links.append(MembershipMessage(user, account, at, one.arrival))


def _read_identify(batch: Batch, one: ReceivedMessage, message: Identify) -> None:
    user = (one.product_id, message.user_id)
    _introduce(batch.users, user, one, message)
    if message.group_id is not None:
        account = (one.product_id, message.group_id)
        get_or_create_update(batch.accounts, account, message.timestamp).identified = True
        batch.links.append(MembershipMessage(user, account, message.timestamp, one.arrival))


def _read_group(batch: Batch, one: ReceivedMessage, message: Group) -> None:
    account = (one.product_id, message.group_id)
    _introduce(batch.accounts, account, one, message)
    if message.user_id is not None:
        user = (one.product_id, message.user_id)
        get_or_create_update(batch.users, user, message.timestamp).identified = True
        batch.links.append(MembershipMessage(user, account, message.timestamp, one.arrival))


def _introduce(
    sightings: dict[ExternalKey, SubjectUpdate],
    key: ExternalKey,
    one: ReceivedMessage,
    message: Identify | Group,
) -> None:
    sighting = get_or_create_update(sightings, key, message.timestamp)
    sighting.identified = True
    if message.traits:
        sighting.patches.append(
            (message.traits, make_stamp(message.timestamp, one.arrival, one.source))
        )


def _read_seen(batch: Batch, product_id: int, seen: SubjectStatement) -> None:
    if seen.user_id is not None:
        sighting = get_or_create_update(batch.users, (product_id, seen.user_id), seen.first_at)
    else:
        sighting = get_or_create_update(
            batch.accounts, (product_id, seen.group_id or ""), seen.first_at
        )
    sighting.widen(seen.last_at)
    sighting.identified |= seen.is_identified


def _read_linked(batch: Batch, one: ReceivedMessage, linked: MembershipStatement) -> None:
    user, account = (one.product_id, linked.user_id), (one.product_id, linked.group_id)
    get_or_create_update(batch.users, user, linked.timestamp)
    get_or_create_update(batch.accounts, account, linked.timestamp)
    batch.links.append(MembershipMessage(user, account, linked.timestamp, one.arrival))


def _read_counted(batch: Batch, product_id: int, counted: CountStatement) -> None:
    user, event = (product_id, counted.user_id), (product_id, counted.event)
    get_or_create_update(batch.users, user, counted.last_at)
    account = None
    if counted.group_id is not None:
        account = (product_id, counted.group_id)
        get_or_create_update(batch.mentioned, account, counted.last_at)
    batch.counts.append(CountMessage(user, event, account, counted.count, counted.last_at))


# --- Links and identity ---------------------------------------------------------------------


def _link(
    batch: Batch, users: dict[ExternalKey, UserState], account_ids: dict[ExternalKey, int]
) -> set[ChangedCount]:
    links: dict[int, list[MembershipRecord]] = defaultdict(list)
    for link in batch.links:
        links[users[link.user].id].append(
            MembershipRecord(link.at, link.arrival, account_ids[link.account])
        )
    if not links:
        return set()
    return attribution.store_memberships(links, {user.id: user for user in users.values()})


def _identify(batch: Batch, users: dict[ExternalKey, UserState]) -> list[UserState]:
    """Make users that the batch introduces known; those that were not known before.

    An account that a known user's event names is known too.
    """
    newcomers = []
    for key, sighting in batch.users.items():
        if sighting.identified and not users[key].is_identified:
            users[key].is_identified = True
            newcomers.append(users[key])
    for link in batch.links:
        if users[link.user].is_identified:
            batch.accounts[link.account].identified = True
    return newcomers


def _write_users(
    batch: Batch, users: dict[ExternalKey, UserState], written: Collection[ExternalKey]
) -> None:
    sightings = {}
    for key in written:
        user, sighting = users[key], batch.users[key]
        user.first_seen_at = min(user.first_seen_at, sighting.first_at)
        user.last_seen_at = max(user.last_seen_at, sighting.last_at)
        sightings[user.id] = sighting
    subjects.write_users((users[key] for key in written), sightings)
    # Events raise last_seen_at when their user is scored again, so that a busy user's row is not
    # rewritten in every batch. They lower first_seen_at here, which is rare.
    subjects.lower_first_seen(
        (users[key], sighting.first_at)
        for key, sighting in batch.users.items()
        if sighting.first_at < users[key].first_seen_at
    )


# --- Events and counts ----------------------------------------------------------------------

_FIND_EVENT_NAMES: LiteralString = """
    SELECT n.product_id, n.name, n.id
    FROM unnest(%(products)b::bigint[], %(names)b::text[]) AS k(product_id, name)
    JOIN engagement_eventname n USING (product_id, name)
"""
_CREATE_EVENT_NAMES: LiteralString = """
    INSERT INTO engagement_eventname (product_id, name)
    SELECT * FROM unnest(%(products)b::bigint[], %(names)b::text[])
    ON CONFLICT (product_id, name) DO NOTHING
"""


def _ensure_event_names(wanted: set[ExternalKey]) -> dict[ExternalKey, int]:
    if not wanted:
        return {}
    names = _find_event_names(wanted)
    if missing := wanted - names.keys():
        sql.execute(_CREATE_EVENT_NAMES, _name_arrays(sorted(missing)))
        names |= _find_event_names(missing)
    return names


def _find_event_names(keys: Collection[ExternalKey]) -> dict[ExternalKey, int]:
    rows = sql.fetch(_FIND_EVENT_NAMES, _name_arrays(keys))
    return {(product, name): id for product, name, id in rows}


def _name_arrays(keys: Collection[ExternalKey]) -> dict[str, list[int] | list[str]]:
    return {"products": [product for product, _ in keys], "names": [name for _, name in keys]}


_COPY_EVENTS: LiteralString = """
    COPY engagement_event
        (product_id, user_id, occurred_at, arrival, account_id, event_name_id, received_at)
    FROM STDIN (FORMAT BINARY)
"""
_EVENT_TYPES = ("int8", "int8", "timestamptz", "int8", "int8", "int8", "timestamptz")


def _add_events(
    batch: Batch,
    users: dict[ExternalKey, UserState],
    account_ids: dict[ExternalKey, int],
    event_names: dict[ExternalKey, int],
) -> tuple[set[ChangedCount], dict[int, int]]:
    """Store the events and count them; whose counts changed, and each product's earliest day of
    them, as an ordinal."""
    counts: dict[CountKey, tuple[int, datetime]] = {}
    events = _count_events(counts, batch.tracks, users, event_names)
    for one in batch.counts:
        account_id = account_ids[one.account] if one.account else NO_ACCOUNT
        user_id, name = users[one.user].id, event_names[one.event]
        key = (one.user[0], user_id, one.last_at.toordinal(), name, account_id)
        count, last_at = counts.get(key, (0, one.last_at))
        counts[key] = (count + one.count, max(last_at, one.last_at))
    if events:
        sql.copy(_COPY_EVENTS, _EVENT_TYPES, events)
    daily_counts.add(counts)
    touched = {ChangedCount(key[0], key[1], key[4]) for key in counts}
    return touched, daily_counts.earliest_days(counts)


def _count_events(
    counts: dict[CountKey, tuple[int, datetime]],
    tracks: Sequence[TrackMessage],
    users: dict[ExternalKey, UserState],
    event_names: dict[ExternalKey, int],
) -> list[sql.Row]:
    """Add the events to *counts*; the rows of the events."""
    accounts = attribution.accounts_at([(users[track.user], track.at) for track in tracks])
    events: list[sql.Row] = []
    for track, account_id in zip(tracks, accounts, strict=True):
        at, product, user_id = track.at, track.user[0], users[track.user].id
        name = event_names[track.event]
        events.append((product, user_id, at, track.arrival, account_id, name, track.received_at))
        key = (product, user_id, at.toordinal(), name, account_id or NO_ACCOUNT)
        count, last_at = counts.get(key, (0, at))
        counts[key] = (count + 1, at if at > last_at else last_at)
    return events


# --- What must be scored again --------------------------------------------------------------


def _described(
    batch: Batch, users: dict[ExternalKey, UserState], account_ids: dict[ExternalKey, int]
) -> set[rescore_queue.RescoreItem]:
    """Who has new traits or a new account: a workspace's audience may go by these."""
    changed = {key for key, sighting in batch.users.items() if sighting.patches}
    changed |= {link.user for link in batch.links}
    marks = {rescore_queue.rescore_user(key[0], users[key].id) for key in changed}
    for key, sighting in batch.accounts.items():
        if sighting.patches:
            marks.add(rescore_queue.rescore_account(key[0], account_ids[key]))
    return marks


def _resettled(
    before: dict[ExternalKey, int | None], users: dict[ExternalKey, UserState]
) -> set[rescore_queue.RescoreItem]:
    """The accounts that a known user joined or left: they count one user more or less."""
    marks = set()
    for key, account_id in before.items():
        if users[key].member_of != account_id:
            both = (account_id, users[key].member_of)
            marks |= {rescore_queue.rescore_account(key[0], id) for id in both if id is not None}
    return marks


def _stale(
    newcomers: Sequence[UserState], touched: set[ChangedCount]
) -> set[rescore_queue.RescoreItem]:
    # Strangers' counts too, though they change no score: another worker may be introducing the
    # stranger just now, and its mark may be worked off before these counts are committed.
    return {
        rescore_queue.rescore_user(user.product_id, user.id) for user in newcomers
    } | rescore_queue.rescore_changed_counts(touched)


def _changed_since(
    days: dict[int, int], newcomers: Sequence[UserState]
) -> set[rescore_queue.RescoreItem]:
    """From which day on each product's counts changed: scoring decides whether that is late.

    What a stranger did counts from the moment that somebody introduces them.
    """
    earliest = dict(days)
    for user in newcomers:
        if not user.created:
            day = user.first_seen_at.toordinal()
            earliest[user.product_id] = min(day, earliest.get(user.product_id, day))
    return {
        rescore_queue.rescore_days_since(product, date.fromordinal(day))
        for product, day in earliest.items()
    }
