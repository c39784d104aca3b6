"""The form of a digest."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.models import User as AdminUser
from django.db.models import Q
from django.http import HttpRequest

from access.logins import time_zones
from access.pages.reloads import RELOADS
from access.pages.scoping import request_access
from access.pages.sources import SourceForm
from engagement.models import SavedView, Segment
from notifications.digests.own import own_destination
from notifications.models import Destination, Digest

MAX_DIGESTS = 200
OWN = "own"
NO_RECEIVERS = (
    "The service has no mail server, and there is no channel of a chat yet. A manager adds one "
    "under Destinations."
)
HOURS = [(hour, f"{hour:02}:00") for hour in range(24)]


class DigestForm(SourceForm):
    """A digest of what changed in a workspace, a segment, or a view; the page previews it."""

    request: HttpRequest

    hour = forms.TypedChoiceField(label="At", choices=HOURS, coerce=int, initial=8)
    time_zone = forms.ChoiceField()
    receiver = forms.ChoiceField(label="To")

    class Meta:
        model = Digest
        fields = ["workspace", "cadence", "weekday", "is_enabled"]
        widgets = {"cadence": forms.Select(attrs=RELOADS)}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        digest = self.instance
        if "cadence" not in self.fields or not (digest.pk or self._set_workspace()):
            return
        self._offer_sources()
        zone = digest.time_zone if digest.pk else time_zones.current_time_zone(self.request).key
        self._choose("time_zone", _zones(zone), zone)
        own = digest.pk and digest.destination.owner_id is None
        self._choose("receiver", self._receivers(), str(digest.destination_id) if own else OWN)
        if digest.pk:
            self.initial["hour"] = digest.hour
        receivers: Any = self.fields["receiver"]
        if not receivers.choices:
            receivers.help_text = NO_RECEIVERS
        if self.is_reload and self.data.get("cadence") in Digest.Cadence.values:
            # The preview follows.
            digest.cadence = self.data["cadence"]

    def _set_workspace(self) -> bool:
        """Set the chosen workspace; False if there is none."""
        workspace = self.chosen_row("workspace")
        if workspace is None:
            return False
        if not self.offers_several:
            self.fields["workspace"].widget = forms.HiddenInput()
        self.instance.workspace, self.instance.product = workspace, workspace.product
        return True

    def _choose(self, name: str, choices: Any, initial: str) -> None:
        field: Any = self.fields[name]
        field.choices = list(choices)
        self.initial.setdefault(name, initial)

    # --- Choices ------------------------------------------------------------------------------

    def _offer_sources(self) -> None:
        digest, source = self.instance, self.fields["source"]
        segments = Segment.objects.filter(workspace=digest.workspace_id, scope="account")
        views = SavedView.objects.filter(
            Q(owner=self.request.user.pk) | Q(owner=None) | Q(pk=digest.view_id),
            workspace=digest.workspace_id,
            scope="account",
        )
        source.label = "What changed in"
        source.help_text = "Changes are about accounts: segments and views of users have none."
        everything = f"All accounts of {digest.workspace.name}"
        self.offer_sources(everything, segments.order_by("name"), views)

    @property
    def _reader(self) -> AdminUser:
        owner = self.instance.owner if self.instance.pk else self.request.user
        assert isinstance(owner, AdminUser), "Somebody is logged in."
        return owner

    def _receivers(self) -> Iterator[tuple[str, str]]:
        """The login itself; for managers, also chats and addresses of the product."""
        digest = self.instance
        if settings.HAS_EMAIL and not (digest.pk and digest.owner is None):
            address = self._reader.email or "your login has no email address yet"
            is_self = self._reader == self.request.user
            yield OWN, f"{'You' if is_self else self._reader} ({address})"
        rows = Destination.objects.filter(product=digest.product_id, owner=None, is_hook=False)
        if digest.product_id not in request_access(self.request).managed:
            rows = rows.filter(pk=digest.destination_id)
        for row in rows.exclude(kind=Destination.Kind.WEBHOOK):
            yield str(row.pk), f"{row.name} ({row.get_kind_display()})"

    # --- Cleaning -----------------------------------------------------------------------------

    def clean_receiver(self) -> str:
        receiver: str = self.cleaned_data["receiver"]
        if receiver == OWN and not self._reader.email:
            raise forms.ValidationError(
                "This login has no email address. A superuser enters it on the login’s page."
            )
        return receiver

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        own = Digest.objects.filter(product=self.instance.product_id)
        if not self.instance.pk and own.count() >= MAX_DIGESTS:
            text = (
                f"A product can have at most {MAX_DIGESTS} digests. Delete one that nobody reads."
            )
            self.add_error(None, text)
        return cleaned

    def apply(self, site_url: str, now: datetime) -> None:
        """Set the fields of the instance that the form declares itself. Writes the destination."""
        digest, cleaned = self.instance, self.cleaned_data
        digest.hour, digest.time_zone = cleaned["hour"], cleaned["time_zone"]
        if digest.is_enabled:
            digest.unsubscribed_at = None
        if not digest.pk:
            digest.owner = self._reader
        if cleaned["receiver"] == OWN:
            digest.destination = own_destination(digest.product, self._reader, site_url, now)
        else:
            digest.destination = Destination.objects.get(pk=cleaned["receiver"])


def _zones(present: str) -> Iterator[Any]:
    yield "UTC", "UTC"
    regions = time_zones.offered_time_zones()
    if present != "UTC" and not any(present in names for names in regions.values()):
        yield present, present
    for region, names in regions.items():
        yield region, [(name, name.replace("_", " ")) for name in names]
