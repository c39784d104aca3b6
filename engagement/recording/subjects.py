"""Finding, creating, locking and writing users and accounts, whole batches at a time.

Locks, from weak to strong: whoever records a user's events holds KEY SHARE on the user, whoever
writes traits NO KEY UPDATE, whoever changes which account the user's events belong to UPDATE.
So events of one user are recorded side by side with each other and with traits, but never while
their attribution changes. Each statement takes its locks in the order of ids.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, LiteralString, NamedTuple, TypeAlias, TypeVar

import msgspec

from engagement.database import sql
from engagement.recording import trait_limits
from engagement.recording.trait_limits import MergedTraits, TraitPatch

# (product id, the customer's id)
ExternalKey: TypeAlias = tuple[int, str]


class SubjectUpdate(msgspec.Struct):
    """What a batch says of one user or account.

    ``patches`` are the traits of its messages with their stamps. ``identified`` is whether a
    message introduces the subject rather than naming it in passing. ``refused`` are the names of
    the traits that found no room, by the arrival of their message; writing the subject fills it.
    """

    first_at: datetime
    last_at: datetime
    identified: bool = False
    patches: list[TraitPatch] = []
    refused: dict[int, list[str]] = {}

    def widen(self, at: datetime) -> None:
        if at < self.first_at:
            self.first_at = at
        if at > self.last_at:
            self.last_at = at


class UserState(msgspec.Struct, eq=False):
    """A user's row under its lock. ``created`` is whether this batch made it, ``trait_bytes`` what
    the traits take in the table."""

    id: int
    product_id: int
    is_identified: bool
    account_id: int | None
    account_since: datetime | None
    first_seen_at: datetime
    last_seen_at: datetime
    created: bool = False
    trait_bytes: int = 0

    @property
    def member_of(self) -> int | None:
        """The account that counts the user as one of its own."""
        return self.account_id if self.is_identified else None


def get_or_create_update(
    sightings: dict[ExternalKey, SubjectUpdate], key: ExternalKey, at: datetime
) -> SubjectUpdate:
    """The batch's sighting of *key*, widened to *at*."""
    sighting = sightings.get(key)
    if sighting is None:
        sighting = sightings[key] = SubjectUpdate(at, at)
    else:
        sighting.widen(at)
    return sighting


# --- Accounts -------------------------------------------------------------------------------

_FIND_ACCOUNTS: LiteralString = """
    SELECT a.product_id, a.external_id, a.id
    FROM unnest(%(products)b::bigint[], %(ids)b::text[]) AS k(product_id, external_id)
    JOIN engagement_account a USING (product_id, external_id)
"""
_CREATE_ACCOUNTS: LiteralString = """
    INSERT INTO engagement_account (product_id, external_id, traits, trait_stamps, created_at,
                                    is_identified, first_seen_at, last_seen_at)
    SELECT product_id, external_id, COALESCE(traits, '{}')::jsonb, COALESCE(stamps, '{}')::jsonb,
           created_at, identified, first_at, last_at
    FROM unnest(%(products)b::bigint[], %(ids)b::text[], %(identified)b::boolean[],
                %(first)b::timestamptz[], %(last)b::timestamptz[],
                %(traits)b::text[], %(stamps)b::text[], %(created)b::timestamptz[])
         AS k(product_id, external_id, identified, first_at, last_at, traits, stamps, created_at)
    ON CONFLICT (product_id, external_id) DO NOTHING
    RETURNING product_id, external_id, id
"""


class EnsuredAccounts(NamedTuple):
    """Accounts that exist: the id of each, and those (product id, id) that were created whole, with
    nothing left to be written of what the batch says."""

    ids: dict[ExternalKey, int]
    fully_written: set[tuple[int, int]]


def ensure_accounts(sightings: dict[ExternalKey, SubjectUpdate]) -> EnsuredAccounts:
    """The accounts, created where there are none."""
    if not sightings:
        return EnsuredAccounts({}, set())
    ids = _find_accounts(sightings)
    whole: set[tuple[int, int]] = set()
    if missing := sightings.keys() - ids.keys():
        created = _create_accounts(missing, sightings)
        ids |= created
        whole = {(key[0], id) for key, id in created.items() if sightings[key].identified}
    if missing := sightings.keys() - ids.keys():
        # Another worker made these in the meantime.
        ids |= _find_accounts(missing)
    return EnsuredAccounts(ids, whole)


def _create_accounts(
    keys: Collection[ExternalKey], sightings: dict[ExternalKey, SubjectUpdate]
) -> dict[ExternalKey, int]:
    """Create those that are introduced with all that is said of them: a second write of the row
    would cost as much as the first."""
    # Sorted, so that two workers that create the same subjects cannot deadlock.
    ordered = sorted(keys)
    found = [sightings[key] for key in ordered]
    merged = [_merged("{}", "{}", one) if one.identified and one.patches else None for one in found]
    rows = sql.fetch(
        _CREATE_ACCOUNTS,
        {
            **_key_arrays(ordered),
            "identified": [one.identified for one in found],
            "first": [one.first_at for one in found],
            "last": [one.last_at for one in found],
            **_trait_arrays(merged),
        },
    )
    return {(product, external): id for product, external, id in rows}


def _find_accounts(keys: Iterable[ExternalKey]) -> dict[ExternalKey, int]:
    rows = sql.fetch(_FIND_ACCOUNTS, _key_arrays(keys))
    return {(product, external): id for product, external, id in rows}


def _key_arrays(keys: Iterable[ExternalKey]) -> dict[str, Any]:
    pairs = list(keys)
    return {"products": [product for product, _ in pairs], "ids": [id for _, id in pairs]}


_LOCK_ACCOUNTS: LiteralString = """
    SELECT id, product_id, is_identified, pg_column_size(traits)
    FROM engagement_account
    WHERE id = ANY(%(ids)b::bigint[])
    ORDER BY id
    FOR NO KEY UPDATE
"""
_WRITE_ACCOUNTS: LiteralString = """
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
    WHERE a.id = k.id AND a.product_id = k.product_id
"""


_IDENTIFY_ACCOUNTS: LiteralString = """
    UPDATE engagement_account SET is_identified = true
    WHERE id = ANY(%(ids)b::bigint[]) AND NOT is_identified
"""


def write_accounts(sightings: dict[int, SubjectUpdate], entered: set[int]) -> list[tuple[int, int]]:
    """Merge what the batch says of accounts, by id; (product id, id) of the newly identified.

    Those that were created whole are not among them. *entered* are accounts that the batch does
    not name, but that a newly identified user was in. These are the last locks that a batch takes,
    because many batches name the same accounts.
    """
    if not sightings and not entered:
        return []
    locked = sql.fetch(_LOCK_ACCOUNTS, {"ids": [*sightings, *entered]})
    if entered:
        sql.execute(_IDENTIFY_ACCOUNTS, {"ids": list(entered)})
    sized = [((id, product), size) for id, product, _, size in locked if id in sightings]
    for keys in _portions(sized):
        _merge_accounts(keys, {id: sightings[id] for id, _ in keys})
    return [
        (product, id)
        for id, product, known, _ in locked
        if not known and (id in entered or sightings[id].identified)
    ]


def _merge_accounts(keys: list[tuple[int, int]], sightings: dict[int, SubjectUpdate]) -> None:
    found = [sightings[id] for id, _ in keys]
    merged = _merged_traits("engagement_account", sightings)
    sql.execute(
        _WRITE_ACCOUNTS,
        {
            "ids": [id for id, _ in keys],
            "products": [product for _, product in keys],
            "identified": [sighting.identified for sighting in found],
            "first": [sighting.first_at for sighting in found],
            "last": [sighting.last_at for sighting in found],
            **_trait_arrays([merged.get(id) for id, _ in keys]),
        },
    )


# --- Traits ---------------------------------------------------------------------------------


# Subjects with many traits are read and written in portions, so that a batch that names thousands
# of them fits into memory. Unpacked, traits take up to so many times what they take in the table.
CHUNK_BYTES = 32 * 1024 * 1024
DECOMPRESSION_FACTOR = 20

Item = TypeVar("Item")


def _portions(sized: Sequence[tuple[Item, int]]) -> Iterator[list[Item]]:
    """The subjects, given with the size of their traits, in portions; nearly always all at once."""
    portion: list[Item] = []
    total = 0
    for one, size in sized:
        unpacked = min(size * DECOMPRESSION_FACTOR, trait_limits.MAX_BYTES * 2)
        if portion and total + unpacked > CHUNK_BYTES:
            yield portion
            portion, total = [], 0
        portion.append(one)
        total += unpacked
    if portion:
        yield portion


# A subject with more than this, compressed, was written before there were limits, and is over them.
OVERSIZED_BYTES = 1024 * 1024

_READ_TRAITS: LiteralString = """
    SELECT id, traits::text, trait_stamps::text FROM {table}
    WHERE id = ANY(%(ids)b::bigint[]) AND pg_column_size(traits) <= %(gross)s
"""
# Nothing where the traits are all new: then nobody needs to take megabytes apart.
_READ_GROSS: LiteralString = """
    SELECT id, traits::text, trait_stamps::text FROM {table}
    WHERE id = %(id)s AND (trait_stamps ?| %(names)b::text[] OR %(is_of_license)s)
"""


def _merged_traits(
    table: LiteralString, sightings: dict[int, SubjectUpdate]
) -> dict[int, MergedTraits | None]:
    """The traits of the (locked) subjects that have patches, with what fits of the patches merged
    in; None where nothing changes."""
    left = {id for id, sighting in sightings.items() if sighting.patches}
    if not left:
        return {}
    merged: dict[int, MergedTraits | None] = {}
    read = {"ids": list(left), "gross": OVERSIZED_BYTES}
    for id, traits, stamps in sql.fetch(_READ_TRAITS.format(table=table), read):
        left.remove(id)
        merged[id] = _merged(traits, stamps, sightings[id])
    for id in left:
        merged[id] = _merged_into_gross(table, id, sightings[id])
    return merged


def _merged_into_gross(
    table: LiteralString, id: int, sighting: SubjectUpdate
) -> MergedTraits | None:
    read = {
        "id": id,
        "names": trait_limits.patched_names(sighting.patches),
        "is_of_license": trait_limits.has_license_patch(sighting.patches),
    }
    for _, traits, stamps in sql.fetch(_READ_GROSS.format(table=table), read):
        return _merged(traits, stamps, sighting)
    sighting.refused = trait_limits.drop_new_traits(sighting.patches)
    return None


def _merged(traits: str, stamps: str, sighting: SubjectUpdate) -> MergedTraits | None:
    merged, sighting.refused = trait_limits.merge_patches(traits, stamps, sighting.patches)
    return merged


def _trait_arrays(rows: list[MergedTraits | None]) -> dict[str, list[Any]]:
    """The merged traits, with None for who has no patch."""
    return {
        "traits": [row and row.traits for row in rows],
        "stamps": [row and row.stamps for row in rows],
        "created": [row and row.created_at for row in rows],
    }


# --- Users ----------------------------------------------------------------------------------

_LOCK_USERS: LiteralString = """
    SELECT u.product_id, u.external_id, u.id, u.is_identified, u.account_id, u.account_since,
           u.first_seen_at, u.last_seen_at, pg_column_size(u.traits)
    FROM unnest(%(products)b::bigint[], %(ids)b::text[]) AS k(product_id, external_id)
    JOIN engagement_user u USING (product_id, external_id)
    ORDER BY u.id
    FOR {strength} OF u
"""
_CREATE_USERS: LiteralString = """
    INSERT INTO engagement_user (product_id, external_id, traits, trait_stamps, is_identified,
                                 first_seen_at, last_seen_at)
    SELECT product_id, external_id, '{}', '{}', false, first_at, last_at
    FROM unnest(%(products)b::bigint[], %(ids)b::text[],
                %(first)b::timestamptz[], %(last)b::timestamptz[])
         AS k(product_id, external_id, first_at, last_at)
    ON CONFLICT (product_id, external_id) DO NOTHING
    RETURNING product_id, external_id, id
"""
_LOCK_TO_READ = _LOCK_USERS.format(strength="KEY SHARE")
_LOCK_TO_WRITE = _LOCK_USERS.format(strength="NO KEY UPDATE")
_LOCK_TO_MOVE: LiteralString = """
    SELECT id FROM engagement_user WHERE id = ANY(%(ids)b::bigint[]) ORDER BY id FOR UPDATE
"""


def ensure_users(
    sightings: dict[ExternalKey, SubjectUpdate], written: Collection[ExternalKey]
) -> dict[ExternalKey, UserState]:
    """Each user's row, created where there is none and locked: to write where its key is in
    *written*, otherwise against a change of attribution."""
    read = sightings.keys() - set(written)
    users = _lock(_LOCK_TO_WRITE, written) | _lock(_LOCK_TO_READ, read)
    if missing := sightings.keys() - users.keys():
        for product, external, id in _create_users(missing, sightings):
            sighting = sightings[product, external]
            users[product, external] = UserState(
                id, product, False, None, None, sighting.first_at, sighting.last_at, True
            )
    if missing := sightings.keys() - users.keys():
        # Another worker made these in the meantime.
        users |= _lock(_LOCK_TO_WRITE, missing)
    return users


def _create_users(
    keys: Collection[ExternalKey], sightings: dict[ExternalKey, SubjectUpdate]
) -> list[sql.Row]:
    # Sorted, so that two workers that create the same subjects cannot deadlock.
    ordered = sorted(keys)
    return sql.fetch(
        _CREATE_USERS,
        {
            **_key_arrays(ordered),
            "first": [sightings[key].first_at for key in ordered],
            "last": [sightings[key].last_at for key in ordered],
        },
    )


def lock_users_for_update(user_ids: Iterable[int]) -> None:
    """Keep everybody else from recording events of these users until the transaction ends."""
    if ids := list(user_ids):
        sql.fetch(_LOCK_TO_MOVE, {"ids": ids})


def _lock(statement: LiteralString, keys: Collection[ExternalKey]) -> dict[ExternalKey, UserState]:
    if not keys:
        return {}
    rows = sql.fetch(statement, _key_arrays(keys))
    users: dict[ExternalKey, UserState] = {}
    for product, external, id, known, account, since, first, last, size in rows:
        state = UserState(id, product, known, account, since, first, last, trait_bytes=size)
        users[product, external] = state
    return users


_WRITE_USERS: LiteralString = """
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
    WHERE u.id = k.id AND u.product_id = k.product_id
"""


def write_users(users: Iterable[UserState], sightings: dict[int, SubjectUpdate]) -> None:
    """Write each user's state as it stands and merge what the batch says of their traits, by id;
    the rows are locked already."""
    ordered = sorted(users, key=lambda user: user.id)
    for portion in _portions([(user, user.trait_bytes) for user in ordered]):
        _write_users(portion, {user.id: sightings[user.id] for user in portion})


def _write_users(ordered: Sequence[UserState], sightings: dict[int, SubjectUpdate]) -> None:
    merged = _merged_traits("engagement_user", sightings)
    sql.execute(
        _WRITE_USERS,
        {
            "ids": [user.id for user in ordered],
            "products": [user.product_id for user in ordered],
            "identified": [user.is_identified for user in ordered],
            "accounts": [user.account_id for user in ordered],
            "since": [user.account_since for user in ordered],
            "first": [user.first_seen_at for user in ordered],
            "last": [user.last_seen_at for user in ordered],
            **_trait_arrays([merged.get(user.id) for user in ordered]),
        },
    )


_LOWER_FIRST_SEEN: LiteralString = """
    UPDATE engagement_user u SET first_seen_at = LEAST(u.first_seen_at, k.first_at)
    FROM unnest(%(ids)b::bigint[], %(products)b::bigint[], %(first)b::timestamptz[])
         AS k(id, product_id, first_at)
    WHERE u.id = k.id AND u.product_id = k.product_id
"""


def lower_first_seen(seen: Iterable[tuple[UserState, datetime]]) -> None:
    """Events older than what is known of their users move the users' first sighting back."""
    ordered = sorted(((user.id, user.product_id, at) for user, at in seen))
    if ordered:
        sql.execute(
            _LOWER_FIRST_SEEN,
            {
                "ids": [id for id, _, _ in ordered],
                "products": [product for _, product, _ in ordered],
                "first": [at for _, _, at in ordered],
            },
        )
