"""Writes what a batch says into its rows, and requests the scores that this changes.

Users are locked before (``resolve``). Accounts are locked last, because many batches name the same
accounts.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import LiteralString

from core.database import sql
from engagement.models.activity import NO_ACCOUNT
from engagement.recording import attribution, daily_counts, stored_traits, suppression
from engagement.recording.attribution import MembershipRecord
from engagement.recording.batch import Batch, ExternalKey, SubjectUpdate, TrackMessage
from engagement.recording.daily_counts import CountKey
from engagement.recording.resolve import BatchRows, UserState
from engagement.scores import rescore_queue
from engagement.scores.rescore_queue import UNCHANGED, AccountChange, RescoreItem


def write(batch: Batch, rows: BatchRows) -> None:
    """Write memberships, events, users, and accounts, and enqueue what must be rescored."""
    previous_accounts = {key: rows.users[key].member_of for key in rows.written_users}
    changed_counts = _write_memberships(batch, rows)
    introduced_users = _identify(batch, rows.users)
    changed_counts |= _write_events(batch, rows)
    lowered = _write_users(batch, rows)
    entered_days = attribution.all_accounts_of(user for user in introduced_users if not user.is_new)
    entered_accounts = suppression.without_forgotten([*batch.entered_accounts, *entered_days])
    identified_accounts, account_changes = _write_accounts(
        batch, rows, {id for _, id in entered_accounts}
    )
    # Also of users who are not identified and score nothing. Another worker may be introducing one
    # at the moment, and its request may be processed before these counts are committed.
    items = daily_counts.rescore_items(changed_counts) | _introduced(introduced_users)
    with_day = {(item.product_id, item.account_id) for item in items if item.day}
    items |= {
        rescore_queue.rescore_account(*account, entered_days.get(account))
        for account in (*entered_accounts, *identified_accounts, *rows.complete_accounts)
        if account in entered_days or account not in with_day
    }
    users = {item.user_id for item in items if item.user_id}
    details = _changed_details(batch, rows, account_changes) | lowered
    items |= {item for item in details if item.user_id not in users}
    items |= _changed_members(previous_accounts, rows.users)
    rescore_queue.enqueue(items)


# --- Memberships and identity ---------------------------------------------------------------


def _write_memberships(batch: Batch, rows: BatchRows) -> set[CountKey]:
    memberships: dict[int, list[MembershipRecord]] = defaultdict(list)
    for message in batch.memberships:
        memberships[rows.users[message.user].id].append(
            MembershipRecord(
                message.at,
                message.arrival,
                rows.account_ids[message.account],
                message.id_number or rows.users[message.user].id_number,
            )
        )
    if not memberships:
        return set()
    users = {user.id: user for user in rows.users.values()}
    return attribution.store_memberships(memberships, users)


def _identify(batch: Batch, users: dict[ExternalKey, UserState]) -> list[UserState]:
    """Mark the users that the batch introduces; returns those that were not identified before.

    The accounts of identified users are identified, too.
    """
    introduced_users = []
    for key, update in batch.users.items():
        if update.is_identified and not users[key].is_identified:
            users[key].is_identified = True
            introduced_users.append(users[key])
    for membership in batch.memberships:
        if users[membership.user].is_identified:
            batch.accounts[membership.account].is_identified = True
    return introduced_users


# --- Events -----------------------------------------------------------------------------------

_COPY_EVENTS: LiteralString = """
    COPY engagement_event
        (product_id, user_id, occurred_at, arrival, account_id, event_name_id, received_at,
         id_number)
    FROM STDIN (FORMAT BINARY)
"""
_EVENT_TYPES = ("int8", "int8", "timestamptz", "int8", "int8", "int8", "timestamptz", "int8")


def _write_events(batch: Batch, rows: BatchRows) -> set[CountKey]:
    """Store the events and add them to the daily counts. Returns which counts changed."""
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
    return set(counts)


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
        id_number = None if number == user_id else number
        events.append(
            (product, user_id, at, track.arrival, account_id, name_id, track.received_at, id_number)
        )
        key = (product, user_id, at.toordinal(), name_id, account_id or NO_ACCOUNT)
        count, last_at = counts.get(key, (0, at))
        counts[key] = (count + 1, at if at > last_at else last_at)
    return events


# --- Users ----------------------------------------------------------------------------------

_WRITE_USERS: LiteralString = f"""
    UPDATE engagement_user u
    SET is_identified = k.identified, account_id = k.account_id, account_since = k.account_since,
        first_seen_at = k.first_at, last_seen_at = k.last_at,
        traits = COALESCE(k.traits::jsonb, u.traits),
        trait_stamps = COALESCE(k.stamps::jsonb, u.trait_stamps),
        created_at = CASE WHEN k.traits IS NULL THEN u.created_at ELSE k.created_at END
    FROM unnest(%(ids)b::bigint[], %(products)b::bigint[], %(identified)b::boolean[],
                %(accounts)b::bigint[], %(since)b::timestamptz[],
                %(first)b::timestamptz[], %(last)b::timestamptz[],
                %(traits)b::text[], %(stamps)b::text[], %(created)b::timestamptz[])
         AS k(id, product_id, identified, account_id, account_since, first_at, last_at,
              traits, stamps, created_at)
    WHERE u.id = k.id AND u.product_id = k.product_id AND {sql.on_node("u")}
"""
_LOWER_FIRST_SEEN: LiteralString = f"""
    UPDATE engagement_user u SET first_seen_at = LEAST(u.first_seen_at, k.first_at)
    FROM unnest(%(ids)b::bigint[], %(products)b::bigint[], %(first)b::timestamptz[])
         AS k(id, product_id, first_at)
    WHERE u.id = k.id AND u.product_id = k.product_id AND {sql.on_node("u")}
"""


def _write_users(batch: Batch, rows: BatchRows) -> set[RescoreItem]:
    """Write the users. Returns those that a late message says were seen before: their days until
    something was done count from then on."""
    users = rows.users
    earlier = [
        (users[key], update.first_at)
        for key, update in batch.users.items()
        if update.first_at < users[key].first_seen_at
    ]
    lowered = {
        rescore_queue.rescore_user(user.product_id, user.id, UNCHANGED)
        for user, first_at in earlier
        if first_at.date() < user.first_seen_at.date()
    }
    states, updates = [], {}
    for key in rows.written_users:
        user, update = users[key], batch.users[key]
        user.first_seen_at = min(user.first_seen_at, update.first_at)
        user.last_seen_at = max(user.last_seen_at, update.last_at)
        states.append(user)
        updates[user.id] = update
    states.sort(key=lambda user: user.id)
    for chunk in stored_traits.chunks([(user, user.trait_bytes) for user in states]):
        update_users(chunk, {user.id: updates[user.id] for user in chunk})
    # Rescoring raises last_seen_at of users who only have events, so that a busy user's row is not
    # rewritten in every batch. Lowering first_seen_at is rare, so it happens here.
    _lower_first_seen(
        (user.id, user.product_id, first_at)
        for user, first_at in earlier
        if first_at < user.first_seen_at
    )
    return lowered


def update_users(users: Sequence[UserState], updates: dict[int, SubjectUpdate]) -> None:
    """Write the users' rows, with the traits of *updates*, by user id, merged into their own."""
    merged = stored_traits.merge("engagement_user", updates)
    sql.execute(
        _WRITE_USERS,
        {
            "ids": [user.id for user in users],
            "products": [user.product_id for user in users],
            "identified": [user.is_identified for user in users],
            "accounts": [user.account_id for user in users],
            "since": [user.account_since for user in users],
            "first": [user.first_seen_at for user in users],
            "last": [user.last_seen_at for user in users],
            **stored_traits.trait_arrays([merged.get(user.id) for user in users]),
        },
    )


def _lower_first_seen(rows: Iterable[tuple[int, int, datetime]]) -> None:
    if sorted_rows := sorted(rows):
        sql.execute(_LOWER_FIRST_SEEN, sql.arrays(sorted_rows, "ids", "products", "first"))


# --- Accounts -------------------------------------------------------------------------------

_LOCK_ACCOUNTS: LiteralString = f"""
    SELECT id, product_id, is_identified, first_seen_at, pg_column_size(traits)
    FROM engagement_account a
    WHERE id = ANY(%(ids)b::bigint[]) AND {sql.on_node("a")}
    ORDER BY id
    FOR NO KEY UPDATE
"""
_IDENTIFY_ACCOUNTS: LiteralString = f"""
    UPDATE engagement_account a SET is_identified = true
    WHERE id = ANY(%(ids)b::bigint[]) AND NOT is_identified AND {sql.on_node("a")}
"""
_WRITE_ACCOUNTS: LiteralString = f"""
    UPDATE engagement_account a
    SET is_identified = a.is_identified OR k.identified,
        first_seen_at = LEAST(a.first_seen_at, k.first_at),
        last_seen_at = GREATEST(a.last_seen_at, k.last_at),
        traits = COALESCE(k.traits::jsonb, a.traits),
        trait_stamps = COALESCE(k.stamps::jsonb, a.trait_stamps),
        created_at = CASE WHEN k.traits IS NULL THEN a.created_at ELSE k.created_at END
    FROM unnest(%(ids)b::bigint[], %(products)b::bigint[], %(identified)b::boolean[],
                %(first)b::timestamptz[], %(last)b::timestamptz[],
                %(traits)b::text[], %(stamps)b::text[], %(created)b::timestamptz[])
         AS k(id, product_id, identified, first_at, last_at, traits, stamps, created_at)
    WHERE a.id = k.id AND a.product_id = k.product_id AND {sql.on_node("a")}
"""


def _write_accounts(
    batch: Batch, rows: BatchRows, entered_ids: set[int]
) -> tuple[list[tuple[int, int]], dict[int, AccountChange]]:
    """Write the accounts of the batch that are not complete yet, and identify those in *entered*.

    *entered* are accounts that newly identified users were in. The batch need not name them.
    Returns (product id, account id) of the accounts that were not identified before, or not seen
    on so early a day, and what changed of the others, by account id.
    """
    complete = {account_id for _, account_id in rows.complete_accounts}
    updates = {
        account_id: update
        for key, update in batch.accounts.items()
        if (account_id := rows.account_ids[key]) not in complete
    }
    if not updates and not entered_ids:
        return [], {}
    locked_rows = sql.fetch(_LOCK_ACCOUNTS, {"ids": [*updates, *entered_ids]})
    if entered_ids:
        sql.execute(_IDENTIFY_ACCOUNTS, {"ids": list(entered_ids)})
    sized = [((id, product), size) for id, product, *_, size in locked_rows if id in updates]
    changes: dict[int, AccountChange] = {}
    for chunk in stored_traits.chunks(sized):
        changes |= _update_accounts(chunk, {id: updates[id] for id, _ in chunk})
    identified = [
        (product, id)
        for id, product, was_identified, first_seen_at, _ in locked_rows
        if (not was_identified and (id in entered_ids or updates[id].is_identified))
        or (id in updates and updates[id].first_at.date() < first_seen_at.date())
    ]
    return identified, changes


def _update_accounts(
    accounts: Sequence[tuple[int, int]], updates: dict[int, SubjectUpdate]
) -> dict[int, AccountChange]:
    """Write the accounts' rows; return what changed that records of their users may show."""
    merged = stored_traits.merge("engagement_account", updates)
    rows = [
        (id, product, (own := updates[id]).is_identified, own.first_at, own.last_at)
        for id, product in accounts
    ]
    sql.execute(
        _WRITE_ACCOUNTS,
        {
            **sql.arrays(rows, "ids", "products", "identified", "first", "last"),
            **stored_traits.trait_arrays([merged.get(id) for id, _ in accounts]),
        },
    )
    return {
        id: AccountChange.NAME if row.has_new_name else AccountChange.TRAITS
        for id, row in merged.items()
        if row and row.has_new_values
    }


# --- What must be rescored ------------------------------------------------------------------


def _introduced(users: Sequence[UserState]) -> set[RescoreItem]:
    """The users that a message introduced, and the first day of each product's: their events count
    from now on."""
    days: dict[int, date] = {}
    for user in users:
        if not user.is_new:
            day = user.first_seen_at.date()
            days[user.product_id] = min(day, days.get(user.product_id, day))
    items = {rescore_queue.rescore_user(user.product_id, user.id) for user in users}
    return items | {rescore_queue.rescore_days_since(*product) for product in days.items()}


def _changed_details(
    batch: Batch, rows: BatchRows, account_changes: Mapping[int, AccountChange]
) -> set[RescoreItem]:
    """The subjects with new traits or memberships: a workspace's audience may depend on them."""
    users = {key for key, update in batch.users.items() if update.patches}
    users |= {membership.user for membership in batch.memberships}
    return {rescore_queue.rescore_user(key[0], rows.users[key].id, UNCHANGED) for key in users} | {
        rescore_queue.rescore_account(key[0], id, UNCHANGED, account_changes.get(id))
        for key, update in batch.accounts.items()
        if update.patches
        for id in (rows.account_ids[key],)
    }


def _changed_members(
    previous: dict[ExternalKey, int | None], users: dict[ExternalKey, UserState]
) -> set[RescoreItem]:
    """The accounts that an identified user joined or left: their number of users changed."""
    return {
        rescore_queue.rescore_account(key[0], account_id, UNCHANGED)
        for key, before in previous.items()
        if (after := users[key].member_of) != before
        for account_id in (before, after)
        if account_id is not None
    }
