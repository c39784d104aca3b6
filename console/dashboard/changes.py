"""*What changed this week*: a block of a product's overview."""

from collections.abc import Sequence
from dataclasses import dataclass

from engagement.models import Workspace
from trends.changes import texts
from trends.changes.results import Changes
from trends.changes.sections import Places, Section, numbers, sections

# The lists have the others.
ROWS = 5


@dataclass(frozen=True)
class ChangesBlock:
    """*basis* says what scores are compared with."""

    period: str
    summary: str
    numbers: str
    basis: str
    sections: Sequence[Section]


def changes_block(changes: Changes, workspace: Workspace) -> ChangesBlock:
    days = changes.lookback_days
    return ChangesBlock(
        period=texts.format_period(changes.period),
        summary=texts.summary(changes),
        numbers=numbers(changes),
        basis=f"Of complete UTC days. Scores moved over {days} days.",
        sections=sections(changes, Places(workspace.pk, {}), ROWS),
    )
