"""Stored figures of cohorts."""

from django.db import models

from engagement.models import Segment, Workspace
from engagement.models.trait_changes import NAME_LENGTH

# In place of an event: any that weighs more than zero.
ANY_EVENT = 0


class StoredCohorts(models.Model):
    """How many of the users or accounts that were first seen in a week did an event in the weeks
    after, by the values of a trait if it has a name.

    ``result`` (``trends.cohorts.results``) has only counts; it is None before the first look.
    ``through`` is the last complete UTC day of it. ``wanted_at`` is when
    somebody last opened it, None for the questions that each workspace keeps.
    """

    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, related_name="cohorts", db_index=False
    )
    scope = models.CharField(max_length=7, choices=Segment.Scope.choices)
    event_name_id = models.BigIntegerField(default=ANY_EVENT)
    trait = models.CharField(max_length=NAME_LENGTH, blank=True)
    result = models.JSONField(null=True)
    through = models.DateField(null=True)
    computed_at = models.DateTimeField(null=True)
    wanted_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "scope", "event_name_id", "trait"],
                name="cohorts_once_per_question",
            ),
        ]

    def __str__(self) -> str:
        return f"cohorts {self.pk} of workspace {self.workspace_id}"
