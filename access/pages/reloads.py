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
