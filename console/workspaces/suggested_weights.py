"""The part *Suggested weights* of the page *Does the score predict?*: what a suggestion says, and
its weights beside the present ones."""

from typing import Any, NamedTuple

from engagement.models import Workspace
from outcomes.kinds import Kind
from outcomes.suggestions import storage, texts
from outcomes.suggestions.results import Suggestion, Weights

# Of the table. A workspace may have thousands of weights; those that change are all shown.
MAX_UNCHANGED = 30
ACCEPTED_MESSAGE = "The workspace has the suggested weights. All scores are being computed."
OUTDATED_MESSAGE = "The suggestion has changed meanwhile."


class Row(NamedTuple):
    """What is weighed, and its present and suggested weight."""

    label: str
    present: int
    suggested: int

    @property
    def change(self) -> int:
        return self.suggested - self.present


def section(workspace: Workspace, kind: Kind) -> dict[str, Any]:
    """What the section shows of the latest suggestion, and of the one that is being computed."""
    context: dict[str, Any] = {"progress": storage.progress(workspace, kind)}
    if latest := storage.find(workspace, kind):
        suggestion, suggested_at = latest
        context |= {
            "verdict": texts.verdict_sentence(suggestion),
            "has_gain": suggestion.judgement and suggestion.judgement.has_gain,
            "sentences": list(texts.sentences(suggestion)),
            "parts": suggestion.judgement.parts if suggestion.judgement else [],
            "drift": texts.drift_sentence(suggestion),
            "suggested_at": suggested_at,
        }
        if suggestion.suggested:
            context |= _weights(workspace, suggestion, suggestion.suggested)
    return context


def seen_suggestion(workspace: Workspace, kind: Kind, suggested_at: str) -> Suggestion:
    """The suggestion of that time. Raises NotAccepted if it is not the latest."""
    latest = storage.find(workspace, kind)
    if latest is None or latest[1].isoformat() != suggested_at:
        raise storage.NotAccepted(OUTDATED_MESSAGE)
    return latest[0]


def _weights(workspace: Workspace, suggestion: Suggestion, suggested: Weights) -> dict[str, Any]:
    """The table, and why the weights cannot be accepted."""
    present = suggestion.present
    other = Row("All other events", present.default_weight, suggested.default_weight)
    rows = [
        Row(name, present.weights.get(name, present.default_weight), weight)
        for name, weight in sorted(suggested.weights.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    hidden = set([row for row in rows if not row.change][MAX_UNCHANGED:])
    return {
        "windows": (_window(present), _window(suggested)),
        "rows": [other, *(row for row in rows if row not in hidden)],
        "hidden": len(hidden),
        "obstacle": storage.obstacle(suggestion, storage.stored_weights(workspace)),
    }


def _window(weights: Weights) -> str:
    """Which events count, as pages of workspaces say it."""
    own = Workspace(lookback_days=weights.lookback_days, half_life_days=weights.half_life_days)
    return own.counting.capitalize()
