"""What a weekly look concludes from counts: events that ended, and users who no longer come."""

from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom

from engagement.alarms import habits
from tests.cases import each, examples

# By account and name, or account and user: the days of the week with a use, for each of 24 weeks,
# the last one first.
Weeks = Mapping[tuple[int, int], Sequence[int]]


def use(rows: Weeks) -> habits.Use:
    """Each use is of one user, on the first days of its week."""
    days, bits = [], []
    for weeks in rows.values():
        blocks = [weeks[start : start + 4] for start in range(0, 24, 4)]
        days.append([sum(block) for block in blocks])
        bits.append(
            [
                sum(
                    1 << (7 * place + 6 - day)
                    for place, count in enumerate(block)
                    for day in range(count)
                )
                for block in blocks
            ]
        )
    keys = np.array([list(key) for key in rows], "i8")
    return habits.Use(keys, np.array(days), np.array(bits))


def product(accounts: int, names: int = 3, per_week: int = 2) -> dict[tuple[int, int], list[int]]:
    """Every account uses every event in every week."""
    return {
        (account, name): [per_week] * 24
        for account in range(1, accounts + 1)
        for name in range(1, names + 1)
    }


def users(rows: Weeks) -> habits.Use:
    """One user for each account, who did all of it."""
    accounts = sorted({account for account, _ in rows})
    return use(
        {
            (account, 100 + account): [
                max(weeks[week] for (own, _), weeks in rows.items() if own == account)
                for week in range(24)
            ]
            for account in accounts
        }
    )


def ended(rows: Weeks) -> list[habits.EndedHabit]:
    return habits.ended_habits(habits.habits_of(use(rows), users(rows)))


# --- Events -----------------------------------------------------------------------------------


def test_an_event_that_one_account_dropped_has_ended() -> None:
    rows = product(50)
    rows[7, 2] = [0] * 4 + [2] * 20
    (habit,) = ended(rows)
    assert (habit.account, habit.name, habit.window_days) == (7, 2, 28)
    # Eight days in 28, of which the others kept 49 of 50; 1 of the 150 ended, and the account has
    # three such habits.
    assert habit.expected == pytest.approx(8 * 49 / 50)
    assert (habit.comparable, habit.ended) == (150, 1)
    assert habit.p == pytest.approx(habits.TOGETHER * 3 / 150)


def test_a_rare_event_needs_eight_weeks_without() -> None:
    rows = {(account, 1): [4] * 24 for account in range(1, 81)}
    for account in range(1, 81):
        rows[account, 2] = ([0, 1] if account % 2 else [1, 0]) * 12
    # Many a rare habit rests for four weeks.
    for account in range(20, 40):
        rows[account, 2] = [0] * 4 + rows[account, 2][4:]
    rows[7, 2] = [0] * 8 + rows[7, 2][8:]
    (habit,) = ended(rows)
    assert (habit.account, habit.name, habit.window_days) == (7, 2, 56)
    assert (habit.comparable, habit.ended) == (80, 1)


def test_an_account_that_does_nothing_any_more_loses_no_events() -> None:
    rows = product(50)
    for name in (1, 2, 3):
        rows[7, name] = [0] * 4 + [2] * 20
    assert ended(rows) == []


def test_a_renamed_event_ends_for_nobody() -> None:
    rows = product(50)
    for account in range(1, 51):
        rows[account, 4] = rows[account, 3]
        rows[account, 3] = [0] * 4 + [2] * 20
    assert ended(rows) == []


def test_what_half_of_the_weeks_did_not_have_is_no_habit() -> None:
    rows = product(50, per_week=4) | {(account, 2): [0, 4] * 12 for account in range(1, 51)}
    rows[7, 2] = [0] * 4 + [0, 4] * 7 + [0] * 6
    assert ended(rows) == []
    rows[7, 2] = [0] * 4 + [0, 4] * 10
    assert [habit.name for habit in ended(rows)] == [2]


def test_where_habits_often_end_none_is_told_of() -> None:
    rows = product(50)
    for account in range(1, 11):
        rows[account, 2] = [0] * 4 + [2] * 20
    assert ended(rows) == []


COUNTS = st.lists(
    st.integers(0, 500).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
    min_size=len(habits.CLASSES),
    max_size=len(habits.CLASSES),
)


@given(COUNTS)
@examples(300)
def test_shares_of_ends_fall_with_the_class_and_count_each_habit_once(
    counts: list[tuple[int, int]],
) -> None:
    pooled = habits.pool(np.array(counts))
    shares = [ended / count for count, ended in pooled.tolist() if count]
    assert shares == sorted(shares, reverse=True)
    # Neighbors that are taken together have the same counts, and no two others do.
    pools = [row for row, _ in groupby(pooled.tolist()) if row != [0, 0]]
    assert [sum(column) for column in zip([0, 0], *pools, strict=True)] == [
        sum(column) for column in zip(*counts, strict=True)
    ]


# --- Users ------------------------------------------------------------------------------------


@each("count", [2, 5, 12, 80, 500])
@each("mean", [0.001, 0.03, 0.14, 0.5])
def test_the_tail_is_that_of_the_beta_binomial_distribution(count: int, mean: float) -> None:
    total = 1 / habits.CORRELATION - 1
    law = betabinom(count, mean * total, (1 - mean) * total)
    for least in {1, 2, count // 2, count}:
        own = habits.beta_binomial_tail(least, count, mean)
        assert own == pytest.approx(law.sf(least - 1), rel=1e-6, abs=1e-12)


def test_the_tail_of_what_never_or_always_happens() -> None:
    assert habits.beta_binomial_tail(1, 5, 0.0) == 0
    assert habits.beta_binomial_tail(5, 5, 1.0) == 1


def people(rows: Weeks) -> tuple[list[habits.QuietUsers], list[habits.QuietKeyUser]]:
    regular = habits.regular_users_of(use(rows))
    return habits.quiet_users(
        regular, habits.count_ends(regular["expected"], habits.is_quiet(regular))
    )


def crowd(accounts: int = 40, size: int = 5) -> dict[tuple[int, int], list[int]]:
    return {
        (account, 10 * account + user): [2] * 24
        for account in range(1, accounts + 1)
        for user in range(size)
    }


GONE = [0] * 4 + [2] * 20


def test_three_of_five_users_who_stay_away_are_unlikely() -> None:
    rows = crowd()
    for user in (70, 71, 72):
        rows[7, user] = GONE
    ((quiet,), key_users) = people(rows)
    assert (quiet.account, quiet.users, quiet.regular) == (7, [70, 71, 72], 5)
    assert quiet.usual_share == pytest.approx(3 / 200)
    assert quiet.p < 0.001 and key_users == []


def test_in_a_vacation_of_everybody_users_who_stay_away_are_usual() -> None:
    rows = crowd()
    for account, user in list(rows):
        if account % 2:
            rows[account, user] = GONE
    quiet, _ = people(rows)
    assert min(own.p for own in quiet) > 0.02


def test_who_came_seldom_or_left_long_ago_is_no_regular_user() -> None:
    rows = crowd(1)
    rows[1, 10] = [0] * 8 + [2] * 16
    rows[1, 11] = [0] * 4 + [1, 0, 0, 0] + [0] * 16
    regular = habits.regular_users_of(use(rows))
    assert regular["user"].tolist() == [12, 13, 14]


def test_the_most_active_user_is_told_of_with_the_days_since() -> None:
    rows = crowd(40, size=2)
    rows[7, 70] = [0] * 5 + [4] * 19
    rows[8, 80] = [0] * 5 + [1] * 19
    quiet, (key_user,) = people(rows)
    assert {own.account for own in quiet} == {7, 8}
    assert (key_user.account, key_user.user) == (7, 70)
    # The first days of a week are its last bits: three days of this one are left.
    assert key_user.quiet_days == 5 * 7 + 3
    assert key_user.share == pytest.approx(60 / 92) and key_user.expected == 15
    assert key_user.ended == 1


def test_one_user_alone_is_no_key_user() -> None:
    rows = crowd(40, size=1)
    rows[7, 70] = GONE
    quiet, key_users = people(rows)
    assert [own.account for own in quiet] == [7] and key_users == []
