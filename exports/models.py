"""Scheduled exports, their runs, and the files that a run has written."""

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from core.fields import EncryptedTextField
from core.models import Run

NAME_LENGTH = 100


class Table(models.TextChoices):
    """What can be exported."""

    ACCOUNTS = "accounts", "Accounts"
    USERS = "users", "Users"
    ACCOUNT_SCORES = "account_scores", "Scores of accounts per day"
    USER_SCORES = "user_scores", "Scores of users per day"
    ACCOUNT_TIMELINES = "account_timelines", "Timelines of accounts"
    USER_TIMELINES = "user_timelines", "Timelines of users"
    LICENSE_EVENTS = "license_events", "License events"
    TRENDS = "trends", "Trends: figures of each day"
    COHORTS = "cohorts", "Cohorts: who stays"
    SEGMENT_MOVES = "segment_moves", "Who entered and left segments"
    USAGE = "usage", "Use of events and features per day"


class Extent(models.TextChoices):
    COMPLETE = "complete", "Everything"
    CHANGES = "changes", "Changes since the last run"


class ScheduledExportManager(models.Manager["ScheduledExport"]):
    def get_queryset(self) -> models.QuerySet["ScheduledExport"]:
        """Leaves the credentials out: only runs need them."""
        return super().get_queryset().defer("access_key_id", "secret_access_key", "password")


class ScheduledExport(models.Model):
    """What to export of a workspace, where to, and when.

    ``cursor`` is where the last run ended (``exports.cursors``), for a run of changes; empty before
    the first run and after an edit that makes another export of it. Nothing is written before a
    test file could be written (``verified_at``). ``next_run_at`` is None without a schedule.
    """

    class Format(models.TextChoices):
        CSV = "csv", "CSV, compressed with gzip"
        PARQUET = "parquet", "Parquet"

    class Schedule(models.TextChoices):
        DAILY = "daily", "Every day"
        WEEKLY = "weekly", "Every week"
        MANUAL = "manual", "By hand"

    class Weekday(models.IntegerChoices):
        MONDAY = 0, "Monday"
        TUESDAY = 1, "Tuesday"
        WEDNESDAY = 2, "Wednesday"
        THURSDAY = 3, "Thursday"
        FRIDAY = 4, "Friday"
        SATURDAY = 5, "Saturday"
        SUNDAY = 6, "Sunday"

    class StoreKind(models.TextChoices):
        S3 = "s3", "S3-compatible store"
        FOLDER = "folder", "Folder of the server"
        POSTGRES = "postgres", "PostgreSQL"

    class Tls(models.TextChoices):
        VERIFIED = "verify-full", "With a verified certificate"
        UNVERIFIED = "require", "With any certificate"
        NONE = "disable", "Without TLS"

    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, related_name="scheduled_exports"
    )
    workspace = models.ForeignKey("engagement.Workspace", on_delete=models.CASCADE)
    # Whose rows it writes; all without both. One that is gone stays named here, so that its export
    # fails and does not write more than before.
    segment = models.ForeignKey(
        "engagement.Segment",
        null=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    view = models.ForeignKey(
        "engagement.SavedView",
        null=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    name = models.CharField(max_length=NAME_LENGTH)
    tables = ArrayField(models.CharField(max_length=20, choices=Table.choices))
    format = models.CharField(max_length=10, choices=Format.choices, default=Format.CSV)
    extent = models.CharField(
        "what", max_length=10, choices=Extent.choices, default=Extent.COMPLETE
    )
    schedule = models.CharField(max_length=10, choices=Schedule.choices, default=Schedule.DAILY)
    hour = models.PositiveSmallIntegerField(
        "hour (UTC)", default=3, validators=[MaxValueValidator(23)]
    )
    weekday = models.PositiveSmallIntegerField(choices=Weekday.choices, default=Weekday.MONDAY)
    is_enabled = models.BooleanField("enabled", default=True)

    store_kind = models.CharField(max_length=10, choices=StoreKind.choices)
    endpoint = models.CharField(max_length=500, blank=True)
    region = models.CharField(max_length=50, blank=True)
    bucket = models.CharField(max_length=100, blank=True)
    # The folder below the product's own one, or the beginning of the keys in a bucket.
    folder = models.CharField(max_length=300, blank=True)
    access_key_id: "models.TextField[str, str]" = EncryptedTextField(default="")
    secret_access_key: "models.TextField[str, str]" = EncryptedTextField(default="")

    # Of a PostgreSQL.
    host = models.CharField(max_length=253, blank=True, db_default="")
    port = models.PositiveIntegerField(
        default=5432, db_default=5432, validators=[MinValueValidator(1), MaxValueValidator(65535)]
    )
    database = models.CharField(max_length=63, blank=True, db_default="")
    schema = models.CharField(max_length=63, blank=True, default="eds", db_default="eds")
    user_name = models.CharField("user", max_length=63, blank=True, db_default="")
    password: "models.TextField[str | None, str | None]" = EncryptedTextField(null=True)
    tls = models.CharField(
        "TLS", max_length=12, choices=Tls.choices, default=Tls.VERIFIED, db_default=Tls.VERIFIED
    )
    ca = models.TextField("certificate authority", blank=True, db_default="")

    cursor = models.JSONField(default=dict, editable=False)
    verified_at = models.DateTimeField(null=True, editable=False)
    next_run_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects: ClassVar[ScheduledExportManager] = ScheduledExportManager()

    class Meta:
        ordering = ["product_id", "name", "id"]
        constraints = [
            models.UniqueConstraint(fields=["product", "name"], name="export_name_per_product"),
            models.CheckConstraint(
                condition=Q(store_kind__in=["s3", "folder", "postgres"]), name="export_store_known"
            ),
            models.CheckConstraint(
                condition=Q(extent__in=["complete", "changes"]), name="export_extent_known"
            ),
            models.CheckConstraint(
                condition=Q(schedule__in=["daily", "weekly", "manual"]),
                name="export_schedule_known",
            ),
            models.CheckConstraint(
                condition=Q(segment=None) | Q(view=None), name="export_of_one_source"
            ),
            # Who leaves a segment or a view leaves no change.
            models.CheckConstraint(
                condition=Q(extent="complete") | Q(segment=None, view=None),
                name="export_of_a_source_is_complete",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_run_at"], condition=Q(next_run_at__isnull=False), name="export_due"
            )
        ]

    def __str__(self) -> str:
        return self.name


class ExportRun(Run):
    """One run of an export.

    ``since`` and ``until`` are cursors; ``since`` is None in a complete run. ``table_number``,
    ``after``, and ``part_number`` are where it resumes: the table, the id after which its next part
    begins, and that part's number. ``complete_because`` says why a run of changes became a complete
    one.
    """

    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, db_constraint=False)
    export = models.ForeignKey(ScheduledExport, on_delete=models.CASCADE, related_name="runs")
    folder = models.CharField(max_length=100, blank=True)
    complete_because = models.TextField(blank=True)
    table_number = models.PositiveSmallIntegerField(default=0)
    part_number = models.PositiveIntegerField(default=1)
    rows = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)
    # About how many rows it will have, None if nobody knows.
    expected_rows = models.BigIntegerField(null=True)
    # Workers of the release before claim runs by these. ``runs.take()`` keeps them away.
    due_at = models.DateTimeField()
    failures = models.PositiveIntegerField(default=0)
    lease = models.UUIDField(null=True)
    leased_until = models.DateTimeField(null=True)

    class Meta(Run.Meta):
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["waiting", "running", "done", "failed", "stopped"]),
                name="export_run_state_known",
            ),
            models.UniqueConstraint(
                fields=["export"],
                condition=Q(state__in=["waiting", "running"]),
                name="one_unfinished_export_run",
            ),
        ]
        indexes = [
            models.Index(
                fields=["due_at"],
                condition=Q(state__in=["waiting", "running"]),
                name="export_run_due",
            ),
            models.Index(fields=["requested_at"], name="export_run_age"),
        ]


class ExportFile(models.Model):
    """A file that a run has written: a part of a table."""

    id = models.BigAutoField(primary_key=True)
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    run = models.ForeignKey(
        ExportRun, on_delete=models.CASCADE, db_constraint=False, related_name="files"
    )
    table = models.CharField(max_length=20, choices=Table.choices)
    name = models.CharField(max_length=100)
    rows = models.BigIntegerField()
    bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    # When reading its rows began; None in runs of an older release.
    read_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["run", "name"], name="one_export_file_per_name"),
        ]

    def __str__(self) -> str:
        return self.name
