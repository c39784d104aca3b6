"""Totals of the service's own operations, over all processes and machines."""

from django.db import models


class OperationCounter(models.Model):
    """How often an operation ran, how many units of work it did, and how long it took.

    The totals only grow, so that a monitor can compute rates.
    """

    name = models.CharField(max_length=50, primary_key=True)
    runs = models.BigIntegerField(default=0)
    units = models.BigIntegerField(default=0)
    seconds = models.FloatField(default=0.0)
    last_at = models.DateTimeField()

    class Meta:
        app_label = "engagement"
        db_table = "engagement_measure"

    def __str__(self) -> str:
        return self.name
