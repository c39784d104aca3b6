"""Joins users whose ids are one person's, as aliases say.

One row is left for the person: it has the id that stands for the person, and gets the traits, the
times, and the rows of the others. These are kept, empty, to lead from their ids to the person's row
(``joined_to``), so a message that names an old id costs one more lookup and any other costs none.
"""

import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any, LiteralString, NamedTuple

import msgspec

from core.database import sql
from engagement.messages import RejectionReason
from engagement.recording import attribution, moving, stored_traits
from engagement.recording.aliases import (
    Grouping,
    StoredAlias,
    current_id,
    group_ids,
)
from engagement.recording.batch import AliasMessage, ExternalKey, SubjectUpdate
from engagement.recording.resolve import UserState, create_users, lock_rows
from engagement.recording.trait_limits import TraitPatch
from engagement.recording.write import update_users
from engagement.scores import rescore_queue
from engagement.scores.rescore_queue import RescoreItem
from engagement.traits import group_by_stamp


class JoinResult(NamedTuple):
    """What joining did.

    ``dropped_traits`` are the trait names that have no room, by the arrival of an alias.
    ``entered_accounts`` (product id, account id) now have an identified user.
    """

    accepted: list[AliasMessage]
    rejected: list[tuple[AliasMessage, RejectionReason]]
    dropped_traits: dict[int, list[str]]
    entered_accounts: list[tuple[int, int]]


class Person(msgspec.Struct, eq=False):
    """A row that is not joined to another one, under its lock, with all ids of the person."""

    key: ExternalKey
    user: UserState
    ids: set[ExternalKey]
    aliases: dict[tuple[str, str], StoredAlias] = {}

    @property
    def previous_ids(self) -> set[ExternalKey]:
        """The ids that an alias replaced."""
        return {(self.user.product_id, previous_id) for previous_id, _ in self.aliases}


class Join(NamedTuple):
    """Persons who are one from now on: the one whose row is left, the others, and the aliases that
    say so."""

    survivor: Person
    joined: list[Person]
    messages: list[AliasMessage]

    @property
    def current(self) -> ExternalKey:
        """The id that stands for the person."""
        merged = [alias for person in self.persons for alias in person.aliases.values()]
        own_aliases = [_stored(message) for message in self.messages]
        return self.survivor.user.product_id, current_id([*merged, *own_aliases])

    @property
    def persons(self) -> list[Person]:
        return [self.survivor, *self.joined]

    @property
    def old_users(self) -> list[UserState]:
        """The joined users who had a row before: only they have anything to merge."""
        return [person.user for person in self.joined if not person.user.is_new]


def join_users(messages: Sequence[AliasMessage], identified: Collection[ExternalKey]) -> JoinResult:
    """Join the users that the aliases name, and store the aliases. The batch identifies the users
    in *identified*."""
    # An alias from an id to itself joins nothing.
    naming = [message for message in messages if message.previous != message.user]
    itself = [message for message in messages if message.previous == message.user]
    if not naming:
        return JoinResult(itself, [], {}, [])
    persons, grouping = _lock_persons(naming, identified)
    joins = _joins(persons, grouping)
    dropped, new_accounts = _merge_subjects(joins)
    _store_aliases(joins)
    _link_ids(joins)
    _rename(joins)
    moving.move_or_request(
        (user.product_id, user.id, join.survivor.user.id)
        for join in joins
        for user in join.old_users
    )
    return JoinResult([*itself, *grouping.accepted], grouping.rejected, dropped, new_accounts)


# --- Locking --------------------------------------------------------------------------------

_LOCK_IDS: LiteralString = f"""
    SELECT u.product_id, u.external_id, COALESCE(u.joined_to_id, u.id)
    FROM unnest(%(products)b::bigint[], %(keys)b::text[]) AS k(product_id, external_id)
    JOIN engagement_user u USING (product_id, external_id)
    WHERE {sql.on_node("u")}
    ORDER BY u.id
    FOR UPDATE OF u
"""
_READ_ALIASES: LiteralString = f"""
    SELECT a.user_id, a.previous_id, a.new_id, a.occurred_at, a.arrival
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[]) AS k(product_id, user_id)
    JOIN engagement_alias a USING (product_id, user_id)
    WHERE {sql.on_node("a")}
"""


def _lock_persons(
    messages: Sequence[AliasMessage], identified: Collection[ExternalKey]
) -> tuple[list[Person], Grouping]:
    """The persons that the aliases name, locked, and the groups that they make. Creates rows for
    unknown ids, unless their aliases are rejected."""
    keys = {key for message in messages for key in (message.previous, message.user)}
    created_ids: set[int] = set()
    while True:
        persons = lock_known(keys, created_ids)
        grouping = group_ids(
            [person.ids for person in persons],
            messages,
            {*identified, *(person.key for person in persons if person.user.is_identified)},
            {key for person in persons for key in person.previous_ids},
        )
        accepted = {
            key: SubjectUpdate(message.at, message.at)
            for message in grouping.accepted
            for key in (message.previous, message.user)
        }
        known_keys = {key for person in persons for key in person.ids}
        missing = accepted.keys() - known_keys
        if not missing:
            return persons, grouping
        created_ids |= {user.id for user in create_users(missing, accepted).values()}


def lock_known(keys: Collection[ExternalKey], created_ids: set[int]) -> list[Person]:
    """The persons who have any of the ids. Those in *created* are new."""
    while True:
        owners = {
            (product, external_id): owner
            for product, external_id, owner in sql.fetch(
                _LOCK_IDS, sql.arrays(keys, "products", "keys")
            )
        }
        rows = lock_rows(set(owners.values()))
        if all(user.joined_to is None for _, user in rows):
            break
        # Another worker joined the user that the first look found.
    persons = {user.id: Person(key, user, {key}) for key, user in rows}
    for key, owner in owners.items():
        persons[owner].ids.add(key)
    for person in persons.values():
        person.user.is_new = person.user.id in created_ids
    parameters = [(person.user.product_id, id) for id, person in persons.items()]
    for owner, *ids, at, arrival in sql.fetch(
        _READ_ALIASES, sql.arrays(parameters, "products", "users")
    ):
        previous_id, new_id = ids
        person = persons[owner]
        person.aliases[previous_id, new_id] = StoredAlias(previous_id, new_id, (at, arrival))
        person.ids |= {(person.user.product_id, id) for id in ids}
    return list(persons.values())


def _joins(persons: Sequence[Person], grouping: Grouping) -> list[Join]:
    """The persons of each group that an alias names, and which of their rows is left."""
    messages: dict[int, list[AliasMessage]] = defaultdict(list)
    for message in grouping.accepted:
        messages[id(grouping.ids[message.user])].append(message)
    groups: dict[int, list[Person]] = defaultdict(list)
    for person in persons:
        groups[id(grouping.ids[person.key])].append(person)
    return [_join(groups[group], own) for group, own in messages.items()]


def _join(persons: Sequence[Person], messages: list[AliasMessage]) -> Join:
    # A row that was just created has nothing to move, so it is never the one that is left.
    candidates = [person for person in persons if not person.user.is_new] or persons
    first = min(candidates, key=lambda person: person.user.id)
    current = Join(first, [person for person in persons if person is not first], messages).current
    survivor = next((person for person in candidates if person.key == current), first)
    return Join(survivor, [person for person in persons if person is not survivor], messages)


# --- Traits, times, and identity ------------------------------------------------------------

_READ_TRAITS: LiteralString = f"""
    SELECT id, traits::text, trait_stamps::text FROM engagement_user u
    WHERE id = ANY(%(ids)b::bigint[]) AND trait_stamps <> '{{}}' AND {sql.on_node("u")}
"""
_EMPTY: LiteralString = f"""
    UPDATE engagement_user u
    SET is_identified = false, traits = '{{}}', trait_stamps = '{{}}', created_at = NULL,
        account_id = NULL, account_since = NULL
    WHERE id = ANY(%(ids)b::bigint[]) AND {sql.on_node("u")}
"""


def _merge_subjects(joins: Sequence[Join]) -> tuple[dict[int, list[str]], list[tuple[int, int]]]:
    """Merge what the joined rows say about their users into those that are left. Returns the
    traits that have no room, and the accounts that this gives an identified user."""
    merging = [join for join in joins if join.old_users]
    items: set[RescoreItem] = set()
    new_accounts: list[tuple[int, int]] = []
    for join in merging:
        users = [join.survivor.user, *join.old_users]
        newly = [user for user in users if not user.is_identified]
        if len(newly) == len(users):
            newly = []
        entered_here = attribution.all_accounts_of(newly)
        items |= _rescore_items(users, newly, entered_here)
        new_accounts += entered_here
    rescore_queue.enqueue(items)
    dropped: dict[int, list[str]] = {}
    sized = [
        (join, sum(user.trait_bytes for user in [join.survivor.user, *join.old_users]))
        for join in merging
    ]
    for chunk in stored_traits.chunks(sized):
        dropped |= _merge_rows(chunk)
    return dropped, new_accounts


def _merge_rows(joins: Sequence[Join]) -> dict[int, list[str]]:
    ids = [user.id for join in joins for user in join.old_users]
    patches: dict[int, list[TraitPatch]] = {}
    for id, traits, stamps in sql.fetch(_READ_TRAITS, {"ids": ids}):
        by_stamp = group_by_stamp(msgspec.json.decode(traits), msgspec.json.decode(stamps))
        patches[id] = [(patch, stamp) for stamp, patch in by_stamp.items()]
    updates: dict[int, SubjectUpdate] = {}
    for join in joins:
        survivor, users = join.survivor.user, [join.survivor.user, *join.old_users]
        survivor.is_identified = any(user.is_identified for user in users)
        survivor.first_seen_at = min(user.first_seen_at for user in users)
        survivor.last_seen_at = max(user.last_seen_at for user in users)
        own = [patch for user in join.old_users for patch in patches.get(user.id, ())]
        updates[survivor.id] = SubjectUpdate(
            survivor.first_seen_at, survivor.last_seen_at, patches=own
        )
    update_users([join.survivor.user for join in joins], updates)
    sql.execute(_EMPTY, {"ids": ids})
    return {
        max(message.arrival for message in join.messages): sorted(
            {name for names in dropped.values() for name in names}
        )
        for join in joins
        if (dropped := updates[join.survivor.user.id].dropped_traits)
    }


def _rescore_items(
    users: Sequence[UserState],
    newly: Sequence[UserState],
    new_accounts: Mapping[tuple[int, int], date],
) -> set[RescoreItem]:
    """The users and their accounts. The events of a *newly* identified user count from now on."""
    items = {rescore_queue.rescore_user(user.product_id, user.id) for user in users}
    items |= {rescore_queue.rescore_account(*account, day) for account, day in new_accounts.items()}
    items |= {
        rescore_queue.rescore_account(user.product_id, user.account_id)
        for user in users
        if user.account_id is not None
    }
    if newly:
        day: date = min(user.first_seen_at for user in newly).date()
        items.add(rescore_queue.rescore_days_since(newly[0].product_id, day))
    return items


# --- Aliases and ids ------------------------------------------------------------------------

_MOVE_ALIASES: LiteralString = f"""
    UPDATE engagement_alias a SET user_id = k.kept_id
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(kept)b::bigint[])
         AS k(product_id, user_id, kept_id)
    WHERE a.product_id = k.product_id AND a.user_id = k.user_id AND {sql.on_node("a")}
"""
_RAISE_STAMPS: LiteralString = f"""
    UPDATE engagement_alias a SET occurred_at = k.occurred_at, arrival = k.arrival
    FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(previous)b::text[], %(new)b::text[],
                %(at)b::timestamptz[], %(arrivals)b::bigint[])
         AS k(product_id, user_id, previous_id, new_id, occurred_at, arrival)
    WHERE a.product_id = k.product_id AND a.user_id = k.user_id AND {sql.on_node("a")}
      AND a.previous_id = k.previous_id AND a.new_id = k.new_id
"""
_INSERT_ALIASES: LiteralString = """
    INSERT INTO engagement_alias
        (product_id, user_id, previous_id, new_id, occurred_at, arrival)
    SELECT * FROM unnest(%(products)b::bigint[], %(users)b::bigint[], %(previous)b::text[],
                         %(new)b::text[], %(at)b::timestamptz[], %(arrivals)b::bigint[])
"""


def _store_aliases(joins: Sequence[Join]) -> None:
    """Store the aliases with the rows that are left; of a repeated pair the latest."""
    moved_aliases: list[tuple[int, int, int]] = []
    raised_aliases: list[sql.Row] = []
    inserted: list[sql.Row] = []
    for join in joins:
        product, survivor = join.survivor.user.product_id, join.survivor.user.id
        moved_aliases += (
            (product, person.user.id, survivor) for person in join.joined if person.aliases
        )
        stored = {pair: alias for person in join.persons for pair, alias in person.aliases.items()}
        latest = {message.pair: _stored(message) for message in sorted(join.messages, key=_order)}
        for pair, alias in latest.items():
            row = (product, survivor, *pair, *alias.stamp)
            if pair not in stored:
                inserted.append(row)
            elif alias.stamp > stored[pair].stamp:
                raised_aliases.append(row)
    columns = ("products", "users", "previous", "new", "at", "arrivals")
    if moved_aliases:
        sql.execute(_MOVE_ALIASES, sql.arrays(moved_aliases, "products", "users", "kept"))
    if raised_aliases:
        sql.execute(_RAISE_STAMPS, sql.arrays(raised_aliases, *columns))
    if inserted:
        sql.execute(_INSERT_ALIASES, sql.arrays(inserted, *columns))


def _order(message: AliasMessage) -> Any:
    return message.at, message.arrival


def _stored(message: AliasMessage) -> StoredAlias:
    return StoredAlias(*message.pair, (message.at, message.arrival))


_LINK: LiteralString = f"""
    UPDATE engagement_user u SET joined_to_id = k.kept_id
    FROM unnest(%(products)b::bigint[], %(keys)b::text[], %(kept)b::bigint[])
         AS k(product_id, external_id, kept_id)
    WHERE u.product_id = k.product_id AND u.external_id = k.external_id AND {sql.on_node("u")}
"""


def _link_ids(joins: Sequence[Join]) -> None:
    """Have all ids of the joined persons lead to the rows that are left."""
    rows = [
        (*key, join.survivor.user.id)
        for join in joins
        for person in join.joined
        for key in person.ids
    ]
    if rows:
        sql.execute(_LINK, sql.arrays(sorted(rows), "products", "keys", "kept"))


# An id is unique, so two rows exchange theirs in three steps.
_TAKE_ID: LiteralString = f"""
    UPDATE engagement_user u SET external_id = 'joined ' || %(unique)s::text || ' ' || u.id
    FROM unnest(%(products)b::bigint[], %(keys)b::text[]) AS k(product_id, external_id)
    WHERE u.product_id = k.product_id AND u.external_id = k.external_id AND {sql.on_node("u")}
    RETURNING u.product_id, k.external_id, u.id, COALESCE(u.id_number, u.id)
"""
_GIVE_IDS: LiteralString = f"""
    UPDATE engagement_user u SET external_id = k.external_id, id_number = NULLIF(k.number, u.id)
    FROM unnest(%(ids)b::bigint[], %(keys)b::text[], %(numbers)b::bigint[])
         AS k(id, external_id, number)
    WHERE u.id = k.id AND {sql.on_node("u")}
"""


def _rename(joins: Sequence[Join]) -> None:
    """Give the rows that are left the ids that stand for their persons."""
    exchange_ids(
        {current: join.survivor for join in joins if (current := join.current) != join.survivor.key}
    )


def exchange_ids(renamed: dict[ExternalKey, Person]) -> None:
    """Give each person's row another id of the person, and the row of that id the person's old
    one."""
    if not renamed:
        return
    keys = sql.arrays(sorted(renamed), "products", "keys")
    rows = sql.fetch(_TAKE_ID, {**keys, "unique": str(uuid.uuid4())})
    for side in (
        [(renamed[product, id].user.id, id, number) for product, id, _, number in rows],
        [
            (row_id, renamed[product, id].key[1], renamed[product, id].user.id_number)
            for product, id, row_id, _ in rows
        ],
    ):
        sql.execute(_GIVE_IDS, sql.arrays(sorted(side), "ids", "keys", "numbers"))
