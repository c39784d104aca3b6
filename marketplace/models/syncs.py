"""A product's connection to a marketplace, its sync runs, and the imported licenses."""

from typing import Any, ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from core.fields import EncryptedTextField
from engagement.models import Product
from engagement.models.subjects import EXTERNAL_ID_LENGTH

LICENSE_KEY_LENGTH = 200


class Report(models.TextChoices):
    """The way to read a list of licenses. A marketplace that cannot send a long list page by page
    may export it, or send it in parts."""

    PAGES = "pages", "Page by page"
    EXPORT = "export", "As an export"
    DATES = "dates", "By start date"


class ConnectionManager(models.Manager["Connection"]):
    """Defers the credentials: pages need not decrypt what they must not show."""

    def get_queryset(self) -> models.QuerySet["Connection"]:
        return super().get_queryset().defer("api_token", "secret_user_name")


class Connection(models.Model):
    """Connects a product to the licenses of one marketplace app.

    A product without a row is not connected. ``generation`` increases whenever the details are
    replaced or deleted, which shows a sync that it uses older ones. ``state_reason`` is a sentence
    about why the connection is not active. ``app_product_id`` is the marketplace's productId;
    ``developer_id`` and the app's name and key were looked up with it. The last success and error
    are those of syncs; ``full_synced_at`` is when the last successful full sync began.
    """

    class State(models.TextChoices):
        ACTIVE = "active", "Active"
        REQUIRES_AUTHENTICATION = "requires_authentication", "Requires authentication"
        DISCONNECTED = "disconnected", "Disconnected"

    product = models.OneToOneField(
        Product, on_delete=models.CASCADE, related_name="marketplace_connection"
    )
    state = models.CharField(max_length=30, choices=State.choices)
    state_reason = models.TextField(blank=True)
    state_changed_at = models.DateTimeField()
    generation = models.PositiveIntegerField(default=1)
    user_name = models.CharField(max_length=254)
    api_token: "models.TextField[str | None, str | None]" = EncryptedTextField(
        null=True, editable=False
    )
    vendor_id = models.CharField("vendor ID", max_length=20)
    app_product_id = models.UUIDField("product ID")
    developer_id = models.CharField("developer ID", max_length=200, editable=False)
    app_name = models.CharField("app", max_length=300, editable=False)
    app_key = models.CharField(max_length=300, editable=False)
    last_success_at = models.DateTimeField(null=True, editable=False)
    last_error = models.TextField(blank=True, editable=False)
    last_error_at = models.DateTimeField(null=True, editable=False)
    full_synced_at = models.DateTimeField(null=True, editable=False)
    # The last full sync's ``SyncRun.Finding`` for each list; None before the first one.
    lists = models.JSONField(null=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    # ``user_name`` is the part that pages show. A row of an earlier release has all of it there,
    # at least until this time (``marketplace.user_names``).
    secret_user_name: "models.TextField[str | None, str | None]" = EncryptedTextField(
        null=True, editable=False
    )
    plain_user_name_until = models.DateTimeField(null=True, editable=False)
    # As entered with the token; None if nobody said.
    token_expires_on = models.DateField(null=True, editable=False)
    # Whether the licenses of the marketplace's own staff are imported, too.
    includes_staff_licenses = models.BooleanField(default=False, db_default=False, editable=False)

    # How the last successful sync read the lists, and whether it had to request licenses from
    # before and after the first day of data insights separately.
    report = models.CharField(
        max_length=10,
        choices=Report.choices,
        default=Report.PAGES,
        db_default=Report.PAGES,
        editable=False,
    )
    splits_insights = models.BooleanField(default=False, db_default=False, editable=False)
    # Whether the last full sync ended without success.
    is_full_sync_due = models.BooleanField(default=False, db_default=False, editable=False)

    objects: ClassVar[ConnectionManager] = ConnectionManager()

    class Meta:
        verbose_name = "marketplace connection"
        ordering = ["product_id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["active", "requires_authentication", "disconnected"]),
                name="connection_state_allowed",
            ),
            models.CheckConstraint(
                condition=Q(state="disconnected", api_token__isnull=True)
                | (~Q(state="disconnected") & Q(api_token__isnull=False)),
                name="connection_token_until_disconnected",
            ),
            models.CheckConstraint(
                condition=Q(report__in=Report.values), name="connection_report_allowed"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.product} · {self.app_name}"


class SyncRun(models.Model):
    """One sync of licenses, from its request to its end, over any number of attempts.

    It waits until ``due_at``, runs, and waits again if the marketplace is unavailable. It requests
    licenses that were updated on or after the day ``since``, or all of them if that is None. The
    next page is at ``offset`` in the list ``pass_number``; while ``is_closing``, the end of the
    list is read a second time. ``recent_fingerprints`` are those of the last records, so that
    records that are read again are not counted twice. Each claim takes a new ``attempt`` number; a
    worker with an older one writes nothing. ``backoff_count`` and ``crash_count`` count the
    failures in a row since the last progress: an unavailable marketplace and a lost worker.
    """

    class Kind(models.TextChoices):
        FIRST = "first", "First"
        FULL = "full", "Full"
        RECENT = "recent", "Recent changes"

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        RUNNING = "running", "Running"
        SUCCEEDED = "succeeded", "Succeeded"
        FAILED = "failed", "Failed"
        STOPPED = "stopped", "Stopped"

    class Finding(models.TextChoices):
        USED = "used", "Has licenses"
        EMPTY = "empty", "Empty"
        REFUSED = "refused", "Refused"

    UNFINISHED: ClassVar[tuple[State, ...]] = (State.WAITING, State.RUNNING)
    COUNTERS: ClassVar[tuple[str, ...]] = (
        *("pages", "seen", "imported", "unchanged", "skipped", "failed", "without_cloud_id"),
        *("accounts_updated", "accounts_created", "of_other_product", "unlisted"),
    )

    connection = models.ForeignKey(
        Connection, on_delete=models.CASCADE, related_name="runs", db_index=False
    )
    generation = models.PositiveIntegerField()
    kind = models.CharField(max_length=10, choices=Kind.choices)
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    requested_at = models.DateTimeField()
    due_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    since = models.DateField(null=True)

    pass_number = models.PositiveSmallIntegerField(default=0)
    offset = models.PositiveIntegerField(default=0)
    is_closing = models.BooleanField(default=False)
    recent_fingerprints = models.JSONField(default=list, db_column="recent")
    # A full sync's ``Finding`` for each list so far, by the name of the list.
    lists = models.JSONField(null=True)

    attempt = models.PositiveIntegerField(default=0)
    backoff_count = models.PositiveSmallIntegerField(db_column="put_downs", default=0)
    crash_count = models.PositiveSmallIntegerField(db_column="stumbles", default=0)
    # What failed, and what was left out, in sentences for people.
    error = models.TextField(blank=True)
    note = models.TextField(blank=True)

    pages = models.PositiveIntegerField(default=0)
    seen = models.PositiveIntegerField(default=0)
    imported = models.PositiveIntegerField(default=0)
    unchanged = models.PositiveIntegerField(default=0)
    skipped = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    # Included in ``skipped``.
    without_cloud_id = models.PositiveIntegerField("skipped without Cloud ID", default=0)
    accounts_updated = models.PositiveIntegerField(default=0)
    accounts_created = models.PositiveIntegerField(default=0)
    # Included in ``skipped``, too.
    of_other_product = models.PositiveIntegerField(default=0, db_default=0)
    # Licenses that a full sync no longer found.
    unlisted = models.PositiveIntegerField(default=0, db_default=0)

    # How the run reads the lists, and another way that it tries, until that brings a page.
    report = models.CharField(
        max_length=10, choices=Report.choices, default=Report.PAGES, db_default=Report.PAGES
    )
    trial_report = models.CharField(
        max_length=10, choices=Report.choices, blank=True, default="", db_default=""
    )
    # Why it does; ends a sentence, as ``MarketplaceUnavailable.reason`` does.
    trial_reason = models.CharField(max_length=200, blank=True, default="", db_default="")
    splits_insights = models.BooleanField(default=False, db_default=False)
    # The export that is being made or read: a ``run_exports.RequestedExport``.
    export = models.JSONField(null=True)
    # ``progress.ListTotal`` of each list so far, by the name of the list.
    totals = models.JSONField(null=True)
    # A page to recognize if the list goes in circles: a ``progress.PageMarker``.
    page_marker = models.JSONField(null=True)

    class Meta:
        verbose_name = "sync"
        ordering = ["-id"]
        indexes = [
            # A connection's history, newest first.
            models.Index(fields=["connection", "-id"], name="run_history"),
            # Due runs; partial, because nearly all runs are finished.
            models.Index(
                fields=["due_at"], name="run_due", condition=Q(state__in=["waiting", "running"])
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["first", "full", "recent"]), name="run_kind_allowed"
            ),
            models.CheckConstraint(
                condition=Q(state__in=["waiting", "running"], finished_at__isnull=True)
                | Q(state__in=["succeeded", "failed", "stopped"], finished_at__isnull=False),
                name="run_finished_when_over",
            ),
            # One run per connection at a time.
            models.UniqueConstraint(
                fields=["connection"],
                condition=Q(state__in=["waiting", "running"]),
                name="one_unfinished_run_per_connection",
            ),
            models.CheckConstraint(
                condition=Q(seen=F("imported") + F("unchanged") + F("skipped") + F("failed")),
                name="run_counters_add_up",
            ),
            models.CheckConstraint(
                condition=Q(without_cloud_id__lte=F("skipped")), name="run_skips_include_cloud_id"
            ),
            models.CheckConstraint(
                condition=Q(report__in=Report.values), name="run_report_allowed"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} sync of {self.requested_at:%Y-%m-%d %H:%M}"

    @property
    def is_over(self) -> bool:
        return self.state not in self.UNFINISHED


class FailedRecord(models.Model):
    """An invalid record of a sync. Each sync stores the first ones and counts all."""

    run = models.ForeignKey(SyncRun, on_delete=models.CASCADE, related_name="failed_records")
    license_key = models.CharField(max_length=LICENSE_KEY_LENGTH, blank=True)
    reason = models.TextField()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.license_key or "a license without a key"


class License(models.Model):
    """An imported license. An account's traits come from its best license.

    ``fields`` maps the paths of the imported fields to their values as received, without contact
    persons. An unchanged license has the same ``digest``. ``run_id`` is the sync that last wrote
    it. ``unlisted_since`` is when a full sync first did not find it.

    A multi-instance license has an empty ``cloud_id``; the licenses of its sites name it in
    ``parent_key``, by its number or its id.
    """

    pk: Any = models.CompositePrimaryKey("product_id", "key")
    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="+", db_index=False)
    key = models.CharField(max_length=LICENSE_KEY_LENGTH)
    cloud_id = models.CharField(max_length=EXTERNAL_ID_LENGTH)
    fields = models.JSONField()
    digest = models.BinaryField(max_length=16)
    run_id = models.BigIntegerField()
    unlisted_since = models.DateTimeField(null=True)
    parent_key = models.CharField(
        max_length=LICENSE_KEY_LENGTH, blank=True, default="", db_default=""
    )

    class Meta:
        indexes = [
            # All licenses of an account, to choose the best one.
            models.Index(fields=["product", "cloud_id"], name="license_account"),
            # The sites of a multi-instance license; partial, because few licenses have a parent.
            models.Index(
                fields=["product", "parent_key"],
                name="license_parent",
                condition=Q(parent_key__gt=""),
            ),
        ]

    def __str__(self) -> str:
        return self.key


class SeenLicenses(models.Model):
    """The keys of licenses that a run found unchanged, one row for each of its transactions.

    Writing the run's number into each unchanged license would cost more. Deleted when the run
    ends.
    """

    run = models.ForeignKey(SyncRun, on_delete=models.CASCADE, related_name="seen_licenses")
    keys = ArrayField(models.CharField(max_length=LICENSE_KEY_LENGTH))

    def __str__(self) -> str:
        return f"{len(self.keys)} licenses"


class PendingLicense(models.Model):
    """A row that loses against the stored license, which the run has not found yet.

    At the end of the run it replaces the stored license if the run did not find that; otherwise it
    is a duplicate.
    """

    run = models.ForeignKey(
        SyncRun, on_delete=models.CASCADE, related_name="pending_licenses", db_index=False
    )
    key = models.CharField(max_length=LICENSE_KEY_LENGTH)
    cloud_id = models.CharField(max_length=EXTERNAL_ID_LENGTH)
    fields = models.JSONField()
    digest = models.BinaryField(max_length=16)

    class Meta:
        constraints = [
            # Ignores a row that comes again. Queries also search by run and key.
            models.UniqueConstraint(fields=["run", "key", "digest"], name="pending_row_once"),
        ]

    def __str__(self) -> str:
        return self.key
