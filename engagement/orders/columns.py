"""The columns by which users and accounts can be sorted, as expressions of engagement rows.

A column is named by a text: one of ``STANDARD``, or ``trait:`` and a trait's name.
"""

from typing import Any, Literal, TypeAlias, get_args

from django.db.models import Case, F, Func, IntegerField, QuerySet, TextField, Value, When
from django.db.models.functions import Cast, Coalesce, Left, Lower
from django.db.models.lookups import Exact, IsNull

from engagement.license_traits import MAINTENANCE_END_TRAIT
from engagement.metric_names import Scope
from engagement.models import ScoreSet
from engagement.models.orders import COLUMN_LENGTH
from engagement.money import MRR_TRAIT
from engagement.rules.trait_filters import TraitNumber, TraitText, TraitType
from engagement.scopes import ACCOUNTS, SubjectKind
from engagement.segments.insight_filters import compared_change
from engagement.segments.metric_filters import change_in_tenths

StandardColumn: TypeAlias = Literal[
    "score",
    "change",
    "last_active",
    "active_users",
    "total_users",
    "name",
    "account",
    "renewal",
    "mrr",
    "first_seen",
]
_ACCOUNTS_ONLY = {"active_users", "total_users", "renewal", "mrr"}
_USERS_ONLY = {"account"}
TRAIT_PREFIX = "trait:"
# Texts that begin with the same characters count as equal.
_SORTED_LENGTH = 100


class UnknownColumn(ValueError):
    """Nothing can be sorted by a column of this name."""


def standard_columns(scope: Scope) -> list[str]:
    """The names of the columns other than traits."""
    other = _ACCOUNTS_ONLY if scope == "user" else _USERS_ONLY
    return [name for name in get_args(StandardColumn) if name not in other]


def trait_column(trait: str) -> str:
    return f"{TRAIT_PREFIX}{trait}"


def sorted_rows(
    score_set: ScoreSet, kind: SubjectKind, column: str, *, descending: bool
) -> QuerySet[Any]:
    """The set's engagement rows, sorted by the column. Raises UnknownColumn.

    Ties are by id. Descending is ascending reversed, except that rows without a value come last in
    both; their ``sort_key`` is None.
    """
    keys = _sort_keys(column, score_set, kind)
    names = ["sort_key", *(f"sort_key_{number}" for number in range(2, len(keys) + 1))]
    rows = kind.engagement_rows(score_set).annotate(**dict(zip(names, keys, strict=True)))
    # The index of the ranking has no place for NULL, and a score is never NULL.
    nulls_last = None if column == "score" else True
    order = [
        F(name).desc(nulls_last=nulls_last) if descending else F(name).asc(nulls_last=nulls_last)
        for name in names
    ]
    rows_in_order: QuerySet[Any] = rows.order_by(
        *order, f"-{kind.id_column}" if descending else kind.id_column
    )
    return rows_in_order


def check_column(column: str, scope: Scope) -> None:
    """Raise UnknownColumn unless users or accounts can be sorted by the column."""
    trait = column.removeprefix(TRAIT_PREFIX)
    is_trait = trait != column and trait and len(column) <= COLUMN_LENGTH and "\0" not in trait
    if not (is_trait or column in standard_columns(scope)):
        raise UnknownColumn(column)


def _sort_keys(column: str, score_set: ScoreSet, kind: SubjectKind) -> list[Any]:
    """The expressions on the kind's engagement rows that the order compares, before the ids."""
    check_column(column, kind.scope)
    traits = f"{kind.path}traits"
    if column.startswith(TRAIT_PREFIX):
        return _trait_keys(traits, column.removeprefix(TRAIT_PREFIX))
    match column:
        case "score":
            return [F("raw")]
        case "change" if kind is ACCOUNTS:
            return [compared_change(score_set)]
        case "change":
            return [change_in_tenths(score_set, kind)]
        case "last_active":
            return [F("last_active_at")]
        case "first_seen":
            return [F(f"{kind.path}first_seen_at")]
        case "name":
            return [_name(kind.path)]
        case "account":
            is_shown = Exact(F("user__account__is_identified"), Value(True))
            return [Case(When(is_shown, then=_name("user__account__")))]
        case "renewal":
            return [_day(traits, MAINTENANCE_END_TRAIT)]
        case "mrr":
            return [TraitNumber(traits, MRR_TRAIT)]
    return [F(column)]


def _name(path: str) -> Any:
    """The name as lists show it: the external id stands in for a missing one."""
    traits = f"{path}traits"
    is_text = Exact(TraitType(traits, "name"), Value("string"))
    name = Case(When(is_text, then=TraitText(traits, "name")))
    external_id = Cast(F(f"{path}external_id"), TextField())
    return Lower(Left(Coalesce(name, external_id), _SORTED_LENGTH))


def _day(traits: str, name: str) -> Any:
    """The date at the beginning of a trait. ISO dates are in the order of their texts."""
    pattern = Value("^[0-9]{4}-[0-9]{2}-[0-9]{2}")
    return Func(TraitText(traits, name), pattern, function="substring", output_field=TextField())


def _trait_keys(traits: str, name: str) -> list[Any]:
    """Numbers first, by size, then other values by their texts."""
    number, text = TraitNumber(traits, name), TraitText(traits, name)
    rank = Case(
        When(IsNull(number, False), then=Value(0)),
        When(IsNull(text, False), then=Value(1)),
        output_field=IntegerField(),
    )
    return [rank, number, Lower(Left(text, _SORTED_LENGTH))]
