"""How many users and accounts did each event, and used each feature, day by day."""

from django.db import models

from engagement.models import Product

# In place of an event name or a feature.
NONE = 0


class UsageDay(models.Model):
    """Who did an event, or used a feature, on a complete UTC day.

    The row of a feature has no event name, that of an event name no feature, and that of the whole
    product neither: who did anything at all. Only identified users count, whatever a workspace
    scores. ``accounts`` are those in which a user did it.

    The last three are None except where a night has ended with this day. Of the 28 days until then:
    the accounts that did it, that did it for the first time, and that stopped: their last time was
    28 days before.
    """

    pk = models.CompositePrimaryKey("product_id", "feature_id", "event_name_id", "day")
    product = models.ForeignKey(
        Product, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="+"
    )
    feature_id = models.BigIntegerField(default=NONE)
    event_name_id = models.BigIntegerField(default=NONE)
    day = models.DateField()
    users = models.IntegerField()
    accounts = models.IntegerField()
    used_accounts = models.IntegerField(null=True)
    started_accounts = models.IntegerField(null=True)
    stopped_accounts = models.IntegerField(null=True)

    class Meta:
        indexes = [
            # A day is counted again, and old days are deleted.
            models.Index(fields=["product", "day"], name="usage_day_by_day"),
        ]

    def __str__(self) -> str:
        return f"{self.day}: event {self.event_name_id}, feature {self.feature_id}"
