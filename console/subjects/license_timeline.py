"""What happened to an account's licenses, as its page shows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from engagement.models import Account
from marketplace.ledger import event_texts, reading

# Those that are not folded away, and those that are on the page at all.
UNFOLDED = 5
MAX_SHOWN = 200


@dataclass(frozen=True)
class TimelineRow:
    """An event. ``license`` is empty if the account has only one."""

    date: date
    title: str
    details: str
    license: str
    withdrawn_at: datetime | None


@dataclass(frozen=True)
class Timeline:
    """The latest events, latest first: some at once, the others when people unfold them."""

    rows: Sequence[TimelineRow]
    folded: Sequence[TimelineRow]
    is_cut: bool


def license_timeline(account: Account) -> Timeline | None:
    """None if nothing is known to have happened."""
    events = reading.timeline(account.product_id, account.external_id, MAX_SHOWN + 1)
    has_several = len({event.license for event in events}) > 1
    rows = [
        TimelineRow(
            event.date,
            event_texts.title(event.type),
            event_texts.details_text(event.details),
            event.license if has_several else "",
            event.withdrawn_at,
        )
        for event in events[:MAX_SHOWN]
    ]
    if not rows:
        return None
    return Timeline(rows[:UNFOLDED], rows[UNFOLDED:], len(events) > MAX_SHOWN)
