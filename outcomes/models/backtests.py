"""What was concluded from the past scores of accounts and what became of them."""

from django.db import models


class StoredBacktest(models.Model):
    """The latest backtest of a workspace and a kind of outcome, of all accounts or of a segment's.

    ``result`` is an ``outcomes.backtests.results.Backtest`` as JSON, by the ledger's ``revision``.
    ``score_set_id`` is the set that readers saw then, and ``definition`` the fingerprint of what it
    scores (``outcomes.backtests.storage``). ``suggestion`` is an
    ``outcomes.suggestions.results.Suggestion`` as JSON, None until somebody asks for one.
    """

    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, related_name="+")
    workspace = models.ForeignKey(
        "engagement.Workspace", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    segment = models.ForeignKey(
        "engagement.Segment", null=True, on_delete=models.CASCADE, related_name="+"
    )
    kind = models.CharField(max_length=20)
    result = models.JSONField()
    revision = models.BigIntegerField(null=True)
    score_set_id = models.BigIntegerField()
    definition = models.CharField(max_length=64)
    computed_at = models.DateTimeField()
    suggestion = models.JSONField(null=True)
    suggested_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "kind", "segment"],
                nulls_distinct=False,
                name="one_backtest_of_a_kind",
            )
        ]

    def __str__(self) -> str:
        return f"backtest of {self.kind} in workspace {self.workspace_id}"
