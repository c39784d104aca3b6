"""What changed in a period, as types: for pages, messages, and programs."""

from collections.abc import Sequence
from datetime import date, timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar

from msgspec import Struct

from engagement.insight_kinds import InsightKind
from outcomes.statistics.estimates import Estimate

Item = TypeVar("Item")


class Cadence(StrEnum):
    """How long a period is."""

    WEEK = "week"
    DAY = "day"

    @property
    def days(self) -> int:
        return 7 if self is Cadence.WEEK else 1


class Period(Struct, frozen=True):
    """Complete UTC days: the first and the last one."""

    first: date
    last: date

    @classmethod
    def until(cls, last: date, cadence: Cadence) -> "Period":
        return cls(last - timedelta(days=cadence.days - 1), last)

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1


class Listed(Struct, Generic[Item], frozen=True):
    """How many there are, and the first of them. The count is None if counting takes too long."""

    count: int | None
    first: Sequence[Item]


class ChangedAccount(Struct, frozen=True):
    """An account, as senders and people call it."""

    id: int
    tracking_id: str
    name: str


class BeganAlarm(Struct, frozen=True):
    """An alarm that a day of the period decided. *text* says what is unusual."""

    account: ChangedAccount
    insight: InsightKind
    since: date
    text: str


class EndedAlarm(Struct, frozen=True):
    """An alarm that a day of the period ended: *recovered* or *settled*."""

    account: ChangedAccount
    insight: InsightKind
    since: date
    ended_on: date
    outcome: str
    text: str


class BeganAlarms(Listed[BeganAlarm], frozen=True):
    """Those that began, with their numbers by kind; bad ones first, then what was lost most."""

    by_insight: dict[InsightKind, int]


class Moved(Struct, frozen=True):
    """An account with its score at the end of the period's last day; *change* is None for a new
    one."""

    account: ChangedAccount
    score: float
    change: float | None


class SegmentMoves(Struct, frozen=True):
    """How many entered a segment in the period, and left it."""

    id: int
    name: str
    scope: str
    entered: int
    left: int


class Due(Struct, frozen=True):
    """An evaluation or a paid term that ends soon. *chance* is that of its good end; None before
    it is known. If it *is_share*, it says nothing of the account."""

    account: ChangedAccount
    license: str
    day: date
    seats: int | None
    chance: Estimate | None
    is_share: bool


class Changes(Struct, frozen=True, kw_only=True):
    """What changed for the accounts of a workspace, or for some of them.

    *lookback_days* is the span over which scores moved. *stopped* and *returned* are numbers of
    accounts, None if a day of the period has no figures, as for saved views. Segments are those
    with figures of each day in which anybody moved. What is due ends within ``DUE_DAYS``.
    """

    period: Period
    lookback_days: int
    began: BeganAlarms
    ended: Listed[EndedAlarm]
    rose: Listed[Moved]
    fell: Listed[Moved]
    new: Listed[Moved]
    stopped: int | None
    returned: int | None
    segments: Sequence[SegmentMoves]
    evaluations: Listed[Due]
    renewals: Listed[Due]

    @property
    def is_quiet(self) -> bool:
        """Whether nothing happened. Scores always move, and what is due was due before."""
        numbers = (self.began.count, self.ended.count, self.new.count, self.stopped, self.returned)
        return not any(numbers) and not self.segments


def without(value: Any, tracking_id: str) -> Any:
    """Changes as JSON, or what contains them, without the rows of the account."""
    if isinstance(value, dict):
        return {name: without(each, tracking_id) for name, each in value.items()}
    if isinstance(value, list):
        return [without(each, tracking_id) for each in value if not _names(each, tracking_id)]
    return value


def _names(value: Any, tracking_id: str) -> bool:
    account = value.get("account") if isinstance(value, dict) else None
    return isinstance(account, dict) and account.get("tracking_id") == tracking_id
