"""Writes an invented population by the one write path, as messages."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import LiteralString, TypeAlias

from django.db import transaction

from engagement.database import sql
from engagement.demo.population import Customer, Person
from engagement.messages import Counted, Group, Identify, Received, Track
from engagement.recording.record import record

# What is told of a population.
Told: TypeAlias = Group | Identify | Counted | Track

MESSAGES_PER_BATCH = 10_000

_ARRIVALS: LiteralString = """
    SELECT nextval('engagement_arrival') FROM generate_series(1, %(count)s)
"""


def write(product_id: int, customers: Iterable[Customer]) -> Iterator[int]:
    """Record the customers batch by batch; yields how many people each batch had."""
    messages: list[Told] = []
    people = 0
    for customer in customers:
        messages += said(customer)
        people += len(customer.people)
        if len(messages) >= MESSAGES_PER_BATCH:
            _record(product_id, messages)
            yield people
            messages, people = [], 0
    _record(product_id, messages)
    yield people


def said(customer: Customer) -> Iterator[Told]:
    """What the product would have sent of the customer, in the order of introduction."""
    yield Group(customer.external_id, customer.seen_at, customer.traits)
    for person in customer.people:
        yield Identify(person.external_id, person.seen_at, person.traits, customer.external_id)
    yield from chain.from_iterable(_did(person, customer) for person in customer.people)


def _did(person: Person, customer: Customer) -> Iterator[Told]:
    user, account = person.external_id, customer.external_id
    for event, last_at, count, times in person.done:
        if not times:
            yield Counted(user, event, last_at, count, account)
        for at in times:
            yield Track(user, event, at)


def _record(product_id: int, messages: list[Told]) -> None:
    arrivals = sql.fetch(_ARRIVALS, {"count": len(messages)})
    with transaction.atomic():
        record(
            [
                Received(product_id, arrival, _at(message), message)
                for message, (arrival,) in zip(messages, arrivals, strict=True)
            ]
        )


def _at(message: Told) -> datetime:
    return message.last_at if isinstance(message, Counted) else message.timestamp
