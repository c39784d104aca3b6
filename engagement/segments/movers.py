"""The accounts whose scores moved most over complete days, and the new accounts."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from django.db.models import QuerySet

from engagement.models import Account, AccountEngagement, ScoreSet
from engagement.scopes import ACCOUNTS
from engagement.scores.metrics import Scores, compute_scores
from engagement.segments.insight_filters import insight_filter, unless_new
from engagement.segments.metric_filters import complete_change_in_tenths

MOVERS_PER_SIDE = 5


class Mover(NamedTuple):
    """An account with its displayed scores."""

    account: Account
    scores: Scores


class Movers(NamedTuple):
    """The accounts that rose and those that fell, largest change first. New accounts, which have no
    full period to compare with, are neither: of them, those with the highest scores."""

    rising: list[Mover]
    falling: list[Mover]
    new: list[Mover]


NO_MOVERS = Movers([], [], [])


def find_movers(score_set: ScoreSet) -> Movers:
    """The set's movers. Reads every account row of the set."""
    if score_set.scored_day is None:
        return NO_MOVERS
    change = complete_change_in_tenths(score_set, ACCOUNTS)
    rows = _rows(score_set).annotate(tenths=unless_new(score_set, change))
    rising = rows.filter(tenths__gt=0).order_by("-tenths", "-raw_yesterday", "-account_id")
    before = "-raw_yesterday_last_period"
    falling = rows.filter(tenths__lt=0).order_by("tenths", before, "-account_id")
    is_new = insight_filter("new_account", score_set)
    new = rows.filter(is_new).order_by("-raw", "-account_id")
    return Movers(*(_movers(score_set, ids[:MOVERS_PER_SIDE]) for ids in (rising, falling, new)))


def load_movers(
    score_set: ScoreSet, rising: Sequence[int], falling: Sequence[int], new: Sequence[int]
) -> Movers:
    """The movers with these account ids, with their scores of today."""
    engagement = _rows(score_set).filter(account_id__in=[*rising, *falling, *new])
    rows = {row.account_id: row for row in engagement}
    return Movers(
        *(
            _movers(score_set, [rows[id] for id in ids if id in rows])
            for ids in (rising, falling, new)
        )
    )


def _rows(score_set: ScoreSet) -> QuerySet[Any]:
    rows = ACCOUNTS.engagement_rows(score_set)
    return rows.select_related("account").defer("account__trait_stamps")


def _movers(score_set: ScoreSet, rows: Iterable[AccountEngagement]) -> list[Mover]:
    return [Mover(row.account, compute_scores(row, score_set)) for row in rows]
