"""The columns of users and accounts: what they are called, their values, and their orders.

Lists and their files (``console.lists.columns``), scheduled exports (``exports.tables``), and the
orders of the read API have their columns from here. Each trait is a column, too.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from django.db.models import (
    Case,
    F,
    Func,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    TextField,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce, Left, Lower, NullIf
from django.db.models.lookups import Exact, IsNull

from engagement.activity.reading import Activity, read_alarms, shown_alarms
from engagement.license_traits import (
    LICENSE_STATUS_TRAIT,
    LICENSE_TYPE_TRAIT,
    MAINTENANCE_END_TRAIT,
    TIER_TRAIT,
)
from engagement.metric_names import ACCOUNTS_ONLY, BOTH_SCOPES, Scope
from engagement.models import AccountWork, ScoreSet
from engagement.models.orders import COLUMN_LENGTH
from engagement.money import MRR_LABEL, MRR_TRAIT, mrr_of
from engagement.rules import license_events
from engagement.rules.rules import CHANCES, ChanceName
from engagement.rules.texts import CHANCE_LABELS
from engagement.rules.trait_filters import TraitNumber, TraitText, TraitType
from engagement.scopes import ACCOUNTS, SubjectKind
from engagement.scores.metrics import compute_scores
from engagement.segments.activation import ShownSteps, shown_steps, steps_done
from engagement.segments.chances import account_chances, lowest_chance, shown_chance
from engagement.segments.features import features_in_use
from engagement.segments.insight_filters import unless_new
from engagement.segments.metric_filters import change_in_tenths, complete_change_in_tenths

ColumnType: TypeAlias = Literal["integer", "number", "text", "boolean", "time", "day", "json"]
USERS_ONLY: Final[tuple[Scope, ...]] = ("user",)
TRAIT_PREFIX = "trait:"
# Texts that begin with the same characters count as equal.
_SORTED_LENGTH = 100


class UnknownColumn(ValueError):
    """Nothing can be sorted by a column of this name."""


class Facts(NamedTuple):
    """What the values of a subject are read from: its engagement row (``with_facts()``), itself,
    and its scores."""

    row: Any
    subject: Any
    scores: Any


@dataclass(frozen=True)
class Column:
    """*name* and *meaning* are for programs, and *label* is for the lists of people. *sort* is the
    name of its order; it is empty if nobody can sort by it. *first_descends* says which direction
    comes first."""

    name: str
    type: ColumnType
    meaning: str
    value: Callable[[Facts], Any]
    scopes: tuple[Scope, ...]
    label: str
    sort: str
    first_descends: bool

    @property
    def heading(self) -> str:
        """Its name in the file of a list."""
        return self.label if self.name.startswith(TRAIT_PREFIX) else self.label.lower()


def with_facts(rows: QuerySet[Any], score_set: ScoreSet, kind: SubjectKind) -> QuerySet[Any]:
    """The kind's engagement rows with what columns need besides them."""
    rows = rows.annotate(steps_done=steps_done(score_set, kind))
    if kind is not ACCOUNTS:
        return rows
    with_both: QuerySet[Any] = rows.annotate(
        shown_alarms=shown_alarms(score_set),
        account_chances=account_chances(score_set),
        features_in_use=features_in_use(score_set),
        last_license_event=license_events.last_of_account(score_set.product_id, ACCOUNTS.path),
        **{name: _of_work(score_set, name) for name in ("owner", "tags")},
    )
    return with_both


SCORE_FIELDS: Final = (
    *("raw", "raw_yesterday", "raw_last_period", "raw_yesterday_last_period"),
    *("event_count", "active_days", "settled_before"),
)
_SUBJECT = ("external_id", "traits", "first_seen_at", "created_at")


def read_facts(
    score_set: ScoreSet, kind: SubjectKind, which: Q, limit: int | None = None
) -> list[Facts]:
    """The facts of the set's subjects whose engagement rows *which* selects, in the order of their
    ids."""
    columns = (*SCORE_FIELDS, "last_active_at", *(f"{kind.path}{name}" for name in _SUBJECT))
    is_account = kind is ACCOUNTS
    columns += ("active_users", "total_users", "activity") if is_account else ("user__account",)
    rows = kind.engagement_rows(score_set).filter(which).select_related(kind.scope).only(*columns)
    rows = with_facts(rows, score_set, kind).order_by(kind.id_column)
    return [
        Facts(row, getattr(row, kind.scope), compute_scores(row, score_set)) for row in rows[:limit]
    ]


def standard_columns(scope: Scope) -> list[str]:
    """The names of the orders other than those by traits."""
    return [name for name, column in _ORDERS.items() if scope in column.scopes]


def trait_column(name: str) -> Column:
    """The column of the trait with this name after the prefix."""
    trait = name.removeprefix(TRAIT_PREFIX)
    value = partial(_trait, trait)
    meaning = f"the trait {trait}"
    return Column(name, "text", meaning, value, BOTH_SCOPES, trait, name, first_descends=False)


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
        case "change" | "change_complete_days":
            expression = change_in_tenths if column == "change" else complete_change_in_tenths
            change = expression(score_set, kind)
            return [unless_new(score_set, change) if kind is ACCOUNTS else change]
        case "last_active":
            return [F("last_active_at")]
        case "first_seen":
            return [F(f"{kind.path}first_seen_at")]
        case "name":
            return [_name(kind.path)]
        case "account":
            is_shown = Exact(F("user__account__is_identified"), Value(True))
            return [Case(When(is_shown, then=_name("user__account__")))]
        case "owner":
            return [NullIf(_of_work(score_set, "owner"), Value(""))]
        case "renewal":
            return [_day(traits, MAINTENANCE_END_TRAIT)]
        case "mrr":
            return [TraitNumber(traits, MRR_TRAIT)]
        case "chance_to_buy" | "chance_to_renew" | "chance_to_stay":
            return [lowest_chance(score_set, CHANCE_COLUMNS[column])]
    return [F(column)]


def _of_work(score_set: ScoreSet, name: str) -> Subquery:
    """For one ``AccountEngagement`` row: what people decided about its account, or NULL."""
    rows = AccountWork.objects.filter(product_id=score_set.product_id)
    return Subquery(rows.filter(account_id=OuterRef("account_id")).values(name))


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


# --- Values ---------------------------------------------------------------------------------


def trait_text(value: Any) -> str:
    """The value of a trait as text; empty for none."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def shown_account(user: Any) -> Any:
    """The user's account, or None if no message has introduced it."""
    return user.account if user.account is not None and user.account.is_identified else None


def _of_account(field: str) -> Callable[[Facts], Any]:
    return lambda facts: getattr(shown_account(facts.subject), field, "")


def _text(trait: str) -> Callable[[Facts], Any]:
    return lambda facts: facts.subject.trait_text(trait)


def _trait(name: str, facts: Facts) -> str:
    return trait_text(facts.subject.traits.get(name))


def _mrr(facts: Facts) -> Any:
    """In cents; what is no amount stays as it is."""
    cents = mrr_of(facts.subject.traits)
    return _trait(MRR_TRAIT, facts) if cents is None else cents


def activity_of(row: Any) -> Activity:
    """The state of an account's activity, from its engagement row with its facts."""
    return read_alarms(row.shown_alarms).activity(row.activity)


CHANCE_COLUMNS: dict[str, ChanceName] = {f"chance_to_{name}": name for name in CHANCES}


def _chance(name: ChanceName, bound: Literal["percent", "low", "high"]) -> Callable[[Facts], Any]:
    """From 0 to 1, as exactly as pages show it; None if nobody can tell."""

    def value(facts: Facts) -> float | None:
        chance = shown_chance(facts.row.account_chances, name)
        return None if chance is None or chance.is_share else getattr(chance, bound) / 100

    return value


def _license_event_type(facts: Facts) -> str | None:
    event = facts.row.last_license_event
    return event["type"] if event else None


def _license_event_on(facts: Facts) -> date | None:
    event = facts.row.last_license_event
    return date.fromisoformat(event["date"]) if event else None


def _steps(read: Callable[[ShownSteps], Any]) -> Callable[[Facts], Any]:
    def value(facts: Facts) -> Any:
        steps = shown_steps(facts.row.steps_done)
        return steps and read(steps)

    return value


def _all_traits(facts: Facts) -> str:
    traits = facts.subject.traits
    return json.dumps(traits, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


# --- All columns ----------------------------------------------------------------------------

# Their first order is the ascending one.
_ASCENDING = {"change", "change_complete_days", "name", "account", "renewal", "owner"}
_ASCENDING |= CHANCE_COLUMNS.keys()


def _column(
    name: str,
    type: ColumnType,
    value: str | Callable[[Facts], Any],
    meaning: str,
    sort: str = "",
    label: str = "",
    scopes: tuple[Scope, ...] = BOTH_SCOPES,
) -> Column:
    """*value* may be where the facts have it."""
    read = attrgetter(value) if isinstance(value, str) else value
    label = label or name.replace("_", " ").capitalize()
    return Column(name, type, meaning, read, scopes, label, sort, sort not in _ASCENDING)


_of_users = partial(_column, scopes=USERS_ONLY)
_of_accounts = partial(_column, scopes=ACCOUNTS_ONLY)


def _of_chance(column: str, name: ChanceName, meaning: str) -> list[Column]:
    """The lowest of the account's chances, and its 95% interval."""
    label, read = CHANCE_LABELS[name], partial(_chance, name)
    interval = "of its 95% interval"
    return [
        _of_accounts(column, "number", read("percent"), meaning, column, label),
        _of_accounts(f"{column}_low", "number", read("low"), f"the lower end {interval}"),
        _of_accounts(f"{column}_high", "number", read("high"), f"the upper end {interval}"),
    ]


_ALL = (
    # Those with an order, in the order in which the read API lists them.
    _column("score", "number", "scores.now", "the score, 0 to 100", "score"),
    _column(
        *("score_change", "number", "scores.change"),
        *("score less score_last_period, with a today that is not over", "change"),
    ),
    _column(
        *("score_change_complete_days", "number", "scores.complete_change"),
        *("the same of the day before, when all days were over", "change_complete_days", "Change"),
    ),
    _column(
        *("last_active_at", "time", "row.last_active_at", "the last scored event"),
        *("last_active", "Last active"),
    ),
    _of_accounts(
        *("active_users", "integer", "row.active_users"),
        *("users with scored events in the lookback", "active_users"),
    ),
    _of_accounts(
        "total_users", "integer", "row.total_users", "users of the account", "total_users"
    ),
    _column("name", "text", "subject.name", "the trait name", "name"),
    _of_users("account_name", "text", _of_account("name"), "the account's name", "account"),
    _of_accounts("renewal", "text", _text(MAINTENANCE_END_TRAIT), "the license's end", "renewal"),
    _of_accounts("mrr", "text", _mrr, "what the account pays a month, in cents", "mrr", MRR_LABEL),
    _column(
        *("first_seen_at", "time", "subject.first_seen_at", "the first message that named it"),
        *("first_seen", "First seen"),
    ),
    # Those without.
    _column("id", "integer", "subject.pk", "the service's id"),
    _column(
        *("tracking_id", "text", "subject.external_id", "the userId or groupId of senders"),
        label="tracking_id",
    ),
    _of_users("email", "text", _text("email"), "the trait email"),
    _of_accounts("domain", "text", _text("domain"), "the trait domain"),
    _of_users("account_id", "integer", "subject.account_id", "the id of the current account"),
    _of_users(
        *("account_tracking_id", "text", _of_account("external_id"), "the account's tracking_id"),
        label="Account tracking_id",
    ),
    _of_accounts("license_type", "text", _text(LICENSE_TYPE_TRAIT), "the license's type"),
    _of_accounts("license_tier", "text", _text(TIER_TRAIT), "the license's tier"),
    _of_accounts("license_status", "text", _text(LICENSE_STATUS_TRAIT), "the license's status"),
    _column("score_last_period", "number", "scores.last_period", "the score one lookback ago"),
    _column("trend", "text", "scores.trend", "rising, steady, or falling"),
    _column("raw_score", "integer", "scores.raw_score", "the raw score"),
    _column("event_count", "integer", "row.event_count", "scored events in the lookback"),
    _column("active_days", "integer", "row.active_days", "days with scored events in the lookback"),
    _of_accounts(
        *("activity", "text", lambda facts: activity_of(facts.row).state),
        "whether the account does what is usual for it, as the last night told",
    ),
    _of_accounts(
        *("activity_since", "day", lambda facts: activity_of(facts.row).since),
        "the day that decided the change of its activity",
    ),
    _of_accounts(
        *("features_in_use", "integer", "row.features_in_use"),
        "features used in the 28 days of the last night",
    ),
    _of_accounts(
        *("last_license_event", "text", _license_event_type),
        "what happened last to its licenses",
    ),
    _of_accounts(
        *("last_license_event_on", "day", _license_event_on),
        "the day of that, in the future if a renewal was paid early",
    ),
    _of_accounts(
        *("owner", "text", lambda facts: facts.row.owner or None),
        *("the login of the person who looks after it", "owner"),
    ),
    _of_accounts(
        *("tags", "text", lambda facts: ", ".join(sorted(facts.row.tags or (), key=str.casefold))),
        "the tags that people gave it, separated by commas",
    ),
    _column(
        *("steps_done", "integer", _steps(lambda steps: steps.reached)),
        "how many first steps of activation are done",
    ),
    _column(
        *("next_step", "text", _steps(lambda steps: steps.next_step and steps.next_step.name)),
        "the first step of activation that is not done",
    ),
    _column(
        *("activated_on", "day", _steps(lambda steps: steps.activated_on)),
        "the day of the last of all steps of activation",
    ),
    *_of_chance("chance_to_buy", "buy", "that its evaluation is bought, 0 to 1"),
    *_of_chance("chance_to_renew", "renew", "that its term is renewed, 0 to 1"),
    *_of_chance("chance_to_stay", "stay", "that it stays as it is, 0 to 1"),
    _column("created_at", "time", "subject.created_at", "when it was created, by its traits"),
    _column("traits", "json", _all_traits, "all traits"),
)
COLUMNS = {column.name: column for column in _ALL}
_ORDERS = {column.sort: column for column in _ALL if column.sort}
