"""What is done once a day, whoever happens to do it."""

from django.db import models


class DailyJob(models.Model):
    """A chore, and the UTC day on which it was last done."""

    name = models.CharField(max_length=50, primary_key=True)
    day = models.DateField(null=True)

    class Meta:
        db_table = "engagement_chore"

    def __str__(self) -> str:
        return self.name
