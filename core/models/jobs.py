"""The table of background jobs."""

from django.db import models
from django.db.models import Q


class Job(models.Model):
    """A job: where it is, when its next step is due, and what its last failure was.

    ``due_at`` is None while nothing is left to do: a request makes the job due. ``progress``
    of ``total`` units are what a page shows, if the kind counts them.
    """

    kind = models.CharField(max_length=50)
    # Tells the jobs of one kind apart; empty for the only one.
    key = models.CharField(max_length=100, default="", db_default="", blank=True)
    due_at = models.DateTimeField(null=True)
    is_paused = models.BooleanField(default=False, db_default=False)
    cursor = models.JSONField(null=True)
    progress = models.BigIntegerField(default=0, db_default=0)
    total = models.BigIntegerField(null=True)
    # Of a step that runs outside of a transaction.
    lease = models.UUIDField(null=True)
    leased_until = models.DateTimeField(null=True)
    # In a row. A step that succeeds sets it to 0.
    failures = models.IntegerField(default=0, db_default=0)
    error = models.CharField(max_length=500, default="", db_default="", blank=True)
    failed_at = models.DateTimeField(null=True)
    # Of all steps so far.
    steps = models.BigIntegerField(default=0, db_default=0)
    seconds = models.FloatField(default=0.0, db_default=0.0)
    # Of the steps since it last rested.
    unrested_seconds = models.FloatField(default=0.0, db_default=0.0)
    stepped_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint("kind", "key", name="one_job_of_a_key")]
        indexes = [
            # For run_due(): few jobs are due at a time.
            models.Index(
                fields=["due_at"],
                name="due_jobs",
                condition=Q(is_paused=False, due_at__isnull=False),
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}".rstrip()
