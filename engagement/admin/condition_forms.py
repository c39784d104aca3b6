"""Conditions as rows of a form: what, how it compares, with what. No JSON.

All inputs of a row are there at once; the style sheet shows those that fit what is chosen, so that
the page needs no script.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, cast

from django import forms
from django.forms.utils import ErrorDict
from django.http import QueryDict

from engagement.admin.suggestions import Suggestions
from engagement.metric_names import METRICS, Scope
from engagement.rules import rules, texts
from engagement.rules.rules import (
    DATE_OPERATORS,
    MAX_CONDITIONS,
    NUMBER_OPERATORS,
    TEXT_OPERATORS,
    AccountTraitCondition,
    ActiveCondition,
    Condition,
    EventCondition,
    InvalidRule,
    Match,
    MetricCondition,
    Number,
    Rule,
    TraitCondition,
    TrendCondition,
)

Choices = list[tuple[str, Any]]

# The buttons that look at a rule, make room for another condition, or take one away, without saving
# it; and those that look at what a workspace's form would change, or give an event a weight in it.
PREVIEW, ADD_ROW, REMOVE_ROW = "_preview", "_add_condition", "_remove_condition"
SHOW_EFFECT, ADD_WEIGHT = "_effect", "_weigh"
_LOOKING = {PREVIEW, ADD_ROW, REMOVE_ROW, SHOW_EFFECT, ADD_WEIGHT}


def is_preview_request(data: Mapping[str, Any]) -> bool:
    """Whether the form was sent to look at it, and not to be saved."""
    return not _LOOKING.isdisjoint(data)


def without_preview_buttons(data: QueryDict) -> QueryDict:
    """The same data as if it had been sent to be saved."""
    saved = data.copy()
    for button in _LOOKING & saved.keys():
        del saved[button]
    return saved


_METRIC = "metric:"
# More digits than a rule takes are no number.
_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,30})?", re.ASCII)
_WHOLE_NUMBER = re.compile(r"[0-9]{1,30}", re.ASCII)


def condition_choices(scope: Scope, for_audience: bool) -> Choices:
    """What a condition can be about."""
    known: Choices = [("trait", "Trait"), ("event", "Event")]
    if scope == "user":
        known.insert(1, ("account_trait", "Trait of the user’s account"))
    times: Choices = [("first_seen", "First seen"), ("created", "Created")]
    if for_audience:
        return [("", "Choose…"), *known, *times]
    scores: Choices = [
        (f"{_METRIC}{name}", f"{named.label} ({named.unit})")
        for name, named in METRICS.items()
        if scope in named.scopes
    ]
    return [
        ("", "Choose…"),
        ("Traits and events", known),
        ("Times", [("last_active", "Last active"), *times]),
        ("Activity", [("active", "Active in the window"), ("trend", "Trend of the score")]),
        ("Metrics", scores),
    ]


def _text(label: str, size: int, **attributes: Any) -> forms.CharField:
    attrs = {"aria-label": label, "size": size, "autocomplete": "off", **attributes}
    return forms.CharField(
        label=label, required=False, strip=False, widget=forms.TextInput(attrs=attrs)
    )


def _choice(label: str, choices: Mapping[str, str]) -> forms.ChoiceField:
    return forms.ChoiceField(
        label=label,
        required=False,
        choices=list(choices.items()),
        widget=forms.Select(attrs={"aria-label": label}),
    )


class ConditionForm(forms.Form):
    """One condition, in ``condition`` once the form is valid; None where nothing is chosen."""

    use_required_attribute = False

    what = _choice("What", {})
    trait = _text("Name of the trait", 20, list="known-traits")
    account_trait = _text("Name of the account’s trait", 20, list="known-account-traits")
    event = _text("Name of the event", 28, list="known-events")
    comparison = _choice("Comparison", texts.METRIC_OPERATOR_LABELS)
    trait_is = _choice("Comparison", texts.TRAIT_OPERATOR_LABELS)
    event_is = _choice("Comparison", texts.EVENT_OPERATOR_LABELS)
    time_is = _choice("Comparison", texts.TIME_OPERATOR_LABELS)
    trend = _choice("Trend", texts.TREND_LABELS)
    active = _choice("Active", {"yes": "yes", "no": "no"})
    number = _text("Number", 8, inputmode="decimal")
    upper = _text("Second number", 8, inputmode="decimal")
    text = _text("Value", 20)
    date = _text("Date", 10, type="date")
    times = _text("Number of times", 4, inputmode="numeric", placeholder="1")
    days = _text("Number of days", 4, inputmode="numeric")

    def __init__(
        self,
        *args: Any,
        scope: Scope,
        for_audience: bool,
        known_events: Collection[str],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.scope, self.for_audience, self.known_events = scope, for_audience, known_events
        self.condition: Condition | None = None
        cast(forms.ChoiceField, self.fields["what"]).choices = condition_choices(
            scope, for_audience
        )

    def clean(self) -> None:
        what = self._given("what")
        if not what or self.errors:
            return
        asked = self._asked(what)
        if self.errors:
            return
        try:
            rule = rules.parse_rule(
                {"conditions": [asked]}, self.scope, for_audience=self.for_audience
            )
        except InvalidRule as error:
            for problem in error.problems:
                self.add_error(self._field(problem.field), problem.message)
        else:
            (self.condition,) = rule.conditions

    @property
    def all_errors(self) -> list[str]:
        return [str(error) for errors in self.errors.values() for error in errors]

    # --- From the inputs to the condition, and back -------------------------------------------

    def _asked(self, what: str) -> dict[str, Any]:
        match what:
            case "trait" | "account_trait":
                return {
                    "kind": what,
                    "trait": self._given(what).strip(),
                    "operator": self._given("trait_is"),
                    "value": self._value_of_trait(self._given("trait_is")),
                }
            case "event":
                is_done = self._given("event_is") == "done"
                return {
                    "kind": what,
                    "event": self._event_name(),
                    "operator": self._given("event_is"),
                    "times": self._whole_number("times", 1) if is_done else 1,
                    "within_days": self._whole_number("days", None),
                }
            case "first_seen" | "created" | "last_active":
                days = self._whole_number("days", "window")
                return {"kind": what, "operator": self._given("time_is"), "days": days}
            case "trend":
                return {"kind": what, "trend": self._given("trend")}
            case "active":
                return {"kind": what, "active": self._given("active") == "yes"}
        is_between = self._given("comparison") == "between"
        return {
            "kind": "metric",
            "metric": what.removeprefix(_METRIC),
            "operator": self._given("comparison"),
            "value": self._number("number"),
            "upper": self._number("upper") if is_between else None,
        }

    def _given(self, name: str) -> str:
        """What was filled in; of a choice that was not sent, the first."""
        field = self.fields[name]
        given = str(self.cleaned_data.get(name, ""))
        if not given and name != "what" and isinstance(field, forms.ChoiceField):
            return str(next(iter(cast(Choices, field.choices)))[0])
        return given

    def _event_name(self) -> str:
        """Names count as they are sent, but a space at the end of another is a slip."""
        name = self._given("event")
        return name if name in self.known_events else name.strip()

    def _value_of_trait(self, operator: str) -> str | Number | None:
        if operator in NUMBER_OPERATORS:
            return self._number("text")
        if operator in DATE_OPERATORS:
            return self._given("date").strip()
        return self._given("text") if operator in TEXT_OPERATORS else None

    def _number(self, name: str) -> Number:
        text = self._given(name).strip()
        if not _NUMBER.fullmatch(text):
            self.add_error(name, "Give a number, like 75 or 0.5.")
            return 0
        return float(text) if "." in text else int(text)

    def _whole_number(self, name: str, if_empty: Any) -> Any:
        text = self._given(name).strip()
        if not text:
            return if_empty
        if not _WHOLE_NUMBER.fullmatch(text):
            self.add_error(name, "Give a whole number.")
            return if_empty
        return int(text)

    def _field(self, of_condition: str | None) -> str | None:
        """The input that a condition's field comes from."""
        what = self._given("what")
        if of_condition == "value" and not what.startswith(_METRIC):
            return "date" if self._given("trait_is") in DATE_OPERATORS else "text"
        names = {"value": "number", "kind": "what", "metric": "what", "within_days": "days"}
        names["trait"] = what
        return of_condition and names.get(of_condition, of_condition)


def initial_inputs(condition: Condition) -> dict[str, Any]:
    """The inputs that make this condition."""
    match condition:
        case MetricCondition():
            return {
                "what": f"{_METRIC}{condition.metric}",
                "comparison": condition.operator,
                "number": condition.value,
                "upper": condition.upper,
            }
        case TraitCondition():
            kind = "account_trait" if isinstance(condition, AccountTraitCondition) else "trait"
            is_date = condition.operator in DATE_OPERATORS
            return {
                "what": kind,
                kind: condition.trait,
                "trait_is": condition.operator,
                "date" if is_date else "text": condition.value,
            }
        case EventCondition():
            return {
                "what": "event",
                "event": condition.event,
                "event_is": condition.operator,
                "times": condition.times,
                "days": condition.within_days,
            }
        case TrendCondition():
            return {"what": "trend", "trend": condition.trend}
        case ActiveCondition():
            return {"what": "active", "active": "yes" if condition.active else "no"}
    kind = str(condition.__struct_config__.tag)
    days = "" if condition.days == "window" else condition.days
    return {"what": kind, "time_is": condition.operator, "days": days}


# --- All conditions of a rule -----------------------------------------------------------------


class ConditionFormSet(forms.BaseFormSet):  # type: ignore[type-arg]
    forms: list[ConditionForm]

    def get_form_kwargs(self, index: int | None) -> dict[str, Any]:
        # A row that was left as it is counts as much as one that was changed.
        return {**super().get_form_kwargs(index), "empty_permitted": False}

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return tuple(row.condition for row in self.forms if row.condition is not None)

    def clean(self) -> None:
        if len(self.conditions) > MAX_CONDITIONS:
            raise forms.ValidationError(f"A rule has at most {MAX_CONDITIONS} conditions.")


_FormSet = forms.formset_factory(
    ConditionForm, ConditionFormSet, max_num=MAX_CONDITIONS, absolute_max=100
)


class MatchForm(forms.Form):
    match = _choice("How many must be met", {"all": "all", "any": "any"})


class RuleEditor:
    """A rule as a part of a page's form: how many conditions must be met, and a row for each.

    ``rule`` is the rule that was filled in once ``is_valid()`` has said so. ``data`` is what a
    browser sent; None shows the *stored* rule.
    """

    PREFIX = "conditions"

    def __init__(
        self,
        data: QueryDict | None,
        stored: Rule,
        known: Suggestions,
        *,
        begin_with: Rule | None = None,
        for_audience: bool = False,
    ) -> None:
        total = f"{self.PREFIX}-TOTAL_FORMS"
        if data is not None and total not in data:
            # Whoever sends a form without these rows leaves the rule as it is.
            data = None
        self.stored, self.known, self.for_audience = stored, known, for_audience
        self.is_bound = data is not None
        self.add_first_step = begin_with or stored
        self.match = MatchForm(
            data, prefix=self.PREFIX, initial={"match": self.add_first_step.match}
        )
        self.rows = _FormSet(
            data and _without_a_row(_with_another_row(data, total), total, self.PREFIX),
            prefix=self.PREFIX,
            initial=[initial_inputs(condition) for condition in self.add_first_step.conditions],
            form_kwargs={
                "scope": stored.scope,
                "for_audience": for_audience,
                "known_events": known.events,
            },
        )

    def is_valid(self) -> bool:
        return self.match.is_valid() and self.rows.is_valid()

    @property
    def rule(self) -> Rule:
        match: Match = self.match.cleaned_data["match"] or "all"
        return Rule(self.stored.scope, match, cast(ConditionFormSet, self.rows).conditions)

    @property
    def is_usable(self) -> bool:
        return not self.is_bound or self.is_valid()

    @property
    def errors(self) -> list[str]:
        """What is wrong with the conditions, with their numbers."""
        told = [*self.rows.non_form_errors()]
        for number, row in enumerate(self.rows, 1):
            told += [f"Condition {number}: {error}" for error in row.all_errors]
        return told

    @property
    def own_traits(self) -> list[str]:
        """The names of traits that the subjects themselves have."""
        is_of_users = self.stored.scope == "user"
        return self.known.user_traits if is_of_users else self.known.account_traits

    @property
    def shown(self) -> Rule | None:
        """The rule as the page shows it; None while a condition cannot be used."""
        if not self.is_bound:
            return self.add_first_step
        return self.rule if self.is_valid() else None

    def has_changed(self) -> bool:
        return self.is_bound and self.is_valid() and self.rule != self.stored


def _with_another_row(data: QueryDict, total: str) -> QueryDict:
    """The same data with a row more, where the button for one was pressed."""
    rows = str(data.get(total))
    if ADD_ROW not in data or not _WHOLE_NUMBER.fullmatch(rows):
        return data
    longer = data.copy()
    longer[total] = str(int(rows) + 1)
    return longer


def _without_a_row(data: QueryDict, total: str, prefix: str) -> QueryDict:
    """The same data without the row whose button was pressed; the rows behind it move up."""
    rows, pressed = str(data.get(total)), str(data.get(REMOVE_ROW, ""))
    if not _WHOLE_NUMBER.fullmatch(rows) or not _WHOLE_NUMBER.fullmatch(pressed):
        return data
    gone = int(pressed)
    if gone >= int(rows):
        return data
    shorter = data.copy()
    shorter[total] = str(int(rows) - 1)
    numbered = re.compile(rf"{prefix}-([0-9]+)-(.+)", re.ASCII)
    for name in data:
        if (found := numbered.fullmatch(name)) and int(found[1]) >= gone:
            del shorter[name]
    for name in data:
        if (found := numbered.fullmatch(name)) and int(found[1]) > gone:
            shorter.setlist(f"{prefix}-{int(found[1]) - 1}-{found[2]}", data.getlist(name))
    return shorter


class RuleForm(forms.ModelForm):  # type: ignore[type-arg]
    """A model's form with a rule on it, in ``rows``, which its admin's pages show as well.

    Sent by a button that only looks at the rule, it counts as invalid, without an error.
    """

    rows: RuleEditor | None = None

    @property
    def submitted_data(self) -> QueryDict | None:
        return cast(QueryDict, self.data) if self.is_bound else None

    def full_clean(self) -> None:
        if self.is_bound and is_preview_request(self.data):
            # Nothing is saved, so a name that is still missing is no fault.
            self._errors, self.cleaned_data = ErrorDict(), {}
        else:
            super().full_clean()

    def is_valid(self) -> bool:
        return not is_preview_request(self.data) and super().is_valid()

    def clean(self) -> None:
        super().clean()
        if self.rows and not self.rows.is_usable:
            self.add_error(None, "A condition cannot be used; it says why.")
