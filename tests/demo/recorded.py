"""Records a synthetic population as messages, by the one write path, to compare it with."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import TypeAlias

from django.db import transaction

from core.database import locks
from core.database.arrivals import take_arrivals
from engagement.messages import CountStatement, Group, Identify, ReceivedMessage, Track
from engagement.recording.record import record
from harness.demo.population import Customer, DemoUser

DemoMessage: TypeAlias = Group | Identify | CountStatement | Track

MESSAGES_PER_BATCH = 300


def record_customers(product_id: int, customers: Iterable[Customer]) -> Iterator[int]:
    """Record the customers in batches; yields the number of their users at the end."""
    customers = list(customers)
    messages = list(chain.from_iterable(map(customer_messages, customers)))
    for first in range(0, len(messages), MESSAGES_PER_BATCH):
        _record(product_id, messages[first : first + MESSAGES_PER_BATCH])
    yield sum(len(customer.people) for customer in customers)


def customer_messages(customer: Customer) -> Iterator[DemoMessage]:
    """The messages that the product would have sent about the customer."""
    yield Group(customer.external_id, customer.seen_at, customer.traits)
    for person in customer.people:
        yield Identify(person.external_id, person.seen_at, person.traits, customer.external_id)
    yield from chain.from_iterable(_events(person, customer) for person in customer.people)


def _events(person: DemoUser, customer: Customer) -> Iterator[DemoMessage]:
    user, account = person.external_id, customer.external_id
    for event, last_at, count, times in person.event_uses:
        if not times:
            yield CountStatement(user, event, last_at, count, account)
        for at in times:
            yield Track(user, event, at)


def _record(product_id: int, messages: list[DemoMessage]) -> None:
    arrivals = take_arrivals(len(messages))
    with transaction.atomic():
        locks.share_lock_products([product_id])
        record(
            [
                ReceivedMessage(product_id, arrival, _at(message), message)
                for message, arrival in zip(messages, arrivals, strict=True)
            ]
        )


def _at(message: DemoMessage) -> datetime:
    return message.last_at if isinstance(message, CountStatement) else message.timestamp
