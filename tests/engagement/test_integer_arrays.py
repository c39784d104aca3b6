"""Arrays of integers reach PostgreSQL as they are, and everything else as psycopg sends it."""

from typing import Any

import pytest

from core.database import sql
from core.database.integer_arrays import BigintArray, encode
from tests.cases import each

LARGEST = 2**63 - 1


@each("values", [[0], [1, -1], [5, 300, 70_000], [-LARGEST - 1, LARGEST, 2**31], [*range(1000)]])
@pytest.mark.django_db
def test_integers_arrive(values: list[int]) -> None:
    assert isinstance(encode(values), BigintArray)
    assert sql.fetch("SELECT %(values)b::bigint[]", {"values": values}) == [(values,)]
    ((rows, lowest, highest),) = sql.fetch(
        "SELECT count(*), min(v), max(v) FROM unnest(%(values)b::bigint[]) AS v", {"values": values}
    )
    assert (rows, lowest, highest) == (len(values), min(values), max(values))


@pytest.mark.django_db
def test_they_are_converted_to_smaller_types() -> None:
    statement = "SELECT %(values)b::smallint[], 2 = ANY(%(values)b)"
    assert sql.fetch(statement, {"values": [1, 2]}) == [([1, 2], True)]


@each(
    ("type", "values"),
    [
        ("bigint", []),
        ("bigint", [None]),
        ("bigint", [1, None, 2**40]),
        ("boolean", [True, False]),
        ("text", ["a", "b"]),
        ("float8", [1.5, 2.5]),
    ],
)
@pytest.mark.django_db
def test_other_lists_are_left_to_psycopg(type: str, values: list[Any]) -> None:
    assert encode(values) is values
    assert sql.fetch(f"SELECT %(values)b::{type}[]", {"values": values}) == [(values,)]


def test_an_integer_that_is_too_large_is_left_to_psycopg() -> None:
    values = [1, 2**63]
    assert encode(values) is values
