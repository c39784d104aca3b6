"""The forms of a record destination: its key, and then what its records get."""

from collections.abc import Mapping
from typing import Any

import msgspec
from django import forms
from django.utils.html import format_html_join

from core.fields import DecryptionError
from destinations.models import RecordDestination, Rule, Vendor
from destinations.records import Source, domain_of, offered_sources
from destinations.vendors import open_client
from destinations.vendors.base import Field, FieldType, VendorError, stored_fields
from destinations.vendors.salesforce import is_my_domain

Mode = RecordDestination.Mode
MAX_DESTINATIONS = 10
MAX_ROWS, EMPTY_ROWS = 30, 3
KEY_HELP = {
    Vendor.HUBSPOT: "HubSpot has it under Development → Keys → Service keys. Its scopes: "
    "crm.objects.companies.read and .write for accounts, crm.objects.contacts.read and .write for "
    "users.",
    Vendor.SALESFORCE: "The consumer secret of an external client app with the client credentials "
    "flow, whose user may edit the fields that you choose.",
}
# The inputs beside the key, which only Salesforce has.
APP = ("host", "client_id")
KEEP_HELP = "Leave it empty to keep the stored one."
OPTIONS = ("mode", "id_field", "points", "interval", "quota_share", "clears_forgotten")
_TAKES: dict[str, set[FieldType]] = {
    "number": {"number", "text"},
    "boolean": {"boolean", "text", "choice"},
    "day": {"day", "time", "text"},
    "text": {"text", "choice"},
    "any": {"text", "number", "boolean", "day", "time", "choice"},
}
_VALUES = {"trend": {"rising", "steady", "falling"}}
# What is proposed for the first match, by what the records are about.
_PROPOSED = {
    (Vendor.HUBSPOT, "account"): ("domain", "domain"),
    (Vendor.HUBSPOT, "user"): ("email", "email"),
    (Vendor.SALESFORCE, "account"): ("domain", "Website"),
    (Vendor.SALESFORCE, "user"): ("email", "Email"),
}


class DestinationForm(forms.ModelForm):  # type: ignore[type-arg]
    """A new destination has a key alone. Once its fields are read, rows say what they get."""

    # Nobody reads the stored key, so it is no field of the model's form.
    key = forms.CharField(
        max_length=500,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "class": "vTextField"}),
    )

    class Meta:
        model = RecordDestination
        fields = ["workspace", "vendor", "scope", *APP, *OPTIONS]
        help_texts = {
            "host": "Such as example.my.salesforce.com.",
            "mode": "Records are never deleted.",
            "id_field": "A unique text field, which then has our tracking_id. Records are found by "
            "it first, and only with it can they be created.",
            "points": "A score is sent when it moved by as much, or with something else. Whole "
            "points are sent, unless it is less than 1.",
            "quota_share": "Others use the same quota.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["key"].label = "Key"
        self.fields["key"].help_text = format_html_join(
            " ", '<span data-vendor="{}">{}</span>', KEY_HELP.items()
        )
        self.remote_fields: list[Field] = []
        self.sources: dict[str, Source] = {}
        if self.instance.pk:
            self.fields["key"].required = False
            self.fields["key"].help_text = KEEP_HELP
            self._add_rows()

    # --- Rows -----------------------------------------------------------------------------------

    def _add_rows(self) -> None:
        stored, fields = self.instance, stored_fields(self.instance)
        groups = offered_sources(stored)
        self.sources = {name: each for group in groups.values() for name, each in group.items()}
        match = next(iter(stored.match), None)
        source, field = _PROPOSED[Vendor(stored.vendor), stored.scope]
        match = match or {"source": source, "field": field if field in fields else ""}
        stored_names = [match, *stored.mapping]
        choices = [("", "–"), *_grouped(groups, {each["source"] for each in stored_names})]
        targets = [("", "–"), *((name, _named(each)) for name, each in sorted(fields.items()))]
        targets += [
            (each["field"], f"{each['field']} (gone)")
            for each in stored_names
            if each["field"] and each["field"] not in fields
        ]
        self._add("match_source", "Ours", choices, match["source"])
        self._add("match_field", "Theirs", targets, match["field"])
        for number in range(self._row_count()):
            row = stored.mapping[number] if number < len(stored.mapping) else {}
            self._add(f"source_{number}", "Ours", choices, row.get("source", ""))
            self._add(f"field_{number}", "Theirs", targets, row.get("field", ""))
            rule = row.get("rule", Rule.CLEAR)
            self._add(f"rule_{number}", "Gets", Rule.choices, rule)
        if "id_field" in self.fields:
            unique = [
                (name, text)
                for name, text in targets
                if name
                and fields.get(name)
                and fields[name].is_unique
                and fields[name].type == "text"
            ]
            own = (
                [] if not stored.id_field or stored.id_field in fields else [(stored.id_field,) * 2]
            )
            self.fields["id_field"] = forms.ChoiceField(
                choices=[("", "None"), *unique, *own],
                required=False,
                label=self.fields["id_field"].label,
                help_text=self.fields["id_field"].help_text,
            )

    def _row_count(self) -> int:
        count = sum(name.startswith("source_") for name in self.data) if self.is_bound else 0
        return min(MAX_ROWS, count or len(self.instance.mapping) + EMPTY_ROWS)

    def _add(self, name: str, label: str, choices: Any, initial: str) -> None:
        field = forms.ChoiceField(choices=choices, label=label, required=False, initial=initial)
        self.fields[name] = field

    def row_names(self) -> list[tuple[str, str, str]]:
        numbers = range(self._row_count()) if self.instance.pk else ()
        return [(f"source_{n}", f"field_{n}", f"rule_{n}") for n in numbers]

    # --- Checks ---------------------------------------------------------------------------------

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        if not self.instance.pk:
            product = cleaned["workspace"].product_id
            if RecordDestination.objects.filter(product=product).count() >= MAX_DESTINATIONS:
                text = f"A product can have at most {MAX_DESTINATIONS} of them."
                self.add_error(None, f"{text} Delete one that nobody needs.")
                return cleaned
        self._check_app(cleaned)
        if self.errors:
            return cleaned
        if cleaned.get("key"):
            self._read_fields(cleaned)
        if self.instance.pk:
            self._check_rows(cleaned)
        return cleaned

    def _check_app(self, cleaned: dict[str, Any]) -> None:
        """Where the API of Salesforce is, and which app has the secret. The stored secret goes to
        no other place."""
        if (cleaned.get("vendor") or self.instance.vendor) != Vendor.SALESFORCE:
            cleaned |= dict.fromkeys(APP, "")
            return
        if not cleaned.get("client_id"):
            self.add_error("client_id", "Salesforce shows it beside the secret.")
        cleaned["host"] = domain_of(cleaned.get("host") or "")
        if not is_my_domain(cleaned["host"]):
            text = "Enter the My Domain, such as example.my.salesforce.com."
            self.add_error("host", text)
        is_other = any(getattr(self.instance, name) != cleaned.get(name) for name in APP)
        if self.instance.pk and is_other and not cleaned.get("key"):
            self.add_error("key", "Enter the secret of this app, too.")

    def _read_fields(self, cleaned: dict[str, Any]) -> None:
        """Ask the vendor for its fields, which shows that it accepts the key."""
        cleaned["key"] = cleaned["key"].strip()
        names = ("vendor", "scope", *APP)
        own = {name: cleaned.get(name) or getattr(self.instance, name) for name in names}
        asking = RecordDestination(**own, key=cleaned["key"])
        try:
            self.remote_fields = open_client(asking, lambda: None).fields()
        except VendorError as error:
            self.add_error("key", str(error))

    def _check_rows(self, cleaned: dict[str, Any]) -> None:
        fields = {each.name: each for each in self.remote_fields} or stored_fields(self.instance)
        if not cleaned["match_source"] or not cleaned["match_field"]:
            self.add_error("match_field", "Choose by what records are found.")
        written_fields = {cleaned.get("id_field")} - {""}
        # Errors take values away.
        rows = [(*row[:2], cleaned[row[0]], cleaned[row[1]]) for row in self.row_names()]
        rows = [row for row in rows if any(row[2:])]
        if not rows:
            self.add_error("field_0", "Choose at least one value, and the field that gets it.")
        for source, field, name, target in rows:
            if bool(name) != bool(target):
                self.add_error(field if name else source, "Choose both, or neither.")
            elif target in written_fields:
                self.add_error(field, "Another row writes this field.")
            elif name and (problem := _problem(self.sources.get(name), name, fields.get(target))):
                self.add_error(field, problem)
            written_fields.add(target)
        if cleaned.get("mode") == Mode.CREATE and not cleaned.get("id_field"):
            self.add_error("id_field", "To create records, choose the unique field with our id.")
        elif cleaned.get("mode") == Mode.CREATE:
            required = [each for each in fields.values() if each.is_required]
            names = [_named(each) for each in required if each.name not in written_fields]
            if names:
                self.add_error("mode", f"New records need more fields: {', '.join(names)}.")

    def new_values(self) -> dict[str, Any]:
        """The values to save: without a key that was left empty."""
        cleaned = self.cleaned_data
        values = {name: cleaned[name] for name in (*APP, *OPTIONS) if name in cleaned}
        if cleaned.get("key"):
            values["key"] = cleaned["key"]
            values["fields"] = msgspec.to_builtins(self.remote_fields)
        if self.instance.pk:
            pair = {"source": cleaned["match_source"], "field": cleaned["match_field"]}
            values["match"] = [pair]
            values["mapping"] = [
                {"source": cleaned[source], "field": cleaned[field], "rule": cleaned[rule]}
                for source, field, rule in self.row_names()
                if cleaned[source]
            ]
        return values


def read_fields_again(destination: RecordDestination) -> int:
    """Store the vendor's fields of today; return how many. Raises VendorError."""
    try:
        full = RecordDestination.objects.defer(None).get(pk=destination.pk)
    except DecryptionError as error:
        raise VendorError(str(error)) from None
    fields = open_client(full, lambda: None).fields()
    own = RecordDestination.objects.filter(pk=destination.pk)
    own.update(fields=msgspec.to_builtins(fields))
    return len(fields)


def _problem(source: Source | None, name: str, field: Field | None) -> str:
    """Why the field cannot have the values of the source; empty if it can."""
    if source is None or field is None:
        return "This is gone. Choose another one."
    if field.type not in _TAKES[source.type]:
        return f"{field.label} cannot hold what {source.label} has."
    missing = _VALUES.get(name, set()) - set(field.options) if field.type == "choice" else set()
    if missing:
        return f"{field.label} lacks the options {', '.join(sorted(missing))}."
    return ""


def _grouped(groups: Mapping[str, Mapping[str, Source]], stored_names: set[str]) -> list[Any]:
    """Choices by heading, with those that are stored and no longer offered."""
    choices = [
        (heading, [(name, source.label) for name, source in group.items()])
        for heading, group in groups.items()
        if group
    ]
    names = {name for group in groups.values() for name in group}
    lost = [(name, f"{name} (gone)") for name in sorted(stored_names - names) if name]
    return [*choices, *([("Gone", lost)] if lost else [])]


def _named(field: Field) -> str:
    return f"{field.label} ({field.name})" if field.label != field.name else field.name


class UploadForm(forms.Form):
    file = forms.FileField(
        label="CSV file",
        help_text="Each line has a tracking_id and the id of the record, separated by a comma.",
        widget=forms.FileInput(attrs={"accept": ".csv,text/csv"}),
    )
