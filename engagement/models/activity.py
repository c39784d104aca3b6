"""What users did: events, and the daily counts that every engagement metric derives from."""

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import OuterRef, Subquery
from django.db.models.functions import Greatest

from core.product_keys import ProductForeignKey

EVENT_NAME_LENGTH = 256
NO_ACCOUNT = 0
NO_USER = 0


class EventName(models.Model):
    """An event name of a product, numbered so that the large tables hold small integers.

    ``done_by`` is an identified user who did it, ``NO_USER`` if there is none, and None before the
    first search for one. ``feature`` is the feature that it belongs to, if any.
    """

    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, db_index=False)
    name = models.CharField(max_length=EVENT_NAME_LENGTH)
    done_by = models.BigIntegerField(null=True, db_default=NO_USER)
    feature = ProductForeignKey(
        "engagement.Feature",
        null=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="events",
    )

    class Meta:
        ordering = ["name"]
        indexes = [
            # Rescoring checks whether there are any; there are few.
            models.Index(
                fields=["product"], condition=models.Q(done_by=NO_USER), name="event_name_not_done"
            )
        ]
        constraints = [
            models.UniqueConstraint(fields=["product", "name"], name="event_name_per_product")
        ]

    def __str__(self) -> str:
        return self.name


class Event(models.Model):
    """One event of one user. Append-only, partitioned by week of ``occurred_at``.

    ``arrival`` is the message's place in the order of arrival. Until its week is packed, recording
    a message twice violates the key. ``account`` is the one that the user was in when the event
    happened. ``id_number`` is the number of the id that it came with (``User.id_number``), None for
    that of the user's row.
    """

    pk = models.CompositePrimaryKey("product_id", "user_id", "occurred_at", "arrival")
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    user = ProductForeignKey(
        "engagement.User", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    account = ProductForeignKey(
        "engagement.Account",
        null=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
    )
    event_name = ProductForeignKey(
        EventName, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    occurred_at = models.DateTimeField()
    received_at = models.DateTimeField()
    arrival = models.BigIntegerField()
    id_number = models.BigIntegerField(null=True)

    class Meta:
        indexes = [
            # The ingestion log reads recent events. Rows lie in the order of receipt, so a few
            # bytes per range of pages suffice, and recording hardly pays for them.
            BrinIndex(
                fields=["received_at"],
                name="event_by_receipt",
                autosummarize=True,
                pages_per_range=32,
            ),
        ]

    def __str__(self) -> str:
        return f"event {self.arrival} of user {self.user_id}"


class DailyCount(models.Model):
    """How often a user did an event in an account on a UTC day, and when last.

    ``account_id`` is 0 (``NO_ACCOUNT``) without an account: a key cannot contain NULL.
    """

    pk = models.CompositePrimaryKey("product_id", "user_id", "day", "event_name_id", "account_id")
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    user = ProductForeignKey(
        "engagement.User", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    account_id = models.BigIntegerField(default=NO_ACCOUNT)
    event_name = ProductForeignKey(
        EventName, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    day = models.DateField()
    count = models.IntegerField()
    last_at = models.DateTimeField()

    class Meta:
        indexes = [
            # Rescoring sums an account's window.
            models.Index(fields=["product", "account_id", "day"], name="daily_count_by_account"),
            # The day rollover finds who was active on the day that leaves a window. Rows come in
            # the order of days, so a few bytes per range of pages suffice. A B-tree would also
            # tempt the planner away from the key when its statistics are old.
            BrinIndex(
                fields=["day"], name="daily_count_by_day", autosummarize=True, pages_per_range=32
            ),
        ]

    def __str__(self) -> str:
        return f"{self.count} × {self.event_name_id} by user {self.user_id} on {self.day}"


def last_seen(product_id: int, path: str = "") -> Greatest:
    """When the users of the product to whom *path* leads were seen last, for their querysets.

    The row has the time of the last message that names the user, and of a first event of each day.
    """
    counts = DailyCount.objects.filter(product_id=product_id, user_id=OuterRef(f"{path}id"))
    latest = counts.order_by("-day", "-last_at").values("last_at")[:1]
    return Greatest(f"{path}last_seen_at", Subquery(latest))
