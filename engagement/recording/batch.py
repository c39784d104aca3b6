"""What a batch of messages says, in the customers' ids, before any row is read."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from engagement.messages import (
    Alias,
    CountStatement,
    Group,
    Identify,
    MembershipStatement,
    ReceivedMessage,
    SubjectStatement,
    Track,
)
from engagement.recording.trait_limits import TraitChange, TraitPatch
from engagement.traits import make_stamp

# A product id, and the customer's id of a user or an account, or the name of an event.
ExternalKey: TypeAlias = tuple[int, str]


class SubjectUpdate(msgspec.Struct):
    """What a batch says about one user or account.

    ``patches`` are the traits of its messages with their stamps. ``is_identified`` is whether a
    message introduces the subject, rather than naming it in passing. Writing the subject fills
    ``dropped_traits``: the names of the traits that have no room, by the arrival of their message;
    and ``trait_changes``: those of the traits that are ``followed``.
    """

    first_at: datetime
    last_at: datetime
    is_identified: bool = False
    patches: list[TraitPatch] = []
    dropped_traits: dict[int, list[str]] = {}
    followed: frozenset[str] = frozenset()
    trait_changes: list[TraitChange] = []

    def widen(self, at: datetime) -> None:
        if at < self.first_at:
            self.first_at = at
        if at > self.last_at:
            self.last_at = at

    def add(self, other: "SubjectUpdate") -> None:
        """Add what the batch says about the same subject under another id."""
        self.widen(other.first_at)
        self.widen(other.last_at)
        self.is_identified |= other.is_identified
        self.patches = [*self.patches, *other.patches]


class MembershipMessage(msgspec.Struct, frozen=True, gc=False):
    """A message says that a user is in an account.

    ``id_number`` is the number of the id that it names if another user has that one's rows.
    """

    user: ExternalKey
    account: ExternalKey
    at: datetime
    arrival: int
    id_number: int | None = None


class TrackMessage(msgspec.Struct, frozen=True, gc=False):
    """A message says what a user did. ``id_number`` is like that of a membership."""

    user: ExternalKey
    event: ExternalKey
    at: datetime
    received_at: datetime
    arrival: int
    id_number: int | None = None


class CountMessage(msgspec.Struct, frozen=True, gc=False):
    """A statement says how often a user did something on a day."""

    user: ExternalKey
    event: ExternalKey
    account: ExternalKey | None
    count: int
    last_at: datetime


class AliasMessage(msgspec.Struct, frozen=True, gc=False):
    """A message says that two ids are one person's."""

    previous: ExternalKey
    user: ExternalKey
    at: datetime
    arrival: int

    @property
    def pair(self) -> tuple[str, str]:
        """The previous id and the one to keep."""
        return self.previous[1], self.user[1]


class Batch(msgspec.Struct):
    """The messages of a batch, sorted by what they are about.

    ``mentioned_accounts`` must exist; the batch says nothing else about them. ``aliased_users`` are
    those that its aliases name. ``entered_accounts`` (product id, account id) have an identified
    user because of an alias.
    """

    users: dict[ExternalKey, SubjectUpdate] = {}
    accounts: dict[ExternalKey, SubjectUpdate] = {}
    mentioned_accounts: dict[ExternalKey, SubjectUpdate] = {}
    memberships: list[MembershipMessage] = []
    tracks: list[TrackMessage] = []
    counts: list[CountMessage] = []
    aliases: list[AliasMessage] = []
    aliased_users: set[ExternalKey] = set()
    entered_accounts: list[tuple[int, int]] = []

    def event_names(self) -> set[ExternalKey]:
        return {track.event for track in self.tracks} | {count.event for count in self.counts}

    def users_to_write(self) -> set[ExternalKey]:
        """The users whose rows change. Events alone do not change their user's row."""
        keys = {key for key, update in self.users.items() if update.is_identified}
        keys |= {membership.user for membership in self.memberships}
        return keys | self.aliased_users

    def name_aliased_users(self, aliases: Sequence[AliasMessage]) -> None:
        """Have the aliases name their users, like other messages."""
        for alias in aliases:
            for user in (alias.previous, alias.user):
                _get_update(self.users, user, alias.at)
                self.aliased_users.add(user)

    def rename_users(
        self, names: dict[ExternalKey, ExternalKey], numbers: dict[ExternalKey, int]
    ) -> None:
        """Have all that the batch says about the users be about those that they are joined to, and
        remember the numbers of their ids."""
        for old, new in names.items():
            update = self.users.pop(old)
            if new in self.users:
                self.users[new].add(update)
            else:
                self.users[new] = update
        self.aliased_users = {names.get(user, user) for user in self.aliased_users}
        _rename_users_of(self.counts, names)
        named: tuple[list[Any], ...] = (self.memberships, self.tracks)
        for messages in named:
            _number_ids_of(messages, numbers)
            _rename_users_of(messages, names)

    def dropped_traits(self) -> dict[int, list[str]]:
        """The names of the traits that had no room, by the arrival of their message."""
        dropped: dict[int, list[str]] = {}
        for updates in (self.users, self.accounts):
            for update in updates.values():
                if update.dropped_traits:
                    dropped |= update.dropped_traits
        return dropped


def build_batch(messages: Sequence[ReceivedMessage]) -> Batch:
    """Sort the messages by what they are about."""
    batch = Batch()
    for received in messages:
        match received.message:
            case Track():
                _read_track(batch, received, received.message)
            case Identify():
                _read_identify(batch, received, received.message)
            case Group():
                _read_group(batch, received, received.message)
            case Alias():
                _read_alias(batch, received, received.message)
            case SubjectStatement():
                _read_subject(batch, received.product_id, received.message)
            case MembershipStatement():
                _read_membership(batch, received, received.message)
            case CountStatement():
                _read_count(batch, received.product_id, received.message)
    return batch


def _read_track(batch: Batch, received: ReceivedMessage, message: Track) -> None:
    user = (received.product_id, message.user_id)
    at = message.timestamp
    _get_update(batch.users, user, at)
    event = (received.product_id, message.event)
    batch.tracks.append(TrackMessage(user, event, at, received.received_at, received.arrival))
    if message.group_id is not None:
        account = (received.product_id, message.group_id)
        _get_update(batch.accounts, account, at)
        batch.memberships.append(MembershipMessage(user, account, at, received.arrival))


def _read_identify(batch: Batch, received: ReceivedMessage, message: Identify) -> None:
    user = (received.product_id, message.user_id)
    at = message.timestamp
    _introduce(batch.users, user, received, message)
    if message.group_id is not None:
        account = (received.product_id, message.group_id)
        _get_update(batch.accounts, account, at).is_identified = True
        batch.memberships.append(MembershipMessage(user, account, at, received.arrival))


def _read_group(batch: Batch, received: ReceivedMessage, message: Group) -> None:
    account = (received.product_id, message.group_id)
    at = message.timestamp
    _introduce(batch.accounts, account, received, message)
    if message.user_id is not None:
        user = (received.product_id, message.user_id)
        _get_update(batch.users, user, at).is_identified = True
        batch.memberships.append(MembershipMessage(user, account, at, received.arrival))


def _read_alias(batch: Batch, received: ReceivedMessage, message: Alias) -> None:
    previous = (received.product_id, message.previous_id)
    user = (received.product_id, message.user_id)
    batch.aliases.append(AliasMessage(previous, user, message.timestamp, received.arrival))


def _introduce(
    updates: dict[ExternalKey, SubjectUpdate],
    key: ExternalKey,
    received: ReceivedMessage,
    message: Identify | Group,
) -> None:
    update = _get_update(updates, key, message.timestamp)
    update.is_identified = True
    if message.traits:
        stamp = make_stamp(message.timestamp, received.arrival, received.source)
        update.patches.append((message.traits, stamp))


def _read_subject(batch: Batch, product_id: int, statement: SubjectStatement) -> None:
    if statement.user_id is not None:
        updates, external_id = batch.users, statement.user_id
    else:
        updates, external_id = batch.accounts, statement.group_id or ""
    update = _get_update(updates, (product_id, external_id), statement.first_at)
    update.widen(statement.last_at)
    update.is_identified |= statement.is_identified


def _read_membership(
    batch: Batch, received: ReceivedMessage, statement: MembershipStatement
) -> None:
    user = (received.product_id, statement.user_id)
    account = (received.product_id, statement.group_id)
    at = statement.timestamp
    _get_update(batch.users, user, at)
    _get_update(batch.accounts, account, at)
    batch.memberships.append(MembershipMessage(user, account, at, received.arrival))


def _read_count(batch: Batch, product_id: int, statement: CountStatement) -> None:
    user, event = (product_id, statement.user_id), (product_id, statement.event)
    _get_update(batch.users, user, statement.last_at)
    account = None
    if statement.group_id is not None:
        account = (product_id, statement.group_id)
        _get_update(batch.mentioned_accounts, account, statement.last_at)
    batch.counts.append(CountMessage(user, event, account, statement.count, statement.last_at))


def _get_update(
    updates: dict[ExternalKey, SubjectUpdate], key: ExternalKey, at: datetime
) -> SubjectUpdate:
    """The batch's update of *key*, created where there is none, and widened to *at*."""
    update = updates.get(key)
    if update is None:
        update = updates[key] = SubjectUpdate(at, at)
    else:
        update.widen(at)
    return update


def _number_ids_of(messages: list[Any], numbers: dict[ExternalKey, int]) -> None:
    for place, message in enumerate(messages):
        if message.user in numbers and message.id_number is None:
            messages[place] = msgspec.structs.replace(message, id_number=numbers[message.user])


def _rename_users_of(messages: list[Any], names: dict[ExternalKey, ExternalKey]) -> None:
    for place, message in enumerate(messages):
        if message.user in names:
            messages[place] = msgspec.structs.replace(message, user=names[message.user])
