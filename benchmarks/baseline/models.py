"""An inbox of requests, and what a worker makes of them."""

from django.db import models


class ReceivedEvent(models.Model):
    """A request as it came."""

    user_id = models.CharField(max_length=512)
    event = models.CharField(max_length=256)
    timestamp = models.DateTimeField()
    received_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.event} by {self.user_id}"


class User(models.Model):
    external_id = models.CharField(max_length=512, unique=True)
    first_seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.external_id


class Event(models.Model):
    user = models.ForeignKey(User, on_delete=models.CASCADE)
    name = models.CharField(max_length=256)
    occurred_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name


class DailyCount(models.Model):
    user = models.ForeignKey(User, on_delete=models.CASCADE)
    name = models.CharField(max_length=256)
    day = models.DateField()
    count = models.IntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "name", "day"], name="one_count_per_day")
        ]

    def __str__(self) -> str:
        return f"{self.count} × {self.name}"
