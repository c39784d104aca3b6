"""The planner knows each product that is large enough, on one server and on a node."""

import pytest

from engagement.database import product_statistics, statistics
from engagement.models import Product
from tests.engagement.history import identify, tell

USERS = product_statistics.MANY_ROWS


@pytest.fixture(autouse=True)
def each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product_statistics, "INTERVAL", 0)
    monkeypatch.setattr(product_statistics, "_next_rows", {})


def two_products() -> tuple[Product, Product]:
    """A product that the statistics know, and one that they do not know yet."""
    known, new = (Product.create_with_workspace(name) for name in ("Acme", "Globex"))
    for product in (known, new):
        tell(product, *(identify(f"user {number}") for number in range(USERS)))
        if product is known:
            statistics.analyze()
    return known, new


@pytest.mark.django_db(transaction=True)
def test_a_large_product_is_known_to_the_planner() -> None:
    known, new = two_products()
    assert "engagement_user" not in product_statistics.refresh(known.pk)
    assert "engagement_user" in product_statistics._few_expected(new.pk)
    assert "engagement_user" in product_statistics.refresh(new.pk)
    assert "engagement_user" not in product_statistics._few_expected(new.pk)
    assert product_statistics.refresh(new.pk) == []


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
