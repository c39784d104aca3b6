"""The form of a workspace's steps: one row for each, in their order, without a script.

All rows have inputs of the same names, so a row is what has the same place in each list.
"""

from collections.abc import Sequence
from typing import Any, get_args

import msgspec
from django import forms
from django.http import QueryDict

from console.rules.condition_forms import choice_field, text_field
from core.ids import parse_id
from engagement.metric_names import Scope
from engagement.rules.steps import (
    MAX_STEPS,
    Step,
    TraitOperator,
    Unit,
    describe_step,
    problems_between,
)
from engagement.rules.texts import TRAIT_OPERATOR_LABELS

_FIELDS = ("kind", "of", "at_least", "unit", "operator", "value", "within_days", "name")
_OPERATORS = {name: TRAIT_OPERATOR_LABELS[name] for name in get_args(TraitOperator)}
# Buttons that change the rows, and save nothing.
ADD, REMOVE, UP = "_add_step", "_remove_step", "_move_step"
BUTTONS = {ADD, REMOVE, UP, "_effect"}


class StepForm(forms.Form):
    """A step, in ``step`` once the form is valid; None for an empty row."""

    use_required_attribute = False

    kind = choice_field("What", {"event": "Event", "trait": "Trait"})
    of = text_field("Name of the event or trait", 28, list="known-names")
    at_least = text_field("How often", 4, inputmode="numeric", placeholder="1")
    unit = choice_field("Times or days", {"times": "times", "days": "days"})
    operator = choice_field("Comparison", _OPERATORS)
    value = text_field("Value", 12)
    within_days = text_field("Within how many days", 4, inputmode="numeric", placeholder="14")
    name = text_field("Name of the step", 24, placeholder="as it is described")

    def __init__(self, data: dict[str, Any], scope: Scope) -> None:
        super().__init__(data, auto_id=False)
        self.scope: Scope = scope
        self.step: Step | None = None

    def clean(self) -> None:
        of = str(self.cleaned_data.get("of", "")).strip()
        if not of and not str(self.cleaned_data.get("name", "")).strip():
            return
        within_days = self._number("within_days", 14)
        if self.cleaned_data.get("kind") == "trait":
            operator: Any = self.cleaned_data.get("operator") or "is_set"
            step = Step("", "trait", of, within_days=within_days, operator=operator)
            step = msgspec.structs.replace(step, value=self._value(operator))
        else:
            unit: Unit = "days" if self.cleaned_data.get("unit") == "days" else "times"
            at_least = self._number("at_least", 1)
            step = Step("", "event", of, within_days=within_days, at_least=at_least, unit=unit)
        name = self.cleaned_data.get("name", "").strip() or describe_step(step)
        self.step = msgspec.structs.replace(step, name=name)
        if not self.errors:
            for field, message in self.step.problems(self.scope):
                self.add_error("of" if field == "trait" else field, message)

    def _number(self, field: str, if_empty: int) -> int:
        text = str(self.cleaned_data.get(field, "")).strip()
        number = parse_id(text) if text else if_empty
        if number is None:
            self.add_error(field, "Enter a whole number.")
            return if_empty
        return number

    def _value(self, operator: str) -> str | int | float | None:
        text = str(self.cleaned_data.get("value", "")).strip()
        if operator == "is_set":
            return None
        if operator != "at_least":
            return text
        try:
            return float(text) if "." in text else int(text)
        except ValueError:
            self.add_error("value", "Enter a number, such as 5 or 0.5.")
            return 0

    @property
    def all_errors(self) -> list[str]:
        return [str(error) for errors in self.errors.values() for error in errors]


class StepRows:
    """The rows of the form: the stored steps, or what was submitted."""

    def __init__(self, scope: Scope, stored: Sequence[Step], data: QueryDict | None = None) -> None:
        rows = [_inputs(step) for step in stored] if data is None else _submitted(data)
        self.forms = [StepForm(row, scope) for row in rows]
        is_valid = all(form.is_valid() for form in self.forms)
        filled = [form for form in self.forms if form.step is not None]
        self.steps = [form.step for form in filled if form.step is not None]
        if is_valid:
            for place, (field, message) in problems_between(self.steps):
                filled[place].add_error(field, message)
        self.is_valid = is_valid and not any(form.errors for form in self.forms)
        if not self.forms:
            self.forms = [StepForm({}, scope)]
        self.has_room = len(self.forms) < MAX_STEPS


def _submitted(data: QueryDict) -> list[dict[str, Any]]:
    columns = [data.getlist(field)[:MAX_STEPS] for field in _FIELDS]
    rows = [dict(zip(_FIELDS, row, strict=True)) for row in zip(*columns, strict=False)]
    place = parse_id(data.get(REMOVE, "") or data.get(UP, ""))
    if place is not None and 0 < place <= len(rows):
        row = rows.pop(place - 1)
        if UP in data:
            rows.insert(max(0, place - 2), row)
    if ADD in data and len(rows) < MAX_STEPS:
        rows.append({})
    return rows


def _inputs(step: Step) -> dict[str, Any]:
    inputs = {field: getattr(step, field) for field in _FIELDS}
    return {**inputs, "value": "" if step.value is None else step.value}
