"""Finds stored rules by what they name."""

from engagement.metric_names import Scope
from engagement.models import Segment, Workspace


def segments_with_feature(product_id: int, name: str) -> list[str]:
    """The names of the product's segments, and of workspaces whose audience, that name the
    feature in a condition."""
    condition = [{"kind": "feature", "feature": name}]
    segments = Segment.objects.filter(workspace__product=product_id, conditions__contains=condition)
    workspaces = Workspace.objects.filter(
        product=product_id, audience__conditions__contains=condition
    )
    return [
        *segments.order_by("name").values_list("name", flat=True),
        *workspaces.order_by("name").values_list("name", flat=True),
    ]


def segments_at_step(workspace_id: int, scope: Scope, step: str) -> list[str]:
    """The names of the workspace's segments that name the step of activation in a condition."""
    condition = [{"kind": "activation", "step": step}]
    segments = Segment.objects.filter(workspace=workspace_id, scope=scope)
    named = segments.filter(conditions__contains=condition).order_by("name")
    return list(named.values_list("name", flat=True))
