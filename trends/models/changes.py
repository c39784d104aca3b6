"""Stored answers to what changed."""

from django.db import models

from engagement.models import Segment, Workspace


class StoredChanges(models.Model):
    """What changed for the accounts of a workspace, or of one of its segments, in the week and on
    the day that end with ``last_day``.

    ``result`` has a ``trends.changes.results.Changes`` as JSON for each period; None if finding it
    took too long. ``question`` is what it was found by: after an edit of it, nobody reads the row.
    """

    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, related_name="changes", db_index=False
    )
    segment = models.ForeignKey(
        Segment, null=True, on_delete=models.CASCADE, related_name="changes"
    )
    last_day = models.DateField()
    has_figures = models.BooleanField()
    question = models.JSONField()
    result = models.JSONField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "segment"],
                nulls_distinct=False,
                name="changes_once_per_segment",
            ),
        ]

    def __str__(self) -> str:
        return f"changes until {self.last_day} of workspace {self.workspace_id}"
