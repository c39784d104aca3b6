"""What a login prefers: its time zone."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.formats import date_format
from django.utils.timezone import localtime

from access.logins import time_zones


class PreferencesForm(forms.Form):
    time_zone = forms.ChoiceField(
        required=False,
        error_messages={"invalid_choice": "Choose a time zone from the list."},
        help_text="Times on the pages of the admin are shown in it. Days of scores are UTC days.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        regions = [
            (region, [(name, _label(name)) for name in names])
            for region, names in time_zones.offered_time_zones().items()
        ]
        self.fields["time_zone"].choices = [  # type: ignore[attr-defined]
            ("", "The browser’s time zone"),
            ("UTC", "UTC"),
            *regions,
        ]


def _label(name: str) -> str:
    return name.partition("/")[2].replace("_", " ").replace("/", ", ")


def preferences_view(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    """The page on which people choose their time zone."""
    stored = {"time_zone": request.session.get(time_zones.SESSION_KEY, "")}
    form = PreferencesForm(request.POST or None, initial=stored)
    if request.method == "POST" and form.is_valid():
        time_zones.choose_time_zone(request, form.cleaned_data["time_zone"])
        messages.success(request, "Your preferences are saved.")
        return redirect("admin:preferences")
    zone = time_zones.current_time_zone(request).key
    now = date_format(localtime(), "DATETIME_FORMAT")
    form.fields["time_zone"].help_text += f" Now it is {now} in {zone}."
    context = {**context, "title": "Preferences", "form": form}
    return TemplateResponse(request, "config/preferences.html", context)
