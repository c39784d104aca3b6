"""The most frequent events of a workspace, with their weights."""

from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from core.database import sql
from engagement.models import EventName, EventWeight, Workspace
from engagement.scores.insight_texts import format_percent
from engagement.segments import event_counts

MAX_EVENTS = 50
RECENT_EVENTS_TIMEOUT_SECONDS = 1.0


class RecentEvent(NamedTuple):
    """``weight`` is None if the default weight applies. ``share`` is the event's percentage of all
    points, and 0 for an event that is not scored. ``feature`` is empty for an event of none."""

    name: str
    times: str
    share: float
    weight: int | None
    pk: int = 0
    feature: str = ""

    @property
    def share_text(self) -> str:
        return "–" if not self.share else format_percent(self.share / 100)


@dataclass(frozen=True)
class RecentEvents:
    """The most frequent events. ``others`` is the number of event names that are not listed."""

    events: list[RecentEvent]
    others: int = 0
    note: str = ""
    days: int = event_counts.RECENT_DAYS


def load_recent_events(workspace: Workspace, today: date) -> RecentEvents:
    """The events to list with their weights, most frequent first.

    Without counts, only the events with a weight of their own, and a note that says why.
    """
    recent, note = _count(workspace, today)
    names = EventName.objects.filter(product_id=workspace.product_id).select_related("feature")
    # One that is not saved yet has none.
    own = EventWeight.objects.filter(workspace=workspace.pk) if workspace.pk else ()
    weights = {weight.event_name_id: weight.weight for weight in own}
    order = sorted(recent.counts, key=lambda name_id: (-recent.counts[name_id], name_id))
    # Events with their own weight are listed even if they are rare or gone.
    top_ids = order[:MAX_EVENTS]
    listed_ids = [*top_ids, *(name_id for name_id in weights if name_id not in top_ids)]
    listed_names = names.in_bulk(listed_ids)
    points = {
        name_id: count * weights.get(name_id, workspace.default_weight)
        for name_id, count in recent.counts.items()
    }
    all_points = sum(points.values()) or 1
    return RecentEvents(
        [
            RecentEvent(
                listed_names[name_id].name,
                "" if note else _format_count(recent.counts.get(name_id, 0), recent.is_estimate),
                100 * points.get(name_id, 0) / all_points,
                weights.get(name_id),
                name_id,
                str(listed_names[name_id].feature or ""),
            )
            for name_id in listed_ids
            if name_id in listed_names
        ],
        names.count() - len(listed_names),
        note or _estimate_note(recent),
    )


def _count(workspace: Workspace, today: date) -> tuple[event_counts.EventCounts, str]:
    """The counts, and a note if there are none."""
    nothing = event_counts.EventCounts({}, 0, is_estimate=False)
    if workspace.scores is None:
        return nothing, "This workspace has no scores yet. Reload the page in a moment."
    try:
        with sql.statement_timeout(RECENT_EVENTS_TIMEOUT_SECONDS):
            return event_counts.count_recent_events(workspace.scores, today), ""
    except sql.StatementTimeout:
        return nothing, "This count is taking too long to show here."


def _format_count(count: int, is_estimate: bool) -> str:
    if not is_estimate:
        return f"{count:,}"
    return f"≈ {float(f'{count:.2g}'):,.0f}" if count else "few or none"


def _estimate_note(recent: event_counts.EventCounts) -> str:
    if recent.is_estimate:
        return f"Estimated from an even sample of {recent.users:,} scored users."
    return ""
