"""Finds stored rules by what they name."""

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
