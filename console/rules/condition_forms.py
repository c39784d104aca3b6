"""A condition of a rule as a row of a form.

The row has all inputs at once. The style sheet shows the ones that fit the chosen condition, so the
page works without a script.
"""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any, cast

from django import forms

from console.suggestions import Suggestions, TraitValues, load_trait_values
from engagement.insight_kinds import ACTIVITY_LABELS, INSIGHTS
from engagement.metric_names import METRICS, MetricName, Scope, from_percent, to_percent
from engagement.models.features import USED_WITHIN
from engagement.rules import license_events, rules, texts
from engagement.rules.rules import (
    DATE_OPERATORS,
    NUMBER_OPERATORS,
    TEXT_OPERATORS,
    AccountTraitCondition,
    ActivationCondition,
    ActiveCondition,
    ActivityCondition,
    ChanceCondition,
    Condition,
    EventCondition,
    FeatureCondition,
    InsightCondition,
    InvalidRule,
    LicenseEventCondition,
    MetricCondition,
    Number,
    OwnerCondition,
    TagCondition,
    TraitCondition,
    TrendCondition,
)

Choices = list[tuple[str, Any]]

_METRIC, _CHANCE = "metric:", "chance:"
# A rule takes no more digits.
_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,30})?", re.ASCII)
_WHOLE_NUMBER = re.compile(r"[0-9]{1,30}", re.ASCII)


def condition_choices(scope: Scope, for_audience: bool) -> Choices:
    """The conditions to choose from."""
    basic: Choices = [("trait", "Trait"), ("event", "Event"), ("feature", "Feature")]
    if scope == "user":
        basic.insert(1, ("account_trait", "Trait of the user’s account"))
    times: Choices = [("first_seen", "First seen"), ("created", "Created")]
    if for_audience:
        return [("", "Choose…"), *basic, *times]
    metrics: Choices = [
        (f"{_METRIC}{name}", f"{info.label} ({info.unit})")
        for name, info in METRICS.items()
        if scope in info.scopes
    ]
    activity: Choices = [
        ("active", "Active in the window"),
        ("trend", "Trend of the score"),
        ("activation", "Activation is"),
    ]
    if scope == "account":
        activity += [("insight", "Insight"), ("activity", "Activity is")]
        basic += [("owner", "Owner"), ("tag", "Tag")]
        basic.append(("license_event", "License event"))
        metrics += [(f"{_CHANCE}{name}", label) for name, label in texts.CHANCE_LABELS.items()]
    return [
        ("", "Choose…"),
        ("Traits and events", basic),
        ("Times", [("last_active", "Last active"), *times]),
        ("Activity", activity),
        ("Metrics", metrics),
    ]


def text_field(label: str, size: int, **attributes: Any) -> forms.CharField:
    attrs = {"aria-label": label, "size": size, "autocomplete": "off", **attributes}
    return forms.CharField(
        label=label, required=False, strip=False, widget=forms.TextInput(attrs=attrs)
    )


def choice_field(
    label: str, choices: Mapping[Any, str] | Callable[[], Mapping[str, str]]
) -> forms.ChoiceField:
    return forms.ChoiceField(
        label=label,
        required=False,
        choices=(lambda: list(choices().items())) if callable(choices) else list(choices.items()),
        widget=forms.Select(attrs={"aria-label": label}),
    )


class ConditionForm(forms.Form):
    """One condition, in ``condition`` once the form is valid. None if nothing is chosen."""

    use_required_attribute = False

    what = choice_field("What", {})
    trait = text_field("Trait name", 20, list="known-traits")
    account_trait = text_field("Account trait name", 20, list="known-account-traits")
    event = text_field("Event name", 28, list="known-events")
    comparison = choice_field("Comparison", texts.METRIC_OPERATOR_LABELS)
    trait_is = choice_field("Comparison", texts.TRAIT_OPERATOR_LABELS)
    event_is = choice_field("Comparison", texts.EVENT_OPERATOR_LABELS)
    feature = text_field("Feature name", 20, list="known-features")
    feature_is = choice_field("Comparison", texts.FEATURE_OPERATOR_LABELS)
    license_event = choice_field("License event", license_events.labels)
    license_event_is = choice_field("Comparison", texts.LICENSE_EVENT_OPERATOR_LABELS)
    time_is = choice_field("Comparison", texts.TIME_OPERATOR_LABELS)
    trend = choice_field("Trend", texts.TREND_LABELS)
    has_insight = choice_field("Comparison", {"yes": "has", "no": "does not have"})
    insight = choice_field("Insight", {kind: info.label for kind, info in INSIGHTS.items()})
    activity = choice_field("Activity", ACTIVITY_LABELS)
    chance_is = choice_field("Comparison", texts.CHANCE_OPERATOR_LABELS)
    percent = text_field("Percentage", 4, inputmode="numeric")
    owner_is = choice_field("Comparison", texts.OWNER_OPERATOR_LABELS)
    owner = text_field("Login of the owner", 20, list="known-owners")
    has_tag = choice_field("Comparison", {"yes": "is set", "no": "is not set"})
    tag = text_field("Tag", 16, list="known-tags")
    active = choice_field("Active", {"yes": "yes", "no": "no"})
    activation = choice_field("Activation", texts.ACTIVATION_LABELS)
    step = text_field("Step, or empty for any", 20, list="known-steps")
    number = text_field("Number", 8, inputmode="decimal")
    upper = text_field("Second number", 8, inputmode="decimal")
    text = text_field("Value", 20)
    date = text_field("Date", 10, type="date")
    times = text_field("Number of times", 4, inputmode="numeric", placeholder="1")
    days = text_field("Number of days", 4, inputmode="numeric")

    def __init__(
        self,
        *args: Any,
        scope: Scope,
        for_audience: bool,
        suggestions: Suggestions,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.scope, self.for_audience, self.suggestions = scope, for_audience, suggestions
        self.condition: Condition | None = None
        self.fields["text"].widget.attrs["list"] = f"{self.prefix}-values"
        cast(forms.ChoiceField, self.fields["what"]).choices = condition_choices(
            scope, for_audience
        )

    def clean(self) -> None:
        what = self._value("what")
        if not what or self.errors:
            return
        condition = self._condition_json(what)
        if self.errors:
            return
        try:
            rule = rules.parse_rule(
                {"conditions": [condition]}, self.scope, for_audience=self.for_audience
            )
        except InvalidRule as error:
            for problem in error.problems:
                self.add_error(self._input_name(problem.field), problem.message)
        else:
            (self.condition,) = rule.conditions

    @cached_property
    def trait_values(self) -> TraitValues | None:
        """The values of the chosen trait, to suggest."""
        what = str(self["what"].value() or "")
        if what not in ("trait", "account_trait"):
            return None
        trait = str(self[what].value() or "").strip()
        scope: Scope = "account" if what == "account_trait" else self.scope
        return load_trait_values(self.suggestions.product_id, scope, trait) if trait else None

    @property
    def all_errors(self) -> list[str]:
        return [str(error) for errors in self.errors.values() for error in errors]

    # --- From the inputs to the condition -----------------------------------------------------

    def _condition_json(self, what: str) -> dict[str, Any]:
        match what:
            case "trait" | "account_trait":
                return {
                    "kind": what,
                    "trait": self._value(what).strip(),
                    "operator": self._value("trait_is"),
                    "value": self._trait_value(self._value("trait_is")),
                }
            case "event":
                is_done = self._value("event_is") == "done"
                return {
                    "kind": what,
                    "event": self._event_name(),
                    "operator": self._value("event_is"),
                    "times": self._whole_number("times", 1) if is_done else 1,
                    "within_days": self._whole_number("days", None),
                }
            case "feature":
                return {
                    "kind": what,
                    "feature": self._value(what).strip(),
                    "operator": self._value("feature_is"),
                    "within_days": self._whole_number("days", USED_WITHIN),
                }
            case "license_event":
                return {
                    "kind": what,
                    "event": self._value(what),
                    "operator": self._value("license_event_is"),
                    "within_days": self._whole_number("days", None),
                }
            case "first_seen" | "created" | "last_active":
                days = self._whole_number("days", "window")
                return {"kind": what, "operator": self._value("time_is"), "days": days}
            case "trend":
                return {"kind": what, "trend": self._value("trend")}
            case "active":
                return {"kind": what, "active": self._value("active") == "yes"}
            case "activation":
                state = self._value("activation")
                step = self._value("step").strip() if state != "activated" else ""
                return {"kind": what, "state": state, "step": step or None}
            case "activity":
                return {"kind": what, "state": self._value("activity")}
            case "owner":
                operator = self._value("owner_is")
                owner = self._value("owner").strip() if operator in ("is", "is_not") else None
                return {"kind": what, "operator": operator, "owner": owner}
            case "tag":
                has = self._value("has_tag") == "yes"
                return {"kind": what, "tag": self._value("tag").strip(), "has": has}
            case "insight":
                has = self._value("has_insight") == "yes"
                return {"kind": what, "insight": self._value("insight"), "has": has}
        if what.startswith(_CHANCE):
            return {
                "kind": "chance",
                "chance": what.removeprefix(_CHANCE),
                "operator": self._value("chance_is"),
                # Empty: none, which the rule says.
                "percent": self._whole_number("percent", 0),
            }
        is_between = self._value("comparison") == "between"
        metric = what.removeprefix(_METRIC)
        info = METRICS[cast(MetricName, metric)]
        number = self._percentage if info.is_share else self._number
        return {
            "kind": "metric",
            "metric": metric,
            "operator": self._value("comparison"),
            "value": number("number"),
            "upper": number("upper") if is_between else None,
        }

    def _value(self, name: str) -> str:
        """The input's value, or the first choice if a choice was not submitted."""
        field = self.fields[name]
        value = str(self.cleaned_data.get(name, ""))
        if not value and name != "what" and isinstance(field, forms.ChoiceField):
            return str(next(iter(cast(Choices, field.choices)))[0])
        return value

    def _event_name(self) -> str:
        """An existing name as it is. Another name without surrounding spaces."""
        name = self._value("event")
        return name if name in self.suggestions.events else name.strip()

    def _trait_value(self, operator: str) -> str | Number | None:
        if operator in NUMBER_OPERATORS:
            return self._number("text")
        if operator in DATE_OPERATORS:
            return self._value("date").strip()
        return self._value("text") if operator in TEXT_OPERATORS else None

    def _number(self, name: str) -> Number:
        text = self._value(name).strip()
        if not _NUMBER.fullmatch(text):
            self.add_error(name, "Enter a number, such as 75 or 0.5.")
            return 0
        return float(text) if "." in text else int(text)

    def _percentage(self, name: str) -> Number:
        """A share of one, from a percentage."""
        text = self._value(name).strip().removesuffix("%").rstrip()
        # More active users than licensed seats are possible.
        is_open = self._value("what") == f"{_METRIC}license_utilization"
        if _NUMBER.fullmatch(text) and (0 <= float(text) <= 100 or (is_open and float(text) > 0)):
            return from_percent(text)
        limits = "of at least 0" if is_open else "from 0 to 100"
        self.add_error(name, f"Enter a percentage {limits}, such as 75 or 12.5.")
        return 0

    def _whole_number(self, name: str, if_empty: Any) -> Any:
        text = self._value(name).strip()
        if not text:
            return if_empty
        if not _WHOLE_NUMBER.fullmatch(text):
            self.add_error(name, "Enter a whole number.")
            return if_empty
        return int(text)

    def _input_name(self, field: str | None) -> str | None:
        """The input that a condition's field comes from."""
        what = self._value("what")
        if field == "value" and not what.startswith(_METRIC):
            return "date" if self._value("trait_is") in DATE_OPERATORS else "text"
        names = {"value": "number", "kind": "what", "metric": "what", "within_days": "days"}
        names["trait"] = what
        names["event"] = what
        return field and names.get(field, field)


def initial_inputs(condition: Condition) -> dict[str, Any]:
    """The values of the inputs for this condition."""
    match condition:
        case MetricCondition():
            is_share = METRICS[condition.metric].is_share
            return {
                "what": f"{_METRIC}{condition.metric}",
                "comparison": condition.operator,
                "number": _percent_input(condition.value) if is_share else condition.value,
                "upper": _percent_input(condition.upper) if is_share else condition.upper,
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
        case FeatureCondition():
            return {
                "what": "feature",
                "feature": condition.feature,
                "feature_is": condition.operator,
                "days": condition.within_days,
            }
        case LicenseEventCondition():
            return {
                "what": "license_event",
                "license_event": condition.event,
                "license_event_is": condition.operator,
                "days": condition.within_days,
            }
        case TrendCondition():
            return {"what": "trend", "trend": condition.trend}
        case ActiveCondition():
            return {"what": "active", "active": "yes" if condition.active else "no"}
        case ActivityCondition():
            return {"what": "activity", "activity": condition.state}
        case ActivationCondition():
            state, step = condition.state, condition.step or ""
            return {"what": "activation", "activation": state, "step": step}
        case ChanceCondition():
            what = f"{_CHANCE}{condition.chance}"
            return {"what": what, "chance_is": condition.operator, "percent": condition.percent}
        case OwnerCondition():
            owner = condition.owner or ""
            return {"what": "owner", "owner_is": condition.operator, "owner": owner}
        case TagCondition():
            has = "yes" if condition.has else "no"
            return {"what": "tag", "tag": condition.tag, "has_tag": has}
        case InsightCondition():
            has = "yes" if condition.has else "no"
            return {"what": "insight", "insight": condition.insight, "has_insight": has}
    kind = str(condition.__struct_config__.tag)
    days = "" if condition.days == "window" else condition.days
    return {"what": kind, "time_is": condition.operator, "days": days}


def _percent_input(share: Number | None) -> str:
    """The percentage as the input takes it back."""
    return "" if share is None else f"{Decimal(repr(to_percent(share))).normalize():f}"
