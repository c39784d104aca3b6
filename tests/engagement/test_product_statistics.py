"""The planner knows each product that is large enough."""

import pytest

from core.database import statistics
from engagement.models import Product
from tests.database import one_server
from tests.engagement.history import identify, tell

USERS = statistics.MANY_ROWS


@pytest.fixture(autouse=True)
def each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "PRODUCT_INTERVAL", 0)
    monkeypatch.setattr(statistics, "_next_rows", {})


@one_server
@pytest.mark.django_db
def test_a_large_product_is_known_to_the_planner(acme: Product, globex: Product) -> None:
    """In one transaction: autovacuum counts none of these rows."""
    tell(acme, *(identify(f"user {number}") for number in range(USERS)))
    statistics.analyze()
    tell(globex, *(identify(f"user {number}") for number in range(USERS)))
    assert "engagement_user" not in statistics.refresh_product(acme.pk)
    assert "engagement_user" in statistics.refresh_product(globex.pk)
    assert "engagement_user" not in statistics._few_expected(globex.pk)
    assert statistics.refresh_product(globex.pk) == []


@pytest.mark.django_db
def test_a_product_that_the_sample_misses_is_not_looked_for_again_and_again(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "_few_expected", lambda _: ["engagement_user"])
    analyzed: list[list[str]] = []
    monkeypatch.setattr(statistics, "_analyze_for", lambda _, tables: analyzed.append(tables))
    monkeypatch.setattr(statistics, "MANY_ROWS", 2)
    tell(acme, *(identify(f"user {number}") for number in range(19)))
    statistics.refresh_product(acme.pk)
    statistics.refresh_product(acme.pk)
    assert analyzed == [["engagement_user"]]
    tell(acme, identify("user 19"))
    statistics.refresh_product(acme.pk)
    assert analyzed == [["engagement_user"]] * 2
