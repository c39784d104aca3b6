"""Record destinations: CRMs whose records get values of users or accounts, and what was sent."""

from typing import ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from core.fields import EncryptedTextField
from core.models import Run
from engagement.models.subjects import EXTERNAL_ID_LENGTH

REMOTE_ID_LENGTH = 100


class Vendor(models.TextChoices):
    HUBSPOT = "hubspot", "HubSpot"
    SALESFORCE = "salesforce", "Salesforce"


class Rule(models.TextChoices):
    """What a field of a record gets."""

    CLEAR = "clear", "Ours, and nothing if we have nothing"
    LEAVE = "leave", "Ours, but keep theirs if we have nothing"
    FILL = "fill", "Ours, only while theirs is empty"


class RecordDestinationManager(models.Manager["RecordDestination"]):
    def get_queryset(self) -> models.QuerySet["RecordDestination"]:
        """Leaves the key out: only requests need it."""
        return super().get_queryset().defer("key")


class RecordDestination(models.Model):
    """A CRM, which records of it belong to users or accounts, and what they get.

    ``match`` is a list of ``{"source", "field"}``: a record belongs to a subject if its field has
    the source's value. The first pair that finds any decides. ``mapping`` is a list of ``{"source",
    "field", "rule"}``. ``fields`` are those of the vendor, as last read. ``id_field`` holds our
    tracking_id, and is unique there: a mode that creates needs it. ``cursor`` is where the last run
    of changes ended (``destinations.runs``), empty before the first one and after an edit.
    ``calls`` are the requests of the UTC day ``calls_on``. ``key`` is the secret.
    """

    class Scope(models.TextChoices):
        ACCOUNT = "account", "Accounts"
        USER = "user", "Users"

    class Mode(models.TextChoices):
        UPDATE = "update", "Update records only"
        CREATE = "create", "Update records, and create those that are missing"

    class State(models.TextChoices):
        DRAFT = "draft", "Not started"
        ACTIVE = "active", "Active"
        PAUSED = "paused", "Paused"

    class Interval(models.IntegerChoices):
        QUARTER = 15, "15 minutes"
        HOUR = 60, "1 hour"
        DAY = 1440, "1 day"

    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE)
    workspace = models.ForeignKey("engagement.Workspace", on_delete=models.CASCADE)
    vendor = models.CharField("CRM", max_length=20, choices=Vendor.choices)
    scope = models.CharField("what", max_length=7, choices=Scope.choices, default=Scope.ACCOUNT)
    key: "models.TextField[str, str]" = EncryptedTextField(default="")
    # Of Salesforce alone: where a customer's API is, and which app of theirs the key belongs to.
    host = models.CharField("My Domain", max_length=255, blank=True, db_default="", default="")
    client_id = models.CharField(
        "consumer key", max_length=255, blank=True, db_default="", default=""
    )
    mode = models.CharField(max_length=10, choices=Mode.choices, default=Mode.UPDATE)
    id_field = models.CharField("field of our id", max_length=100, blank=True)
    match = models.JSONField(default=list, editable=False)
    mapping = models.JSONField(default=list, editable=False)
    fields = models.JSONField(default=list, editable=False)
    points = models.FloatField(
        "least move of a score (points)",
        default=1,
        validators=[MinValueValidator(0), MaxValueValidator(100)],
    )
    interval = models.PositiveSmallIntegerField(
        "at most every", choices=Interval.choices, default=Interval.QUARTER
    )
    quota_share = models.PositiveSmallIntegerField(
        "share of the daily quota (%)",
        default=20,
        validators=[MinValueValidator(1), MaxValueValidator(80)],
    )
    clears_forgotten = models.BooleanField("clear the fields of who is forgotten", default=True)
    # Of this service, for links in records.
    base_url = models.CharField(max_length=300, editable=False)

    state = models.CharField(
        max_length=10, choices=State.choices, default=State.DRAFT, editable=False
    )
    pause_reason = models.TextField(blank=True, editable=False)
    cursor = models.JSONField(default=dict, editable=False)
    next_run_at = models.DateTimeField(null=True, editable=False)
    compared_at = models.DateTimeField(null=True, editable=False)
    calls_on = models.DateField(null=True, editable=False)
    calls = models.PositiveIntegerField(default=0, editable=False)
    # As the vendor said last; None before it did.
    daily_limit = models.PositiveIntegerField(null=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects: ClassVar[RecordDestinationManager] = RecordDestinationManager()

    class Meta:
        verbose_name, verbose_name_plural = "CRM", "CRMs"
        ordering = ["product_id", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["draft", "active", "paused"]),
                name="record_destination_state_known",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_run_at"],
                condition=Q(next_run_at__isnull=False),
                name="record_destination_due",
            )
        ]

    def __str__(self) -> str:
        return f"{self.get_vendor_display()} {self.get_scope_display().lower()} · {self.workspace}"


class RecordRun(Run):
    """One run of a destination. ``sample`` has the first changes of a dry run."""

    class Kind(models.TextChoices):
        CHANGES = "changes", "Changes"
        COMPARE = "compare", "Comparison of all"
        DRY = "dry", "Dry run"
        RETRY = "retry", "Retry of rejected rows"

    COUNTERS: ClassVar[tuple[str, ...]] = (
        *("updated", "created", "unchanged", "skipped", "ambiguous", "rejected"),
    )

    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, db_constraint=False)
    destination = models.ForeignKey(
        RecordDestination, on_delete=models.CASCADE, related_name="runs"
    )
    kind = models.CharField(max_length=10, choices=Kind.choices)
    updated = models.PositiveIntegerField(default=0)
    created = models.PositiveIntegerField(default=0)
    unchanged = models.PositiveIntegerField(default=0)
    skipped = models.PositiveIntegerField(default=0)
    ambiguous = models.PositiveIntegerField(default=0)
    rejected = models.PositiveIntegerField(default=0)
    calls = models.PositiveIntegerField(default=0)
    sample = models.JSONField(default=list)

    class Meta(Run.Meta):
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["waiting", "running", "done", "failed", "stopped"]),
                name="record_run_state_known",
            ),
            models.UniqueConstraint(
                fields=["destination"],
                condition=Q(state__in=["waiting", "running"]),
                name="one_unfinished_record_run",
            ),
        ]
        indexes = [models.Index(fields=["requested_at"], name="record_run_age")]

    @property
    def total(self) -> int:
        """The number of subjects that it looked at."""
        return sum(getattr(self, name) for name in self.COUNTERS)


class RecordLink(models.Model):
    """Which record belongs to a user or an account, and what it was sent.

    ``tried`` are the values by which a record was last looked for. ``last_sent`` has our value of
    each mapped field: what the record has, but for scores that moved too little. ``run`` is the
    last run that decided something about it.
    """

    class State(models.TextChoices):
        LINKED = "linked", "Linked"
        UNMATCHED = "unmatched", "No record"
        AMBIGUOUS = "ambiguous", "Ambiguous"
        REJECTED = "rejected", "Rejected"
        # The subject is gone, and the record's fields are still to be cleared.
        FORGOTTEN = "forgotten", "Forgotten"

    id = models.BigAutoField(primary_key=True)
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    destination = models.ForeignKey(
        RecordDestination, on_delete=models.CASCADE, related_name="links", db_index=False
    )
    subject_id = models.BigIntegerField(null=True)
    external_id = models.CharField(max_length=EXTERNAL_ID_LENGTH)
    remote_id = models.CharField(max_length=REMOTE_ID_LENGTH, blank=True)
    matched_by = models.CharField(max_length=250, blank=True)
    tried = models.JSONField(default=list)
    last_sent = models.JSONField(default=dict)
    sent_at = models.DateTimeField(null=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.UNMATCHED)
    error = models.TextField(blank=True)
    run = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            # Also for the pages of a run, which list by state.
            models.UniqueConstraint(
                fields=["destination", "subject_id"], name="one_record_link_of_a_subject"
            ),
            models.UniqueConstraint(
                fields=["destination", "remote_id"],
                condition=~Q(remote_id=""),
                name="one_subject_of_a_record",
            ),
        ]
        indexes = [
            # Forgetting finds a subject's links by it.
            models.Index(fields=["product", "external_id"], name="record_link_external_id"),
            models.Index(
                fields=["destination", "state", "subject_id"],
                condition=~Q(state="linked"),
                name="record_link_not_linked",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.external_id} as {self.remote_id or 'no record'}"
