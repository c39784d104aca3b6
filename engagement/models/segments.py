"""Segments: named rules of a workspace."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.db.models.signals import post_delete, post_save, pre_save
from django.dispatch import receiver

from engagement.models.changes import EditedRule, SubjectChange
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

    # The rule before this instance was saved.
    _rule_before: dict[str, Any] | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def stored_rule(self) -> dict[str, Any]:
        return {"match": self.match, "conditions": self.conditions}

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


@receiver(pre_save, sender=Segment)
def remember_rule(instance: Segment, raw: bool, **kwargs: Any) -> None:
    before = None if raw else Segment.objects.filter(pk=instance.pk).first()
    instance._rule_before = before.stored_rule if before else None


@receiver(post_save, sender=Segment)
def note_saved_rule(instance: Segment, raw: bool, **kwargs: Any) -> None:
    if not raw:
        _note_edited_rule(instance, instance._rule_before, instance.stored_rule)


@receiver(post_delete, sender=Segment)
def note_deleted_rule(instance: Segment, origin: Any, **kwargs: Any) -> None:
    """Note it, unless the whole workspace is deleted."""
    if isinstance(origin, Segment) or getattr(origin, "model", None) is Segment:
        _note_edited_rule(instance, instance.stored_rule, None)


def _note_edited_rule(
    segment: Segment, before: dict[str, Any] | None, after: dict[str, Any] | None
) -> None:
    """Have the subjects stamped that the edit moves into or out of the segment.

    Readers of a set that is being built start again when it is published.
    """
    score_set_id = Workspace.objects.values_list("scores_id", flat=True).get(
        pk=segment.workspace_id
    )
    if score_set_id is not None and before != after:
        is_user = segment.scope == Segment.Scope.USER
        kind = SubjectChange.Kind.USER if is_user else SubjectChange.Kind.ACCOUNT
        EditedRule.objects.create(score_set_id=score_set_id, kind=kind, before=before, after=after)
