"""Counts of the requests that the web processes answered, for ``/metrics``."""

from django.db import models


class RequestCount(models.Model):
    """How many requests of an endpoint got a status within a bound of time, and their seconds.

    ``code`` is that of the error, or empty. ``bucket`` is the place of the smallest bound of
    ``core.request_counts.BOUNDS`` that the request kept. All labels are from the code, so the
    number of rows is bounded.
    """

    pk = models.CompositePrimaryKey("endpoint", "status", "code", "bucket")
    endpoint = models.CharField(max_length=100)
    status = models.PositiveSmallIntegerField()
    code = models.CharField(max_length=50)
    bucket = models.PositiveSmallIntegerField()
    requests = models.BigIntegerField()
    seconds = models.FloatField()

    class Meta:
        app_label = "engagement"

    def __str__(self) -> str:
        return f"{self.endpoint} {self.status}"
