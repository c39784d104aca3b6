"""Jobs that run once a day."""

from django.db import models


class DailyJob(models.Model):
    """A job, and the UTC day on which it last ran. The release before this one uses it."""

    name = models.CharField(max_length=50, primary_key=True)
    day = models.DateField(null=True)

    class Meta:
        db_table = "engagement_chore"

    def __str__(self) -> str:
        return self.name
