"""Segments: named rules of a workspace."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.db.models.signals import post_save
from django.dispatch import receiver

from engagement.models.default_segments import DEFAULT_SEGMENTS
from engagement.models.products import Workspace

NAME_LENGTH = 100
# Bounded, because one query checks whether a subject is in each of the segments.
MAX_CUSTOM_SEGMENTS = 100


class Segment(models.Model):
    """A named rule on the users or the accounts of a workspace.

    ``match`` and ``conditions`` are the rule (``engagement.rules.rules``). Its members are a query
    (``engagement.segments.members``), never a stored list. Default segments come with the
    workspace and cannot be edited. ``position`` is the place in the list; custom segments follow
    in the order of their creation.
    """

    class Scope(models.TextChoices):
        USER = "user", "Users"
        ACCOUNT = "account", "Accounts"

    class Match(models.TextChoices):
        ALL = "all", "all conditions"
        ANY = "any", "any condition"

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="segments")
    scope = models.CharField(max_length=7, choices=Scope.choices)
    name = models.CharField(max_length=NAME_LENGTH)
    match = models.CharField(max_length=3, choices=Match.choices, default=Match.ALL)
    conditions = models.JSONField(default=list)
    is_default = models.BooleanField(default=False, editable=False)
    position = models.PositiveSmallIntegerField(default=1000, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(auto_now=True, editable=False)

    class Meta:
        ordering = ["workspace_id", "-scope", "position", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "scope", "name"], name="segment_name_per_workspace"
            ),
            models.CheckConstraint(
                condition=Q(scope__in=["user", "account"]), name="segment_scope_known"
            ),
            models.CheckConstraint(
                condition=Q(match__in=["all", "any"]), name="segment_match_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Reject a new custom segment in a workspace that has the maximum."""
        if not self._state.adding or self.is_default:
            return
        custom = Segment.objects.filter(workspace_id=self.workspace_id, is_default=False)
        if custom.count() >= MAX_CUSTOM_SEGMENTS:
            raise ValidationError(
                f"A workspace can have at most {MAX_CUSTOM_SEGMENTS} custom segments. "
                "Delete one that nobody uses."
            )


@receiver(post_save, sender=Workspace)
def create_default_segments(instance: Workspace, created: bool, raw: bool, **kwargs: Any) -> None:
    """Create the default segments of each new workspace."""
    if created and not raw:
        Segment.objects.bulk_create(
            Segment(
                workspace=instance,
                scope=default.scope,
                name=default.name,
                conditions=default.conditions,
                is_default=True,
                position=position,
            )
            for position, default in enumerate(DEFAULT_SEGMENTS, 1)
        )
