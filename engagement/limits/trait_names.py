"""Keeps a product within the number of trait names that it may have.

Each user and account has room for a number of traits of its own, but a product whose senders put
ids into names would get new ones with each of them. A license's traits are few, and do not count.
"""

from collections.abc import Sequence
from typing import LiteralString, NamedTuple

import msgspec

from core.database import sql
from engagement.limits import limits
from engagement.messages import Group, Identify, ReceivedMessage
from engagement.models import TraitName
from engagement.traits import MARKETPLACE_TRAITS, Source, canonical_name

# Product id, and the one spelling of a trait.
Key = tuple[int, str]

# Names that exist, by product, as this process knows. Messages with these alone cost no statement.
MAX_KNOWN_NAMES = 200_000
_known_names: dict[int, set[str]] = {}
_LICENSE_TRAITS = frozenset(MARKETPLACE_TRAITS)
# A union in the call would be built for each message.
_WITH_TRAITS = (Identify, Group)


class NamedTraits(NamedTuple):
    """The messages with the traits that their products have room for, and the names of the others,
    by the arrival of their message."""

    messages: Sequence[ReceivedMessage]
    dropped: dict[int, list[str]]


def limit_names(messages: Sequence[ReceivedMessage]) -> NamedTraits:
    """Create the new names as long as their products have room, and take out other new traits."""
    unmet = _unmet_names(messages)
    if not unmet:
        return NamedTraits(messages, {})
    existing = _find(unmet)
    without_room = _create([key for key in unmet if key not in existing])
    _remember(existing)
    if not without_room:
        return NamedTraits(messages, {})
    with_room: list[ReceivedMessage] = []
    dropped: dict[int, list[str]] = {}
    for received in messages:
        if names := _names_among(received, without_room):
            received = _without(received, names)
            dropped[received.arrival] = names
        with_room.append(received)
    return NamedTraits(with_room, dropped)


def _unmet_names(messages: Sequence[ReceivedMessage]) -> list[Key]:
    """The names that this process does not know, in the order in which they arrived."""
    unmet: dict[Key, None] = {}
    for received in messages:
        message, product_id = received.message, received.product_id
        if not isinstance(message, _WITH_TRAITS) or received.source is Source.MARKETPLACE:
            continue
        known_names = _known_names.get(product_id)
        if known_names is not None and known_names.issuperset(message.traits):
            continue
        for name, value in message.traits.items():
            # None removes a trait, which needs no room.
            if value is not None and (known_names is None or name not in known_names):
                spelled = canonical_name(name)
                if spelled not in _LICENSE_TRAITS:
                    unmet[product_id, spelled] = None
    return list(unmet)


_FIND: LiteralString = """
    SELECT product_id, name
    FROM unnest(%(products)b::bigint[], %(names)b::text[]) AS k(product_id, name)
    JOIN engagement_traitname USING (product_id, name)
"""
_CREATE: LiteralString = """
    INSERT INTO engagement_traitname (product_id, name)
    SELECT * FROM unnest(%(products)b::bigint[], %(names)b::text[])
    ON CONFLICT (product_id, name) DO NOTHING
"""


def _find(keys: Sequence[Key]) -> set[Key]:
    return {(product, name) for product, name in sql.fetch(_FIND, _columns(keys))}


def _columns(keys: Sequence[Key]) -> dict[str, list[object]]:
    return sql.arrays(keys, "products", "names")


def _create(keys: Sequence[Key]) -> set[Key]:
    """Create the names, those first that arrived first. Returns those without room."""
    if not keys:
        return set()
    product_ids = {product_id for product_id, _ in keys}
    room = {
        product_id: state.limits.trait_names - TraitName.objects.filter(product=product_id).count()
        for product_id, state in limits.load(product_ids).items()
    }
    fitting: list[Key] = []
    without_room: set[Key] = set()
    for key in keys:
        if room[key[0]] > 0:
            room[key[0]] -= 1
            fitting.append(key)
        else:
            without_room.add(key)
    if fitting:
        # Sorted, so that two workers that create the same names cannot deadlock.
        sql.execute(_CREATE, _columns(sorted(fitting)))
    return without_room


def _remember(existing: set[Key]) -> None:
    """New names are known once they are committed, which the next batch finds out."""
    if sum(map(len, _known_names.values())) > MAX_KNOWN_NAMES:
        _known_names.clear()
    for product_id, name in existing:
        _known_names.setdefault(product_id, set(MARKETPLACE_TRAITS)).add(name)


def _names_among(received: ReceivedMessage, keys: set[Key]) -> list[str]:
    """The message's traits that are among these."""
    message = received.message
    if not isinstance(message, _WITH_TRAITS) or received.source is Source.MARKETPLACE:
        return []
    product_id = received.product_id
    return [
        name
        for name, value in message.traits.items()
        if value is not None and (product_id, canonical_name(name)) in keys
    ]


def _without(received: ReceivedMessage, names: Sequence[str]) -> ReceivedMessage:
    message = received.message
    assert isinstance(message, _WITH_TRAITS)
    traits = {name: value for name, value in message.traits.items() if name not in set(names)}
    return msgspec.structs.replace(
        received, message=msgspec.structs.replace(message, traits=traits)
    )
