"""Detects that two people edit a row at the same time.

A form submits each field together with the value that the page showed. A field that still has that
value was not edited, so it is not saved. A field that both edited is an error.
"""

from collections.abc import Iterable
from typing import Any

from django import forms

CONFLICT_MESSAGE = (
    "Someone else changed this to {current} after you opened this page. Nothing was saved. Save "
    "again to set it to {own}, or enter {current} to keep their value."
)


def add_hidden_initials(form: "forms.ModelForm[Any]", names: Iterable[str]) -> None:
    """Have the form submit the fields together with the values that the page shows."""
    for name in names:
        if name in form.fields:
            is_sent = form.add_initial_prefix(name) in form.data
            form.fields[name].show_hidden_initial = is_sent or not form.is_bound


def add_conflict_errors(form: "forms.ModelForm[Any]", names: Iterable[str]) -> None:
    """Add an error to each field that someone else changed, too.

    Only once: the form then shows the other value, and saving again overwrites it.
    """
    for name in names:
        if name not in form.cleaned_data or not form.fields[name].show_hidden_initial:
            continue
        initial_name = form.add_initial_prefix(name)
        value = form.cleaned_data[name]
        initial = str(form.data.get(initial_name))
        own, current = (_text(each) for each in (value, getattr(form.instance, name)))
        if own != initial and current not in (initial, own):
            texts = {"current": current or "empty", "own": own or "empty"}
            form.add_error(name, CONFLICT_MESSAGE.format(**texts))
            data: Any = form.data.copy()  # type: ignore[attr-defined]
            data[initial_name] = current
            form.data = data


def _text(value: object) -> str:
    return "" if value is None else str(value)
