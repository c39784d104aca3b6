"""Where a chart of scores says that somebody changed how its workspace scores."""

from access.trail.scoring_changes import ScoringChange

MEANING = (
    "All days are scored alike, by the latest definition that is computed, also those before a "
    "change."
)


def describe_change(change: ScoringChange) -> str:
    """Who changed what, as the label of a mark."""
    person = change.person or "Somebody"
    if change.is_suggestion:
        return f"{person} accepted suggested weights"
    *others, last = change.parts
    return f"{person} changed {' and '.join(filter(None, (', '.join(others), last)))}"
