"""Activation: the steps of a workspace, and how far its users and accounts have come."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from engagement.metric_names import Scope
from engagement.models.segments import Segment


class Activation(models.Model):
    """The steps of the users or the accounts of a workspace (``engagement.rules.steps``).

    Like a score set, edited steps are a new row, which is built in the background and then becomes
    the current one, so readers never see a mixture. ``audience`` is that of the scores which decide
    whose events count. ``is_stamped`` says whether readers of changes were told of it. ``figures``
    are an ``engagement.scores.activation_figures.Figures`` of the UTC day ``counted_on``, and
    ``are_stale`` says that somebody did a step since.
    """

    class State(models.TextChoices):
        BUILDING = "building"
        CURRENT = "current"
        RETIRED = "retired"

    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, db_constraint=False)
    workspace = models.ForeignKey(
        "engagement.Workspace", on_delete=models.CASCADE, related_name="activations"
    )
    scope = models.CharField(max_length=7, choices=Segment.Scope.choices)
    state = models.CharField(max_length=8, choices=State.choices, default=State.BUILDING)
    steps = models.JSONField(default=list)
    audience = models.JSONField(default=dict)

    # The progress of building, and then of stamping: the last subject, and how many of how many.
    built_until = models.BigIntegerField(default=0)
    built = models.BigIntegerField(default=0)
    to_build = models.BigIntegerField(null=True)
    is_stamped = models.BooleanField(default=False)

    figures = models.JSONField(null=True)
    counted_on = models.DateField(null=True)
    are_stale = models.BooleanField(default=True)

    requested_at = models.DateTimeField(db_default=Now())
    published_at = models.DateTimeField(null=True)
    retired_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["building", "current", "retired"]),
                name="activation_state_known",
            ),
            models.CheckConstraint(
                condition=Q(scope__in=["user", "account"]), name="activation_scope_known"
            ),
            models.UniqueConstraint(
                fields=["workspace", "scope", "state"],
                condition=Q(state__in=["building", "current"]),
                name="one_activation_of_a_state",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.state} steps of the {self.scope}s of workspace {self.workspace_id}"

    @property
    def of_scope(self) -> Scope:
        return "user" if self.scope == Segment.Scope.USER else "account"


class StepsDone(models.Model):
    """What a user or an account has done of the steps.

    ``first_day`` is the UTC day on which it was first seen. ``days`` has an entry for each step:
    how many days later it was done, None if it is not. ``reached`` is the number of first steps
    that are done. The step after these can be done before ``late_on``; None if all are done.
    """

    pk = models.CompositePrimaryKey("product_id", "activation_id", "subject_id")
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    activation = models.ForeignKey(
        Activation, on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    subject_id = models.BigIntegerField()
    first_day = models.DateField()
    days = ArrayField(models.SmallIntegerField(null=True))
    reached = models.SmallIntegerField()
    late_on = models.DateField(null=True)

    class Meta:
        indexes = [
            # Who is at a step, in time or too late: conditions, lists, and figures.
            models.Index(
                fields=["product", "activation", "reached", "late_on"], name="steps_done_by_step"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.reached} steps of subject {self.subject_id}"
