"""Statements that run while Python prepares the next ones."""

from typing import LiteralString

import pytest
from django.db import DataError, transaction

from engagement.database import sql

pytestmark = pytest.mark.django_db

QUOTIENTS: LiteralString = "SELECT 100 / n FROM unnest(%(numbers)b::int[]) AS k(n)"


def test_all_parts_return_their_rows_in_order() -> None:
    for part_size in (1, 3, 10, 11):
        rows = sql.fetch_in_parts(
            QUOTIENTS, list(range(1, 11)), lambda part: {"numbers": list(part)}, part_size
        )
        assert rows == [(100 // number,) for number in range(1, 11)]


def test_the_error_of_a_part_is_djangos_and_the_connection_stays_usable() -> None:
    numbers = [1, 2, 0, 4, 5]
    with pytest.raises(DataError, match="division by zero"), transaction.atomic():
        sql.fetch_in_parts(QUOTIENTS, numbers, lambda part: {"numbers": list(part)}, 1)
    with pytest.raises(DataError, match="division by zero"), transaction.atomic(), sql.pipeline():
        sql.execute(QUOTIENTS, {"numbers": numbers})
    assert sql.fetch(QUOTIENTS, {"numbers": [50]}) == [(2,)]


def test_a_block_that_fails_raises_its_own_error() -> None:
    with pytest.raises(KeyError), transaction.atomic(), sql.pipeline():
        sql.execute(QUOTIENTS, {"numbers": [1]})
        raise KeyError
    assert sql.fetch(QUOTIENTS, {"numbers": [50]}) == [(2,)]
