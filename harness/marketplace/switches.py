"""What nobody outside of the marketplace knows of it: each question can be answered in every way.

A ledger has to find the same events whatever the answers are.
"""

from dataclasses import dataclass
from enum import StrEnum


class RecordCreated(StrEnum):
    """The form of the day on which a row of the history was written."""

    INSTANT = "instant"
    DAY = "day"
    MISSING = "missing"


class HistoryDoor(StrEnum):
    """Which requests bring the history: the export, too; only pages; only the pages of one license;
    or none, because the parameter is ignored or rejected (400)."""

    EXPORT = "export"
    PAGES = "pages"
    TEXT = "text"
    IGNORED = "ignored"
    REJECTED = "rejected"


class Start(StrEnum):
    """What a paid license shows as the start of its maintenance."""

    CYCLE = "cycle"
    ANNIVERSARY = "anniversary"
    TRIAL = "trial"


class EventDate(StrEnum):
    """The day that the metrics' details show for a lost license."""

    END = "old end"
    NEXT_DAY = "next day"
    GRACE = "first day of grace"


class Name(StrEnum):
    """How feedback names the license."""

    ENTITLEMENT = "entitlement"
    LICENSE = "license"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Switches:
    # The rows of the history, and the requests that bring them.
    record_created: RecordCreated = RecordCreated.INSTANT
    history_door: HistoryDoor = HistoryDoor.EXPORT
    shuffles_history: bool = False
    repeats_history: bool = False
    history_lacks_rows: bool = False
    filters_snapshots: bool = False
    # The rows of licenses.
    start: Start = Start.CYCLE
    has_latest_start: bool = True
    buys_another_license: bool = False
    returns_with_another_license: bool = False
    moves_with_a_twin: bool = False
    names_trial_license: bool = True
    evaluation_type: str = "EVALUATION"
    # A paid license of which another edition is tried has the type UPGRADE_EVALUATION.
    names_edition_trial: bool = False
    # After the end of a term that nobody pays.
    days_until_inactive: int = 1
    shares_account: bool = True
    # Transactions.
    downgrade: str | None = "Downgrade"
    payment_status: str = "Paid"
    costs_nothing: bool = False
    # Feedback and the metrics' details.
    feedback_name: Name = Name.ENTITLEMENT
    has_nested_details: bool = True
    event_date: EventDate = EventDate.END
    # Licenses that became free when their billing was migrated.
    counts_free_as_churn: bool = True
    # Days that transactions and feedback come later than licenses; earlier if negative.
    report_delay: int = 0


# Like the marketplace as far as it is known.
USUAL = Switches()
