"""Defaults of settings that an installation keeps, although newer ones have others."""

from django.conf import settings
from django.db import models

EVENT_RETENTION = "EDS_EVENT_RETENTION_DAYS"


class KeptDefault(models.Model):
    """The default that a setting had when this installation began. A migration writes it down."""

    name = models.CharField(max_length=50, primary_key=True)
    value = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"


def event_retention_days() -> int:
    """How long single events are kept: as the setting says, or as when this installation began."""
    default: int = settings.EVENT_RETENTION_DAYS
    if settings.EVENT_RETENTION_IS_SET:
        return default
    days = KeptDefault.objects.filter(name=EVENT_RETENTION).values_list("value", flat=True)
    return days.first() or default
