"""What scoring derives: one row per workspace and identified subject, and what is stale."""

from django.db import models
from django.db.models import F


class Engagement(models.Model):
    """A subject's numbers in one workspace's window.

    ``raw`` is the sum of count times weight over the scored events, ``event_count`` their number,
    ``active_days`` the distinct UTC days with one. ``last_active_at`` is the time of the last
    scored event ever. The score from 0 to 100 is a function of ``raw`` and the workspace's
    benchmark (``engagement.scoring.score``) and is stored nowhere.
    """

    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    workspace = models.ForeignKey(
        "engagement.Workspace", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    raw = models.BigIntegerField()
    event_count = models.BigIntegerField()
    active_days = models.PositiveSmallIntegerField()
    last_active_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True


class UserEngagement(Engagement):
    """A user's numbers in one workspace."""

    pk = models.CompositePrimaryKey("product_id", "workspace_id", "user_id")
    user = models.ForeignKey(
        "engagement.User",
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="engagements",
    )

    class Meta:
        indexes = [
            # The ranking, page by page, and the percentiles above zero.
            models.Index(F("workspace"), F("raw").desc(), F("user").desc(), name="user_ranking"),
        ]

    def __str__(self) -> str:
        return f"user {self.user_id} in workspace {self.workspace_id}: {self.raw}"


class AccountEngagement(Engagement):
    """An account's numbers in one workspace: sums over the events attributed to it.

    ``active_users`` is the number of its users with a scored event in the window.
    """

    pk = models.CompositePrimaryKey("product_id", "workspace_id", "account_id")
    account = models.ForeignKey(
        "engagement.Account",
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="engagements",
    )
    active_users = models.IntegerField()

    class Meta:
        indexes = [
            # The ranking, page by page, and the percentiles above zero.
            models.Index(
                F("workspace"), F("raw").desc(), F("account").desc(), name="account_ranking"
            ),
        ]

    def __str__(self) -> str:
        return f"account {self.account_id} in workspace {self.workspace_id}: {self.raw}"


class StaleMark(models.Model):
    """Says that the scores of a user or an account must be computed again.

    Recording only ever appends marks and never waits for one; rescoring deletes what it has read.
    Several marks of one subject are ordinary.
    """

    id = models.BigAutoField(primary_key=True)
    # Rescoring walks the products that have marks.
    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, db_constraint=False)
    user_id = models.BigIntegerField(null=True)
    account_id = models.BigIntegerField(null=True)

    def __str__(self) -> str:
        return f"user {self.user_id} / account {self.account_id}"
