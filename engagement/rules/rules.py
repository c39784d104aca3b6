"""Rules: what a segment or an audience asks of its members, as they are stored and shown.

A rule is ``{"match": "all" | "any", "conditions": [...]}``; each condition names its ``kind`` and
has the fields of the struct below that is tagged with it.
"""

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import msgspec

from engagement.metric_names import METRICS, MetricName, Scope
from engagement.models.activity import EVENT_NAME_LENGTH

MAX_CONDITIONS = 20
MAX_DAYS = 3650
MAX_TIMES = 1_000_000_000
# Beyond this, whole numbers are no longer exact everywhere.
MAX_NUMBER = 10**15
MAX_TEXT_LENGTH = 512
MAX_TRAIT_NAME_LENGTH = 256
# Room for the day after, which a comparison with "after" needs.
YEARS = range(1000, 9999)

Number: TypeAlias = int | float
Match: TypeAlias = Literal["all", "any"]
TraitOperator: TypeAlias = Literal[
    "is",
    "is_not",
    "contains",
    "is_set",
    "is_not_set",
    "at_least",
    "at_most",
    "before",
    "after",
]
TEXT_OPERATORS = ("is", "is_not", "contains")
NUMBER_OPERATORS = ("at_least", "at_most")
DATE_OPERATORS = ("before", "after")


class RuleProblem(NamedTuple):
    """What is wrong with a rule: in which condition (from 0), in which field of it, in words."""

    condition: int | None
    field: str | None
    sentence: str


class InvalidRule(ValueError):
    """A rule cannot be used; ``faults`` has a sentence for each reason."""

    def __init__(self, faults: list[RuleProblem]) -> None:
        super().__init__(" ".join(fault.sentence for fault in faults))
        self.faults = faults


FieldProblem: TypeAlias = tuple[str, str]


class _Condition(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """What conditions have in common: whom they can be about, and what may be wrong with them."""

    scopes: ClassVar[tuple[Scope, ...]] = ("user", "account")
    # Whether it can be decided without scores, so that it can decide who is scored.
    for_audiences: ClassVar[bool] = False

    def faults(self, scope: Scope) -> Iterator[FieldProblem]:
        yield from ()


class MetricCondition(_Condition, frozen=True, tag="metric"):
    """A metric compared with ``value`` or, for ``between``, with ``value`` to ``upper``, both
    included. A metric that is null meets no comparison."""

    metric: MetricName
    operator: Literal["at_least", "at_most", "between"]
    value: Number
    upper: Number | None = None

    def faults(self, scope: Scope) -> Iterator[FieldProblem]:
        if scope not in METRICS[self.metric].scopes:
            yield "metric", f"“{METRICS[self.metric].label}” is a metric of accounts only."
        yield from _number_faults("value", self.value)
        if self.operator == "between":
            yield from _number_faults("upper", self.upper)
            if self.upper is not None and self.value > self.upper:
                yield "upper", "The second number must not be below the first."
        elif self.upper is not None:
            yield "upper", "A second number goes with “between” only."


class TrendCondition(_Condition, frozen=True, tag="trend"):
    trend: Literal["rising", "falling", "steady"]


class TraitCondition(_Condition, frozen=True, tag="trait"):
    """A trait of the subject.

    ``is`` is met by the text *value* and by the JSON number or boolean written like it, ``is_not``
    by everything else, an absent trait included. ``contains`` looks into texts, ignoring case, and
    into lists for an entry. ``at_least`` and ``at_most`` compare numbers, and texts that are plain
    decimal numbers. ``before`` and ``after`` compare ISO 8601 dates and times by their UTC day. A
    trait that is neither meets no comparison.
    """

    for_audiences: ClassVar[bool] = True
    trait: str
    operator: TraitOperator
    value: str | Number | None = None

    def faults(self, scope: Scope) -> Iterator[FieldProblem]:
        yield from _text_faults("trait", self.trait, "the trait’s name", MAX_TRAIT_NAME_LENGTH)
        if self.operator in TEXT_OPERATORS:
            yield from _text_faults(
                "value", self.value, "the text to compare with", MAX_TEXT_LENGTH
            )
        elif self.operator in NUMBER_OPERATORS:
            yield from _number_faults("value", self.value)
        elif self.operator in DATE_OPERATORS:
            if parse_day(self.value) is None:
                yield "value", "Give a date as year-month-day, like 2025-01-31."
        elif self.value is not None:
            yield "value", "Nothing is compared here: leave the value empty."


class AccountTraitCondition(TraitCondition, frozen=True, tag="account_trait"):
    """A trait of the user's current account. Who is in none has none of its traits."""

    scopes: ClassVar[tuple[Scope, ...]] = ("user",)


class EventCondition(_Condition, frozen=True, tag="event"):
    """An event done ``times`` or more, or not once, within so many UTC days (None: ever).

    For an account: by those of its users that it counts.
    """

    for_audiences: ClassVar[bool] = True
    event: str
    operator: Literal["done", "not_done"]
    times: int = 1
    within_days: int | None = None

    def faults(self, scope: Scope) -> Iterator[FieldProblem]:
        yield from _text_faults("event", self.event, "the event’s name", EVENT_NAME_LENGTH)
        if not 1 <= self.times <= MAX_TIMES:
            yield "times", f"Give a whole number of times from 1 to {MAX_TIMES:,}."
        if self.operator == "not_done" and self.times != 1:
            yield "times", "“Not done” goes without a number of times."
        if self.within_days is not None:
            yield from _day_faults("within_days", self.within_days)


class _TimeCondition(_Condition, frozen=True):
    """A time ``within_days`` of so many UTC days, today the first of them, or before all of these:
    ``more_than_days_ago`` is the exact opposite, but that a time that is null meets neither.

    ``days`` is ``"window"`` where it follows the workspace's lookback.
    """

    operator: Literal["within_days", "more_than_days_ago"]
    days: int | Literal["window"]

    def faults(self, scope: Scope) -> Iterator[FieldProblem]:
        if self.days != "window":
            yield from _day_faults("days", self.days)


class LastActiveCondition(_TimeCondition, frozen=True, tag="last_active"):
    """The time of the last scored event."""


class FirstSeenCondition(_TimeCondition, frozen=True, tag="first_seen"):
    for_audiences: ClassVar[bool] = True


class CreatedCondition(_TimeCondition, frozen=True, tag="created"):
    """When the subject was created: as its traits say, else when it was first seen."""

    for_audiences: ClassVar[bool] = True


class ActiveCondition(_Condition, frozen=True, tag="active"):
    """Whether the subject had a scored event in the window."""

    active: bool


Condition: TypeAlias = (
    MetricCondition
    | TrendCondition
    | TraitCondition
    | AccountTraitCondition
    | EventCondition
    | LastActiveCondition
    | FirstSeenCondition
    | CreatedCondition
    | ActiveCondition
)


class Rule(msgspec.Struct, frozen=True):
    """Conditions on users or accounts, all or any of which must be met. None: everybody."""

    scope: Scope
    match: Match
    conditions: tuple[Condition, ...]

    @property
    def uses_time(self) -> bool:
        """Whether the passing of days alone can change who meets it."""
        return any(
            isinstance(condition, _TimeCondition)
            or (isinstance(condition, EventCondition) and condition.within_days is not None)
            for condition in self.conditions
        )

    @property
    def uses_account_traits(self) -> bool:
        return any(isinstance(condition, AccountTraitCondition) for condition in self.conditions)


def parse_rule(stored: Mapping[str, Any], scope: Scope, *, for_audience: bool = False) -> Rule:
    """The rule that is stored like this; UnusableRule where it is none.

    *for_audience* refuses conditions that need scores, because an audience decides who is scored.
    """
    match, items = stored.get("match", "all"), stored.get("conditions", [])
    faults = []
    if match not in ("all", "any"):
        faults.append(RuleProblem(None, "match", "Say whether all conditions must be met, or any."))
    if not isinstance(items, list) or len(items) > MAX_CONDITIONS:
        faults.append(RuleProblem(None, None, f"A rule has at most {MAX_CONDITIONS} conditions."))
        raise InvalidRule(faults)
    conditions = []
    for number, item in enumerate(items):
        condition, wrong = _parse_condition(item, scope, for_audience)
        faults += [RuleProblem(number, field, sentence) for field, sentence in wrong]
        conditions.append(condition)
    if faults:
        raise InvalidRule(faults)
    return Rule(scope, match, tuple(one for one in conditions if one is not None))


def rule_to_json(rule: Rule) -> dict[str, Any]:
    """The rule as it is stored and shown, without its scope."""
    return {"match": rule.match, "conditions": msgspec.to_builtins(list(rule.conditions))}


def parse_day(value: object) -> date | None:
    """The date that a condition compares with; None where *value* is none."""
    if not isinstance(value, str) or len(value) != len("2025-01-31"):
        return None
    try:
        day = date.fromisoformat(value)
    except ValueError:
        return None
    return day if value == day.isoformat() and day.year in YEARS else None


def _parse_condition(
    item: Any, scope: Scope, for_audience: bool
) -> tuple[Condition | None, list[tuple[str | None, str]]]:
    try:
        condition: Condition = msgspec.convert(item, Condition)
    except msgspec.ValidationError as error:
        return None, [(None, f"This is no condition that is known here: {error}.")]
    wrong: list[tuple[str | None, str]] = list(condition.faults(scope))
    if scope not in condition.scopes:
        wrong.append(("kind", "This condition is about users only."))
    if for_audience and not condition.for_audiences:
        wrong.append(
            (
                "kind",
                "An audience decides who is scored, so it cannot depend on scores: use traits, "
                "events, first seen or created.",
            )
        )
    if for_audience and getattr(condition, "days", None) == "window":
        wrong.append(("days", "An audience needs a number of days."))
    return condition, wrong


def _number_faults(field: str, value: object) -> Iterator[FieldProblem]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield field, "Give a number."
    # Said so that a NaN does not pass.
    elif not -MAX_NUMBER <= value <= MAX_NUMBER:
        yield field, "Give a number of at most 15 digits."


def _day_faults(field: str, days: int) -> Iterator[FieldProblem]:
    if not 1 <= days <= MAX_DAYS:
        yield field, f"Give a whole number of days from 1 to {MAX_DAYS:,}."


def _text_faults(field: str, value: object, what: str, longest: int) -> Iterator[FieldProblem]:
    if not isinstance(value, str) or not value.strip():
        yield field, f"Give {what}."
    elif len(value) > longest:
        yield field, f"Give {what} in at most {longest} characters."
    elif any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in value):
        yield field, f"Give {what} without characters that no text can hold."
