"""What became of licenses, as it follows from their ledger."""

from django.db import models
from django.db.models import Q

from engagement.models import Product
from engagement.models.subjects import EXTERNAL_ID_LENGTH


class LicenseOutcome(models.Model):
    """What became of a term or an evaluation of a license, or why it is left out.

    ``day`` is the day on which the term or the evaluation ends, and ``decided_on`` when it was
    decided: the day of the purchase, of the churn, or of the renewal. Both ``known_on`` and
    ``decided_on`` are None while nobody knows. ``answered_on`` is a day before ``day`` on which the
    customer had said it. ``seats`` are those of its last state, and ``cents`` what it cost in US
    cents, if known. ``earlier_seats`` has the seats that it had before, oldest first, each with the
    first day on which it had others; None if it had the same all the time. The rows of a license
    are written with its events.
    """

    pk = models.CompositePrimaryKey("product_id", "license", "kind", "day")
    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="+", db_index=False)
    license = models.CharField(max_length=200)
    kind = models.CharField(max_length=20)
    cloud_id = models.CharField(max_length=EXTERNAL_ID_LENGTH, blank=True)
    began_on = models.DateField()
    day = models.DateField()
    known_on = models.DateField(null=True)
    answered_on = models.DateField(null=True)
    decided_on = models.DateField(null=True)
    result = models.CharField(max_length=20)
    exclusion = models.CharField(max_length=20, blank=True)
    seats = models.IntegerField(null=True)
    cents = models.BigIntegerField(null=True)
    earlier_seats = models.JSONField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["renewal", "monthly_stay", "evaluation"]),
                name="license_outcome_kind_known",
            ),
        ]
        indexes = [
            # All of a kind, and those whose day comes.
            models.Index(fields=["product", "kind", "day"], name="license_outcome_by_day"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.license} on {self.day}: {self.result}"


class LicenseRevision(models.Model):
    """The revision of a product's ledger that its license outcomes follow from."""

    product = models.OneToOneField(
        Product, on_delete=models.CASCADE, related_name="+", primary_key=True
    )
    revision = models.BigIntegerField()

    def __str__(self) -> str:
        return f"Outcomes of product {self.product_id} at revision {self.revision}"
