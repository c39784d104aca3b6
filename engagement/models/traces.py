"""The traces of subjects, for senders who trace their requests."""

from django.db import models

from core.trace_context import LENGTH
from engagement.models.products import Product


class SubjectTrace(models.Model):
    """The latest traced message that changed a subject. Kept for an hour.

    So scoring and deliveries, which work subject by subject, can name its trace.
    """

    pk = models.CompositePrimaryKey("product_id", "scope", "subject_id")
    product = models.ForeignKey(
        Product, on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    scope = models.CharField(max_length=7)
    subject_id = models.BigIntegerField()
    traceparent = models.CharField(max_length=LENGTH)
    recorded_at = models.DateTimeField()
    is_scored = models.BooleanField(default=False)

    class Meta:
        indexes = [
            # Scoring asks for these with each run.
            models.Index(
                fields=["product"], condition=models.Q(is_scored=False), name="trace_unscored"
            ),
            # Retention.
            models.Index(fields=["recorded_at"], name="trace_age"),
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.subject_id}: {self.traceparent}"
