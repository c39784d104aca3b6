"""Destinations: where notifications go."""

from typing import ClassVar
from urllib.parse import urlsplit

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from core.fields import EncryptedTextField

NAME_LENGTH = 100


class DestinationManager(models.Manager["Destination"]):
    def get_queryset(self) -> models.QuerySet["Destination"]:
        """Leaves the address and the secrets out: only deliveries need them."""
        return super().get_queryset().defer("address", "signing_secrets")


class Destination(models.Model):
    """A webhook, a channel of a chat, or an email address of a product.

    ``address`` is a URL or an email address. A chat's URL is a secret, so pages show
    ``address_hint``. ``signing_secrets`` are those of a webhook, separated by spaces, the newest
    first; a message is signed with each. Nothing is sent before the destination is verified.

    Each failed attempt puts the next one to this destination off until ``retry_at``; ``failures``
    counts those in a row, since ``failing_since``. A worker that delivers holds the lease ``lease``
    until ``leased_until``. ``served_at`` is its last turn. ``site_url`` is where its managers reach
    the admin, for links in messages. With an ``owner``, it is the email address of that login. A
    hook was added by a program, which removes it, too (``notifications.hooks``).
    """

    class Kind(models.TextChoices):
        WEBHOOK = "webhook", "Webhook"
        SLACK = "slack", "Slack"
        TEAMS = "teams", "Microsoft Teams"
        EMAIL = "email", "Email"

    class State(models.TextChoices):
        UNVERIFIED = "unverified", "Not verified"
        ACTIVE = "active", "Active"
        PAUSED = "paused", "Paused"

    class Digest(models.TextChoices):
        NONE = "none", "At once"
        DAILY = "daily", "Once a day"
        WEEKLY = "weekly", "Once a week"

    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, related_name="destinations"
    )
    kind = models.CharField(max_length=10, choices=Kind.choices)
    name = models.CharField(max_length=NAME_LENGTH)
    address: "models.TextField[str, str]" = EncryptedTextField()
    address_hint = models.CharField("address", max_length=300, editable=False)
    signing_secrets: "models.TextField[str, str]" = EncryptedTextField(default="", editable=False)
    digest = models.CharField("send", max_length=10, choices=Digest.choices, default=Digest.NONE)
    state = models.CharField(
        max_length=10, choices=State.choices, default=State.UNVERIFIED, editable=False
    )
    pause_reason = models.TextField(blank=True, editable=False)
    verified_at = models.DateTimeField(null=True, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        editable=False,
        on_delete=models.CASCADE,
        # An older release, which does not know this column, can still delete a login.
        db_constraint=False,
        related_name="+",
    )
    is_hook = models.BooleanField(default=False, db_default=False, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    site_url = models.CharField(max_length=300, blank=True, editable=False)

    failures = models.PositiveIntegerField(default=0, editable=False)
    failing_since = models.DateTimeField(null=True, editable=False)
    retry_at = models.DateTimeField(null=True, editable=False)
    lease = models.UUIDField(null=True, editable=False)
    leased_until = models.DateTimeField(null=True, editable=False)
    served_at = models.DateTimeField(null=True, editable=False)
    # Messages that were not kept because too many waited.
    overflowed = models.BigIntegerField(default=0, editable=False)

    objects: ClassVar[DestinationManager] = DestinationManager()

    class Meta:
        ordering = ["product_id", "name", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["product", "name"], name="destination_name_per_product"
            ),
            models.UniqueConstraint(
                fields=["product", "owner"], name="one_own_destination_per_product"
            ),
            models.CheckConstraint(
                condition=Q(kind__in=["webhook", "slack", "teams", "email"]),
                name="destination_kind_known",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["unverified", "active", "paused"]),
                name="destination_state_known",
            ),
            models.CheckConstraint(
                condition=Q(digest__in=["none", "daily", "weekly"]),
                name="destination_digest_known",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_chat(self) -> bool:
        """Whether people read the messages one by one, and not a program."""
        return self.kind != self.Kind.WEBHOOK

    def secret_list(self) -> list[str]:
        """The signing secrets, the newest first."""
        return self.signing_secrets.split()


def address_hint(kind: str, address: str) -> str:
    """As much of the address as pages may show."""
    if kind == Destination.Kind.EMAIL:
        local, _, domain = address.rpartition("@")
        return f"{local[:1]}…@{domain}"
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    return f"{host}/…" if parts.path.strip("/") or parts.query else host
