"""How the reports beside the licenses are read, for the license ledger."""

from django.db import models
from django.db.models import Q

from marketplace.models.syncs import Connection


class ReportReading(models.Model):
    """How reading a report of a connection goes. Where it is, its job knows.

    ``problem`` is a sentence if the last attempt failed, and ``note`` one about the last success,
    which began at ``read_at``; ``full_at`` is when the last one began that read everything.
    ``requested_at`` is when somebody asked for a report that is read on request. ``rows`` counts
    those of the reading that is going on, or of the last one. ``is_listed`` says whether the
    marketplace lists the report among those that the account may read; None if it does not say.
    """

    class Report(models.TextChoices):
        TRANSACTIONS = "transactions", "Transactions"
        FEEDBACK = "feedback", "Feedback"
        CHURN = "churn", "Counts of churn"
        CONVERSION = "conversion", "Counts of conversions"
        RENEWAL = "renewal", "Counts of renewals"
        HISTORY = "history", "History of licenses"

    connection = models.ForeignKey(
        Connection, on_delete=models.CASCADE, related_name="report_readings", db_index=False
    )
    report = models.CharField(max_length=20, choices=Report.choices)
    is_listed = models.BooleanField(null=True)
    requested_at = models.DateTimeField(null=True)
    read_at = models.DateTimeField(null=True)
    full_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    problem = models.TextField(blank=True)
    note = models.TextField(blank=True)
    rows = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            # Also finds the reports of a connection.
            models.UniqueConstraint(fields=["connection", "report"], name="one_reading_of_report"),
            models.CheckConstraint(
                condition=Q(
                    report__in=[
                        *("transactions", "feedback", "churn", "conversion", "renewal"),
                        "history",
                    ]
                ),
                name="reading_report_allowed",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_report_display()} of {self.connection}"
