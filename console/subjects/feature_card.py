"""The features on the page of a user or an account: used, stopped, and never used."""

from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

from django.urls import reverse

from engagement.models import EventName
from engagement.models.features import USED_WITHIN
from engagement.scopes import SubjectKind
from engagement.segments.features import STATES, FeatureState, FeatureUse, feature_uses

LABELS: dict[FeatureState, str] = {
    "used": f"Used in the last {USED_WITHIN} days",
    "stopped": "Stopped",
    "never": "Never used",
}


class FeatureRow(NamedTuple):
    name: str
    url: str
    day: date | None


def feature_groups(
    product_id: int, kind: SubjectKind, subject_id: int, today: date
) -> list[tuple[str, list[FeatureRow]]]:
    """The features by state, without states that no feature has."""
    uses = feature_uses(product_id, kind, [subject_id], today)[subject_id]
    return [
        (f"{LABELS[state]} ({len(rows)})", rows)
        for state in STATES
        if (rows := [_row(use) for use in uses if use.state == state])
    ]


def _row(use: FeatureUse) -> FeatureRow:
    url = reverse("admin:engagement_feature_usage", args=[use.feature.pk])
    return FeatureRow(use.feature.name, url, use.last_used_on)


def event_urls(product_id: int, names: Iterable[str]) -> dict[str, str]:
    """The pages of these events."""
    rows = EventName.objects.filter(product=product_id, name__in=names)
    return {
        name: reverse("admin:engagement_eventname_change", args=[pk])
        for name, pk in rows.values_list("name", "pk")
    }
