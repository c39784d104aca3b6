"""The events that a workspace's users do, with what each weighs."""

from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from engagement.database import sql
from engagement.models import EventName, Workspace
from engagement.segments import event_counts

MAX_EVENTS = 50
# The page waits for it.
RECENT_EVENTS_TIMEOUT_SECONDS = 1.0


class RecentEvent(NamedTuple):
    """``weight`` is None where the workspace gives it none of its own; ``share`` of the most
    frequent event, in percent."""

    name: str
    times: str
    share: float
    weight: int | None


@dataclass(frozen=True)
class RecentEvents:
    """The most frequent events; ``others`` is how many names are not among them."""

    events: list[RecentEvent]
    others: int = 0
    note: str = ""
    days: int = event_counts.RECENT_DAYS


def load_recent_events(workspace: Workspace, today: date) -> RecentEvents:
    """What is listed beside the weights, most frequent first."""
    if workspace.scores is None:
        return RecentEvents([], note="The workspace is not scored yet; look again in a moment.")
    try:
        with sql.statement_timeout(RECENT_EVENTS_TIMEOUT_SECONDS):
            counted = event_counts.count_recent_events(workspace.scores, today)
    except sql.StatementTimeout:
        return RecentEvents([], note="Counting the events takes too long to wait for it here.")
    names = EventName.objects.filter(product_id=workspace.product_id)
    weights = dict(workspace.weights.values_list("event_name_id", "weight"))
    order = sorted(counted.counts, key=lambda name_id: (-counted.counts[name_id], name_id))
    # What has a weight of its own and is rare or gone is worth knowing too.
    listed = [*order[:MAX_EVENTS], *(one for one in weights if one not in order[:MAX_EVENTS])]
    known = names.in_bulk(listed)
    most = max(counted.counts.values(), default=1) or 1
    return RecentEvents(
        [
            RecentEvent(
                known[name_id].name,
                _words(counted.counts.get(name_id, 0), counted.is_estimate),
                round(100 * counted.counts.get(name_id, 0) / most, 1),
                weights.get(name_id),
            )
            for name_id in listed
            if name_id in known
        ],
        names.count() - len(known),
        _note(counted),
    )


def _words(count: int, is_estimate: bool) -> str:
    if not is_estimate:
        return f"{count:,}"
    return f"≈ {float(f'{count:.2g}'):,.0f}" if count else "few or none"


def _note(counted: event_counts.EventCounts) -> str:
    if counted.is_estimate:
        return f"Estimated from {counted.users:,} users, picked evenly from all who are scored."
    return ""
