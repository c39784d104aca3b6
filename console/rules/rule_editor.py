"""Edits a rule as rows of a form, one condition each."""

import re
from typing import Any, cast

from django import forms
from django.http import QueryDict

from access.pages.reloads import RELOAD, ReloadingForm
from console.rules.condition_forms import ConditionForm, choice_field, initial_inputs
from console.suggestions import Suggestions
from engagement.rules.rules import MAX_CONDITIONS, Condition, Match, Rule

_WHOLE_NUMBER = re.compile(r"[0-9]{1,30}", re.ASCII)

# The buttons that submit a form without saving it. The first three preview a rule, add a condition,
# and remove one. The others preview a workspace's ranking and add an event weight.
PREVIEW, ADD_ROW, REMOVE_ROW = "_preview", "_add_condition", "_remove_condition"
SHOW_EFFECT, ADD_WEIGHT = "_effect", "_weigh"
_PREVIEW_BUTTONS = {PREVIEW, ADD_ROW, REMOVE_ROW, SHOW_EFFECT, ADD_WEIGHT, RELOAD}


def without_preview_buttons(data: QueryDict) -> QueryDict:
    """The data as if the form had been saved."""
    copy = data.copy()
    for button in _PREVIEW_BUTTONS & copy.keys():
        del copy[button]
    return copy


class ConditionFormSet(forms.BaseFormSet):  # type: ignore[type-arg]
    forms: list[ConditionForm]

    def get_form_kwargs(self, index: int | None) -> dict[str, Any]:
        # An unchanged row counts as much as a changed one.
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
    match = choice_field("Conditions that must match", {"all": "all", "any": "any"})


class RuleEditor:
    """The part of a page's form that edits a rule: all or any, and a row for each condition.

    *data* is the submitted form. If it is None, the form shows *initial_rule* or the *stored* rule.
    ``rule`` is the submitted rule if ``is_valid()`` is true.
    """

    PREFIX = "conditions"

    def __init__(
        self,
        data: QueryDict | None,
        stored: Rule,
        suggestions: Suggestions,
        *,
        initial_rule: Rule | None = None,
        for_audience: bool = False,
    ) -> None:
        total = f"{self.PREFIX}-TOTAL_FORMS"
        if data is not None and total not in data:
            # A form without these rows leaves the rule unchanged.
            data = None
        self.stored, self.suggestions, self.for_audience = stored, suggestions, for_audience
        self.is_bound = data is not None
        self.initial_rule = initial_rule or stored
        self.match = MatchForm(data, prefix=self.PREFIX, initial={"match": self.initial_rule.match})
        self.rows = _FormSet(
            data and _remove_row(_add_row(data, total), total, self.PREFIX),
            prefix=self.PREFIX,
            initial=[initial_inputs(condition) for condition in self.initial_rule.conditions],
            form_kwargs={
                "scope": stored.scope,
                "for_audience": for_audience,
                "suggestions": suggestions,
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
        """The errors of the conditions, with the conditions' numbers."""
        errors = [*self.rows.non_form_errors()]
        for number, row in enumerate(self.rows, 1):
            errors += [f"Condition {number}: {error}" for error in row.all_errors]
        return errors

    @property
    def own_traits(self) -> list[str]:
        """The suggested traits of the rule's scope."""
        is_for_users = self.stored.scope == "user"
        return self.suggestions.user_traits if is_for_users else self.suggestions.account_traits

    @property
    def current_rule(self) -> Rule | None:
        """The rule that the page shows, or None if a condition is invalid."""
        if not self.is_bound:
            return self.initial_rule
        return self.rule if self.is_valid() else None

    def has_changed(self) -> bool:
        return self.is_bound and self.is_valid() and self.rule != self.stored


def _add_row(data: QueryDict, total: str) -> QueryDict:
    """The data with another row if the button for one was pressed."""
    rows = str(data.get(total))
    if ADD_ROW not in data or not _WHOLE_NUMBER.fullmatch(rows):
        return data
    extended = data.copy()
    extended[total] = str(int(rows) + 1)
    return extended


def _remove_row(data: QueryDict, total: str, prefix: str) -> QueryDict:
    """The data without the row whose button was pressed. Later rows move up."""
    rows, pressed = str(data.get(total)), str(data.get(REMOVE_ROW, ""))
    if not _WHOLE_NUMBER.fullmatch(rows) or not _WHOLE_NUMBER.fullmatch(pressed):
        return data
    row_number = int(pressed)
    if row_number >= int(rows):
        return data
    reduced = data.copy()
    reduced[total] = str(int(rows) - 1)
    numbered = re.compile(rf"{prefix}-([0-9]+)-(.+)", re.ASCII)
    for name in data:
        if (match := numbered.fullmatch(name)) and int(match[1]) >= row_number:
            del reduced[name]
    for name in data:
        if (match := numbered.fullmatch(name)) and int(match[1]) > row_number:
            reduced.setlist(f"{prefix}-{int(match[1]) - 1}-{match[2]}", data.getlist(name))
    return reduced


class RuleForm(ReloadingForm):
    """A model's form that also edits a rule, in ``rows``."""

    unsaving_buttons = frozenset(_PREVIEW_BUTTONS)
    rows: RuleEditor | None = None

    @property
    def submitted_data(self) -> QueryDict | None:
        return cast(QueryDict, self.data) if self.is_bound else None

    def clean(self) -> None:
        super().clean()
        if self.rows and not self.rows.is_usable:
            self.add_error(None, "A condition is not valid. See its error.")
