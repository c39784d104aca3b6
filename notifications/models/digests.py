"""Digests: what changed in a week or a day, sent at the hour that its reader chose."""

from django.conf import settings
from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from notifications.models.destinations import Destination

ZONE_LENGTH = 64


class Digest(models.Model):
    """What changed for a workspace, for one of its segments, or for a saved view.

    It is sent at ``hour`` o'clock in ``time_zone``; once a week on ``weekday``. ``owner`` made it:
    if its destination belongs to a person, that person must still see the product. A reader who
    unsubscribed has ``is_enabled`` unset.
    """

    class Cadence(models.TextChoices):
        WEEK = "week", "Once a week"
        DAY = "day", "Once a day"

    class Weekday(models.IntegerChoices):
        MONDAY = 0, "Monday"
        TUESDAY = 1, "Tuesday"
        WEDNESDAY = 2, "Wednesday"
        THURSDAY = 3, "Thursday"
        FRIDAY = 4, "Friday"
        SATURDAY = 5, "Saturday"
        SUNDAY = 6, "Sunday"

    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, related_name="digests"
    )
    workspace = models.ForeignKey("engagement.Workspace", on_delete=models.CASCADE)
    segment = models.ForeignKey(
        "engagement.Segment", null=True, on_delete=models.CASCADE, related_name="digests"
    )
    view = models.ForeignKey(
        "engagement.SavedView", null=True, on_delete=models.CASCADE, related_name="digests"
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.CASCADE,
        # An older release, which does not know this table, can still delete a login.
        db_constraint=False,
        related_name="+",
    )
    destination = models.ForeignKey(Destination, on_delete=models.CASCADE, related_name="digests")
    cadence = models.CharField(
        "how often", max_length=4, choices=Cadence.choices, default=Cadence.WEEK
    )
    weekday = models.PositiveSmallIntegerField(
        "on", choices=Weekday.choices, default=Weekday.MONDAY
    )
    hour = models.PositiveSmallIntegerField("at", default=8, validators=[MaxValueValidator(23)])
    time_zone = models.CharField(max_length=ZONE_LENGTH, default="UTC")
    is_enabled = models.BooleanField("enabled", default=True)
    unsubscribed_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["product_id", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(cadence__in=["week", "day"]), name="digest_cadence_known"
            ),
            models.CheckConstraint(
                condition=Q(weekday__lte=6, hour__lte=23), name="digest_time_known"
            ),
            models.CheckConstraint(
                condition=Q(segment=None) | Q(view=None), name="digest_of_one_thing"
            ),
        ]

    def __str__(self) -> str:
        return f"What changed in {self.subject}"

    @property
    def subject(self) -> str:
        """What it is about."""
        return str((self.segment or self.view or self.workspace).name)


class DigestIssue(models.Model):
    """That a digest was written for a period: this row decides it, once.

    ``day`` is the first one of the period on the calendar of the digest's time zone: a Monday, or
    the day itself. ``message_id`` is that of the outbox; empty for the period in which the digest
    was made, of which nothing is sent. Rows stay as long as the digest, also when a clock was
    wrong: 366 a year at most.
    """

    pk = models.CompositePrimaryKey("digest_id", "cadence", "day")
    digest = models.ForeignKey(
        Digest, on_delete=models.CASCADE, related_name="issues", db_index=False
    )
    cadence = models.CharField(max_length=4)
    day = models.DateField()
    message_id = models.CharField(max_length=40, blank=True)
    issued_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.cadence} from {self.day} of digest {self.digest_id}"
