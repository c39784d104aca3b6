"""The license ledger: what syncs and reports have shown of each license, and what follows from it.

No table has contact persons, companies, or messages of customers.
"""

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.functions import Concat

from engagement.models import Product
from engagement.models.subjects import EXTERNAL_ID_LENGTH
from marketplace.models.syncs import LICENSE_KEY_LENGTH

_NAME_LENGTH = LICENSE_KEY_LENGTH


class Ledger(models.Model):
    """The ledger of a product. ``revision`` increases with each write of events.

    ``looked_at`` is when the last full sync began that found or marked every license: a license
    that is listed was then as its latest observation says. ``filled_at`` is when the events of the
    first import were complete; events before it are not announced. With ``needs_fill``, stored
    licenses may lack their first observation.
    """

    product = models.OneToOneField(
        Product, on_delete=models.CASCADE, related_name="+", primary_key=True
    )
    revision = models.BigIntegerField(default=0, db_default=0)
    looked_at = models.DateTimeField(null=True)
    filled_at = models.DateTimeField(null=True)
    needs_fill = models.BooleanField(default=True, db_default=True)

    def __str__(self) -> str:
        return f"Ledger of product {self.product_id}"


class LedgerLicense(models.Model):
    """A license in the ledger, by the key under which it was first met.

    ``key`` and ``cloud_id`` are its present ones, and ``as_of`` and ``digest`` those of its latest
    observation. ``facts`` are fields that only some rows have and none takes back. ``links`` are
    what it shares with licenses whose events may depend on it: sites, purchasers, and ids.
    ``listings`` are the days on which it left the reports (false) and returned to them (true).

    It ``is_new`` if a sync met it after the first import: no earlier state is missing. It
    ``has_history`` if the marketplace's own history shows each of its states. ``seen_at`` is when a
    sync that could not look for every license last found it unchanged.

    Its events are computed again when it is ``stale``, and when a sync has looked on or after its
    ``deadline``.
    """

    class Stale(models.IntegerChoices):
        NO = 0, "No"
        LINKED = 1, "A linked license changed"
        CHANGED = 2, "Something about it is new"

    pk: Any = models.CompositePrimaryKey("product_id", "license")
    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="+", db_index=False)
    license = models.CharField(max_length=_NAME_LENGTH)
    key = models.CharField(max_length=_NAME_LENGTH)
    cloud_id = models.CharField(max_length=EXTERNAL_ID_LENGTH, blank=True)
    as_of = models.DateField()
    digest = models.BinaryField(max_length=16)
    facts = models.JSONField(default=dict)
    links = ArrayField(models.TextField(), default=list)
    listings = models.JSONField(default=list)
    is_new = models.BooleanField(default=False)
    has_history = models.BooleanField(default=False, db_default=False)
    seen_at = models.DateTimeField(null=True)
    stale = models.PositiveSmallIntegerField(choices=Stale.choices, default=Stale.CHANGED)
    deadline = models.DateField(null=True)

    class Meta:
        indexes = [
            # The licenses of an account.
            models.Index(fields=["product", "cloud_id"], name="ledger_account"),
            # Those that share a link. Without the list of pending entries, with each of which a
            # search compares thousands of links; so do those below.
            GinIndex(fields=["links"], name="ledger_links", fastupdate=False),
            # What the job has to do; partial, because nearly all licenses rest.
            models.Index(
                fields=["product", "license"], name="ledger_stale", condition=Q(stale__gt=0)
            ),
            models.Index(
                fields=["product", "deadline"],
                name="ledger_deadline",
                condition=Q(deadline__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.license


class LicenseAlias(models.Model):
    """An id of a license: its entitlement's number or id, or one of its older ids."""

    pk: Any = models.CompositePrimaryKey("product_id", "name")
    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="+", db_index=False)
    name = models.CharField(max_length=_NAME_LENGTH)
    license = models.CharField(max_length=_NAME_LENGTH)

    class Meta:
        indexes = [
            # The ids of a license, to find its transactions.
            models.Index(fields=["product", "license"], name="alias_license")
        ]

    def __str__(self) -> str:
        return self.name


class Observation(models.Model):
    """A state in which a license was seen. Rows are only added.

    The state was true on the day ``as_of``, and was seen from ``first_seen`` to ``last_seen``.
    That of the latest observation moves on with ``Ledger.looked_at``, without a write.
    """

    class Source(models.TextChoices):
        SYNC = "sync", "Sync"
        HISTORY = "history", "The marketplace's history"

    pk: Any = models.CompositePrimaryKey("product_id", "license", "as_of", "digest")
    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="+", db_index=False)
    license = models.CharField(max_length=_NAME_LENGTH)
    as_of = models.DateField()
    digest = models.BinaryField(max_length=16)
    fields = models.JSONField()
    first_seen = models.DateTimeField()
    last_seen = models.DateTimeField()
    source = models.CharField(max_length=10, choices=Source.choices)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(source__in=["sync", "history"]), name="observation_source_allowed"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.license} on {self.as_of}"


class Transaction(models.Model):
    """A line of an order, by the ids of the order and the line.

    ``names`` are the ids of its license, and ``fields`` what events need of it
    (``marketplace.licenses.report_rows``).
    """

    pk: Any = models.CompositePrimaryKey("product_id", "transaction_id", "line_item_id")
    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="+", db_index=False)
    transaction_id = models.CharField(max_length=200)
    line_item_id = models.CharField(max_length=200)
    names = ArrayField(models.CharField(max_length=_NAME_LENGTH))
    sale_date = models.DateField(null=True)
    fields = models.JSONField()
    digest = models.BinaryField(max_length=16)
    recorded_at = models.DateTimeField()

    class Meta:
        indexes = [
            # The transactions of a license.
            GinIndex(fields=["names"], name="transaction_license", fastupdate=False)
        ]

    def __str__(self) -> str:
        return f"{self.transaction_id} / {self.line_item_id}"


class Feedback(models.Model):
    """Why a customer left, as the customer chose from a list; without the message."""

    pk: Any = models.CompositePrimaryKey("product_id", "digest")
    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="+", db_index=False)
    digest = models.BinaryField(max_length=16)
    names = ArrayField(models.CharField(max_length=_NAME_LENGTH))
    date = models.DateField()
    type = models.CharField(max_length=50)
    reason_key = models.CharField(max_length=100, blank=True)
    reason = models.CharField(max_length=500, blank=True)
    recorded_at = models.DateTimeField()

    class Meta:
        indexes = [
            # The feedback on a license.
            GinIndex(fields=["names"], name="feedback_license", fastupdate=False)
        ]

    def __str__(self) -> str:
        return f"{self.type} on {self.date}"


# Orders events of one moment, for cursors, which have only numbers.
EVENT_ID_HASH = Func(
    Concat("license", Value(" "), "type", Value(" "), "anchor", output_field=models.TextField()),
    Value(0),
    function="hashtextextended",
    output_field=models.BigIntegerField(),
).bitand(2**63 - 1)


class LicenseEvent(models.Model):
    """What happened to a license, as it follows from everything known.

    ``date`` is when it was true, and ``known_on`` the first day on which there was evidence. The
    ``anchor`` is a fact that corrections do not move, so a correction changes the row. An event
    that no longer follows is withdrawn, not deleted. It ``is_announced`` if people are notified
    of it, and then of its withdrawal. ``changed_at`` is the last write of the row.
    """

    pk: Any = models.CompositePrimaryKey("product_id", "license", "type", "anchor")
    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="+", db_index=False)
    license = models.CharField(max_length=_NAME_LENGTH)
    type = models.CharField(max_length=30)
    anchor = models.CharField(max_length=200, blank=True)
    cloud_id = models.CharField(max_length=EXTERNAL_ID_LENGTH, blank=True)
    date = models.DateField()
    known_on = models.DateField()
    details = models.JSONField()
    sources = ArrayField(models.CharField(max_length=20))
    recorded_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    withdrawn_at = models.DateTimeField(null=True)
    is_announced = models.BooleanField(default=False)

    class Meta:
        indexes = [
            # An account's timeline.
            models.Index(fields=["product", "cloud_id", "date"], name="license_event_account"),
            # A product's events by month.
            models.Index(fields=["product", "type", "date"], name="license_event_type"),
            # All events of a product, the latest first, page by page.
            models.Index(F("product"), F("date"), EVENT_ID_HASH, name="license_event_date"),
            # What changed since a reader's last look, page by page.
            models.Index(
                F("product"), F("changed_at"), EVENT_ID_HASH, name="license_event_changed"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.type} of {self.license} on {self.date}"


class MetricEvent(models.Model):
    """An event of a license as the marketplace counts it, to compare with ours and for nothing
    else.

    The license has these ``names``, of which ``name`` is the first. ``months`` is how long it was
    valid, if the marketplace says so. ``seen_at`` is when the reading began that last had it.
    """

    class Metric(models.TextChoices):
        CHURN = "churn", "Churn"
        CONVERSION = "conversion", "Conversions"
        RENEWAL = "renewal", "Renewals"

    # In the order in which pages read a metric's months.
    pk: Any = models.CompositePrimaryKey("product_id", "metric", "date", "name")
    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="+", db_index=False)
    metric = models.CharField(max_length=20, choices=Metric.choices)
    date = models.DateField()
    name = models.CharField(max_length=_NAME_LENGTH)
    names = ArrayField(models.CharField(max_length=_NAME_LENGTH))
    cloud_id = models.CharField(max_length=EXTERNAL_ID_LENGTH, blank=True)
    months = models.PositiveSmallIntegerField(null=True)
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(metric__in=["churn", "conversion", "renewal"]), name="metric_allowed"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.metric} of {self.name} on {self.date}"
