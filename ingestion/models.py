"""The inbox, ingestion keys, and the records of processed messages."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from core import trace_context
from core.credentials import HINT_LENGTH
from core.request_ids import MAX_REQUEST_ID_LENGTH
from engagement.models import Credential, Product


def request_id_field() -> "models.CharField[str | None, str | None]":
    """The id of the message's request, or NULL, which takes no space."""
    return models.CharField(max_length=MAX_REQUEST_ID_LENGTH, null=True)


def traceparent_field() -> "models.CharField[str | None, str | None]":
    """The trace that the message's request belongs to, or NULL, which takes no space."""
    return models.CharField(max_length=trace_context.LENGTH, null=True)


class IngestionKey(Credential):
    """A key that the SDKs of a product send with their messages."""

    PREFIX = "edk"


class ForgetKey(Credential):
    """A key that may forget users and accounts of a product, and nothing else."""

    PREFIX = "edf"


class InboxMessage(models.Model):
    """An accepted message that waits to be recorded.

    ``id`` is its place in the order of arrival, from the sequence that all arrivals share.
    ``payload`` is written by ``ingestion.payloads.encode``. ``key_digest`` is that of the message's
    key, valid or not. ``key_hint`` is the start of a key that looks like an ingestion key. A failed
    message waits until ``not_before`` for its next attempt.
    """

    id = models.BigAutoField(primary_key=True)
    received_at = models.DateTimeField()
    key_digest = models.BinaryField(max_length=32)
    key_hint = models.CharField(max_length=HINT_LENGTH, blank=True)
    payload = models.BinaryField()
    attempts = models.PositiveSmallIntegerField(db_default=0, default=0)
    not_before = models.DateTimeField(null=True)
    request_id = request_id_field()
    traceparent = traceparent_field()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"Message {self.id}"


class ClaimedBatch(models.Model):
    """Messages of the inbox that one worker records together, saved before the work starts.

    The transaction that records the messages locks the row and deletes it. An unlocked row belongs
    to an unfinished attempt (``ingestion.drain.claims``). ``attempts`` counts the attempts.
    ``claimed_at`` is when the last one began, or None if no worker has the batch.
    """

    id = models.BigAutoField(primary_key=True)
    message_ids = ArrayField(models.BigIntegerField())
    attempts = models.PositiveSmallIntegerField()
    claimed_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"batch {self.id} of {len(self.message_ids)} messages"


class QuarantinedMessage(models.Model):
    """A message that failed repeatedly, kept for a retry."""

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
    traceparent = traceparent_field()

    class Meta:
        ordering = ["-quarantined_at", "-id"]

    def __str__(self) -> str:
        return f"Message {self.id}"


class DropReason(models.TextChoices):
    """Why a message was not recorded, in words for its senders."""

    UNKNOWN_KEY = "unknown_key", "Unknown key: no product has this ingestion key"
    REVOKED_KEY = "revoked_key", "Revoked key: this ingestion key is no longer valid"
    MISSING_KEY = "missing_key", "Missing key: the request carried no ingestion key"
    DUPLICATE = "duplicate", "Duplicate: a message with this message id was already received"
    FORGOTTEN = (
        "forgotten",
        "Forgotten on request: it names a user or an account that was deleted permanently",
    )
    DELETED_PRODUCT = "deleted_product", "Deleted product: the product of this key was deleted"
    ANONYMOUS = "anonymous", "Anonymous: it names no user"
    ALIAS = "alias", "Alias: its two ids were not joined"
    TOO_MANY_TRAITS = (
        "too_many_traits",
        "Too many traits: there is no room for more of them; the rest was recorded",
    )
    INVALID = "unusable", "Invalid message: it could not be understood"
    READ_TOKEN = "read_token", "Read token: the request carried a read token as its ingestion key"
    EXPIRED_KEY = (
        "expired_key",
        "Expired key: this ingestion key was valid until a date in the past",
    )
    TOO_FAST = "too_fast", "Too fast: the product sent more messages a second than it may"
    DAILY_LIMIT = "daily_limit", "Daily limit: the product sent more messages a day than it may"
    TOO_MANY_NAMES = (
        "too_many_names",
        "Too many event names: the product has no room for one more",
    )
    TOO_MANY_SUBJECTS = (
        "too_many_subjects",
        "Too many users and accounts: the product has no room for one more",
    )
    PLACEHOLDER = "placeholder", "Placeholder: it names an id that stands for nobody"


class DroppedMessage(models.Model):
    """A message that was accepted but not recorded, with the reason. Kept for a limited time."""

    id = models.BigIntegerField(primary_key=True)
    product = models.ForeignKey(Product, null=True, on_delete=models.CASCADE, db_index=False)
    reason = models.CharField(max_length=20, choices=DropReason.choices)
    key_hint = models.CharField(max_length=HINT_LENGTH, blank=True)
    kind = models.CharField(max_length=10)
    user_external_id = models.TextField(blank=True)
    account_external_id = models.TextField(blank=True)
    event = models.TextField(blank=True)
    message_id = models.TextField(blank=True)
    # What is wrong with an invalid message.
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
        return f"Message {self.id}: {DropReason(self.reason).label.partition(':')[0]}"


class DropCount(models.Model):
    """How many messages were dropped for a reason on a UTC day. ``product`` may be unknown."""

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
    """How many messages of an hour were recorded, or dropped for a reason. Kept for some days.

    ``hour`` is the start of the hour of receipt. ``reason`` is empty for recorded messages.
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
            # Retention deletes the oldest.
            models.Index(fields=["hour"], name="hour_count_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.hour} {self.reason or 'recorded'}: {self.count}"


class MinuteCount(models.Model):
    """How many messages of a minute of receipt passed the limits of their product.

    The table is unlogged: counting writes nothing to disk, and a database crash resets the counts.
    """

    pk = models.CompositePrimaryKey("product_id", "minute")
    product = models.ForeignKey(
        Product, on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    minute = models.DateTimeField()
    count = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.minute}: {self.count}"


class RecentMessage(models.Model):
    """One of a product's newest recorded messages, for the ingestion log.

    Each product has a fixed number of slots for each kind of message. A message takes its slot from
    an older one, so the table needs no retention. While many messages arrive, it has a sample.
    """

    pk = models.CompositePrimaryKey("product_id", "kind", "slot")
    product = models.ForeignKey(
        Product, on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    kind = models.CharField(max_length=10)
    slot = models.SmallIntegerField()
    arrival = models.BigIntegerField()
    received_at = models.DateTimeField()
    timestamp = models.DateTimeField()
    user_external_id = models.TextField(blank=True)
    previous_external_id = models.TextField(blank=True)
    account_external_id = models.TextField(blank=True)
    event = models.TextField(blank=True)
    message_id = models.TextField(blank=True)
    # The names of its traits, or of the first of them.
    detail = models.TextField(blank=True)

    def __str__(self) -> str:
        return f"message {self.arrival}"


class RefusedRequest(models.Model):
    """A request with a key of the product that got an error, without its body.

    A product keeps the newest few of each ``code``. ``message`` and ``field`` are those of the
    response, which quotes nothing of the request.
    """

    id = models.BigAutoField(primary_key=True)
    product = models.ForeignKey(
        Product, on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    received_at = models.DateTimeField()
    endpoint = models.CharField(max_length=60)
    kind = models.CharField(max_length=10)
    status = models.PositiveSmallIntegerField()
    code = models.CharField(max_length=40)
    message = models.TextField()
    field = models.CharField(max_length=60, blank=True)
    key_hint = models.CharField(max_length=HINT_LENGTH, blank=True)
    user_agent = models.CharField(max_length=100, blank=True)

    class Meta:
        indexes = [
            models.Index(F("product"), F("code"), F("id").desc(), name="refused_by_code"),
            # Retention deletes the oldest.
            models.Index(fields=["received_at"], name="refused_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.endpoint}: {self.status} {self.code}"


class RefusedCount(models.Model):
    """How many requests of an hour got an error with this code. Kept for some days."""

    pk = models.CompositePrimaryKey("product_id", "hour", "code")
    product = models.ForeignKey(
        Product, on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    hour = models.DateTimeField()
    code = models.CharField(max_length=40)
    count = models.BigIntegerField()

    class Meta:
        indexes = [
            # Retention deletes the oldest.
            models.Index(fields=["hour"], name="refused_count_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.hour} {self.code}: {self.count}"


class SeenMessageId(models.Model):
    """A sender's message id. A duplicate within the retention period has no effect.

    ``seen_at`` is when its message was received, which may be long before it was recorded.
    """

    pk = models.CompositePrimaryKey("product_id", "message_id")
    product = models.ForeignKey(
        Product, on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    message_id = models.CharField(max_length=100)
    seen_at = models.DateTimeField()

    class Meta:
        indexes = [
            # Retention deletes the oldest.
            models.Index(fields=["seen_at"], name="message_id_by_time"),
        ]

    def __str__(self) -> str:
        return self.message_id


class ImportedFile(models.Model):
    """A file of messages and the progress of its import.

    ``digest`` identifies the file (``ingestion.bulk.files.file_digest``). ``position`` is the
    number of its processed bytes, uncompressed. It moves in the transaction that records them, so
    an interrupted import resumes there and counts nothing twice. ``lines`` is the number of lines
    up to it. The other counts are the outcomes of these lines.
    """

    product = models.ForeignKey(Product, on_delete=models.CASCADE, db_index=False)
    digest = models.BinaryField(max_length=32)
    name = models.CharField(max_length=255)
    position = models.BigIntegerField(default=0)
    lines = models.BigIntegerField(default=0)
    recorded = models.BigIntegerField(default=0)
    duplicates = models.BigIntegerField(default=0, db_column="repeated")
    forgotten = models.BigIntegerField(default=0)
    invalid = models.BigIntegerField(default=0, db_column="bad")
    # Lines of other services that are no user's.
    left_out = models.BigIntegerField(default=0, db_default=0)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["product", "digest"], name="one_import_per_file")
        ]

    def __str__(self) -> str:
        return self.name


class IngestionLog(Product):
    """A product in the ingestion log: the admin registers the log's pages with this model."""

    class Meta:
        proxy = True
        verbose_name = "ingestion log"
        verbose_name_plural = "ingestion log"
