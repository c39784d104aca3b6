"""The accounts whose scores moved most over one lookback."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from django.db.models import QuerySet

from engagement.models import Account, AccountEngagement, ScoreSet
from engagement.scores.formula import rounded_score, score_change
from engagement.segments import members
from engagement.segments.metric_filters import change_in_tenths

# So many are named on either side.
MOVERS_PER_SIDE = 5


class Mover(NamedTuple):
    """An account with its shown score, and by how much that moved over one lookback."""

    account: Account
    score: float
    change: float


class Movers(NamedTuple):
    """Those that rose and those that fell, each with the largest change first."""

    rising: list[Mover]
    falling: list[Mover]


NO_MOVERS = Movers([], [])


def find_movers(score_set: ScoreSet) -> Movers:
    """The movers among all accounts of the set: reads every row that it has of accounts."""
    if score_set.scored_day is None:
        return NO_MOVERS
    every = _with_accounts(members.engagement_rows(score_set, "account"))
    rows = every.annotate(tenths=change_in_tenths(score_set, "account"))
    rising = rows.filter(tenths__gt=0).order_by("-tenths", "-raw", "-account_id")
    falling = rows.filter(tenths__lt=0).order_by("tenths", "-raw_last_period", "-account_id")
    return Movers(
        _movers(score_set, rising[:MOVERS_PER_SIDE]), _movers(score_set, falling[:MOVERS_PER_SIDE])
    )


def load_movers(score_set: ScoreSet, rising: Sequence[int], falling: Sequence[int]) -> Movers:
    """The movers that were found before, by the ids of their accounts, with today's numbers."""
    asked = [*rising, *falling]
    found = members.engagement_rows(score_set, "account").filter(account_id__in=asked)
    rows = {row.account_id: row for row in _with_accounts(found)}
    return Movers(
        _movers(score_set, [rows[id] for id in rising if id in rows]),
        _movers(score_set, [rows[id] for id in falling if id in rows]),
    )


def _with_accounts(rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows.select_related("account").defer("account__trait_stamps")


def _movers(score_set: ScoreSet, rows: Iterable[AccountEngagement]) -> list[Mover]:
    return [_mover(score_set, row) for row in rows]


def _mover(score_set: ScoreSet, row: AccountEngagement) -> Mover:
    now = rounded_score(row.raw, score_set.account_benchmark)
    before = rounded_score(row.raw_last_period, score_set.account_benchmark_last_period)
    return Mover(row.account, now, score_change(now, before))
