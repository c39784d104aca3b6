"""Chances of accounts as people see them: in whole percent, and of several the lowest.

Conditions, lists, and their orders compare the same number. Where the past outcomes are too few, it
would say nothing of the account: nobody can tell, and nothing compares.
"""

from bisect import bisect_right
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import JSONObject

from engagement.activity.reading import AnyOf
from engagement.models import AccountChance, ScoreSet
from engagement.rules.rules import CHANCES, ChanceCondition, ChanceName
from engagement.scopes import ACCOUNTS

# The kinds of outcomes (``outcomes.kinds``). A workspace has those of licenses, or the last two.
_KINDS: Mapping[ChanceName, tuple[str, ...]] = {
    "buy": ("evaluation",),
    "renew": ("renewal",),
    "stay": ("monthly_stay", "trait", "dormancy"),
}
# The least chance that is shown as 1%, as 2%, and so on.
_BOUNDS = [(percent - 0.5) / 100 for percent in range(1, 101)]


def to_percent(chance: float) -> int:
    """The chance (0 to 1) as it is shown."""
    return bisect_right(_BOUNDS, chance)


class ShownChance(NamedTuple):
    """In percent, with the 95% interval. *is_share*: too few to tell."""

    is_share: bool
    percent: int
    low: int
    high: int

    @classmethod
    def of(cls, is_share: bool, chance: float, low: float, high: float) -> "ShownChance":
        return cls(is_share, to_percent(chance), to_percent(low), to_percent(high))


def names_of(score_set: ScoreSet) -> list[ChanceName]:
    """Those that accounts of the set's workspace have. One query."""
    flags = {name: Exists(_rows(score_set, name)) for name in CHANCES}
    own = ScoreSet.objects.filter(pk=score_set.pk).values(**flags).first() or {}
    return [name for name in CHANCES if own.get(name)]


# --- Filters and orders ---------------------------------------------------------------------


def chance_filter(condition: ChanceCondition, score_set: ScoreSet) -> Q:
    """Keeps the ``AccountEngagement`` rows of accounts whose lowest chance compares so."""
    lower, others = _divided(condition, score_set)
    if condition.operator == "below":
        return Q(account_id__in=lower.values("account_id"))
    has_lower = Exists(lower.filter(account_id=OuterRef("account_id")))
    return Q(account_id__in=others.values("account_id")) & ~Q(has_lower)


def candidates_filter(condition: ChanceCondition, score_set: ScoreSet) -> Q:
    """For a list, besides ``chance_filter``: accounts of licenses are few, so they are found first
    and ranked alone (as ``engagement.activity.reading.listed_activity_filter``)."""
    if condition.chance == "stay":
        return Q()
    rows = _divided(condition, score_set)[condition.operator != "below"]
    return Q(AnyOf(F("account_id"), ArraySubquery(rows.values("account_id"))))


def lowest_chance(score_set: ScoreSet, name: ChanceName) -> Subquery:
    """For one ``AccountEngagement`` row: its lowest chance; NULL if nobody can tell."""
    rows = _telling(score_set, name).filter(account_id=OuterRef("account_id"))
    return Subquery(rows.order_by("chance").values("chance")[:1])


def _divided(
    condition: ChanceCondition, score_set: ScoreSet
) -> tuple[QuerySet[AccountChance], QuerySet[AccountChance]]:
    """The chances below what the condition names, and the others."""
    rows, least = _telling(score_set, condition.chance), _BOUNDS[condition.percent - 1]
    return rows.filter(chance__lt=least), rows.filter(chance__gte=least)


def _telling(score_set: ScoreSet, name: ChanceName) -> QuerySet[AccountChance]:
    return _rows(score_set, name).filter(is_share=False)


def _rows(score_set: ScoreSet, name: ChanceName) -> QuerySet[AccountChance]:
    own = AccountChance.objects.filter(
        product_id=score_set.product_id, workspace_id=score_set.workspace_id
    )
    kinds = _KINDS[name]
    return own.filter(kind=kinds[0]) if len(kinds) == 1 else own.filter(kind__in=kinds)


# --- What is shown --------------------------------------------------------------------------


def account_chances(score_set: ScoreSet) -> ArraySubquery:
    """For one ``AccountEngagement`` row: its chances, which ``shown_chance`` reads."""
    rows = AccountChance.objects.filter(
        product_id=score_set.product_id,
        workspace_id=score_set.workspace_id,
        account_id=OuterRef("account_id"),
    )
    fields = ("kind", *_FIELDS)
    return ArraySubquery(rows.values(row=JSONObject(**{name: name for name in fields})))


def chances_by_account(
    score_set: ScoreSet, account_ids: Collection[int]
) -> dict[int, list[dict[str, Any]]]:
    """The chances of these accounts of the set. One query."""
    rows = ACCOUNTS.engagement_rows(score_set).filter(account_id__in=account_ids)
    rows = rows.annotate(account_chances=account_chances(score_set))
    return dict(rows.values_list("account_id", "account_chances"))


_FIELDS = ("is_share", "chance", "low", "high")


def shown_chance(rows: list[dict[str, Any]], name: ChanceName) -> ShownChance | None:
    """The lowest of the account's chances; None without any."""
    own = [row for row in rows if row["kind"] in _KINDS[name]]
    lowest = min(own, key=lambda row: (row["is_share"], row["chance"]), default=None)
    return ShownChance.of(*(lowest[field] for field in _FIELDS)) if lowest else None
