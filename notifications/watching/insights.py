"""The insights that subscriptions can be about."""

from typing import cast

from engagement.insight_kinds import INSIGHTS, InsightKind


def insight_choices() -> list[tuple[str, str]]:
    """Each kind with its label."""
    return [(kind, info.label) for kind, info in INSIGHTS.items()]


def insight_label(kind: str) -> str:
    return dict(insight_choices()).get(kind, kind)


def insight_kind(kind: str) -> InsightKind | None:
    """The kind, or None if no release knows it any more."""
    return cast(InsightKind, kind) if kind in INSIGHTS else None
