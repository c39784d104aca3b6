"""The durable inbox, the keys that open it, and the record of what was not recorded."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from engagement.core.credentials import HINT_LENGTH
from engagement.core.request_ids import MAX_REQUEST_ID_LENGTH
from engagement.models import Credential, Product


def request_id_field() -> "models.CharField[str | None, str | None]":
    """The id of the request that a message came with; NULL, which takes no room, where it had
    none."""
    return models.CharField(max_length=MAX_REQUEST_ID_LENGTH, null=True)


class IngestionKey(Credential):
    """A key that SDKs of one product send with their messages."""

    PREFIX = "edk"


class InboxMessage(models.Model):
    """An accepted message that waits to be recorded.

    ``id`` is its place in the order of arrival, from the sequence that all arrivals share.
    ``payload`` is the message as ``ingestion.payloads.encode`` wrote it. ``key_digest`` stands
    for the key it came with, valid or not; ``key_hint`` is the start of a key that looks like one
    of ours. A message that failed waits until ``not_before`` for its next attempt.
    """

    id = models.BigAutoField(primary_key=True)
    received_at = models.DateTimeField()
    key_digest = models.BinaryField(max_length=32)
    key_hint = models.CharField(max_length=HINT_LENGTH, blank=True)
    payload = models.BinaryField()
    attempts = models.PositiveSmallIntegerField(db_default=0, default=0)
    not_before = models.DateTimeField(null=True)
    request_id = request_id_field()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"message {self.id}"


class ClaimedBatch(models.Model):
    """Messages of the inbox that one worker records together, noted before the work starts.

    The row is deleted in the transaction that records its messages, and locked until then. A row
    that nobody locks belongs to an attempt that did not survive (``ingestion.drain.claims``).
    ``attempts`` is how often the batch was begun. ``claimed_at`` is when it was begun last, None
    where nobody works on it.
    """

    id = models.BigAutoField(primary_key=True)
    message_ids = ArrayField(models.BigIntegerField())
    attempts = models.PositiveSmallIntegerField()
    claimed_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"batch {self.id} of {len(self.message_ids)} messages"


class QuarantinedMessage(models.Model):
    """A message that could not be recorded in several attempts, kept to be tried again."""

    id = models.BigIntegerField(primary_key=True)
    product = models.ForeignKey(Product, null=True, on_delete=models.CASCADE)
    received_at = models.DateTimeField()
    key_digest = models.BinaryField(max_length=32)
    key_hint = models.CharField(max_length=HINT_LENGTH, blank=True)
    payload = models.BinaryField()
    attempts = models.PositiveSmallIntegerField()
    error = models.TextField()
    quarantined_at = models.DateTimeField()
    request_id = request_id_field()

    class Meta:
        ordering = ["-quarantined_at", "-id"]

    def __str__(self) -> str:
        return f"message {self.id}"


class DropReason(models.TextChoices):
    """Why a message was not recorded, in words for the people who sent it."""

    UNKNOWN_KEY = "unknown_key", "Unknown key: no product has this ingestion key"
    REVOKED_KEY = "revoked_key", "Revoked key: this ingestion key is no longer valid"
    MISSING_KEY = "missing_key", "Missing key: the request carried no ingestion key"
    DUPLICATE = "duplicate", "Duplicate: a message with this message id was already received"
    FORGOTTEN = (
        "forgotten",
        "Forgotten on request: it names a user or an account that was deleted for good",
    )
    DELETED_PRODUCT = "deleted_product", "Deleted product: the product of this key was deleted"
    ANONYMOUS = "anonymous", "Anonymous: it names no user"
    ALIAS = "alias", "Alias: joining the ids of one person is not supported"
    TOO_MANY_TRAITS = (
        "too_many_traits",
        "Too many traits: the user or account has no room for more; the rest was recorded",
    )
    UNUSABLE = "unusable", "Unusable message: it could not be understood"


class DroppedMessage(models.Model):
    """A message that was accepted and not recorded, with the reason. Kept for a bounded time."""

    id = models.BigIntegerField(primary_key=True)
    product = models.ForeignKey(Product, null=True, on_delete=models.CASCADE, db_index=False)
    reason = models.CharField(max_length=20, choices=DropReason.choices)
    key_hint = models.CharField(max_length=HINT_LENGTH, blank=True)
    kind = models.CharField(max_length=10)
    user_external_id = models.TextField(blank=True)
    account_external_id = models.TextField(blank=True)
    event = models.TextField(blank=True)
    message_id = models.TextField(blank=True)
    # What is wrong with an unusable message.
    detail = models.TextField(blank=True, default="", db_default="")
    received_at = models.DateTimeField()
    dropped_at = models.DateTimeField()
    request_id = request_id_field()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(reason__in=DropReason.values), name="dropped_reason_known"
            )
        ]
        indexes = [
            # The admin lists the newest of a product, and retention trims the oldest.
            models.Index(F("product"), F("dropped_at").desc(), name="dropped_by_product"),
            models.Index(fields=["dropped_at"], name="dropped_by_time"),
        ]

    def __str__(self) -> str:
        return f"message {self.id}: {self.get_reason_display()}"


class DropCount(models.Model):
    """How many messages were dropped for a reason on a UTC day; product None where unknown."""

    product = models.ForeignKey(Product, null=True, on_delete=models.CASCADE)
    day = models.DateField()
    reason = models.CharField(max_length=20, choices=DropReason.choices)
    count = models.BigIntegerField()

    class Meta:
        ordering = ["-day", "reason"]
        constraints = [
            models.UniqueConstraint(
                fields=["product", "day", "reason"],
                name="one_drop_count",
                nulls_distinct=False,
            )
        ]

    def __str__(self) -> str:
        return f"{self.day} {self.reason}: {self.count}"


class HourCount(models.Model):
    """How many of a product's messages that were received in an hour were recorded or, with a
    reason, dropped. Kept for some days: for the last day at a glance.

    ``hour`` is when the hour begins; ``reason`` is empty where they were recorded.
    """

    pk = models.CompositePrimaryKey("product_id", "hour", "reason")
    product = models.ForeignKey(
        Product, on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    hour = models.DateTimeField()
    reason = models.CharField(max_length=20, choices=DropReason.choices, blank=True)
    count = models.BigIntegerField()

    class Meta:
        indexes = [
            # Retention forgets the old ones.
            models.Index(fields=["hour"], name="hour_count_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.hour} {self.reason or 'recorded'}: {self.count}"


class SeenMessageId(models.Model):
    """A message id that a sender named; a repeat within seven days takes no effect.

    ``seen_at`` is when the message that carried it was received, which may be long before it was
    recorded.
    """

    pk = models.CompositePrimaryKey("product_id", "message_id")
    product = models.ForeignKey(
        Product, on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    message_id = models.CharField(max_length=100)
    seen_at = models.DateTimeField()

    class Meta:
        indexes = [
            # Retention forgets the old ones.
            models.Index(fields=["seen_at"], name="message_id_by_time"),
        ]

    def __str__(self) -> str:
        return self.message_id


class ImportedFile(models.Model):
    """A file of messages, and how far its import has come.

    ``digest`` stands for the file (``ingestion.bulk.files.file_digest``). ``position`` is the
    number of its bytes, uncompressed, that are settled; it moves in the transaction that records
    them, so that an interrupted import goes on there and counts nothing twice. ``lines`` is the
    number of lines up to it, and the other figures are what became of them; ``bad`` ones could not
    be used.
    """

    product = models.ForeignKey(Product, on_delete=models.CASCADE, db_index=False)
    digest = models.BinaryField(max_length=32)
    name = models.CharField(max_length=255)
    position = models.BigIntegerField(default=0)
    lines = models.BigIntegerField(default=0)
    recorded = models.BigIntegerField(default=0)
    repeated = models.BigIntegerField(default=0)
    forgotten = models.BigIntegerField(default=0)
    bad = models.BigIntegerField(default=0)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["product", "digest"], name="one_import_per_file")
        ]

    def __str__(self) -> str:
        return self.name


class IngestionLog(Product):
    """A product as the ingestion log is about it; the admin's pages hang on it."""

    class Meta:
        proxy = True
        verbose_name = "ingestion log"
        verbose_name_plural = "ingestion log"
