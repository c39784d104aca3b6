"""Where a chart of scores says that somebody changed how its workspace scores."""

from collections.abc import Sequence

from access.trail.scoring_changes import ScoringChange
from core.charts import Mark

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


def describe_marks(labels: Sequence[str], marks: Sequence[Mark]) -> str:
    """The marks as a text below the chart, also for those without a pointer; "" without marks."""
    if not marks:
        return ""
    texts = "; ".join(f"{labels[mark.index]}, {mark.text}" for mark in marks)
    lines = "The vertical line:" if len(marks) == 1 else "The vertical lines:"
    return f"{lines} {texts}. {MEANING}"
