"""The accounts that need attention: how many have each insight, and which of them cost most.

What an insight costs is told by its kind first, in the order of ``INSIGHTS``. Within a kind, by
what the account pays, then by its licensed seats, its users, and the points that it lost.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from django.db.models import Case, Count, F, IntegerField, Q, QuerySet, Value, When, Window
from django.db.models.functions import RowNumber

from engagement.activity.reading import NO_ALARMS, alarms_by_account
from engagement.insight_kinds import INSIGHTS, InsightKind
from engagement.models import Account, AccountEngagement, ScoreSet
from engagement.money import MRR_TRAIT
from engagement.rules.trait_filters import TraitNumber
from engagement.scopes import ACCOUNTS
from engagement.scores.formula import age_factor
from engagement.scores.insights import Insight, account_facts, apply_rules
from engagement.segments.insight_filters import insight_filter
from engagement.segments.metric_filters import licensed_seats

ACCOUNTS_PER_KIND = 3
# The kinds that need no attention: they have lists of their own.
_UNLISTED: frozenset[InsightKind] = frozenset({"new_account", "trend_up"})


class Ranking(NamedTuple):
    """The number of accounts with each insight, and the ids of those that cost most, by kind. An
    account is in the list of the first of its kinds only."""

    counts: dict[InsightKind, int]
    account_ids: dict[InsightKind, list[int]]


class Alert(NamedTuple):
    """An account and the insight for which it needs attention."""

    account: Account
    insight: Insight


class Attention(NamedTuple):
    """The number of accounts with each insight that any has, and alerts, by kind."""

    counts: dict[InsightKind, int]
    alerts: dict[InsightKind, list[Alert]]


NO_RANKING = Ranking({}, {})
NO_ATTENTION = Attention({}, {})


def rank_insights(score_set: ScoreSet) -> Ranking:
    """Reads every account row of the set, and again if any account needs attention."""
    if score_set.scored_day is None:
        return NO_RANKING
    filters = {kind: insight_filter(kind, score_set) for kind in INSIGHTS}
    counts = ACCOUNTS.engagement_rows(score_set).aggregate(
        **{kind: Count(Case(When(filter_, then=Value(1)))) for kind, filter_ in filters.items()}
    )
    ids_by_kind: dict[InsightKind, list[int]] = {}
    kinds = [kind for kind in INSIGHTS if counts[kind] and kind not in _UNLISTED]
    if kinds:
        for kind, account_id in _costliest(score_set, kinds, filters):
            ids_by_kind.setdefault(kind, []).append(account_id)
    return Ranking({kind: counts[kind] for kind in INSIGHTS if counts[kind]}, ids_by_kind)


def load_attention(score_set: ScoreSet, ranking: Ranking) -> Attention:
    """The alerts with today's numbers, without accounts that no longer have the insight."""
    ids = [id for ids_of_kind in ranking.account_ids.values() for id in ids_of_kind]
    rows = {row.account_id: row for row in _rows(score_set, ids)} if ids else {}
    alarms = alarms_by_account(score_set, rows)
    insights = {
        id: apply_rules(account_facts(score_set, row, alarms=alarms.get(id, NO_ALARMS)))
        for id, row in rows.items()
    }
    alerts = {
        kind: [
            Alert(rows[id].account, insight)
            for id in ranking.account_ids[kind]
            for insight in insights.get(id, ())
            if insight.kind == kind
        ]
        for kind in INSIGHTS
        if kind in ranking.account_ids
    }
    return Attention(
        ranking.counts, {kind: ids_of_kind for kind, ids_of_kind in alerts.items() if ids_of_kind}
    )


def _costliest(
    score_set: ScoreSet, kinds: Sequence[InsightKind], filters: dict[InsightKind, Q]
) -> list[tuple[InsightKind, int]]:
    """The first of the kinds and the id of the accounts that cost most, in order."""
    first = Case(
        *(When(filters[kind], then=Value(place)) for place, kind in enumerate(kinds)),
        output_field=IntegerField(),
    )
    # As many points as they were then: with a half-life, all have shrunk since.
    shrunk = age_factor(score_set, score_set.lookback_days) if score_set.half_life_days else 1.0
    before = F("raw_yesterday_last_period") / shrunk
    cost = (
        TraitNumber(f"{ACCOUNTS.path}traits", MRR_TRAIT).desc(nulls_last=True),
        licensed_seats(f"{ACCOUNTS.path}traits").desc(nulls_last=True),
        F("total_users").desc(),
        (F("raw_yesterday") - before).asc(nulls_last=True),
        F("account_id").asc(),
    )
    rows = (
        ACCOUNTS.engagement_rows(score_set)
        .annotate(place=first)
        .filter(place__isnull=False)
        .annotate(number=Window(RowNumber(), partition_by=F("place"), order_by=cost))
        .filter(number__lte=ACCOUNTS_PER_KIND)
        .order_by("place", "number")
    )
    return [(kinds[place], id) for place, id in rows.values_list("place", "account_id")]


def _rows(score_set: ScoreSet, account_ids: Iterable[int]) -> QuerySet[Any]:
    rows: QuerySet[AccountEngagement] = ACCOUNTS.engagement_rows(score_set)
    return (
        rows.filter(account_id__in=list(account_ids))
        .select_related("account")
        .defer("account__trait_stamps")
    )
