"""The planner knows each product that is large enough."""

import pytest

from core.database import product_statistics, statistics
from engagement.models import Product
from tests.database import one_server
from tests.engagement.history import identify, tell

USERS = product_statistics.MANY_ROWS


@pytest.fixture(autouse=True)
def each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product_statistics, "INTERVAL", 0)
    monkeypatch.setattr(product_statistics, "_next_rows", {})


@one_server
@pytest.mark.django_db
def test_a_large_product_is_known_to_the_planner(acme: Product, globex: Product) -> None:
    """In one transaction: autovacuum counts none of these rows."""
    tell(acme, *(identify(f"user {number}") for number in range(USERS)))
    statistics.analyze()
    tell(globex, *(identify(f"user {number}") for number in range(USERS)))
    assert "engagement_user" not in product_statistics.refresh(acme.pk)
    assert "engagement_user" in product_statistics.refresh(globex.pk)
    assert "engagement_user" not in product_statistics._few_expected(globex.pk)
    assert product_statistics.refresh(globex.pk) == []


@pytest.mark.django_db
def test_a_product_that_the_sample_misses_is_not_looked_for_again_and_again(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(product_statistics, "_few_expected", lambda _: ["engagement_user"])
    analyzed: list[list[str]] = []
    monkeypatch.setattr(product_statistics, "_analyze", lambda _, tables: analyzed.append(tables))
    monkeypatch.setattr(product_statistics, "MANY_ROWS", 2)
    tell(acme, *(identify(f"user {number}") for number in range(19)))
    product_statistics.refresh(acme.pk)
    product_statistics.refresh(acme.pk)
    assert analyzed == [["engagement_user"]]
    tell(acme, identify("user 19"))
    product_statistics.refresh(acme.pk)
    assert analyzed == [["engagement_user"]] * 2
