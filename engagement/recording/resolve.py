"""Resolves the customers' ids of a batch to rows: finds, creates, and locks them.

Locks on a user, from weak to strong: recording their events takes KEY SHARE, writing their traits
takes NO KEY UPDATE, and changing which account their events belong to takes UPDATE. So workers
record events of one user side by side, also while traits are written, but never while the events'
attribution changes. Each statement takes its locks in the order of ids.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import LiteralString, NamedTuple

import msgspec

from core.database import sql
from engagement.recording import stored_traits
from engagement.recording.batch import Batch, ExternalKey, SubjectUpdate


class UserState(msgspec.Struct, eq=False):
    """A user's row under its lock, with what the batch changes.

    ``is_new`` is whether this batch created it, ``trait_bytes`` the size of the traits in the
    table. ``joined_to`` is the user that it is joined to; the batch changes that one instead.
    ``id_number`` is the number of the row's id.
    """

    id: int
    product_id: int
    is_identified: bool
    account_id: int | None
    account_since: datetime | None
    first_seen_at: datetime
    last_seen_at: datetime
    is_new: bool = False
    trait_bytes: int = 0
    joined_to: int | None = None
    id_number: int = 0

    @property
    def member_of(self) -> int | None:
        """The account that counts the user as one of its own."""
        return self.account_id if self.is_identified else None


class BatchRows(NamedTuple):
    """The rows that a batch is about.

    ``complete_accounts`` were created with all that the batch says about them. Each is given as
    (product id, account id). ``written_users`` are those whose rows change.
    """

    event_name_ids: dict[ExternalKey, int]
    account_ids: dict[ExternalKey, int]
    complete_accounts: set[tuple[int, int]]
    users: dict[ExternalKey, UserState]
    written_users: set[ExternalKey]


def resolve(batch: Batch) -> BatchRows:
    """Find, create, and lock the rows that the batch is about."""
    event_name_ids = _ensure_event_names(batch.event_names())
    account_ids, complete = _ensure_accounts({**batch.mentioned_accounts, **batch.accounts})
    writable = batch.users_to_write()
    users = ensure_users(batch.users, writable)
    # Another worker may join the user that the first look found.
    while names := _names_of_joined(users):
        batch.rename_users(names, {key: users[key].id_number for key in names})
        writable = batch.users_to_write()
        users = ensure_users(batch.users, writable)
    return BatchRows(event_name_ids, account_ids, complete, users, writable)


_FIND: LiteralString = f"""
    SELECT t.product_id, t.{{key}}, t.id
    FROM unnest(%(products)b::bigint[], %(keys)b::text[]) AS k(product_id, {{key}})
    JOIN {{table}} t USING (product_id, {{key}})
    WHERE {sql.on_node("t")}
"""


def _fetch_ids(
    statement: LiteralString, parameters: dict[str, list[object]]
) -> dict[ExternalKey, int]:
    return {(product, key): id for product, key, id in sql.fetch(statement, parameters)}


def _key_arrays(keys: Iterable[ExternalKey]) -> dict[str, list[object]]:
    return sql.arrays(keys, "products", "keys")


# --- Event names ----------------------------------------------------------------------------

_FIND_EVENT_NAMES = _FIND.format(table="engagement_eventname", key="name")
_CREATE_EVENT_NAMES: LiteralString = """
    INSERT INTO engagement_eventname (product_id, name)
    SELECT * FROM unnest(%(products)b::bigint[], %(keys)b::text[])
    ON CONFLICT (product_id, name) DO NOTHING
"""


def _ensure_event_names(keys: set[ExternalKey]) -> dict[ExternalKey, int]:
    if not keys:
        return {}
    ids = _fetch_ids(_FIND_EVENT_NAMES, _key_arrays(keys))
    if missing := keys - ids.keys():
        sql.execute(_CREATE_EVENT_NAMES, _key_arrays(sorted(missing)))
        ids |= _fetch_ids(_FIND_EVENT_NAMES, _key_arrays(missing))
    return ids


# --- Accounts -------------------------------------------------------------------------------

# Of more new accounts, PostgreSQL writes some while the traits of the next ones are merged.
ACCOUNTS_AT_ONCE = 200

_FIND_ACCOUNTS = _FIND.format(table="engagement_account", key="external_id")
_CREATE_ACCOUNTS: LiteralString = """
    INSERT INTO engagement_account (product_id, external_id, traits, trait_stamps, created_at,
                                    is_identified, first_seen_at, last_seen_at)
    SELECT product_id, external_id, COALESCE(traits, '{}')::jsonb,
           COALESCE(s.shared[k.place], stamps::jsonb, '{}'), created_at, identified, first_at,
           last_at
    FROM (SELECT %(shared)b::text[]::jsonb[] AS shared OFFSET 0) AS s,
         unnest(%(products)b::bigint[], %(keys)b::text[], %(identified)b::boolean[],
                %(first)b::timestamptz[], %(last)b::timestamptz[],
                %(traits)b::text[], %(stamps)b::text[], %(created)b::timestamptz[],
                %(places)b::integer[])
         AS k(product_id, external_id, identified, first_at, last_at, traits, stamps, created_at,
              place)
    ON CONFLICT (product_id, external_id) DO NOTHING
    RETURNING product_id, external_id, id
"""


def _ensure_accounts(
    updates: dict[ExternalKey, SubjectUpdate],
) -> tuple[dict[ExternalKey, int], set[tuple[int, int]]]:
    """The id of each account, and (product id, id) of those that were created complete."""
    if not updates:
        return {}, set()
    ids = _fetch_ids(_FIND_ACCOUNTS, _key_arrays(updates))
    complete: set[tuple[int, int]] = set()
    if missing := updates.keys() - ids.keys():
        new = _create_accounts(missing, updates)
        ids |= new
        complete = {(key[0], id) for key, id in new.items() if updates[key].is_identified}
    if missing := updates.keys() - ids.keys():
        # Another worker created these in the meantime.
        ids |= _fetch_ids(_FIND_ACCOUNTS, _key_arrays(missing))
    return ids, complete


def _create_accounts(
    keys: Collection[ExternalKey], updates: dict[ExternalKey, SubjectUpdate]
) -> dict[ExternalKey, int]:
    """Create the accounts, with their traits: writing the row again would cost as much as
    creating it."""
    # Sorted, so that two workers that create the same accounts cannot deadlock.
    sorted_keys = sorted(keys)
    if len(sorted_keys) <= ACCOUNTS_AT_ONCE:
        return _fetch_ids(_CREATE_ACCOUNTS, _new_accounts(sorted_keys, updates))
    parts = (
        _new_accounts(sorted_keys[start : start + ACCOUNTS_AT_ONCE], updates)
        for start in range(0, len(sorted_keys), ACCOUNTS_AT_ONCE)
    )
    rows = sql.fetch_in_parts(_CREATE_ACCOUNTS, parts)
    return {(product, external_id): id for product, external_id, id in rows}


def _new_accounts(
    keys: Sequence[ExternalKey], updates: dict[ExternalKey, SubjectUpdate]
) -> dict[str, list[object]]:
    rows = [updates[key] for key in keys]
    own = ((row.is_identified, row.first_at, row.last_at) for row in rows)
    return {
        **_key_arrays(keys),
        **sql.arrays(own, "identified", "first", "last"),
        **stored_traits.new_trait_arrays([stored_traits.merge_new(row) for row in rows]),
    }


# --- Users ----------------------------------------------------------------------------------

_LOCK_USERS: LiteralString = f"""
    SELECT u.product_id, u.external_id, u.id, u.is_identified, u.account_id, u.account_since,
           u.first_seen_at, u.last_seen_at, pg_column_size(u.traits), u.joined_to_id,
           COALESCE(u.id_number, u.id)
    FROM unnest(%(products)b::bigint[], %(keys)b::text[]) AS k(product_id, external_id)
    JOIN engagement_user u USING (product_id, external_id)
    WHERE {sql.on_node("u")}
    ORDER BY u.id
    FOR {{strength}} OF u
"""
_LOCK_TO_READ = _LOCK_USERS.format(strength="KEY SHARE")
_LOCK_TO_WRITE = _LOCK_USERS.format(strength="NO KEY UPDATE")
_LOCK_TO_MOVE: LiteralString = f"""
    SELECT id FROM engagement_user u WHERE id = ANY(%(ids)b::bigint[]) AND {sql.on_node("u")}
    ORDER BY id FOR UPDATE
"""
_CREATE_USERS: LiteralString = """
    INSERT INTO engagement_user (product_id, external_id, traits, trait_stamps, is_identified,
                                 first_seen_at, last_seen_at)
    SELECT product_id, external_id, '{}', '{}', false, first_at, last_at
    FROM unnest(%(products)b::bigint[], %(keys)b::text[],
                %(first)b::timestamptz[], %(last)b::timestamptz[])
         AS k(product_id, external_id, first_at, last_at)
    ON CONFLICT (product_id, external_id) DO NOTHING
    RETURNING product_id, external_id, id
"""


_NAMES_OF: LiteralString = f"""
    SELECT id, product_id, external_id FROM engagement_user u
    WHERE id = ANY(%(ids)b::bigint[]) AND {sql.on_node("u")}
"""


def _names_of_joined(users: dict[ExternalKey, UserState]) -> dict[ExternalKey, ExternalKey]:
    """For each joined user the user that it is joined to. Nearly always there are none."""
    joined = {key: user.joined_to for key, user in users.items() if user.joined_to is not None}
    if not joined:
        return {}
    rows = sql.fetch(_NAMES_OF, {"ids": list(set(joined.values()))})
    names = {id: (product, external_id) for id, product, external_id in rows}
    return {key: names[id] for key, id in joined.items()}


def ensure_users(
    updates: dict[ExternalKey, SubjectUpdate], writable: set[ExternalKey]
) -> dict[ExternalKey, UserState]:
    """The users, locked: those in *writable* to be written, the others against a change of their
    attribution."""
    users = _lock(_LOCK_TO_WRITE, writable) | _lock(_LOCK_TO_READ, updates.keys() - writable)
    while missing := updates.keys() - users.keys():
        users |= create_users(missing, updates)
        if missing := updates.keys() - users.keys():
            # Another worker created these in the meantime, or gave their ids to other rows.
            users |= _lock(_LOCK_TO_WRITE, missing)
    return users


def _lock(statement: LiteralString, keys: Collection[ExternalKey]) -> dict[ExternalKey, UserState]:
    if not keys:
        return {}
    return dict(map(_read_row, sql.fetch(statement, _key_arrays(keys))))


def _read_row(row: sql.Row) -> tuple[ExternalKey, UserState]:
    product, external_id, id, identified, account, since, first, last, size, joined_to, number = row
    return (product, external_id), UserState(
        id, product, identified, account, since, first, last, False, size, joined_to, number
    )


def create_users(
    keys: Collection[ExternalKey], updates: dict[ExternalKey, SubjectUpdate]
) -> dict[ExternalKey, UserState]:
    # Sorted, so that two workers that create the same users cannot deadlock.
    rows = [(*key, updates[key].first_at, updates[key].last_at) for key in sorted(keys)]
    ids = _fetch_ids(_CREATE_USERS, sql.arrays(rows, "products", "keys", "first", "last"))
    return {
        (product, key): UserState(id, product, False, None, None, first, last, True, id_number=id)
        for product, key, first, last in rows
        if (id := ids.get((product, key)))
    }


_LOCK_ROWS: LiteralString = f"""
    SELECT product_id, external_id, id, is_identified, account_id, account_since, first_seen_at,
           last_seen_at, pg_column_size(traits), joined_to_id, COALESCE(id_number, id)
    FROM engagement_user u WHERE id = ANY(%(ids)b::bigint[]) AND {sql.on_node("u")}
    ORDER BY id FOR UPDATE
"""


def lock_rows(user_ids: Collection[int]) -> list[tuple[ExternalKey, UserState]]:
    """These users, locked like by ``lock_users_for_update``, each with its id."""
    return list(map(_read_row, sql.fetch(_LOCK_ROWS, {"ids": list(user_ids)})))


def lock_users_for_update(user_ids: Iterable[int]) -> None:
    """Let no other worker record events of these users until the transaction ends."""
    if ids := list(user_ids):
        sql.fetch(_LOCK_TO_MOVE, {"ids": ids})
