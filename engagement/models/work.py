"""What people did about accounts: who looks after them, tags, notes, and what became of alarms.

The package ``access`` writes it (``access.work``), because it knows the logins. It is here because
conditions and lists of accounts read it. Logins are named, and not referred to: their table is on
one node, and what somebody wrote outlives the login.
"""

from django.contrib.auth.models import User as AdminUser
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q

from core.product_keys import ProductForeignKey
from engagement.models.alarms import Alarm

LOGIN_LENGTH = AdminUser._meta.get_field("username").max_length or 150
TAG_LENGTH, RESULT_LENGTH = 50, 50


class _OfAccount(models.Model):
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    account = ProductForeignKey(
        "engagement.Account",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )

    class Meta:
        abstract = True


class AccountWork(_OfAccount):
    """The owner of an account, a login's name or empty, and its tags.

    ``is_by_hand`` says that a person chose the owner: rules leave it alone.
    """

    pk = models.CompositePrimaryKey("product_id", "account_id")
    owner = models.CharField(max_length=LOGIN_LENGTH, blank=True, default="")
    is_by_hand = models.BooleanField(default=False)
    tags = ArrayField(models.CharField(max_length=TAG_LENGTH), default=list)

    class Meta:
        indexes = [
            # The accounts of an owner, and all that have one.
            models.Index(
                fields=["product", "owner", "account"],
                condition=~Q(owner=""),
                name="work_by_owner",
            ),
            GinIndex(fields=["tags"], name="work_tags"),
        ]

    def __str__(self) -> str:
        return f"account {self.account_id}: {self.owner or 'nobody'}"


class AccountNote(_OfAccount):
    """What somebody wrote about an account. ``author`` is the name of the login then."""

    id = models.BigAutoField(primary_key=True)
    author = models.CharField(max_length=LOGIN_LENGTH)
    text = models.TextField()
    written_at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["product", "account", "-written_at"], name="notes_of_account"),
        ]

    def __str__(self) -> str:
        return f"note of {self.author} about account {self.account_id}"


class AlarmWork(_OfAccount):
    """What people did about an alarm of a workspace: who took it, until when it is to rest, and the
    result with which it was closed.

    ``since`` is the day that decided the alarm, and ``seen_on`` a day on which it was still on: a
    replay may decide the same alarm again from another day.
    """

    pk = models.CompositePrimaryKey("product_id", "workspace_id", "account_id", "signal", "since")
    workspace = models.ForeignKey(
        "engagement.Workspace",
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    signal = models.CharField(max_length=8, choices=Alarm.Signal.choices)
    since = models.DateField()
    seen_on = models.DateField()
    taken_by = models.CharField(max_length=LOGIN_LENGTH, blank=True, default="")
    snoozed_until = models.DateField(null=True)
    result = models.CharField(max_length=RESULT_LENGTH, blank=True, default="")
    closed_by = models.CharField(max_length=LOGIN_LENGTH, blank=True, default="")
    closed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            # Reports and outcomes read what was closed.
            models.Index(
                fields=["product", "workspace_id", "closed_at"],
                condition=Q(closed_at__isnull=False),
                name="alarm_work_closed",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.signal} of account {self.account_id} since {self.since}: {self.result}"
