"""A test that commits leaves nothing to the next one, and takes nothing away from it."""

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test import TransactionTestCase
from django_celery_beat.models import PeriodicTask
from pytest_django import Settings

from config.database import broker, queue_schema
from engagement.models import Product
from tests.admin.rows import fill
from tests.emptying import Fresh
from tests.pipeline.waiting import Eventually, somebody_else, until_somebody_waits_for_a_lock

pytestmark = pytest.mark.django_db(transaction=True)


def empty() -> None:
    """What follows each of these tests."""
    TransactionTestCase("run")._fixture_teardown()  # type: ignore[attr-defined]


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.parametrize("turn", ["this test", "the next"])
def test_the_next_test_does_not_see_what_this_one_wrote(turn: str) -> None:
    assert not Product.objects.exists()
    Product.create_with_workspace("Acme")


def test_every_table_has_the_rows_of_a_new_database() -> None:
    before = Fresh()
    fill(Product.create_with_workspace("Acme"), 1)
    assert len(Fresh().rows) > len(before.rows) + 15
    empty()
    after = Fresh()
    assert (after.tables, after.rows) == (before.tables, before.rows)


def test_what_migrations_wrote_is_as_they_wrote_it() -> None:
    permissions = list(Permission.objects.order_by("pk").values())
    tasks = list(PeriodicTask.objects.order_by("pk").values())
    assert permissions and tasks
    ContentType.objects.get_for_model(Product).delete()
    ContentType.objects.create(app_label="engagement", model="unheard of")
    PeriodicTask.objects.update(enabled=False)
    empty()
    assert list(Permission.objects.order_by("pk").values()) == permissions
    assert list(PeriodicTask.objects.order_by("pk").values()) == tasks
    assert not ContentType.objects.filter(model="unheard of").exists()


@pytest.fixture
def queue(settings: Settings) -> Iterator[str]:
    """A queue of the broker on the service's own database, which the tests do without."""
    settings.CELERY_BROKER_URL = broker.URL
    queue_schema.install()
    execute("SELECT pgmq.create('default')")
    yield "default"
    execute("DROP SCHEMA pgmq CASCADE")


def test_messages_of_the_brokers_queues_are_gone(queue: str) -> None:
    execute(f"""SELECT pgmq.send('{queue}', '{{"wake": "up"}}')""")
    assert f"pgmq.q_{queue}" in Fresh().rows
    empty()
    assert f"pgmq.q_{queue}" not in Fresh().rows


def test_a_partition_that_was_dropped_is_there_again() -> None:
    before = Fresh().tables
    *_, partition = sorted(table for table in before if table.startswith("engagement_event_20"))
    execute(f"DROP TABLE {partition}")
    assert partition not in Fresh().tables
    empty()
    assert set(Fresh().tables) == set(before)


def test_somebody_who_still_writes_is_waited_for() -> None:
    with somebody_else() as other, other.transaction():
        other.execute("INSERT INTO auth_group (name) VALUES ('late')")
        emptied = Eventually(empty)
        until_somebody_waits_for_a_lock()
    emptied.result()
    assert not Group.objects.exists()
