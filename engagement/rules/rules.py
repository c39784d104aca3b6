"""Rules: the conditions that the members of a segment or an audience match.

A rule is stored and shown as ``{"match": "all" | "any", "conditions": [...]}``. The ``kind`` of a
condition is the tag of one of the structs below; its other keys are the fields of that struct.

A new condition is a struct here, a sentence in ``texts.py``, a filter in ``filters.py``, and inputs
in ``console/rules/condition_forms.py``: CONTRIBUTING.md has each step.
"""

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from engagement.insight_kinds import ActivityState, InsightKind
from engagement.metric_names import METRICS, MetricName, Scope
from engagement.models.activity import EVENT_NAME_LENGTH
from engagement.models.features import FEATURE_NAME_LENGTH, USED_WITHIN
from engagement.models.work import LOGIN_LENGTH, TAG_LENGTH
from engagement.rules import license_events

MAX_CONDITIONS = 20
MAX_DAYS = 3650
MAX_TIMES = 1_000_000_000
# Larger integers are not exact everywhere.
MAX_NUMBER = 10**15
MAX_TEXT_LENGTH = 512
MAX_TRAIT_NAME_LENGTH = 256
# "after" compares with the next day, which must exist, too.
YEARS = range(1000, 9999)

Number: TypeAlias = int | float
Match: TypeAlias = Literal["all", "any"]
TraitOperator: TypeAlias = Literal[
    "is_ignoring_case",
    "is_not_ignoring_case",
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
ActivationState: TypeAlias = Literal["activated", "on_the_way", "stuck"]
ChanceName: TypeAlias = Literal["buy", "renew", "stay"]
CHANCES: tuple[ChanceName, ...] = get_args(ChanceName)
TEXT_OPERATORS = ("is_ignoring_case", "is_not_ignoring_case", "is", "is_not", "contains")
NUMBER_OPERATORS = ("at_least", "at_most")
DATE_OPERATORS = ("before", "after")


class RuleProblem(NamedTuple):
    """What is wrong with a rule: the condition's position (from 0), its field, and a message."""

    condition: int | None
    field: str | None
    message: str


class InvalidRule(ValueError):
    """The rule cannot be used; ``problems`` says why."""

    def __init__(self, problems: list[RuleProblem]) -> None:
        super().__init__(" ".join(problem.message for problem in problems))
        self.problems = problems


# A field and a message.
FieldProblem: TypeAlias = tuple[str, str]


class _Condition(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """The scopes that a condition applies to, and its checks."""

    scopes: ClassVar[tuple[Scope, ...]] = ("user", "account")
    # An audience decides who is scored, so its conditions must not need scores.
    for_audiences: ClassVar[bool] = False

    def problems(self, scope: Scope) -> Iterator[FieldProblem]:
        yield from ()


class MetricCondition(_Condition, frozen=True, tag="metric"):
    """Compares a metric with ``value``, or with ``value`` to ``upper`` (both included) for
    ``between``. A metric that is null never matches."""

    metric: MetricName
    operator: Literal["at_least", "at_most", "between"]
    value: Number
    upper: Number | None = None

    def problems(self, scope: Scope) -> Iterator[FieldProblem]:
        if scope not in METRICS[self.metric].scopes:
            yield "metric", f"Only accounts have the metric “{METRICS[self.metric].label}”."
        yield from _number_problems("value", self.value)
        if self.operator == "between":
            yield from _number_problems("upper", self.upper)
            if self.upper is not None and self.value > self.upper:
                yield "upper", "The second number must not be below the first."
        elif self.upper is not None:
            yield "upper", "Only “between” takes a second number."


class TrendCondition(_Condition, frozen=True, tag="trend"):
    trend: Literal["rising", "falling", "steady"]


class TraitCondition(_Condition, frozen=True, tag="trait"):
    """A trait of the subject.

    - ``is`` matches the text *value* and a JSON number or boolean that is written like it.
    - ``is_not`` matches everything else, including a missing trait.
    - ``is_ignoring_case`` and ``is_not_ignoring_case`` are the same, but ignore case.
    - ``contains`` searches texts, ignoring case, and matches an entry of a list.
    - ``at_least`` and ``at_most`` compare numbers, and texts that are plain decimal numbers.
    - ``before`` and ``after`` compare ISO 8601 dates and times by their UTC day.

    A trait of another type matches no comparison.
    """

    for_audiences: ClassVar[bool] = True
    trait: str
    operator: TraitOperator
    value: str | Number | None = None

    def problems(self, scope: Scope) -> Iterator[FieldProblem]:
        yield from _text_problems("trait", self.trait, "the trait’s name", MAX_TRAIT_NAME_LENGTH)
        if self.operator in TEXT_OPERATORS:
            yield from _text_problems(
                "value", self.value, "the text to compare with", MAX_TEXT_LENGTH
            )
        elif self.operator in NUMBER_OPERATORS:
            yield from _number_problems("value", self.value)
        elif self.operator in DATE_OPERATORS:
            if parse_day(self.value) is None:
                yield "value", "Enter a date like 2025-01-31."
        elif self.value is not None:
            yield "value", "Leave the value empty: this operator does not use it."


class AccountTraitCondition(TraitCondition, frozen=True, tag="account_trait"):
    """A trait of the user's current account. Without an account all traits are missing."""

    scopes: ClassVar[tuple[Scope, ...]] = ("user",)


class EventCondition(_Condition, frozen=True, tag="event"):
    """An event done at least ``times`` times, or never, ``within_days`` UTC days (None: ever).

    For an account, the events of the users that it counts.
    """

    for_audiences: ClassVar[bool] = True
    event: str
    operator: Literal["done", "not_done"]
    times: int = 1
    within_days: int | None = None

    def problems(self, scope: Scope) -> Iterator[FieldProblem]:
        yield from _text_problems("event", self.event, "the event’s name", EVENT_NAME_LENGTH)
        if not 1 <= self.times <= MAX_TIMES:
            yield "times", f"Enter a whole number from 1 to {MAX_TIMES:,}."
        if self.operator == "not_done" and self.times != 1:
            yield "times", "“Not done” takes no number of times."
        if self.within_days is not None:
            yield from _day_problems("within_days", self.within_days)


class FeatureCondition(_Condition, frozen=True, tag="feature"):
    """Whether any event of a feature was done ``within_days`` UTC days (``uses``), only before them
    (``stopped``), or never."""

    for_audiences: ClassVar[bool] = True
    feature: str
    operator: Literal["uses", "stopped", "never"]
    within_days: int = USED_WITHIN

    def problems(self, scope: Scope) -> Iterator[FieldProblem]:
        yield from _text_problems(
            "feature", self.feature, "the feature’s name", FEATURE_NAME_LENGTH
        )
        yield from _day_problems("within_days", self.within_days)


class LicenseEventCondition(_Condition, frozen=True, tag="license_event"):
    """Whether a license of the account had an event of this type ``within_days`` UTC days (None:
    ever). It counts from its day on, unless it is withdrawn."""

    scopes: ClassVar[tuple[Scope, ...]] = ("account",)
    event: str
    operator: Literal["happened", "not_happened"]
    within_days: int | None = None

    def problems(self, scope: Scope) -> Iterator[FieldProblem]:
        if self.event not in license_events.labels():
            yield "event", "Choose what happened to the license."
        if self.within_days is not None:
            yield from _day_problems("within_days", self.within_days)


class _TimeCondition(_Condition, frozen=True):
    """A time within the last ``days`` UTC days, including today, or before them.

    Exactly one of ``within_days`` and ``more_than_days_ago`` matches a time; neither matches null.
    ``days`` is ``"window"`` to follow the workspace's lookback.
    """

    operator: Literal["within_days", "more_than_days_ago"]
    days: int | Literal["window"]

    def problems(self, scope: Scope) -> Iterator[FieldProblem]:
        if self.days != "window":
            yield from _day_problems("days", self.days)


class LastActiveCondition(_TimeCondition, frozen=True, tag="last_active"):
    """When the last scored event happened."""


class FirstSeenCondition(_TimeCondition, frozen=True, tag="first_seen"):
    for_audiences: ClassVar[bool] = True


class CreatedCondition(_TimeCondition, frozen=True, tag="created"):
    """When the subject was created according to its traits, or else first seen."""

    for_audiences: ClassVar[bool] = True


class ActiveCondition(_Condition, frozen=True, tag="active"):
    """Whether the subject had a scored event in the window."""

    active: bool


class InsightCondition(_Condition, frozen=True, tag="insight"):
    """Whether there is an insight of this kind about the account."""

    scopes: ClassVar[tuple[Scope, ...]] = ("account",)
    insight: InsightKind
    has: bool = True


class ActivityCondition(_Condition, frozen=True, tag="activity"):
    """Whether the account's activity is in this state, as the last night told it."""

    scopes: ClassVar[tuple[Scope, ...]] = ("account",)
    state: ActivityState


class ChanceCondition(_Condition, frozen=True, tag="chance"):
    """Compares the chance that the account buys, renews, or stays, in whole percent as it is shown.
    Of several, the lowest counts. Where nobody can tell, neither operator matches."""

    scopes: ClassVar[tuple[Scope, ...]] = ("account",)
    chance: ChanceName
    operator: Literal["at_least", "below"]
    percent: int

    def problems(self, scope: Scope) -> Iterator[FieldProblem]:
        if not 1 <= self.percent <= 100:
            yield "percent", "Enter a whole percentage from 1 to 100."


class OwnerCondition(_Condition, frozen=True, tag="owner"):
    """Who looks after the account: the login of this name, anybody, or nobody."""

    scopes: ClassVar[tuple[Scope, ...]] = ("account",)
    operator: Literal["is", "is_not", "is_set", "is_not_set"]
    owner: str | None = None

    def problems(self, scope: Scope) -> Iterator[FieldProblem]:
        if self.operator in ("is", "is_not"):
            yield from _text_problems("owner", self.owner, "the owner’s login", LOGIN_LENGTH)
        elif self.owner is not None:
            yield "owner", "Leave the owner empty: this operator does not use it."


class TagCondition(_Condition, frozen=True, tag="tag"):
    """Whether people tagged the account so."""

    scopes: ClassVar[tuple[Scope, ...]] = ("account",)
    tag: str
    has: bool = True

    def problems(self, scope: Scope) -> Iterator[FieldProblem]:
        yield from _text_problems("tag", self.tag, "the tag", TAG_LENGTH)


class ActivationCondition(_Condition, frozen=True, tag="activation"):
    """Whether all steps of the workspace are done, or the next one still can be in time, or is too
    late. With ``step``, the name of one, the next one is this."""

    state: ActivationState
    step: str | None = None

    def problems(self, scope: Scope) -> Iterator[FieldProblem]:
        if self.step is not None:
            yield from _text_problems("step", self.step, "the step’s name", MAX_TEXT_LENGTH)
            if self.state == "activated":
                yield "step", "Leave the step empty: who is activated is at none."


Condition: TypeAlias = (
    MetricCondition
    | TrendCondition
    | TraitCondition
    | AccountTraitCondition
    | EventCondition
    | FeatureCondition
    | LicenseEventCondition
    | LastActiveCondition
    | FirstSeenCondition
    | CreatedCondition
    | ActiveCondition
    | InsightCondition
    | ActivityCondition
    | ChanceCondition
    | OwnerCondition
    | TagCondition
    | ActivationCondition
)


class Rule(msgspec.Struct, frozen=True):
    """Conditions on users or accounts; all or any of them must match. No conditions: everybody."""

    scope: Scope
    match: Match
    conditions: tuple[Condition, ...]

    @property
    def uses_time(self) -> bool:
        """Whether a new day alone can change the members."""
        return any(map(_uses_time, self.conditions))

    @property
    def uses_points(self) -> bool:
        """Whether a new day can change the members where points shrink each day."""
        metrics = [each.metric for each in self.conditions if isinstance(each, MetricCondition)]
        return "raw_score" in metrics

    @property
    def uses_account_traits(self) -> bool:
        return any(isinstance(condition, AccountTraitCondition) for condition in self.conditions)


def _uses_time(condition: Condition) -> bool:
    match condition:
        case LastActiveCondition() | FirstSeenCondition() | CreatedCondition():
            return True
        case LicenseEventCondition():
            # A renewal that was paid early has a later day.
            return True
        case EventCondition():
            return condition.within_days is not None
        case FeatureCondition():
            return condition.operator != "never"
        case ActivationCondition():
            return condition.state != "activated"
        case MetricCondition():
            return condition.metric == "tenure_days"
    # Most insights compare with the day, and alarms are decided after each day.
    return isinstance(condition, InsightCondition | ActivityCondition)


def parse_rule(stored: Mapping[str, Any], scope: Scope, *, for_audience: bool = False) -> Rule:
    """The stored rule. Raises InvalidRule.

    *for_audience* rejects conditions that need scores, because an audience decides who is scored.
    """
    match, items = stored.get("match", "all"), stored.get("conditions", [])
    problems = []
    if match not in ("all", "any"):
        problems.append(
            RuleProblem(None, "match", "Choose whether all conditions must match, or any.")
        )
    if not isinstance(items, list) or len(items) > MAX_CONDITIONS:
        problems.append(RuleProblem(None, None, f"A rule has at most {MAX_CONDITIONS} conditions."))
        raise InvalidRule(problems)
    conditions = []
    for position, item in enumerate(items):
        condition, messages = _parse_condition(item, scope, for_audience)
        problems += [RuleProblem(position, field, message) for field, message in messages]
        if condition is not None:
            conditions.append(condition)
    if problems:
        raise InvalidRule(problems)
    return Rule(scope, match, tuple(conditions))


def rule_to_json(rule: Rule) -> dict[str, Any]:
    """The rule as it is stored and shown, without its scope."""
    return {"match": rule.match, "conditions": msgspec.to_builtins(list(rule.conditions))}


def parse_day(value: object) -> date | None:
    """The date that *value* is written as, or None."""
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
        return None, [(None, f"This is not a valid condition: {error}.")]
    problems: list[tuple[str | None, str]] = list(condition.problems(scope))
    if scope not in condition.scopes:
        plural = {"user": "users", "account": "accounts"}[condition.scopes[0]]
        problems.append(("kind", f"This condition applies to {plural} only."))
    if for_audience and not condition.for_audiences:
        problems.append(("kind", _NEEDS_SCORES))
    if for_audience and getattr(condition, "days", None) == "window":
        problems.append(("days", "An audience needs a number of days."))
    return condition, problems


_NEEDS_SCORES = (
    "An audience decides who is scored, so it cannot use scores. Use traits, events, first seen, "
    "or created."
)


def _number_problems(field: str, value: object) -> Iterator[FieldProblem]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield field, "Enter a number."
    # Negated as a whole, because every comparison with NaN is false.
    elif not -MAX_NUMBER <= value <= MAX_NUMBER:
        yield field, "Enter a number of at most 15 digits."


def _day_problems(field: str, days: int) -> Iterator[FieldProblem]:
    if not 1 <= days <= MAX_DAYS:
        yield field, f"Enter a whole number of days from 1 to {MAX_DAYS:,}."


def _text_problems(field: str, value: object, name: str, max_length: int) -> Iterator[FieldProblem]:
    if not isinstance(value, str) or not value.strip():
        yield field, f"Enter {name}."
    elif len(value) > max_length:
        yield field, f"Enter {name} with at most {max_length} characters."
    elif any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in value):
        yield field, f"Enter {name} without NUL or surrogate characters."
