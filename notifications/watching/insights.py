"""The insights that subscriptions can be about."""

INSIGHT_LABELS: dict[str, str] = {}


def insight_choices() -> list[tuple[str, str]]:
    return list(INSIGHT_LABELS.items())


def insight_label(kind: str) -> str:
    return INSIGHT_LABELS.get(kind, kind.replace("_", " "))
