"""Events go to monthly partitions, which are created ahead and dropped by age."""

import re
from datetime import UTC, date, datetime

import pytest

from core.database import partitions
from core.database.partitions import maintain_partitions
from core.database.sql import execute, fetch
from engagement.models import DailyCount, Event, Product
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


def test_the_months_within_the_retention_and_two_ahead_have_partitions() -> None:
    maintain_partitions(date(2026, 12, 31), retention_days=62)
    assert names() == [
        "engagement_event_2026_10",
        "engagement_event_2026_11",
        "engagement_event_2026_12",
        "engagement_event_2027_01",
        "engagement_event_2027_02",
    ]


def test_maintaining_partitions_twice_changes_nothing() -> None:
    maintain_partitions(date(2026, 9, 24), retention_days=31)
    before = names()
    maintain_partitions(date(2026, 9, 24), retention_days=31)
    assert names() == before


def test_an_event_goes_to_its_months_partition_to_the_last_microsecond(acme: Product) -> None:
    maintain_partitions(date(2026, 9, 24), retention_days=31)
    last = datetime(2026, 9, 30, 23, 59, 59, 999999, tzinfo=UTC)
    first = datetime(2026, 10, 1, tzinfo=UTC)
    tell(acme, track("ann", hours=hours_until(last)), track("ann", hours=hours_until(first)))
    assert partitions_of(acme) == ["engagement_event_2026_09", "engagement_event_2026_10"]


def test_an_event_without_a_partition_moves_when_it_is_created(acme: Product) -> None:
    tell(acme, track("ann"))
    assert partitions_of(acme) == ["engagement_event_default"]
    maintain_partitions(date(2026, 9, 24), retention_days=31)
    assert partitions_of(acme) == ["engagement_event_2026_09"]
    tell(acme, track("ann", hours=1))
    assert partitions_of(acme) == ["engagement_event_2026_09"] * 2


def test_a_month_is_dropped_when_all_of_it_is_too_old_and_its_counts_stay(acme: Product) -> None:
    maintain_partitions(date(2026, 9, 24), retention_days=31)
    tell(acme, track("ann", hours=0))
    maintain_partitions(date(2026, 10, 30), retention_days=30)
    assert Event.objects.filter(product=acme).count() == 1
    maintain_partitions(date(2026, 10, 31), retention_days=30)
    assert Event.objects.filter(product=acme).count() == 0
    assert "engagement_event_2026_09" not in names()
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
