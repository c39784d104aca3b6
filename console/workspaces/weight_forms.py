"""The event weights in a workspace's form."""

import re
from typing import Any, NamedTuple

from django import forms
from django.http import QueryDict
from django.utils.html import format_html
from django.utils.safestring import SafeString

from access.pages.edit_conflicts import add_conflict_errors, add_hidden_initials
from access.pages.scoping import NamedFieldsFormSet
from console.recent_events import RecentEvent, RecentEvents
from console.rules.rule_editor import ADD_WEIGHT
from engagement.models import EventName, EventWeight
from engagement.models.activity import EVENT_NAME_LENGTH

REMOVED_MESSAGE = (
    "Someone else removed the weight of “{}” after you opened this page. Nothing was saved. "
    "Reload the page to see the current weights, then make your changes again."
)
CONFLICTING_WEIGHT_MESSAGE = (
    "Someone else gave “{}” the weight {} after you opened this page. Nothing was saved. Reload "
    "the page to see the current weights, then make your changes again."
)


WEIGHT_CHOICES = [("", "Default"), ("0", "0: not scored"), *((n, str(n)) for n in range(1, 11))]


class WholeNumber(forms.IntegerField):
    """An integer within bounds. Every error names the bounds."""

    def __init__(self, minimum: int, maximum: int, **kwargs: Any) -> None:
        message = f"Enter a whole number from {minimum} to {maximum}."
        codes = ("required", "invalid", "min_value", "max_value")
        super().__init__(
            min_value=minimum,
            max_value=maximum,
            error_messages=dict.fromkeys(codes, message),
            **kwargs,
        )


class PlainText(forms.Widget):
    """Shows a read-only value as text, which wraps on a phone."""

    def render(
        self, name: str, value: object, attrs: Any = None, renderer: Any = None
    ) -> SafeString:
        # Submitted, so that an error can name a row that someone else has removed.
        return format_html(
            '<span>{}</span><input type="hidden" name="{}" value="{}">', value, name, value
        )


class WeightForm(forms.ModelForm):  # type: ignore[type-arg]
    """The weight of an event name, which may be new."""

    # Set for a row that the page lists because the event is frequent.
    listed = forms.BooleanField(required=False, widget=forms.HiddenInput)
    event = forms.CharField(
        max_length=EVENT_NAME_LENGTH,
        strip=False,
        widget=forms.TextInput(attrs={"list": "event-names", "size": 50, "autocomplete": "off"}),
    )
    weight = WholeNumber(0, 10, widget=forms.Select(choices=WEIGHT_CHOICES))

    class Meta:
        model = EventWeight
        fields = ["weight"]

    field_order = ["listed", "event", "weight"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["event"] = self.instance.event_name.name
            self.fields["event"].disabled = True
            self.fields["event"].widget = PlainText()
            # Without a value the default weight applies, and saving deletes the row.
            self.fields["weight"].required = False
            add_hidden_initials(self, ["weight"])
        elif self["listed"].value():
            self.fields["event"].widget = PlainText()

    def has_changed(self) -> bool:
        if self.is_bound and not self.instance.pk and self["listed"].value():
            return bool(self["weight"].value())
        return super().has_changed()

    def clean(self) -> dict[str, Any] | None:
        cleaned_data = super().clean()
        add_conflict_errors(self, ["weight"])
        return cleaned_data

    def clean_event(self) -> str:
        name: str = self.cleaned_data["event"]
        if not name.strip() or not name.isprintable():
            raise forms.ValidationError(
                "Enter the event's name exactly as your application sends it."
            )
        return name

    def save(self, commit: bool = True) -> EventWeight:
        if not self.instance.pk:
            product = self.instance.workspace.product
            self.instance.event_name = get_or_create_event_name(
                product.pk, self.cleaned_data["event"]
            )
        weight: EventWeight = super().save(commit)
        return weight


def get_or_create_event_name(product_id: int, name: str) -> EventName:
    """The product's event name *name*, created if it is new.

    Event names are case- and space-sensitive. Spaces around a new name are taken for typing errors
    and removed.
    """
    exact = EventName.objects.filter(product_id=product_id, name=name).first()
    if exact:
        return exact
    return EventName.objects.get_or_create(product_id=product_id, name=name.strip())[0]


class WeightFormSet(NamedFieldsFormSet):
    """The weights of events: those that are stored, those of frequent events without a weight, and
    one for another event."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.extra += len(kwargs.get("initial") or ())

    def row_name(self, form: Any) -> str:
        if form.instance.pk:
            return f"“{form.instance.event_name.name}”"
        return f"“{form['event'].value()}”" if form["listed"].value() else ""

    def _should_delete_form(self, form: Any) -> bool:
        is_default = form.instance.pk and form.cleaned_data.get("weight", 0) is None
        return bool(is_default or super()._should_delete_form(form))  # type: ignore[misc]

    def clean(self) -> None:
        super().clean()
        listed_names = set()
        initial_ids = {form.instance.pk for form in self.initial_forms}
        # Weights that someone else added after the page was opened.
        added = {
            weight.event_name.name: weight
            for weight in self.get_queryset()
            if weight.pk not in initial_ids
        }
        for form in self.forms:
            if form in self.initial_forms and not form.instance.pk:
                _add_removed_error(form)
                continue
            if form in self.deleted_forms or "event" not in getattr(form, "cleaned_data", {}):
                continue
            name = form.cleaned_data["event"].strip()
            if name in listed_names:
                form.add_error("event", f"“{name}” is listed twice.")
            elif name in added and form.has_changed():
                form.add_error("event", CONFLICTING_WEIGHT_MESSAGE.format(name, added[name].weight))
            listed_names.add(name)


def _add_removed_error(form: Any) -> None:
    """Replace Django's errors for a row that no longer exists."""
    form._errors.clear()
    name = form.data.get(form.add_prefix("event")) or "an event"
    form.add_error("weight", REMOVED_MESSAGE.format(name))


def add_weight_row(data: QueryDict, prefix: str) -> QueryDict:
    """The data with another row."""
    rows = data.get(f"{prefix}-TOTAL_FORMS", "")
    if ADD_WEIGHT not in data or not re.fullmatch("[0-9]{1,4}", str(rows)):
        return data
    extended = data.copy()
    extended[f"{prefix}-TOTAL_FORMS"] = str(int(str(rows)) + 1)
    return extended


FEATURE_WEIGHT = "feature-weight-"
# What a feature's weight is in the form: none to leave those of its events, or the same for all.
FEATURE_CHOICES = [("", "As below"), ("default", "Default"), *WEIGHT_CHOICES[1:]]


def apply_feature_weights(data: QueryDict, prefix: str, product_id: int | None) -> QueryDict:
    """The data with the weights that were chosen for features in the rows of their events.

    The form then checks and stores weights of events alone.
    """
    values = {
        int(name.removeprefix(FEATURE_WEIGHT)): str(value)
        for name, value in data.items()
        if value and re.fullmatch(f"{FEATURE_WEIGHT}[0-9]{{1,18}}", name)
    }
    rows = str(data.get(f"{prefix}-TOTAL_FORMS", ""))
    if not values or product_id is None or not re.fullmatch("[0-9]{1,4}", rows):
        return data
    events = EventName.objects.filter(product=product_id, feature__in=values)
    weights = {
        name: "" if values[feature] == "default" else values[feature]
        for name, feature in events.values_list("name", "feature_id")
        if feature is not None
    }
    extended = data.copy()
    total = int(rows)
    for number in range(total):
        name = str(extended.get(f"{prefix}-{number}-event", ""))
        if name in weights:
            extended[f"{prefix}-{number}-weight"] = weights.pop(name)
    for name, weight in weights.items():
        row = {"listed": "True", "event": name, "weight": weight}
        extended.update({f"{prefix}-{total}-{field}": value for field, value in row.items()})
        total += 1
    extended[f"{prefix}-TOTAL_FORMS"] = str(total)
    return extended


class WeightRow(NamedTuple):
    """A row of the table of events. ``event`` is None for an event that is not listed. A row that
    is not ``is_shown`` does not match the search."""

    form: Any
    event: RecentEvent | None
    is_shown: bool


def weight_rows(formset: Any, recent: RecentEvents, term: str = "") -> list[WeightRow]:
    """The formset's rows: the most frequent events first, and the rows of other events last."""
    events = {event.name: (place, event) for place, event in enumerate(recent.events)}
    last = (len(events), None)

    def place(form: Any) -> tuple[int, RecentEvent | None]:
        is_named = form.instance.pk or form["listed"].value()
        return events.get(form["event"].value(), last) if is_named else (len(events) + 1, None)

    places = sorted(((place(form), form) for form in formset.forms), key=lambda row: row[0][0])
    return [
        WeightRow(form, event, term.lower() in str(form["event"].value() or term).lower())
        for (_, event), form in places
    ]
