"""The form of a scheduled export."""

import re
from typing import Any

from django import forms
from django.contrib.admin.utils import flatten

from access.pages.reloads import RELOADS
from access.pages.sources import SourceForm
from core.outbound.addresses import AddressForbidden, check_url
from engagement.models import SavedView, Segment
from exports import files, tables
from exports.models import Extent, ScheduledExport, Table
from exports.stores import folders
from exports.stores.postgres import NEEDS
from exports.stores.s3 import endpoint_url

Kind, Format = ScheduledExport.StoreKind, ScheduledExport.Format
STORE_FIELDS = {
    Kind.S3: ("endpoint", "region", "bucket", "folder", "access_key_id", "secret_access_key"),
    Kind.FOLDER: ("folder",),
    Kind.POSTGRES: (("host", "port"), "database", "schema", "user_name", "password", "tls", "ca"),
}
SECRETS = ("access_key_id", "secret_access_key", "password")
# Stored secrets are not sent to another place than the one that they were entered for.
PLACES = {
    Kind.S3: ("endpoint", "bucket"),
    Kind.FOLDER: (),
    Kind.POSTGRES: ("host", "port", "user_name", "tls", "ca"),
}
# Another export follows if one of these changes: its next run is a complete one.
WHAT = {"source", "tables", "format", "extent"}
MAX_EXPORTS = 20
_FOLDER = re.compile(r"[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*", re.ASCII)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_SCHEMA = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9._:-]+", re.ASCII)
_REGION = re.compile(r"[a-z0-9-]+", re.ASCII)
NO_FOLDER = (
    "This server offers no folder. Choose a bucket, or ask the operator to set EDS_EXPORT_FOLDER."
)
KEEP_HELP = "Leave it empty to keep the stored one."
FOLDER_HELP = {
    Kind.S3: "The keys of all files begin with it, for example exports/eds. Optional.",
    Kind.FOLDER: "Below the folder of this product on the server, for example warehouse.",
}


class ScheduledExportForm(SourceForm):
    """An export of a workspace to a kind of store, whose fields the page has."""

    tables = forms.MultipleChoiceField(
        choices=Table.choices, widget=forms.CheckboxSelectMultiple, label="Tables"
    )
    # Nobody reads stored keys, so these are no fields of the model's form.
    access_key_id = forms.CharField(max_length=200, label="Access key ID")
    secret_access_key = forms.CharField(
        max_length=200, label="Secret access key", widget=forms.PasswordInput
    )
    password = forms.CharField(max_length=500, widget=forms.PasswordInput)

    class Meta:
        model = ScheduledExport
        fields = [
            "workspace",
            "store_kind",
            "name",
            "tables",
            "extent",
            "format",
            "schedule",
            "weekday",
            "hour",
            "is_enabled",
            "endpoint",
            "region",
            "bucket",
            "folder",
            *("host", "port", "database", "schema", "user_name", "tls", "ca"),
        ]
        widgets = {
            "store_kind": forms.Select(attrs=RELOADS),
            "ca": forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        }
        labels = {"weekday": "Day, if every week", "store_kind": "To"}
        help_texts = {
            "endpoint": "For example https://storage.example.com. Empty for AWS.",
            "region": "For example eu-central-1. Empty for us-east-1.",
            "bucket": "Empty if the endpoint names it.",
            "schema": "For this export alone. It is created if the user may do so.",
            "ca": "In PEM, if no public authority has signed the certificate of the database.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        kind = self.chosen_kind()
        fields: dict[str, Any] = self.fields
        workspace = self.chosen_row("workspace") if "workspace" in fields else None
        if workspace is not None:
            self.instance.workspace = workspace
        if "source" in fields and self.instance.workspace_id:
            self._offer_sources()
        if "store_kind" in fields:
            fields["store_kind"].choices = [
                each for each in Kind.choices if each[0] != Kind.FOLDER or folders.is_offered()
            ]
            fields["store_kind"].error_messages["invalid_choice"] = NO_FOLDER
        if "folder" in self.fields:
            self.fields["folder"].help_text = FOLDER_HELP[kind]
            self.fields["folder"].label = "Prefix" if kind == Kind.S3 else "Folder"
        for name in {"host", "database", "schema", "user_name"} & set(fields):
            fields[name].required = True
        for name in SECRETS:
            field = self.fields[name]
            field.widget.attrs |= {"class": "vTextField", "autocomplete": "off"}
            if name not in flatten(STORE_FIELDS[kind]):
                del self.fields[name]
            elif self.instance.pk:
                field.required, field.help_text = False, KEEP_HELP

    def _offer_sources(self) -> None:
        """Those that stay when a login goes: an export is the product's."""
        own = {"workspace": self.instance.workspace_id}
        segments = Segment.objects.filter(**own).order_by("scope", "name")
        views = SavedView.objects.filter(**own, owner=None).order_by("scope", "name")
        self.fields["source"].label = "Which accounts and users"
        self.offer_sources("All accounts and users", segments, views)

    def chosen_kind(self) -> ScheduledExport.StoreKind:
        data = self.data if self.is_bound else self.initial
        value = self.instance.store_kind or data.get("store_kind", "")
        return Kind(value) if value in Kind.values else Kind.S3

    def clean_format(self) -> str:
        value: str = self.cleaned_data["format"]
        if value == Format.PARQUET and not files.has_parquet():
            raise forms.ValidationError(
                "The server cannot write Parquet. Choose CSV, or ask the operator to install "
                "requirements-parquet.txt."
            )
        return value

    def clean_folder(self) -> str:
        folder: str = self.cleaned_data["folder"].strip().strip("/")
        parts = folder.split("/")
        if folder and (not _FOLDER.fullmatch(folder) or {".", ".."} & set(parts)):
            raise forms.ValidationError(
                "Use letters, digits, dots, hyphens, and underscores, with / between folders."
            )
        return folder

    def clean_bucket(self) -> str:
        bucket: str = self.cleaned_data["bucket"].strip()
        if bucket and not _BUCKET.fullmatch(bucket):
            raise forms.ValidationError(
                "A bucket has 3 to 63 lowercase letters, digits, dots, and hyphens."
            )
        return bucket

    def clean_region(self) -> str:
        region: str = self.cleaned_data["region"].strip()
        if region and not _REGION.fullmatch(region):
            raise forms.ValidationError("A region is like eu-central-1.")
        return region

    def clean_schema(self) -> str:
        schema: str = self.cleaned_data["schema"].strip()
        if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
            raise forms.ValidationError(
                "Use lowercase letters, digits, and underscores, and begin with a letter."
            )
        return schema

    def clean_host(self) -> str:
        host: str = self.cleaned_data["host"].strip()
        try:
            check_url(f"https://{host}/")
        except AddressForbidden:
            host = ""
        if not _HOST.fullmatch(host):
            raise forms.ValidationError("Enter a name or an address, such as db.example.com.")
        return host

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        workspace = cleaned.get("workspace")
        product = workspace.product_id if workspace else self.instance.product_id
        same = ScheduledExport.objects.filter(product=product, name=cleaned.get("name"))
        if product and same.exclude(pk=self.instance.pk).exists():
            self.add_error("name", "This product already has an export with this name.")
        if not self.instance.pk and product:
            self._check_number(product)
        if {"source", "tables", "extent"} <= set(cleaned):
            self._check_source(cleaned)
        if "endpoint" in cleaned:
            self._check_endpoint(cleaned)
        if self.chosen_kind() == Kind.POSTGRES and "tables" in cleaned:
            self._check_needs(set(cleaned["tables"]))
        if self.instance.pk:
            self._require_new_keys(cleaned)
        return cleaned

    def _check_needs(self, tables_to_write: set[str]) -> None:
        """Who is forgotten leaves the database by the tables of accounts and users."""
        for table in sorted(tables_to_write & NEEDS.keys()):
            for other in NEEDS[table]:
                if other not in tables_to_write:
                    text = f"Choose {Table(other).label}, too: {Table(table).label} needs it, so "
                    self.add_error("tables", text + "that who is forgotten leaves the database.")

    def _check_source(self, cleaned: dict[str, Any]) -> None:
        try:
            source = tables.find_source(self.instance)
        except tables.SourceLost as error:
            self.add_error("source", str(error))
            return
        if source is None:
            return
        fitting = tables.TABLES_OF[source.scope]
        if not set(cleaned["tables"]) <= set(fitting):
            *labels, last = (Table(table).label for table in fitting)
            choice = f"{', '.join(labels)}, or {last}"
            self.add_error("tables", f"{source} has {source.scope}s. Choose {choice}.")
        if cleaned["extent"] != Extent.COMPLETE:
            text = "Who leaves a segment or a view is no change. Choose Everything."
            self.add_error("extent", text)

    def _check_number(self, product: int) -> None:
        if ScheduledExport.objects.filter(product=product).count() >= MAX_EXPORTS:
            text = f"A product can have at most {MAX_EXPORTS} exports."
            self.add_error(None, f"{text} Delete one that nobody needs.")

    def _check_endpoint(self, cleaned: dict[str, Any]) -> None:
        cleaned["endpoint"] = cleaned["endpoint"].strip().rstrip("/")
        if not cleaned["endpoint"] and not cleaned.get("bucket"):
            self.add_error("bucket", "Enter the bucket.")
        try:
            check_url(endpoint_url(cleaned["endpoint"], cleaned.get("region", ""), ""))
        except AddressForbidden as error:
            self.add_error("endpoint", str(error))

    def _require_new_keys(self, cleaned: dict[str, Any]) -> None:
        places = set(PLACES[self.chosen_kind()]) & set(self.changed_data)
        for name in SECRETS:
            if places and name in self.fields and not cleaned.get(name):
                what = "host, user, or TLS" if name == "password" else "endpoint or bucket"
                self.add_error(name, f"Enter it again for the other {what}.")

    def new_values(self) -> dict[str, Any]:
        """The values to save: without keys that were left empty."""
        values = {
            name: value for name, value in self.cleaned_data.items() if name not in SECRETS or value
        }
        values.pop("source", None)
        return {**values, "segment": self.instance.segment_id, "view": self.instance.view_id}

    @property
    def has_new_store(self) -> bool:
        changed = set(self.changed_data)
        names = {name for fields in STORE_FIELDS.values() for name in flatten(fields)}
        return not self.instance.pk or bool(
            {name for name in changed & names if name not in SECRETS or self.cleaned_data[name]}
        )

    @property
    def is_another_export(self) -> bool:
        """Whether files written before do not fit those written from now on."""
        names = {*WHAT, "endpoint", "bucket", "folder", "host", "port", "database", "schema"}
        return bool(names & set(self.changed_data))
