"""How likely what is being decided about an account is to end well, in lines on its page."""

from collections.abc import Iterator, Sequence
from datetime import date
from typing import NamedTuple

from engagement.models import Workspace
from outcomes.chances import storage, texts
from outcomes.chances.texts import CHANCE_TEXTS
from outcomes.kinds import Kind
from outcomes.statistics.estimates import Estimate

# More licenses of one account are rare, and their chances are in the read API.
MOST_SHOWN = 5


class ChanceLine(NamedTuple):
    """A chance: what it is of, its figures as text, and its facts with what they do to it."""

    label: str
    figures: str
    facts: Sequence[tuple[str, str]]


def chance_lines(workspace: Workspace, account_id: int, today: date) -> Iterator[ChanceLine]:
    """What is decided next first."""
    rows = storage.of_workspace(workspace).filter(account=account_id)
    for row in rows.order_by("day", "kind", "license")[:MOST_SHOWN]:
        kind = Kind(row.kind)
        estimate = Estimate(row.chance, row.low, row.high, row.outcomes)
        past = f"from {row.outcomes:,} past ones"
        parts = [f"{estimate.percent} ({estimate.percent_range}), {past}"]
        if row.is_share:
            parts = [f"too few to tell: {estimate.percent} of {row.outcomes:,} past ones did"]
        if kind is Kind.EVALUATION:
            parts.append(texts.day_text(row.began_on, row.day, today))
        elif row.license:
            parts.append(f"by {row.day:%-d %b %Y}")
        facts = texts.fact_texts(storage.evidence_of(row))
        yield ChanceLine(CHANCE_TEXTS[kind].chance, "; ".join(parts), facts)
