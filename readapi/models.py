"""Read tokens and how often each is used."""

from ipaddress import ip_network
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from engagement.models import Credential


def validate_network(text: str) -> None:
    """Raise ValidationError for what is neither an address nor a network."""
    try:
        ip_network(text)
    except ValueError:
        raise ValidationError(
            "Enter an address or a network, such as 203.0.113.7 or 203.0.113.0/24."
        ) from None


class ApiToken(Credential):
    """A token of one product. It can read that product's workspaces and nothing else.

    Its rights narrow that further. None for ``workspace_ids`` means all, and None for ``networks``
    means any address. The id of a deleted workspace stays, so that the token never reads more.
    """

    class Reads(models.TextChoices):
        ALL = "all", "Users and accounts"
        ACCOUNTS = "accounts", "Accounts only"
        USERS = "users", "Users only"
        NOTHING = "nothing", "Neither"

    PREFIX = "eds"
    RIGHTS: ClassVar[tuple[str, ...]] = (
        "reads",
        "hides_user_traits",
        "workspace_ids",
        "may_use_mcp",
        "may_read_metrics",
        "manages_hooks",
        "networks",
    )

    reads = models.CharField(
        max_length=8, choices=Reads.choices, default=Reads.ALL, db_default=Reads.ALL
    )
    hides_user_traits = models.BooleanField(
        "without traits of users",
        default=False,
        db_default=False,
        help_text="No names, email addresses, and other traits of users: personal data.",
    )
    workspace_ids = ArrayField(models.BigIntegerField(), null=True, blank=True, editable=False)
    may_use_mcp = models.BooleanField(
        "may use MCP", default=True, db_default=True, help_text="The tools for assistants at /mcp."
    )
    may_read_metrics = models.BooleanField(
        "may read /metrics",
        default=False,
        db_default=False,
        help_text="Operational metrics of the whole service. Only superusers grant this.",
    )
    manages_hooks = models.BooleanField(
        "hook token",
        default=False,
        db_default=False,
        help_text="For Zapier, n8n, and the like: it adds and removes hooks, and reads nothing.",
    )
    networks = ArrayField(
        models.CharField(max_length=50, validators=[validate_network]),
        null=True,
        blank=True,
        verbose_name="allowed addresses",
        help_text="Addresses or networks, separated by commas, such as 203.0.113.0/24. "
        "Empty: any address.",
    )
    last_used_from = models.GenericIPAddressField(null=True, editable=False)

    class Meta(Credential.Meta):
        verbose_name = "read token"
        constraints = [
            models.CheckConstraint(
                condition=Q(reads__in=["all", "accounts", "users", "nothing"]),
                name="token_reads_known",
            )
        ]


class Usage(models.Model):
    """How many requests a token made in the last minute in which it made any.

    The table is unlogged: counting writes nothing to disk, and a database crash resets the counts.
    """

    token = models.OneToOneField(
        ApiToken, on_delete=models.CASCADE, primary_key=True, db_constraint=False
    )
    minute = models.DateTimeField()
    requests = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.requests} requests at {self.minute}"
