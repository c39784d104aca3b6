"""Finds messages that would create more event names, users, or accounts than their product may
have."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import LiteralString, NamedTuple

from core.database import sql
from engagement.limits import limits
from engagement.limits.limits import ProductState
from engagement.messages import (
    Group,
    Identify,
    ReceivedMessage,
    Rejection,
    RejectionReason,
    Track,
)
from engagement.models import EventName
from engagement.traits import Source

MARKETPLACE = Source.MARKETPLACE

# Product id, and a name or an id.
Key = tuple[int, str]

# Names that exist, as this process knows. A name that goes with its product costs nothing here.
MAX_KNOWN_NAMES = 200_000
_known_keys: set[Key] = set()


class Split(NamedTuple):
    allowed: list[ReceivedMessage]
    rejected: list[Rejection]


def split_excess(messages: list[ReceivedMessage]) -> Split:
    """Those that their products have room for, and the others. Licenses count as
    what a product has, but are never rejected.

    Costs a second statement only if a message has a name that this process has not met, or if a
    product is full.
    """
    if not messages:
        return Split(messages, [])
    states = limits.load(set(map(attrgetter("product_id"), messages)))
    names = _names_without_room(messages, states)
    missing = _unknown_subjects(messages, states)
    if not names and not missing:
        return Split(messages, [])
    allowed: list[ReceivedMessage] = []
    rejected: list[Rejection] = []
    for received in messages:
        message = received.message
        if isinstance(message, Track) and (received.product_id, message.event) in names:
            rejected.append(Rejection(received, RejectionReason.EVENT_NAMES))
        elif missing and not missing.isdisjoint(_subjects(received)):
            rejected.append(Rejection(received, RejectionReason.SUBJECTS))
        else:
            allowed.append(received)
    return Split(allowed, rejected)


# --- Event names ------------------------------------------------------------------------------

_EXISTING_NAMES: LiteralString = f"""
    SELECT e.product_id, e.name
    FROM unnest(%(products)b::bigint[], %(names)b::text[]) AS k(product_id, name)
    JOIN engagement_eventname e USING (product_id, name)
    WHERE {sql.on_node("e")}
"""


def _names_without_room(
    messages: Sequence[ReceivedMessage], states: Mapping[int, ProductState]
) -> set[Key]:
    unmet = {
        (each.product_id, message.event)
        for each in messages
        if isinstance(message := each.message, Track)
    } - _known_keys
    if not unmet:
        return set()
    # The first that arrive get the room.
    sorted_keys = list(
        dict.fromkeys(
            key
            for each in messages
            if isinstance(each.message, Track)
            and (key := (each.product_id, each.message.event)) in unmet
        )
    )
    products, names = zip(*sorted_keys, strict=True)
    columns = {"products": list(products), "names": list(names)}
    existing = {(product, name) for product, name in sql.fetch(_EXISTING_NAMES, columns)}
    room: dict[int, int] = {}
    without_room: set[Key] = set()
    for key in sorted_keys:
        product_id = key[0]
        if key in existing:
            continue
        if product_id not in room:
            count = EventName.objects.filter(product=product_id).count()
            room[product_id] = states[product_id].limits.event_names - count
        if room[product_id] <= 0:
            without_room.add(key)
        room[product_id] -= 1
    if len(_known_keys) > MAX_KNOWN_NAMES:
        _known_keys.clear()
    # New ones are known once they are committed, which the next batch finds out.
    _known_keys.update(existing)
    return without_room


# --- Users and accounts -----------------------------------------------------------------------

# The table, the product, and the id.
_Subject = tuple[str, int, str]
_EXISTING: LiteralString = f"""
    SELECT product_id, external_id
    FROM unnest(%(products)b::bigint[], %(ids)b::text[]) AS k(product_id, external_id)
    JOIN {{table}} s USING (product_id, external_id)
    WHERE {sql.on_node("s")}
"""
_EXISTING_IN: dict[str, LiteralString] = {
    "user": _EXISTING.format(table="engagement_user"),
    "account": _EXISTING.format(table="engagement_account"),
}


def _unknown_subjects(
    messages: Sequence[ReceivedMessage], states: Mapping[int, ProductState]
) -> set[_Subject]:
    """The subjects of full products that do not exist."""
    full = {product_id for product_id, state in states.items() if state.is_full}
    if not full:
        return set()
    of_full = [each for each in messages if each.product_id in full]
    subjects = {key for each in of_full for key in _subjects(each)}
    if not subjects:
        return set()
    unknown = set(subjects)
    for table, statement in _EXISTING_IN.items():
        of_table = sorted(key[1:] for key in subjects if key[0] == table)
        columns = {"products": [key[0] for key in of_table], "ids": [key[1] for key in of_table]}
        unknown -= {(table, product, id) for product, id in sql.fetch(statement, columns)}
    return unknown


def _subjects(received: ReceivedMessage) -> list[_Subject]:
    message, product_id = received.message, received.product_id
    # An alias names ids of a person who is there anyway, or waits for one.
    if received.source is MARKETPLACE or not isinstance(message, Identify | Group | Track):
        return []
    subjects: list[_Subject] = []
    if message.user_id:
        subjects.append(("user", product_id, message.user_id))
    if message.group_id:
        subjects.append(("account", product_id, message.group_id))
    return subjects
