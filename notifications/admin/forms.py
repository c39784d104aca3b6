"""The forms of destinations and subscriptions."""

from typing import Any

from django import forms
from django.conf import settings
from django.core.validators import validate_email
from django.db.models import QuerySet
from django.urls import reverse
from django.utils.html import format_html

from core.outbound.addresses import MAX_URL_LENGTH, AddressForbidden, check_url
from engagement.models import Segment
from notifications.delivery import signing
from notifications.models import Destination, Subscription
from notifications.models.destinations import address_hint
from notifications.triggers import TRIGGERS, Trigger, TriggerInfo
from notifications.watching.insights import insight_choices

Kind = Destination.Kind

ADDRESS_LABELS = {
    Kind.WEBHOOK: "URL",
    Kind.SLACK: "Webhook URL",
    Kind.TEAMS: "Workflow URL",
    Kind.EMAIL: "Email address",
}
ADDRESS_HELP = {
    Kind.WEBHOOK: "Your endpoint, beginning with https://. It gets signed POST requests, and must "
    "answer each with a status from 200 to 299 within 15 seconds.",
    Kind.SLACK: "The URL of an incoming webhook. Create one in Slack’s app directory: Incoming "
    "Webhooks.",
    Kind.TEAMS: "The URL of the workflow “Post to a channel when a webhook request is received”.",
    Kind.EMAIL: "It gets an email with a link, and nothing else before somebody opens that link.",
}
MAX_DESTINATIONS, MAX_SUBSCRIPTIONS = 50, 100
KEEP_HELP = " Leave it empty to keep the address."


class DestinationForm(forms.ModelForm):  # type: ignore[type-arg]
    """A destination of a kind that the previous page chose."""

    address = forms.CharField(max_length=MAX_URL_LENGTH)

    class Meta:
        model = Destination
        fields = ["product", "kind", "name", "digest"]
        widgets = {"kind": forms.HiddenInput}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        kind = self._kind()
        if "kind" in self.fields and self.instance.pk:
            del self.fields["kind"]
        if kind != Kind.EMAIL:
            self.fields.pop("digest", None)
        address = self.fields.get("address")
        if kind is None or address is None:
            return
        address.label, address.help_text = ADDRESS_LABELS[kind], ADDRESS_HELP[kind]
        # Nobody reads a stored address: that of a chat is a secret.
        address.widget.attrs.update({"class": "vTextField", "autocomplete": "off"})
        if self.instance.pk:
            address.required = False
            address.help_text += KEEP_HELP
            address.widget.attrs["placeholder"] = self.instance.address_hint

    def _kind(self) -> Kind | None:
        data = self.data if self.is_bound else self.initial
        value = self.instance.kind or data.get("kind", "")
        return Kind(value) if value in Kind.values else None

    def clean_address(self) -> str:
        address: str = self.cleaned_data["address"].strip()
        if not address:
            return address
        if self._kind() == Kind.EMAIL:
            if not settings.HAS_EMAIL:
                text = "The service has no mail server. Ask the operator to set EDS_EMAIL_URL."
                raise forms.ValidationError(text)
            validate_email(address)
            return address
        try:
            check_url(address)
        except AddressForbidden as error:
            raise forms.ValidationError(str(error)) from None
        return address

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        product = cleaned.get("product") or self.instance.product_id
        same = Destination.objects.filter(product=product, name=cleaned.get("name"))
        if product and same.exclude(pk=self.instance.pk).exists():
            self.add_error("name", "This product already has a destination with this name.")
        shared = Destination.objects.filter(owner=None)
        if not self.instance.pk and _has_all(shared, product, MAX_DESTINATIONS):
            text = f"A product can have at most {MAX_DESTINATIONS} destinations."
            self.add_error(None, f"{text} Delete one that nobody needs.")
        return cleaned

    @property
    def has_new_address(self) -> bool:
        return bool(self.cleaned_data.get("address"))

    def apply(self, site_url: str) -> list[str]:
        """Set the fields of the instance that the form does not have. Returns their names."""
        destination, address = self.instance, self.cleaned_data.get("address")
        changed = []
        if destination.site_url != site_url:
            destination.site_url = site_url
            changed.append("site_url")
        if not destination.pk and destination.kind == Kind.WEBHOOK:
            destination.signing_secrets = signing.generate_secret()
        if address:
            destination.address = address
            destination.address_hint = address_hint(destination.kind, address)
            destination.state = Destination.State.UNVERIFIED
            destination.pause_reason = ""
            changed += ["address", "address_hint", "state", "pause_reason"]
        return changed


class SubscriptionForm(forms.ModelForm):  # type: ignore[type-arg]
    """A subscription with the parameters of a trigger that the previous page chose."""

    class Meta:
        model = Subscription
        fields = [
            "workspace",
            "trigger",
            "scope",
            "segment",
            "insight",
            "direction",
            "threshold",
            "filter_segment",
            "destination",
            "quiet_hours",
            "tells_changed_rules",
            "traits",
            "is_enabled",
        ]
        widgets = {"workspace": forms.HiddenInput, "trigger": forms.HiddenInput}

    is_chosen = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.instance.pk and not self._set_parent():
            return
        self.is_chosen = True
        for name in ("workspace", "trigger"):
            if self.instance.pk:
                self.fields.pop(name, None)
        self._limit_fields(TRIGGERS[Trigger(self.instance.trigger)])

    def _set_parent(self) -> bool:
        """Set the workspace and trigger that were chosen on the previous page, if valid."""
        data = self.data if self.is_bound else self.initial
        try:
            workspace = self.fields["workspace"].clean(data.get("workspace"))
            trigger = self.fields["trigger"].clean(data.get("trigger"))
        except (forms.ValidationError, KeyError):
            return False
        self.instance.product, self.instance.workspace = workspace.product, workspace
        self.instance.trigger = trigger
        return True

    def _limit_fields(self, info: TriggerInfo) -> None:
        for name in ("scope", "segment", "insight", "direction", "threshold"):
            if name not in info.parameters:
                self.fields.pop(name, None)
            elif name in self.fields:
                self.fields[name].required = True
        for name in ("filter_segment", "tells_changed_rules", "traits"):
            if name not in info.parameters:
                self.fields.pop(name, None)
        if info.is_about_product and "quiet_hours" in self.fields:
            self.fields["quiet_hours"].label = "Messages at most"
        self._limit_choices(info)

    def _limit_choices(self, info: TriggerInfo) -> None:
        own = Segment.objects.filter(workspace=self.instance.workspace_id)
        if info.is_about_accounts:
            own = own.filter(scope=Segment.Scope.ACCOUNT)
        for name, empty in (("segment", "---------"), ("filter_segment", "anywhere")):
            if isinstance(field := self.fields.get(name), forms.ModelChoiceField):
                field.queryset = own
                field.choices = [("", empty), *_by_scope(own)]
        if "filter_segment" in self.fields:
            self.fields["filter_segment"].label = "Only if in"
        if isinstance(field := self.fields.get("destination"), forms.ModelChoiceField):
            field.queryset = Destination.objects.filter(
                product=self.instance.product_id, owner=None
            )
            if not field.queryset.exists():
                add = reverse("admin:notifications_destination_add")
                field.help_text = format_html(
                    '<a href="{}?product={}">Add a destination</a> first.',
                    add,
                    self.instance.product_id,
                )
        if "scope" in self.fields:
            choices = [("account", "Accounts"), ("user", "Users")]
            self.fields["scope"] = forms.ChoiceField(choices=choices, label="Of")
        if "direction" in self.fields:
            # A fall is what most want to know. The first choice is the default.
            choices = list(reversed(Subscription.Direction.choices))
            self.fields["direction"] = forms.ChoiceField(choices=choices)
        if "insight" in self.fields:
            self.fields["insight"] = forms.ChoiceField(choices=insight_choices())
        if "threshold" in self.fields:
            low, high = info.bounds
            self.fields["threshold"] = forms.FloatField(
                min_value=low,
                max_value=high,
                label=info.label,
                help_text=f"{info.unit[:1].upper()}{info.unit[1:]}." if info.unit else "",
                initial=info.default,
                step_size=1 if info.is_whole else None,
            )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        filter_segment = cleaned.get("filter_segment")
        if filter_segment is not None and filter_segment.scope != self._scope(cleaned):
            text = "Choose a segment of the same kind: users or accounts."
            self.add_error("filter_segment", text)
        product = self.instance.product_id
        if not self.instance.pk and _has_all(
            Subscription.objects.all(), product, MAX_SUBSCRIPTIONS
        ):
            text = f"A product can have at most {MAX_SUBSCRIPTIONS} subscriptions."
            self.add_error(None, f"{text} Delete one that nobody needs.")
        return cleaned

    def _scope(self, cleaned: dict[str, Any]) -> str:
        segment = cleaned.get("segment")
        return segment.scope if segment else cleaned.get("scope") or "account"

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        subscription = self.instance
        if self.is_chosen and TRIGGERS[Trigger(subscription.trigger)].is_about_product:
            subscription.workspace = None

    @property
    def is_about_something_else(self) -> bool:
        """Whether the next sweep must only look before the subscription notifies of anything."""
        ignored = {"quiet_hours", "tells_changed_rules", "filter_segment", "traits"}
        return not self.instance.watch_id or bool(set(self.changed_data) - ignored)


def _has_all(rows: QuerySet[Any], product: Any, most: int) -> bool:
    """Whether the product has as many rows as it may have. Each costs the sweeps time."""
    return product is not None and rows.filter(product=product).count() >= most


def _by_scope(segments: QuerySet[Segment]) -> list[tuple[str, list[tuple[int, str]]]]:
    """The segments as choices in groups. The style sheet hides the group of the other kind."""
    groups: dict[str, list[tuple[int, str]]] = {"Accounts": [], "Users": []}
    for segment in segments.order_by("id"):
        groups[segment.get_scope_display()].append((segment.pk, segment.name))
    return [(label, choices) for label, choices in groups.items() if choices]
