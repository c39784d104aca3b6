"""Runs: work on something that people ask for or that is due, done step by step by a job."""

from typing import Any, ClassVar, Self

from django.db import IntegrityError, models, transaction
from django.db.models import QuerySet


class Run(models.Model):
    """What all runs have. The key of a run's job is its id.

    ``since`` and ``until`` are cursors, and ``after`` is the id after which it goes on. A subclass
    has a ``product``, and a constraint by which one run of the same thing is unfinished.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"
        STOPPED = "stopped", "Stopped"

    UNFINISHED: ClassVar[tuple[State, ...]] = (State.WAITING, State.RUNNING)

    id = models.BigAutoField(primary_key=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    requested_by = models.CharField(max_length=200, blank=True)
    requested_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    since = models.JSONField(null=True)
    until = models.JSONField(null=True)
    after = models.BigIntegerField(default=0)
    error = models.TextField(blank=True)

    class Meta:
        abstract = True
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"Run {self.pk}"

    @classmethod
    def request(cls, **values: Any) -> bool:
        """Add a run. Returns False if one of the same thing is unfinished."""
        try:
            with transaction.atomic():
                cls._default_manager.create(**values)
        except IntegrityError:
            return False
        return True

    @classmethod
    def unfinished(cls) -> QuerySet[Self]:
        """Those to go on with: not of a product that is about to be deleted."""
        rows = cls._default_manager.filter(state__in=cls.UNFINISHED)
        return rows.filter(product__deletion_requested_at=None)
