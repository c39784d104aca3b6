"""The forms of destinations and subscriptions."""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.conf import settings
from django.core.validators import validate_email
from django.db.models import Q, QuerySet

from access.pages.reloads import ReloadingForm
from core.outbound.addresses import MAX_URL_LENGTH, AddressForbidden, check_url
from engagement.models import Segment, Workspace
from notifications.delivery import signing
from notifications.models import Destination, Subscription
from notifications.models.destinations import address_hint
from notifications.texts import SCORE_PHRASES, phrase
from notifications.triggers import TRIGGERS, Trigger, TriggerInfo
from notifications.watching import conditions
from notifications.watching.insights import insight_choices

Kind = Destination.Kind

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
# What the choice of a destination begins with that the form makes.
NEW = "new:"
FIRST_TRIGGER = "score_crossed:down"


class DestinationForm(forms.ModelForm):  # type: ignore[type-arg]
    """A destination. Of a new one, the page shows what helps with each kind."""

    address = forms.CharField(max_length=MAX_URL_LENGTH)

    class Meta:
        model = Destination
        fields = ["product", "kind", "name", "digest"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        fields: dict[str, Any] = self.fields
        kind = self.kind
        if "kind" in fields:
            fields["kind"].choices = offered_kinds()
        if "product" in fields:
            fields["product"].empty_label = None
        if "digest" in fields:
            fields["digest"].required = False
        if self.instance.pk and kind != Kind.EMAIL:
            fields.pop("digest", None)
        address = fields.get("address")
        if address is None:
            return
        # Nobody reads a stored address: that of a chat is a secret.
        address.widget.attrs.update({"class": "vTextField", "autocomplete": "off"})
        if self.instance.pk and kind:
            address.required = False
            address.help_text = ADDRESS_HELP[kind] + KEEP_HELP
            address.widget.attrs["placeholder"] = self.instance.address_hint

    @property
    def kind(self) -> Kind | None:
        data = self.data if self.is_bound else self.initial
        value = self.instance.kind or data.get("kind", "")
        return Kind(value) if value in Kind.values else None

    @property
    def address_help(self) -> dict[Kind, str]:
        return ADDRESS_HELP

    def clean_digest(self) -> str:
        digest: str = self.cleaned_data["digest"]
        return digest if digest and self.kind == Kind.EMAIL else Destination.Digest.NONE

    def clean_address(self) -> str:
        address: str = self.cleaned_data["address"].strip()
        if not address:
            return address
        if self.kind == Kind.EMAIL:
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
        shared = Destination.objects.filter(owner=None, is_hook=False)
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


class InlineDestinationForm(DestinationForm):
    """A destination that is made together with its first subscription."""

    class Meta(DestinationForm.Meta):
        fields = ["name", "digest"]


class TriggerSelect(forms.Select):
    """Says of each trigger what the sentence needs besides, for the style sheet."""

    def create_option(self, name: str, value: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        option: dict[str, Any] = super().create_option(name, value, *args, **kwargs)
        trigger = _parts(str(value))[0]
        if trigger in Trigger.values:
            info = TRIGGERS[Trigger(trigger)]
            needs = {"segment", "insight", "threshold"} & set(info.parameters)
            needs |= set() if info.is_about_product else {"who"}
            needs |= {"accounts"} if info.is_about_accounts else set()
            option["attrs"]["data-needs"] = " ".join(sorted(needs))
        return option


class SubscriptionForm(ReloadingForm):
    """A subscription as a sentence: When [who] [trigger] [threshold], tell [destination].

    It shows the segments of one workspace. All inputs are on the page, and those count that the
    trigger has."""

    who = forms.ChoiceField(label="Who", required=False)
    trigger = forms.ChoiceField(label="What happens", widget=TriggerSelect)
    segment = forms.ModelChoiceField(
        Segment.objects.none(), required=False, empty_label="Choose a segment"
    )
    insight = forms.ChoiceField(choices=insight_choices, required=False)
    threshold = forms.FloatField(
        required=False, label="Value", widget=forms.NumberInput(attrs={"placeholder": "usual"})
    )
    destination = forms.ChoiceField(label="Tell")

    class Meta:
        model = Subscription
        fields = [
            *("workspace", "to_owner", "quiet_hours", "tells_changed_rules", "traits"),
            "is_enabled",
        ]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.before = _definition(self.instance)
        self.new: InlineDestinationForm | None = None
        if "workspace" not in self.fields:
            # Somebody may only look.
            return
        self.place = self._workspace()
        if self.place is not None:
            self._offer(self.place)
            self._set_initial()
        for name in ("who", "trigger", "segment", "insight", "threshold", "destination"):
            self.fields[name].widget.attrs["aria-label"] = str(self[name].label)

    def _workspace(self) -> Workspace | None:
        """The workspace whose segments the form offers."""
        field: Any = self.fields["workspace"]
        if self.instance.product_id:
            field.queryset = field.queryset.filter(product=self.instance.product_id)
        workspace: Workspace | None = self.chosen_row("workspace")
        return workspace

    def _offer(self, workspace: Workspace) -> None:
        fields: dict[str, Any] = self.fields
        segments = Segment.objects.filter(workspace=workspace).order_by("id")
        fields["segment"].queryset = segments
        fields["segment"].choices = [("", "Choose a segment"), *_by_scope(segments)]
        fields["who"].choices = [
            (label, [(scope, f"all {label.lower()}"), *_within(scope, label, segments)])
            for scope, label in (("account", "Accounts"), ("user", "Users"))
        ]
        fields["trigger"].choices = trigger_choices()
        # Those of one person get digests only.
        destinations = Destination.objects.filter(
            # A hook has one subscription, which keeps it.
            Q(is_hook=False) | Q(pk=self.instance.destination_id),
            product=workspace.product_id,
            owner=None,
        )
        new = [(f"{NEW}{kind}", f"New: {label} …") for kind, label in offered_kinds()]
        fields["destination"].choices = [
            ("", "Choose where"),
            *((str(each.pk), each.name) for each in destinations),
            ("Another destination", new),
        ]
        choice = str(self.data.get("destination", ""))
        kind = choice.removeprefix(NEW)
        is_new = choice.startswith(NEW) and kind in Kind.values
        destination = Destination(product=workspace.product, kind=kind if is_new else "")
        self.new = InlineDestinationForm(
            self.data if is_new else None, instance=destination, prefix="new"
        )
        self.is_new = is_new

    def _set_initial(self) -> None:
        stored = self.instance
        if stored.pk:
            scope = stored.segment.scope if stored.segment else stored.scope or "account"
            segment = stored.filter_segment_id
            self.initial = {
                **self.initial,
                "who": f"{scope}:{segment}" if segment else scope,
                "trigger": ":".join(filter(None, (stored.trigger, stored.direction))),
                "segment": stored.segment_id,
                "insight": stored.insight,
                "threshold": stored.threshold,
                "destination": str(stored.destination_id),
            }
        self.initial.setdefault("who", "account")
        self.initial.setdefault("trigger", FIRST_TRIGGER)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        product = self.place.product_id if self.place else None
        if not self.instance.pk and _has_all(
            Subscription.objects.filter(destination__is_hook=False), product, MAX_SUBSCRIPTIONS
        ):
            text = f"A product can have at most {MAX_SUBSCRIPTIONS} subscriptions."
            self.add_error(None, f"{text} Delete one that nobody needs.")
        if self.is_new and self.new is not None and not self.new.is_valid():
            for name, errors in self.new.errors.items():
                label = f"{self.new[name].label}: " if name in self.new.fields else ""
                for error in errors:
                    self.add_error("destination", f"{label}{error}")
        return cleaned

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        if self.place is None or not self.cleaned_data.get("trigger"):
            return
        stored, values = self.instance, self.cleaned_data
        trigger, direction = _parts(values["trigger"])
        info = TRIGGERS[Trigger(trigger)]
        scope, _, within = (values.get("who") or "account").partition(":")
        stored.product, stored.trigger, stored.direction = self.place.product, trigger, direction
        stored.workspace = None if info.is_about_product else self.place
        stored.scope = scope if "scope" in info.parameters else ""
        stored.filter_segment_id = int(within) if within and not info.is_about_product else None
        stored.segment = self._chosen_segment(info, scope)
        stored.insight = values.get("insight", "") if "insight" in info.parameters else ""
        stored.threshold = self._chosen_threshold(info)
        about = stored.segment.scope if stored.segment else stored.scope or scope
        if stored.to_owner and (info.is_about_product or about != "account"):
            self.add_error("to_owner", "Only accounts have owners. Choose accounts.")
        if info.is_about_accounts and scope != "account":
            self.add_error("who", "Choose accounts: only they can have this.")
        if not self.is_new and values.get("destination"):
            stored.destination_id = int(values["destination"])

    def _chosen_segment(self, info: TriggerInfo, scope: str) -> Segment | None:
        segment: Segment | None = self.cleaned_data.get("segment")
        if "segment" not in info.parameters:
            return None
        if segment is None:
            self.add_error("segment", "Choose the segment.")
        elif segment.scope != scope:
            self.add_error("segment", "Choose a segment of the same kind: users or accounts.")
        return segment

    def _chosen_threshold(self, info: TriggerInfo) -> float | None:
        """The threshold, by default the usual one."""
        value: float | None = self.cleaned_data.get("threshold")
        if "threshold" not in info.parameters or "threshold" in self.errors:
            return None
        value, (low, high) = info.default if value is None else value, info.bounds
        if value is None or not low <= value <= high or (info.is_whole and value % 1):
            number = "a whole number" if info.is_whole else "a number"
            self.add_error("threshold", f"Enter {number} from {low:g} to {high:,g}.")
        return value

    @property
    def is_about_something_else(self) -> bool:
        """Whether the next sweep must only look before the subscription notifies of anything."""
        return not self.instance.watch_id or self.before != _definition(self.instance)


def _definition(subscription: Subscription) -> tuple[Any, ...]:
    names = ("trigger", "direction", "scope", "insight", "threshold", "is_enabled")
    ids = ("workspace_id", "segment_id", "destination_id")
    return tuple(getattr(subscription, name) for name in (*names, *ids))


def _parts(choice: str) -> tuple[str, str]:
    """The trigger and the direction of a choice such as score_crossed:down."""
    trigger, _, direction = choice.partition(":")
    return trigger, direction


def trigger_choices() -> list[tuple[str, list[tuple[str, str]]]]:
    """What can happen, in groups, in the words of the form's sentence."""
    triggers = [each for each in Trigger if each not in SCORE_PHRASES]
    subjects = [each for each in triggers if not TRIGGERS[each].is_about_product]
    sources = [each for each in triggers if conditions.has_source(each)]
    licenses = [each for each in sources if TRIGGERS[each].is_news]
    products = [each for each in sources if not TRIGGERS[each].is_news]
    scores = [(f"{name}:{way}", text) for name, ways in SCORE_PHRASES.items() for way, text in ways]
    groups = [("Licenses", licenses), ("Data and connections", products)]
    return [
        ("Users and accounts", [*scores, *((each.value, phrase(each)) for each in subjects)]),
        *((label, [(each.value, phrase(each)) for each in members]) for label, members in groups),
    ]


def offered_kinds() -> list[tuple[str, str]]:
    """Email needs a mail server."""
    return [each for each in Kind.choices if each[0] != Kind.EMAIL or settings.HAS_EMAIL]


def _within(scope: str, label: str, segments: Iterable[Segment]) -> list[tuple[str, str]]:
    return [
        (f"{scope}:{segment.pk}", f"{label.lower()} in {segment.name}")
        for segment in segments
        if segment.scope == scope
    ]


def _has_all(rows: QuerySet[Any], product: Any, most: int) -> bool:
    """Whether the product has as many rows as it may have. Each costs the sweeps time."""
    return product is not None and rows.filter(product=product).count() >= most


def _by_scope(segments: QuerySet[Segment]) -> list[tuple[str, list[tuple[int, str]]]]:
    """The segments as choices in groups. The style sheet hides the group of the other kind."""
    groups: dict[str, list[tuple[int, str]]] = {"Accounts": [], "Users": []}
    for segment in segments.order_by("id"):
        groups[segment.get_scope_display()].append((segment.pk, segment.name))
    return [(label, choices) for label, choices in groups.items() if choices]
