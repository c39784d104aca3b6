"""Copies a synthetic population into a new product's tables: the write path takes several times
as long. The rows are those that ``recording.record()`` would have written.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

import msgspec
from django.db import transaction
from psycopg.types.json import Jsonb

from core.database import sql
from core.database.arrivals import NEXT_ARRIVAL, take_arrivals
from engagement.models import EventName, TraitName
from engagement.tenure import parse_created_at
from engagement.traits import canonical_name, make_stamp
from harness.demo.population import Customer, DemoUser

# The number of people in memory at once; more if one customer has more.
PEOPLE_PER_BATCH = 5_000


class _NewRow(NamedTuple):
    """The id of a row, and its place in the order of arrival."""

    id: int
    arrival: int


def copy_customers(product_id: int, customers: Iterable[Customer]) -> Iterator[int]:
    """Copy the customers batch by batch; yields the number of people in each batch."""
    event_names = EventName.objects.filter(product_id=product_id)
    event_name_ids = dict(event_names.values_list("name", "pk"))
    for batch in _batches(customers):
        with transaction.atomic():
            _copy(product_id, batch, event_name_ids)
        yield sum(len(customer.people) for customer in batch)


def _batches(customers: Iterable[Customer]) -> Iterator[list[Customer]]:
    batch: list[Customer] = []
    people = 0
    for customer in customers:
        batch.append(customer)
        people += max(1, len(customer.people))
        if people >= PEOPLE_PER_BATCH:
            yield batch
            batch, people = [], 0
    yield batch


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
_COPY_MEMBERSHIPS = _COPY.format(
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


def _copy(product_id: int, customers: Sequence[Customer], event_name_ids: dict[str, int]) -> None:
    people = [person for customer in customers for person in customer.people]
    _create_trait_names(product_id, [*customers, *people])
    accounts = _new(_NEW_ACCOUNTS, len(customers))
    users = _new(_NEW_USERS, len(people))
    account_ids = [
        account.id
        for customer, account in zip(customers, accounts, strict=True)
        for _ in customer.people
    ]
    sql.copy(_COPY_ACCOUNTS, _SUBJECT_TYPES, _accounts(product_id, customers, accounts))
    sql.copy(
        _COPY_USERS,
        (*_SUBJECT_TYPES, "int8"),
        (
            (*_subject(product_id, row, person, person.seen_at, _last_seen(person)), account_id)
            for person, row, account_id in zip(people, users, account_ids, strict=True)
        ),
    )
    sql.copy(
        _COPY_MEMBERSHIPS,
        ("int8", "int8", "timestamptz", "int8", "int8"),
        (
            (product_id, row.id, person.seen_at, account_id, row.arrival)
            for person, row, account_id in zip(people, users, account_ids, strict=True)
        ),
    )
    ids = [row.id for row in users]
    sql.copy(
        _COPY_COUNTS,
        ("int8", "int8", "date", "int8", "int8", "int4", "timestamptz"),
        _counts(product_id, people, ids, account_ids, event_name_ids),
    )
    _copy_events(list(_events(product_id, people, ids, account_ids, event_name_ids)))


def _create_trait_names(product_id: int, subjects: Iterable[Customer | DemoUser]) -> None:
    names = {canonical_name(name) for subject in subjects for name in subject.traits}
    TraitName.objects.bulk_create(
        (TraitName(product_id=product_id, name=name) for name in sorted(names)),
        ignore_conflicts=True,
    )


def _new(statement: LiteralString, count: int) -> list[_NewRow]:
    return [_NewRow(*row) for row in sql.fetch(statement, {"count": count})]


def _accounts(
    product_id: int, customers: Sequence[Customer], rows: Sequence[_NewRow]
) -> Iterator[sql.Row]:
    for customer, row in zip(customers, rows, strict=True):
        # The messages that mention an account are its own and those that identify its users.
        times = [customer.seen_at, *(person.seen_at for person in customer.people)]
        yield _subject(product_id, row, customer, min(times), max(times))


def _subject(
    product_id: int,
    row: _NewRow,
    subject: Customer | DemoUser,
    first_at: datetime,
    last_at: datetime,
) -> sql.Row:
    stamp = list(make_stamp(subject.seen_at, row.arrival))
    return (
        row.id,
        product_id,
        subject.external_id,
        _json(subject.traits),
        _json(dict.fromkeys(subject.traits, stamp)),
        True,
        first_at,
        last_at,
        parse_created_at(subject.traits),
    )


def _last_seen(person: DemoUser) -> datetime:
    # Sorted by day, but not within a day.
    if not person.event_uses:
        return person.seen_at
    last_day = person.event_uses[-1].last_at.date()
    latest = max(use.last_at for use in person.event_uses if use.last_at.date() == last_day)
    return max(person.seen_at, latest)


def _counts(
    product_id: int,
    people: Sequence[DemoUser],
    users: Sequence[int],
    account_ids: Sequence[int],
    event_name_ids: dict[str, int],
) -> Iterator[sql.Row]:
    for person, user, account_id in zip(people, users, account_ids, strict=True):
        for event, last_at, count, _ in person.event_uses:
            yield (
                product_id,
                user,
                last_at.date(),
                event_name_ids[event],
                account_id,
                count,
                last_at,
            )


def _events(
    product_id: int,
    people: Sequence[DemoUser],
    users: Sequence[int],
    account_ids: Sequence[int],
    event_name_ids: dict[str, int],
) -> Iterator[tuple[int, int, datetime, int, int]]:
    for person, user, account_id in zip(people, users, account_ids, strict=True):
        for event, _, _, times in person.event_uses:
            for at in times:
                yield product_id, user, at, account_id, event_name_ids[event]


def _copy_events(events: Sequence[tuple[int, int, datetime, int, int]]) -> None:
    if not events:
        return
    arrivals = take_arrivals(len(events))
    sql.copy(
        _COPY_EVENTS,
        ("int8", "int8", "timestamptz", "int8", "int8", "int8", "timestamptz"),
        (
            (product, user, at, arrival, account_id, name, at)
            for (product, user, at, account_id, name), arrival in zip(events, arrivals, strict=True)
        ),
    )


def _json(value: dict[str, Any]) -> Jsonb:
    return Jsonb(value, dumps=msgspec.json.encode)
