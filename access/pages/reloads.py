"""Forms whose choices depend on what somebody chose on the same page."""

from collections.abc import Set
from typing import Any, ClassVar

from django import forms
from django.forms.utils import ErrorDict

# The button that submits a form without saving it. A script presses it after each choice.
RELOAD = "_reload"
RELOADS = {"data-reload": ""}


class ReloadingForm(forms.ModelForm):  # type: ignore[type-arg]
    """If a button that does not save submits it, the form counts as invalid but has no errors."""

    unsaving_buttons: ClassVar[Set[str]] = frozenset({RELOAD})

    @property
    def is_reload(self) -> bool:
        return self.is_bound and not self.unsaving_buttons.isdisjoint(self.data)

    def full_clean(self) -> None:
        if self.is_reload:
            # Nothing is saved, so a missing name is not an error.
            self._errors: Any = ErrorDict()
            self.cleaned_data: dict[str, Any] = {}
        else:
            super().full_clean()

    def is_valid(self) -> bool:
        return not self.is_reload and super().is_valid()

    def chosen_row(self, name: str) -> Any:
        """The row that is chosen in the field, on which others depend; by default the first one."""
        field: Any = self.fields[name]
        field.empty_label, field.required = None, True
        field.widget.attrs |= RELOADS
        choice = self.data.get(name) if self.is_bound else self.initial.get(name)
        rows = list(field.queryset.select_related("product"))
        self.offers_several = len(rows) > 1
        row = next(iter([*(each for each in rows if str(each.pk) == str(choice)), *rows]), None)
        if row is not None:
            self.initial[name] = row.pk
        return row
