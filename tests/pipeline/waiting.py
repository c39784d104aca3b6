"""Messages that wait in the inbox, drains that settle them, and what is there afterwards."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Generic, LiteralString, TypeVar

import psycopg
from django.db import connection

from core import credentials
from core.database import sql
from engagement.models import DailyCount, Event, EventName, Product, User
from ingestion.drain import processing
from ingestion.models import DroppedMessage, InboxMessage, IngestionKey, QuarantinedMessage
from ingestion.payloads import Payload, encode
from tests.engagement.history import NOON

Result = TypeVar("Result")


def wait(key: str, *messages: Payload, received_at: datetime = NOON) -> list[int]:
    """Have the messages wait in the inbox; their ids."""
    return wait_raw(key, *map(encode, messages), received_at=received_at)


def wait_raw(key: str, *payloads: bytes, received_at: datetime = NOON) -> list[int]:
    """Have payloads wait that need not be what a door accepts."""
    digest, hint = credentials.digest(key), credentials.hint(key, IngestionKey.PREFIX)
    rows = InboxMessage.objects.bulk_create(
        InboxMessage(received_at=received_at, key_digest=digest, key_hint=hint, payload=payload)
        for payload in payloads
    )
    return [row.pk for row in rows]


def drain(now: datetime = NOON, **options: Any) -> processing.DrainResult:
    return processing.drain(lambda: now, **options)


def at_once(*work: Callable[[], Result]) -> list[Result]:
    """What the functions return, each run in a thread of its own and begun together.

    Raises what one of them raised.
    """
    together = threading.Barrier(len(work))

    def run(call: Callable[[], Result]) -> Result:
        together.wait(timeout=60)
        return _with_own_connection(call)

    with ThreadPoolExecutor(len(work)) as pool:
        return list(pool.map(run, work, timeout=30))


def _with_own_connection(work: Callable[[], Result]) -> Result:
    """What the function returns; the connection of its thread ends with it."""
    try:
        return work()
    finally:
        connection.close()


class Eventually(Generic[Result]):
    """What a function returns that runs in a thread of its own meanwhile."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._future = self._pool.submit(_with_own_connection, work)

    def result(self) -> Result:
        try:
            return self._future.result(timeout=30)
        finally:
            self._pool.shutdown()


# --- Connections ----------------------------------------------------------------------------


def somebody_else() -> "psycopg.Connection[Any]":
    """A connection beside the test's own, in autocommit."""
    address = connection.settings_dict
    return psycopg.connect(
        host=address["HOST"], dbname=address["NAME"], user=address["USER"], autocommit=True
    )


def until_somebody_waits_for_a_lock() -> None:
    """Return once a connection waits for a lock that another one holds."""
    waits: LiteralString = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    deadline = time.monotonic() + 60
    with somebody_else() as observer:
        while not observer.execute(waits).fetchall():
            assert time.monotonic() < deadline, "nobody waits"
            time.sleep(0.01)


def kill_own_connection() -> None:
    """End this thread's connection as an operator does, from outside."""
    with somebody_else() as operator:
        terminate(operator, connection.connection.info.backend_pid)


def terminate(operator: "psycopg.Connection[Any]", *backends: int) -> None:
    """End the backends and wait until they are gone."""
    # Of an integer: Citus has a function of the same name for a bigint.
    statement = "SELECT pg_terminate_backend(pid::int, 5000) FROM unnest(%s) pid"
    operator.execute(statement, [list(backends)])


# --- What is there --------------------------------------------------------------------------


def counts(product: Product) -> Counter[tuple[str, str]]:
    """How often each user did each event, by the customers' names, from the daily counts.

    The events themselves must say the same.
    """
    users = dict(User.objects.filter(product=product).values_list("pk", "external_id"))
    names = dict(EventName.objects.filter(product=product).values_list("pk", "name"))
    counted: Counter[tuple[str, str]] = Counter()
    for row in DailyCount.objects.filter(product=product):
        counted[users[row.user_id], names[row.event_name_id]] += row.count
    events = Event.objects.filter(product=product)
    assert counted == Counter(
        (users[event.user_id], names[event.event_name_id]) for event in events
    )
    return counted


def waiting() -> list[int]:
    return list(InboxMessage.objects.order_by("pk").values_list("pk", flat=True))


def quarantined() -> list[int]:
    return list(QuarantinedMessage.objects.order_by("pk").values_list("pk", flat=True))


def dropped() -> list[tuple[int, str]]:
    """Id and reason of each dropped message, in the order of arrival."""
    return list(DroppedMessage.objects.order_by("pk").values_list("pk", "reason"))


_TEXT_COLUMNS: LiteralString = """
    SELECT c.table_name, c.column_name
    FROM information_schema.columns c
    JOIN information_schema.tables t USING (table_schema, table_name)
    WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE'
      AND c.data_type IN ('text', 'character varying', 'jsonb', 'json', 'bytea')
"""


def places_of(secret: str) -> set[str]:
    """Every ``table.column`` of the database that contains the text somewhere."""
    places = set()
    for table, column in sql.fetch(_TEXT_COLUMNS):
        with connection.cursor() as cursor:
            cursor.execute(
                f'SELECT EXISTS (SELECT 1 FROM "{table}" WHERE '
                f"position(%s::bytea IN convert_to(\"{column}\"::text, 'UTF8')) > 0 "
                f'OR position(%s IN "{column}"::text) > 0)',
                [secret.encode(), secret.encode().hex()],
            )
            if cursor.fetchone()[0]:
                places.add(f"{table}.{column}")
    return places


def repeat(messages: Sequence[Payload], times: int) -> list[Payload]:
    return [message for _ in range(times) for message in messages]
