"""Two people who edit one row: what neither touched stays, and what both changed is told.

Each field is sent with the value that the page showed. A field that still has it was not edited, so
it is not written, whatever somebody else made of it meanwhile.
"""

from collections.abc import Iterable
from typing import Any

from django import forms

CONFLICT_MESSAGE = (
    "Somebody else changed this to {current} after you opened this page. Nothing was saved. Save "
    "again to set it to {own}, or enter {current} to keep theirs."
)


def add_hidden_initials(form: "forms.ModelForm[Any]", names: Iterable[str]) -> None:
    """Send the fields with the values that they are shown with."""
    for name in names:
        if name in form.fields:
            sent = form.add_initial_prefix(name) in form.data
            form.fields[name].show_hidden_initial = sent or not form.is_bound


def add_conflict_errors(form: "forms.ModelForm[Any]", names: Iterable[str]) -> None:
    """Refuse what somebody else changed, too; once, because then the person knows of it."""
    for name in names:
        if name not in form.cleaned_data or not form.fields[name].show_hidden_initial:
            continue
        sent = form.add_initial_prefix(name)
        shown, own = str(form.data.get(sent)), str(form.cleaned_data[name])
        current = str(getattr(form.instance, name))
        if own != shown and current not in (shown, own):
            form.add_error(name, CONFLICT_MESSAGE.format(current=current, own=own))
            seen: Any = form.data.copy()  # type: ignore[attr-defined]
            seen[sent] = current
            form.data = seen
