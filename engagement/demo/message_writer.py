"""Writes an invented population by the one write path, as messages."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import TypeAlias

from django.db import transaction

from engagement.database.arrivals import take_arrivals
from engagement.demo.population import Customer, DemoUser
from engagement.messages import CountStatement, Group, Identify, ReceivedMessage, Track
from engagement.recording.record import record

# What is told of a population.
DemoMessage: TypeAlias = Group | Identify | CountStatement | Track

MESSAGES_PER_BATCH = 10_000


def write_as_messages(product_id: int, customers: Iterable[Customer]) -> Iterator[int]:
    """Record the customers batch by batch; yields how many people each batch had."""
    messages: list[DemoMessage] = []
    people = 0
    for customer in customers:
        messages += customer_messages(customer)
        people += len(customer.people)
        if len(messages) >= MESSAGES_PER_BATCH:
            _record(product_id, messages)
            yield people
            messages, people = [], 0
    _record(product_id, messages)
    yield people


def customer_messages(customer: Customer) -> Iterator[DemoMessage]:
    """What the product would have sent of the customer, in the order of introduction."""
    yield Group(customer.external_id, customer.seen_at, customer.traits)
    for person in customer.people:
        yield Identify(person.external_id, person.seen_at, person.traits, customer.external_id)
    yield from chain.from_iterable(_did(person, customer) for person in customer.people)


def _did(person: DemoUser, customer: Customer) -> Iterator[DemoMessage]:
    user, account = person.external_id, customer.external_id
    for event, last_at, count, times in person.event_uses:
        if not times:
            yield CountStatement(user, event, last_at, count, account)
        for at in times:
            yield Track(user, event, at)


def _record(product_id: int, messages: list[DemoMessage]) -> None:
    arrivals = take_arrivals(len(messages))
    with transaction.atomic():
        record(
            [
                ReceivedMessage(product_id, arrival, _at(message), message)
                for message, arrival in zip(messages, arrivals, strict=True)
            ]
        )


def _at(message: DemoMessage) -> datetime:
    return message.last_at if isinstance(message, CountStatement) else message.timestamp
