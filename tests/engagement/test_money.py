"""What an account pays: which traits say it, and how it is written."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engagement.models import AccountEngagement, ScoreSet
from engagement.money import format_cents, mrr_of
from engagement.orders.columns import sorted_rows
from engagement.scopes import ACCOUNTS
from tests.cases import each
from tests.engagement.rows import account


@each(
    ("value", "cents"),
    [
        (123400, 123400),
        (0, 0),
        (-500, -500),
        (99.5, 99.5),
        ("123400", 123400),
        ("99.50", 99.5),
        ("-5", -5),
        (None, None),
        (True, None),
        ("", None),
        ("1,234.00", None),
        ("$12", None),
        ("٣", None),
        ("12\n", None),
        ([100], None),
        ({"amount": 1}, None),
        (10**15, None),
        (1e300, None),
        ("9" * 400, None),
    ],
)
def test_a_number_is_an_amount_and_nothing_else(value: Any, cents: float | None) -> None:
    assert mrr_of({"mrr": value}) == cents


def test_an_account_without_the_trait_pays_nothing_that_is_known() -> None:
    assert mrr_of({"MRR": 5}) is None


@each(
    ("cents", "text"),
    [
        (0, "0.00"),
        (5, "0.05"),
        (123400, "1,234.00"),
        (-123456, "-1,234.56"),
        (12.5, "0.12"),
        (999_999_999_999_999, "9,999,999,999,999.99"),
    ],
)
def test_cents_are_written_as_an_amount(cents: float, text: str) -> None:
    assert format_cents(cents) == text


@given(st.integers(-(10**15) + 1, 10**15 - 1))
def test_no_cent_is_lost(cents: int) -> None:
    units, _, rest = format_cents(cents).replace(",", "").partition(".")
    assert int(units + rest) == cents


@pytest.mark.django_db
def test_the_database_reads_the_same_numbers(scores: ScoreSet) -> None:
    values: list[Any] = [5, "7", 6.5, "8.25", -1, True, "many", None, [1], "٣", "1,000", 2]
    for number, value in enumerate(values):
        account(scores, f"{number}", traits={"mrr": value})
    rows = AccountEngagement.objects.select_related("account")
    amounts = [mrr_of(row.account.traits) for row in rows]
    expected = sorted(cents for cents in amounts if cents is not None)
    keys = [row.sort_key for row in sorted_rows(scores, ACCOUNTS, "mrr", descending=False)]
    assert keys[: len(expected)] == expected
    assert set(keys[len(expected) :]) == {None}
