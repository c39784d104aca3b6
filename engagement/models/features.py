"""Features: named groups of event names, and which events accounts used, from when until when."""

from django.db import models
from django.db.models.functions import Now

from core.product_keys import ProductForeignKey

FEATURE_NAME_LENGTH = 100
MAX_FEATURES, MAX_EVENTS = 50, 100
# Who did an event in as many days uses it. Who last did it as many days ago has stopped.
USED_WITHIN = 28


class Feature(models.Model):
    """What a product calls some of its events together. An event belongs to one feature at most
    (``EventName.feature``), so that their shares add up."""

    id = models.BigAutoField(primary_key=True)
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    name = models.CharField(max_length=FEATURE_NAME_LENGTH)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["product", "name"], name="feature_name_per_product")
        ]

    def __str__(self) -> str:
        return self.name


class AccountUse(models.Model):
    """The first and the last UTC day on which identified users did an event in an account.

    It is complete for days before ``UsageState.uses_until``.
    """

    pk = models.CompositePrimaryKey("product_id", "account_id", "event_name_id")
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    account = ProductForeignKey(
        "engagement.Account",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    event_name = ProductForeignKey(
        "engagement.EventName",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    first_day = models.DateField()
    last_day = models.DateField()

    class Meta:
        indexes = [
            # Who started to use an event, and who stopped: the page of an event or a feature.
            models.Index(fields=["product", "event_name", "first_day"], name="use_by_first_day"),
            models.Index(fields=["product", "event_name", "last_day"], name="use_by_last_day"),
        ]

    def __str__(self) -> str:
        return f"event {self.event_name_id} of account {self.account_id}"


class LateUse(models.Model):
    """What an account did on *day*, or later, changed when that day was over: the next night counts
    it again. The row of ``NO_ACCOUNT`` says so of the whole product."""

    pk = models.CompositePrimaryKey("product_id", "account_id")
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    account_id = models.BigIntegerField()
    day = models.DateField()

    def __str__(self) -> str:
        return f"account {self.account_id} since {self.day}"


class UsageState(models.Model):
    """How far a product's use of events is counted (``trends.usage``): the first days that are not
    in the uses of its accounts, and in its figures of days. ``counted_on`` is the day at whose
    beginning a night came to its end."""

    product = models.OneToOneField(
        "engagement.Product", on_delete=models.CASCADE, primary_key=True, related_name="usage_state"
    )
    uses_until = models.DateField(null=True)
    figures_until = models.DateField(null=True)
    counted_on = models.DateField(null=True)

    def __str__(self) -> str:
        return f"use of the events of product {self.product_id}"
