"""Which outcomes a workspace looks at, as fields of its form."""

from typing import Any

from django import forms

from engagement.models import Workspace
from outcomes.backtests.texts import KIND_TEXTS
from outcomes.kinds import Kind
from outcomes.settings import (
    OutcomeSettings,
    describe,
    kinds_on,
    kinds_with_data,
    load_settings,
    to_json,
)

FIELDS = ("outcomes_off", "bad_trait", "bad_values", "bad_below")
DESCRIPTION = "What became of accounts, to see whether scores predicted it."


class OutcomeFields(forms.ModelForm):  # type: ignore[type-arg]
    """Edits the settings of a workspace that exists."""

    outcomes_off = forms.MultipleChoiceField(
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Leave out",
    )
    bad_trait = forms.ChoiceField(
        required=False,
        label="Trait",
        help_text="An account's outcome is bad if this trait takes a bad value. Traits with a "
        "history are chosen on the product's page.",
    )
    bad_values = forms.CharField(
        required=False,
        max_length=2_000,
        widget=forms.Textarea(attrs={"rows": 3}),
        label="Bad values",
        help_text="One per line, such as churned.",
    )
    bad_below = forms.FloatField(
        required=False, label="Bad below", help_text="A number less than this is bad, too."
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.instance.pk:
            for name in FIELDS:
                del self.fields[name]
            return
        product, settings = self.instance.product, load_settings(self.instance)
        kinds = [kind for kind in kinds_with_data(product) if kind is not Kind.TRAIT]
        field: Any = self.fields["outcomes_off"]
        field.choices = [(kind.value, KIND_TEXTS[kind].title) for kind in kinds]
        field.initial = sorted(settings.off)
        field = self.fields["bad_trait"]
        names = dict.fromkeys([*sorted(product.history_traits), settings.trait])
        field.choices = [("", "None"), *((name, name) for name in names if name)]
        field.initial = settings.trait
        self.fields["bad_values"].initial = "\n".join(settings.values)
        self.fields["bad_below"].initial = settings.below

    def clean(self) -> None:
        super().clean()
        if "bad_trait" not in self.fields or self.errors:
            return
        values = self.cleaned_data
        lines = (line.strip() for line in values["bad_values"].splitlines())
        bad_values = tuple(dict.fromkeys(filter(None, lines)))
        if values["bad_trait"] and not bad_values and values["bad_below"] is None:
            self.add_error("bad_values", "Enter the values that are bad, or a number below.")
        settings = OutcomeSettings(
            frozenset(map(Kind, values["outcomes_off"])),
            values["bad_trait"],
            bad_values,
            values["bad_below"],
        )
        self.instance.outcomes = to_json(settings)

    @property
    def changed_data(self) -> list[str]:
        changed = super().changed_data
        own = [name for name in changed if name in FIELDS]
        others = [name for name in changed if name not in FIELDS]
        return [*others, "outcomes"] if own else others


def describe_outcomes(workspace: Workspace) -> str:
    """The kinds of outcomes that the workspace looks at, for people who may not change them."""
    labels = ", ".join(KIND_TEXTS[kind].title for kind in kinds_on(workspace))
    bad = describe(load_settings(workspace), workspace.product.history_traits)
    return f"{labels}. {bad}".strip()
