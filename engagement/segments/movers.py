"""The accounts whose scores moved most over complete days, and the new accounts."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet

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


def find_movers(score_set: ScoreSet, matches: Q | None = None) -> Movers:
    """The set's movers, or those of the rows that *matches* keeps. Reads all of these rows."""
    if score_set.scored_day is None:
        return NO_MOVERS
    rising = moved_rows(score_set, matches, up=True)
    rising = rising.order_by("-tenths", "-raw_yesterday", "-account_id")
    falling = moved_rows(score_set, matches, up=False)
    falling = falling.order_by("tenths", "-raw_yesterday_last_period", "-account_id")
    new = _rows(score_set, matches).filter(insight_filter("new_account", score_set))
    new = new.order_by("-raw", "-account_id")
    return Movers(*(read_movers(score_set, rows) for rows in (rising, falling, new)))


def moved_rows(score_set: ScoreSet, matches: Q | None = None, *, up: bool) -> QuerySet[Any]:
    """The rows of accounts whose scores rose over complete days, or fell."""
    change = complete_change_in_tenths(score_set, ACCOUNTS)
    rows = _rows(score_set, matches).annotate(tenths=unless_new(score_set, change))
    moved: QuerySet[Any] = rows.filter(tenths__gt=0) if up else rows.filter(tenths__lt=0)
    return moved


def load_movers(
    score_set: ScoreSet, rising: Sequence[int], falling: Sequence[int], new: Sequence[int]
) -> Movers:
    """The movers with these account ids, with their scores of today."""
    engagement = _rows(score_set).filter(account_id__in=[*rising, *falling, *new])
    engagement = engagement.select_related("account").defer("account__trait_stamps")
    rows = {row.account_id: row for row in engagement}
    return Movers(
        *(
            _as_movers(score_set, [rows[id] for id in ids if id in rows])
            for ids in (rising, falling, new)
        )
    )


def read_movers(score_set: ScoreSet, rows: QuerySet[Any]) -> list[Mover]:
    """The first of the engagement rows of accounts."""
    with_accounts = rows.select_related("account").defer("account__trait_stamps")
    return _as_movers(score_set, with_accounts[:MOVERS_PER_SIDE])


def _rows(score_set: ScoreSet, matches: Q | None = None) -> QuerySet[Any]:
    rows: QuerySet[Any] = ACCOUNTS.engagement_rows(score_set)
    return rows if matches is None else rows.filter(matches)


def _as_movers(score_set: ScoreSet, rows: Iterable[AccountEngagement]) -> list[Mover]:
    return [Mover(row.account, compute_scores(row, score_set)) for row in rows]
