"""When people changed how a workspace scores, as the trail says."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from typing import Literal, NamedTuple, TypeAlias, get_args

from access.models import TrailEntry
from engagement.models import Workspace

ScoringPart: TypeAlias = Literal["weights", "window", "audience"]

# How the note of an entry begins whose weights were suggested by outcomes.
ACCEPTED = "Accepted suggested weights"
KIND = "workspace"
# The latest ones.
MAX_ENTRIES, MAX_CHANGES = 100, 20
_PARTS: dict[str, ScoringPart] = {
    "default_weight": "weights",
    "lookback_days": "window",
    "half_life_days": "window",
    "audience": "audience",
}
_WEIGHT = "weight of "


class ScoringChange(NamedTuple):
    """What *person* changed on a UTC day. A person is "" if the trail does not know them."""

    day: date
    person: str
    parts: tuple[ScoringPart, ...]
    is_suggestion: bool


def scoring_changes(workspace: Workspace, first_day: date) -> list[ScoringChange]:
    """The latest changes since the day, oldest first; equal ones of a day are one."""
    rows = TrailEntry.objects.filter(
        kind=KIND,
        object_id=str(workspace.pk),
        action=TrailEntry.Action.CHANGED,
        at__gte=datetime.combine(first_day, time(), UTC),
    ).order_by("-at", "-id")
    values = rows.values_list("at", "person", "note", "changes")[:MAX_ENTRIES]
    changes = {
        ScoringChange(at.astimezone(UTC).date(), person, parts, note.startswith(ACCEPTED)): None
        for at, person, note, fields in values
        if (parts := _parts(fields))
    }
    return [*changes][:MAX_CHANGES][::-1]


def describe_parts(change: ScoringChange) -> str:
    """What changed, without the person."""
    if change.is_suggestion:
        return "Suggested weights accepted"
    return f"{_join(change.parts).capitalize()} changed"


def describe_change(change: ScoringChange) -> str:
    """Who changed what, as the label of a mark."""
    person = change.person or "Somebody"
    if change.is_suggestion:
        return f"{person} accepted suggested weights"
    return f"{person} changed {_join(change.parts)}"


def _join(parts: Sequence[str]) -> str:
    *others, last = parts
    return " and ".join(filter(None, (", ".join(others), last)))


def _parts(fields: dict[str, object]) -> tuple[ScoringPart, ...]:
    """What of the definition the changed fields belong to."""
    parts = {"weights" if name.startswith(_WEIGHT) else _PARTS.get(name) for name in fields}
    return tuple(part for part in get_args(ScoringPart) if part in parts)
