"""Subscriptions: what people want to be notified of, and who is in the watched sets."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from engagement.rules.rules import MAX_TRAIT_NAME_LENGTH
from notifications.models.destinations import Destination
from notifications.triggers import Trigger

INSIGHT_LENGTH = 60
# That a subscription may choose.
MAX_TRAITS = 8


class Watch(models.Model):
    """A set of subjects whose changes are told: a segment, a rule, an insight, or a condition.

    Subscriptions to the same set share it. ``key`` says which set it is. Its stored members are
    those of the last sweep, under the ``definition`` of that time: the score set and the rule.
    After another definition, the sweep only stores the members. ``is_stale`` says that the scores
    have changed since; ``seconds`` is how long the last sweep took. Since ``waiting_since`` the
    next one waits for scores that are being computed.
    """

    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE)
    workspace = models.ForeignKey("engagement.Workspace", null=True, on_delete=models.CASCADE)
    segment = models.ForeignKey("engagement.Segment", null=True, on_delete=models.CASCADE)
    key = models.CharField(max_length=200)
    definition = models.TextField(default="")
    is_stale = models.BooleanField(default=True)
    swept_day = models.DateField(null=True)
    swept_at = models.DateTimeField(null=True)
    seconds = models.FloatField(default=0.0)
    waiting_since = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["product", "key"], name="watch_per_product"),
        ]

    def __str__(self) -> str:
        return self.key


class WatchedMember(models.Model):
    """A subject that was in the watched set at the last sweep."""

    pk = models.CompositePrimaryKey("product_id", "watch_id", "subject_id")
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    watch = models.ForeignKey(
        Watch, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    subject_id = models.BigIntegerField()

    def __str__(self) -> str:
        return f"subject {self.subject_id} in watch {self.watch_id}"


class Subscription(models.Model):
    """What a destination is notified of: a trigger with its parameters.

    ``scope`` is that of the subjects; empty for triggers about the product. Only subjects in
    ``filter_segment`` count. ``quiet_hours`` is the period in which one subject has at most one
    message; 0 for no limit. ``started_at`` is None until the first sweep, which
    stores the members and sends nothing. ``to_owner`` prefers the owner of each account to the
    ``destination``.
    """

    class Direction(models.TextChoices):
        UP = "up", "Rises"
        DOWN = "down", "Falls"

    class QuietHours(models.IntegerChoices):
        NONE = 0, "No limit"
        HOUR = 1, "One an hour"
        DAY = 24, "One a day"
        WEEK = 168, "One a week"
        MONTH = 720, "One in 30 days"

    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, related_name="subscriptions"
    )
    workspace = models.ForeignKey(
        "engagement.Workspace", null=True, blank=True, on_delete=models.CASCADE
    )
    trigger = models.CharField(max_length=40, choices=Trigger.choices)
    scope = models.CharField(max_length=7, blank=True)
    segment = models.ForeignKey(
        "engagement.Segment",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="subscriptions",
    )
    insight = models.CharField(max_length=INSIGHT_LENGTH, blank=True)
    threshold = models.FloatField(null=True, blank=True)
    direction = models.CharField(max_length=4, choices=Direction.choices, blank=True)
    filter_segment = models.ForeignKey(
        "engagement.Segment",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="filtered_subscriptions",
    )
    destination = models.ForeignKey(
        Destination, on_delete=models.CASCADE, related_name="subscriptions"
    )
    to_owner = models.BooleanField(
        "the account’s owner instead, if possible",
        default=False,
        db_default=False,
        help_text="By email, if the owner has proven the address. The destination gets the others.",
    )
    quiet_hours = models.PositiveSmallIntegerField(
        "messages per subject", choices=QuietHours.choices, default=QuietHours.DAY
    )
    tells_changed_rules = models.BooleanField(
        "also after a changed rule",
        default=False,
        help_text="Also notify of everybody who enters or leaves because somebody changed the "
        "segment or the weights. These can be many at once.",
    )
    traits = ArrayField(
        models.CharField(max_length=MAX_TRAIT_NAME_LENGTH),
        verbose_name="traits in webhooks",
        size=MAX_TRAITS,
        default=list,
        db_default=[],
        blank=True,
        help_text="Names, separated by commas, such as email, plan. Each message to a webhook has "
        f"these traits of its user or account. At most {MAX_TRAITS}.",
    )
    is_enabled = models.BooleanField("enabled", default=True)
    watch = models.ForeignKey(Watch, null=True, editable=False, on_delete=models.SET_NULL)
    started_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["product_id", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(scope__in=["", "user", "account"]), name="subscription_scope_known"
            ),
            models.CheckConstraint(
                condition=Q(direction__in=["", "up", "down"]), name="subscription_direction_known"
            ),
        ]

    def __str__(self) -> str:
        return self.get_trigger_display()
