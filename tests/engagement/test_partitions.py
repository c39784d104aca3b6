"""Events go to weekly partitions, which are created ahead and dropped by age."""

import re
from datetime import UTC, date, datetime
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from core.database import partitions
from core.database.partitions import maintain_partitions
from core.database.sql import execute, fetch
from engagement.models import DailyCount, Event, Product
from engagement.models.kept_defaults import event_retention_days
from tests.database import one_server_as
from tests.engagement.history import tell, track

SHARD_NUMBER = re.compile(r"_\d{6,}$")
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def only_the_default_partition(db: None) -> None:
    for name in names():
        execute(f"DROP TABLE {name}")


def names() -> list[str]:
    rows = fetch(
        "SELECT inhrelid::regclass::text FROM pg_inherits"
        " WHERE inhparent = 'engagement_event'::regclass ORDER BY 1"
    )
    return [name for (name,) in rows if not name.endswith("_default")]


def partitions_of(product: Product) -> list[str]:
    """The partition of each event of the product."""
    rows = fetch(
        "SELECT tableoid::regclass::text FROM engagement_event WHERE product_id = %(product)s"
        " ORDER BY occurred_at",
        {"product": product.pk},
    )
    # On a cluster, each table of a node has a number.
    return [SHARD_NUMBER.sub("", name) for (name,) in rows]


def hours_until(when: datetime) -> float:
    return (when - datetime(2026, 9, 24, 12, tzinfo=UTC)).total_seconds() / 3600


def add_month(year: int, month: int) -> None:
    """A partition as older releases made them, with the key that it then had of its own."""
    name, following = f"engagement_event_{year}_{month:02}", month % 12 + 1
    key = "PRIMARY KEY (product_id, user_id, occurred_at, arrival)"
    execute(f"CREATE TABLE {name} (LIKE engagement_event INCLUDING ALL, {key})")
    execute(
        f"ALTER TABLE engagement_event ATTACH PARTITION {name} FOR VALUES"
        f" FROM ('{year}-{month}-01 00:00+00')"
        f" TO ('{year + (following < month)}-{following}-01 00:00+00')"
    )


def test_the_weeks_within_the_retention_and_four_ahead_have_partitions() -> None:
    maintain_partitions(date(2026, 12, 31), retention_days=31)
    assert names() == [
        "engagement_event_2026_11_30",
        "engagement_event_2026_12_07",
        "engagement_event_2026_12_14",
        "engagement_event_2026_12_21",
        "engagement_event_2026_12_28",
        "engagement_event_2027_01_04",
        "engagement_event_2027_01_11",
        "engagement_event_2027_01_18",
        "engagement_event_2027_01_25",
    ]


def test_months_of_an_older_release_stay_and_weeks_fill_what_they_leave() -> None:
    add_month(2026, 9)
    add_month(2026, 10)
    maintain_partitions(date(2026, 10, 20), retention_days=55)
    assert [(str(each.start), str(each.end)) for each in partitions.partitions()] == [
        ("2026-08-24", "2026-08-31"),
        ("2026-08-31", "2026-09-01"),
        ("2026-09-01", "2026-10-01"),
        ("2026-10-01", "2026-11-01"),
        ("2026-11-01", "2026-11-02"),
        ("2026-11-02", "2026-11-09"),
        ("2026-11-09", "2026-11-16"),
        ("2026-11-16", "2026-11-23"),
    ]
    maintain_partitions(date(2026, 11, 30), retention_days=60)
    assert names()[0] == "engagement_event_2026_10"


def test_maintaining_partitions_twice_changes_nothing() -> None:
    maintain_partitions(date(2026, 9, 24), retention_days=31)
    before = names()
    maintain_partitions(date(2026, 9, 24), retention_days=31)
    assert names() == before


def test_an_event_goes_to_its_weeks_partition_to_the_last_microsecond(acme: Product) -> None:
    maintain_partitions(date(2026, 9, 24), retention_days=31)
    last = datetime(2026, 9, 27, 23, 59, 59, 999999, tzinfo=UTC)
    first = datetime(2026, 9, 28, tzinfo=UTC)
    tell(acme, track("ann", hours=hours_until(last)), track("ann", hours=hours_until(first)))
    assert partitions_of(acme) == ["engagement_event_2026_09_21", "engagement_event_2026_09_28"]


def test_an_event_without_a_partition_moves_when_it_is_created(acme: Product) -> None:
    tell(acme, track("ann"))
    assert partitions_of(acme) == ["engagement_event_default"]
    maintain_partitions(date(2026, 9, 24), retention_days=31)
    assert partitions_of(acme) == ["engagement_event_2026_09_21"]
    tell(acme, track("ann", hours=1))
    assert partitions_of(acme) == ["engagement_event_2026_09_21"] * 2


def test_a_week_is_dropped_when_all_of_it_is_too_old_and_its_counts_stay(acme: Product) -> None:
    maintain_partitions(date(2026, 9, 24), retention_days=31)
    tell(acme, track("ann", hours=0))
    maintain_partitions(date(2026, 10, 27), retention_days=30)
    assert Event.objects.filter(product=acme).count() == 1
    maintain_partitions(date(2026, 10, 28), retention_days=30)
    assert Event.objects.filter(product=acme).count() == 0
    assert "engagement_event_2026_09_21" not in names()
    assert DailyCount.objects.get(product=acme).count == 1


def test_older_events_that_arrive_late_are_counted_and_deleted(acme: Product) -> None:
    maintain_partitions(date(2026, 9, 24), retention_days=31)
    tell(acme, track("ann", hours=-24 * 400))
    assert partitions_of(acme) == ["engagement_event_default"]
    maintain_partitions(date(2026, 9, 24), retention_days=31)
    assert partitions_of(acme) == []
    assert DailyCount.objects.get(product=acme).count == 1


def test_any_number_of_old_events_is_deleted_from_the_default_partition(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "BLOCKS_PER_STATEMENT", 1)
    years_ago = -24 * 365 * 3
    tell(acme, *[track("ann", hours=years_ago - number) for number in range(1000)])
    tell(acme, track("ann", hours=24 * 365))
    maintain_partitions(date(2026, 9, 24), 400)
    assert Event.objects.count() == 1
    assert DailyCount.objects.count() > 40


# --- From an older release ------------------------------------------------------------------------

KEYS = """
    SELECT conrelid::regclass::text, conindid::bigint FROM pg_constraint
    WHERE contype = 'p' AND conrelid::regclass::text LIKE 'engagement_event%'
      AND conrelid::regclass::text NOT IN ('engagement_eventname', 'engagement_eventweight')
    ORDER BY 1
"""


@one_server_as("the nodes have the tables that this looks at.")
def test_an_upgrade_leaves_each_partition_the_key_that_it_has(acme: Product) -> None:
    add_month(2026, 9)
    for table in ("engagement_event_default", "engagement_event_2026_09"):
        execute(f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey")
    columns = "product_id, user_id, occurred_at, arrival"
    execute(f"ALTER TABLE engagement_event ADD PRIMARY KEY ({columns})")
    tell(acme, track("ann"), track("ann", hours=24 * 365))
    parent, *own = fetch(KEYS)
    assert parent[0] == "engagement_event" and len(own) == 2

    migration = import_module("engagement.migrations.0063_event_keys")
    with connection.schema_editor(atomic=False) as editor:
        migration.prove_days(apps, editor)
        # Again, as after a kill.
        for _ in range(2):
            migration.divide_key(apps, editor)
            migration.prove_days(apps, editor)

    assert fetch(KEYS) == own
    assert Event.objects.filter(product=acme).count() == 2
    maintain_partitions(date(2026, 9, 24), retention_days=31)
    assert partitions_of(acme) == ["engagement_event_2026_09", "engagement_event_default"]


# --- How long -------------------------------------------------------------------------------------


def test_an_installation_keeps_the_retention_that_it_began_with(
    acme: Product, settings: Any
) -> None:
    assert event_retention_days() == 150
    keep = import_module("engagement.migrations.0064_kept_defaults").KEEP_RETENTION
    execute(keep)
    assert event_retention_days() == 400
    # The operator's word counts.
    settings.EVENT_RETENTION_IS_SET, settings.EVENT_RETENTION_DAYS = True, 62
    assert event_retention_days() == 62


def test_a_new_installation_keeps_nothing(db: None) -> None:
    execute(import_module("engagement.migrations.0064_kept_defaults").KEEP_RETENTION)
    assert event_retention_days() == 150
