"""Writes an invented population straight into a new product's tables, for sizes at which the write
path would take hours. What is there afterwards is what ``recording.record()`` would have left.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

import msgspec
from django.db import transaction
from psycopg.types.json import Jsonb

from engagement.database import sql
from engagement.database.arrivals import NEXT_ARRIVAL, take_arrivals
from engagement.demo.population import Customer, DemoUser
from engagement.models import EventName
from engagement.tenure import parse_created_at
from engagement.traits import make_stamp

# So many people are in memory at once, or those of one customer.
PEOPLE_PER_BATCH = 5_000


class _Place(NamedTuple):
    """What the database calls a customer or a person, and their place in the order of arrival."""

    id: int
    arrival: int


def copy_customers(product_id: int, customers: Iterable[Customer]) -> Iterator[int]:
    """Copy the customers piece by piece; yields how many people each piece had."""
    known = EventName.objects.filter(product_id=product_id)
    names = dict(known.values_list("name", "pk"))
    for piece in _pieces(customers):
        with transaction.atomic():
            _copy(product_id, piece, names)
        yield sum(len(customer.people) for customer in piece)


def _pieces(customers: Iterable[Customer]) -> Iterator[list[Customer]]:
    piece: list[Customer] = []
    people = 0
    for customer in customers:
        piece.append(customer)
        people += max(1, len(customer.people))
        if people >= PEOPLE_PER_BATCH:
            yield piece
            piece, people = [], 0
    yield piece


_NEW: LiteralString = f"""
    SELECT nextval('{{ids}}'), {NEXT_ARRIVAL} FROM generate_series(1, %(count)s)
"""
_NEW_ACCOUNTS = _NEW.format(ids="engagement_account_id_seq")
_NEW_USERS = _NEW.format(ids="engagement_user_id_seq")
_COPY: LiteralString = "COPY {table} ({columns}) FROM STDIN (FORMAT BINARY)"
_SUBJECT: LiteralString = (
    "id, product_id, external_id, traits, trait_stamps, is_identified, first_seen_at, "
    "last_seen_at, created_at"
)
_SUBJECT_TYPES = (
    "int8",
    "int8",
    "text",
    "jsonb",
    "jsonb",
    "bool",
    "timestamptz",
    "timestamptz",
    "timestamptz",
)
_COPY_ACCOUNTS = _COPY.format(table="engagement_account", columns=_SUBJECT)
_COPY_USERS = _COPY.format(table="engagement_user", columns=f"{_SUBJECT}, account_id")
_COPY_LINKS = _COPY.format(
    table="engagement_membership", columns="product_id, user_id, occurred_at, account_id, arrival"
)
_COPY_COUNTS = _COPY.format(
    table="engagement_dailycount",
    columns="product_id, user_id, day, event_name_id, account_id, count, last_at",
)
_COPY_EVENTS = _COPY.format(
    table="engagement_event",
    columns="product_id, user_id, occurred_at, arrival, account_id, event_name_id, received_at",
)


def _copy(product_id: int, customers: Sequence[Customer], names: dict[str, int]) -> None:
    people = [person for customer in customers for person in customer.people]
    accounts = _new(_NEW_ACCOUNTS, len(customers))
    users = _new(_NEW_USERS, len(people))
    homes = [
        account.id
        for customer, account in zip(customers, accounts, strict=True)
        for _ in customer.people
    ]
    sql.copy(_COPY_ACCOUNTS, _SUBJECT_TYPES, _accounts(product_id, customers, accounts))
    sql.copy(
        _COPY_USERS,
        (*_SUBJECT_TYPES, "int8"),
        (
            (*_subject(product_id, place, person, person.seen_at, _last_seen(person)), home)
            for person, place, home in zip(people, users, homes, strict=True)
        ),
    )
    sql.copy(
        _COPY_LINKS,
        ("int8", "int8", "timestamptz", "int8", "int8"),
        (
            (product_id, place.id, person.seen_at, home, place.arrival)
            for person, place, home in zip(people, users, homes, strict=True)
        ),
    )
    ids = [place.id for place in users]
    sql.copy(
        _COPY_COUNTS,
        ("int8", "int8", "date", "int8", "int8", "int4", "timestamptz"),
        _counts(product_id, people, ids, homes, names),
    )
    _copy_events(list(_events(product_id, people, ids, homes, names)))


def _new(statement: LiteralString, count: int) -> list[_Place]:
    return [_Place(*row) for row in sql.fetch(statement, {"count": count})]


def _accounts(
    product_id: int, customers: Sequence[Customer], places: Sequence[_Place]
) -> Iterator[sql.Row]:
    for customer, place in zip(customers, places, strict=True):
        # An account is seen when a message names it, and these are those that introduce people.
        seen = [customer.seen_at, *(person.seen_at for person in customer.people)]
        yield _subject(product_id, place, customer, min(seen), max(seen))


def _subject(
    product_id: int,
    place: _Place,
    told: Customer | DemoUser,
    first_at: datetime,
    last_at: datetime,
) -> sql.Row:
    written = list(make_stamp(told.seen_at, place.arrival))
    return (
        place.id,
        product_id,
        told.external_id,
        _json(told.traits),
        _json(dict.fromkeys(told.traits, written)),
        True,
        first_at,
        last_at,
        parse_created_at(told.traits),
    )


def _last_seen(person: DemoUser) -> datetime:
    # Days come in their order, but the kinds of a day in any.
    if not person.event_uses:
        return person.seen_at
    last_day = person.event_uses[-1].last_at.date()
    latest = max(done.last_at for done in person.event_uses if done.last_at.date() == last_day)
    return max(person.seen_at, latest)


def _counts(
    product_id: int,
    people: Sequence[DemoUser],
    users: Sequence[int],
    homes: Sequence[int],
    names: dict[str, int],
) -> Iterator[sql.Row]:
    for person, user, home in zip(people, users, homes, strict=True):
        for event, last_at, count, _ in person.event_uses:
            yield product_id, user, last_at.date(), names[event], home, count, last_at


def _events(
    product_id: int,
    people: Sequence[DemoUser],
    users: Sequence[int],
    homes: Sequence[int],
    names: dict[str, int],
) -> Iterator[tuple[int, int, datetime, int, int]]:
    for person, user, home in zip(people, users, homes, strict=True):
        for event, _, _, times in person.event_uses:
            for at in times:
                yield product_id, user, at, home, names[event]


def _copy_events(events: Sequence[tuple[int, int, datetime, int, int]]) -> None:
    if not events:
        return
    arrivals = take_arrivals(len(events))
    sql.copy(
        _COPY_EVENTS,
        ("int8", "int8", "timestamptz", "int8", "int8", "int8", "timestamptz"),
        (
            (product, user, at, arrival, home, name, at)
            for (product, user, at, home, name), arrival in zip(events, arrivals, strict=True)
        ),
    )


def _json(value: dict[str, Any]) -> Jsonb:
    return Jsonb(value, dumps=msgspec.json.encode)
