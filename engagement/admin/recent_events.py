"""The most frequent events of a workspace, with their weights."""

from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from engagement.database import sql
from engagement.models import EventName, Workspace
from engagement.segments import event_counts

MAX_EVENTS = 50
RECENT_EVENTS_TIMEOUT_SECONDS = 1.0


class RecentEvent(NamedTuple):
    """``weight`` is None if the default weight applies. ``share`` is a percentage of the highest
    count."""

    name: str
    times: str
    share: float
    weight: int | None


@dataclass(frozen=True)
class RecentEvents:
    """The most frequent events. ``others`` is the number of event names that are not listed."""

    events: list[RecentEvent]
    others: int = 0
    note: str = ""
    days: int = event_counts.RECENT_DAYS


def load_recent_events(workspace: Workspace, today: date) -> RecentEvents:
    """The events to list next to the weights, most frequent first."""
    if workspace.scores is None:
        return RecentEvents(
            [], note="This workspace has no scores yet. Reload the page in a moment."
        )
    try:
        with sql.statement_timeout(RECENT_EVENTS_TIMEOUT_SECONDS):
            recent = event_counts.count_recent_events(workspace.scores, today)
    except sql.StatementTimeout:
        return RecentEvents([], note="This count is taking too long to show here.")
    names = EventName.objects.filter(product_id=workspace.product_id)
    weights = dict(workspace.weights.values_list("event_name_id", "weight"))
    order = sorted(recent.counts, key=lambda name_id: (-recent.counts[name_id], name_id))
    # Events with their own weight are listed even if they are rare or gone.
    top_ids = order[:MAX_EVENTS]
    listed_ids = [*top_ids, *(name_id for name_id in weights if name_id not in top_ids)]
    listed_names = names.in_bulk(listed_ids)
    highest = max(recent.counts.values(), default=1) or 1
    return RecentEvents(
        [
            RecentEvent(
                listed_names[name_id].name,
                _format_count(recent.counts.get(name_id, 0), recent.is_estimate),
                round(100 * recent.counts.get(name_id, 0) / highest, 1),
                weights.get(name_id),
            )
            for name_id in listed_ids
            if name_id in listed_names
        ],
        names.count() - len(listed_names),
        _note(recent),
    )


def _format_count(count: int, is_estimate: bool) -> str:
    if not is_estimate:
        return f"{count:,}"
    return f"≈ {float(f'{count:.2g}'):,.0f}" if count else "few or none"


def _note(recent: event_counts.EventCounts) -> str:
    if recent.is_estimate:
        return f"Estimated from an even sample of {recent.users:,} scored users."
    return ""
