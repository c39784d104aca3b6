"""The activity of a whole product: whether it falls, and whether its sender is silent.

Accounts are compared with each other, so a fall of all of them shows nowhere else. Both follow from
the user-days of each complete UTC day, those of the product's first workspace.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from itertools import accumulate
from statistics import fmean, median, variance
from typing import TypeAlias

from engagement.models import AlarmNight, Product, Workspace

UserDays: TypeAlias = Sequence[int]

# A sender is silent on a day with a smaller share of the median of the same weekday of 8 weeks.
# Where fewer user-days are usual, a day without any is nothing special.
SILENT_SHARE, WEEKDAYS, MIN_USUAL = 0.1, 8, 20
# A total of WINDOW days is compared with the same days a year ago: 52 weeks, so that weekdays
# agree. What is usual are the ratios of the 16 weeks before.
WINDOW, YEAR, REFERENCE_WEEKS = 28, 364, 16
GREATEST_P, GREATEST_SHARE = 0.001, 0.9
# What older nights say is not about now.
MAX_AGE = timedelta(days=3)
_READ = WINDOW + YEAR + WINDOW + 7 * REFERENCE_WEEKS + 7 * WEEKDAYS


class State(StrEnum):
    STEADY = "steady"
    FALLING = "falling"
    # Lower than in the weeks before. There is no year to compare with, so it may be the season.
    LOWER = "lower"


@dataclass(frozen=True)
class ProductActivity:
    """The user-days of the 28 days until *day*, and how many were to be expected.

    *p* is the chance of so few. *has_year* says whether they were compared with a year ago.
    """

    state: State
    day: date
    observed: int
    expected: float
    p: float
    has_year: bool

    @property
    def change(self) -> float:
        """By what share there are more than expected; below 0 for fewer."""
        return self.observed / self.expected - 1

    @property
    def sentence(self) -> str:
        fewer = f"{-self.change:.0%} fewer than expected"
        counts = f"{self.observed:,} active user-days in the {WINDOW} days until {self.day}"
        match self.state:
            case State.FALLING:
                return f"The whole product is used less: {counts}, {fewer} from a year ago."
            case State.LOWER:
                return (
                    f"The whole product is used less than usual: {counts}, {fewer} from the weeks "
                    "before. It may be the season: there is no year to compare with."
                )
        return f"The whole product is used as usual: {counts}."


@dataclass(frozen=True)
class SilentSender:
    """The user-days of a day, so few that the sender is likely to have sent nothing.

    *usual* is the median of the same weekday of the last 8 weeks.
    """

    product: Product
    day: date
    observed: int
    usual: float

    @property
    def sentence(self) -> str:
        return (
            f"The sender may be silent: {self.observed:,} active user-days on {self.day}. "
            f"On a {self.day:%A}, {self.usual:,.0f} are usual."
        )


# --- The rules --------------------------------------------------------------------------------


def is_silent(observed: int, same_weekdays: Sequence[int]) -> bool:
    """Whether the sender was silent on a day, given the user-days of the weekday before it."""
    if len(same_weekdays) < WEEKDAYS:
        return False
    usual = median(same_weekdays)
    return usual >= MIN_USUAL and observed < SILENT_SHARE * usual


def judge(days: UserDays, last_day: date) -> ProductActivity | None:
    """The activity of a product with these user-days, one for each day until the last one; None if
    there are too few to tell."""
    silent = [
        is_silent(observed, days[max(place % 7, place - 7 * WEEKDAYS) : place : 7])
        for place, observed in enumerate(days)
    ]
    year_ago = ([0] * YEAR + list(days[:-YEAR]))[: len(days)]
    was_silent = ([False] * YEAR + silent[:-YEAR])[: len(days)]
    counts = [not (now or then) for now, then in zip(silent, was_silent, strict=True)]
    if activity := _compare(days, year_ago, counts, last_day, start=YEAR):
        return activity
    return _compare(days, [1] * len(days), [not now for now in silent], last_day, start=0)


def _compare(
    days: UserDays, basis: UserDays, counts: Sequence[bool], last_day: date, start: int
) -> ProductActivity | None:
    """Compare the days with the *basis* of each, without days that do not count. *basis* begins at
    *start*; None if the time since then is too short."""
    ends = [len(days) - WINDOW - 7 * week for week in range(REFERENCE_WEEKS)]
    if ends[-1] - WINDOW < start:
        return None
    sums, basis_sums = (
        list(accumulate((row * own for row, own in zip(rows, counts, strict=True)), initial=0))
        for rows in (days, basis)
    )

    def total(totals: Sequence[int], end: int) -> int:
        return totals[end] - totals[end - WINDOW]

    if not all(total(basis_sums, end) for end in (*ends, len(days))):
        return None
    ratios = [total(sums, end) / total(basis_sums, end) for end in ends]
    usual, observed = fmean(ratios), total(sums, len(days))
    if not usual:
        return None
    expected = usual * total(basis_sums, len(days))
    # Users come and go by chance, too, however even the ratios are.
    spread = math.sqrt(variance(ratios) * (1 + 1 / len(ratios)) + usual**2 / expected)
    z = (observed / total(basis_sums, len(days)) - usual) / spread
    p = math.erfc(-z / math.sqrt(2)) / 2
    is_low = p < GREATEST_P and observed < GREATEST_SHARE * expected
    fallen = State.FALLING if start else State.LOWER
    state = fallen if is_low else State.STEADY
    return ProductActivity(state, last_day, observed, expected, p, has_year=bool(start))


# --- Reading ----------------------------------------------------------------------------------


def first_workspace(product_id: int) -> Workspace | None:
    """The workspace that tells about the whole product."""
    return Workspace.objects.filter(product=product_id).order_by("pk").first()


def activities(workspace_ids: Collection[int], now: datetime) -> dict[int, ProductActivity]:
    """The activity of all accounts of each workspace, for those of which anybody can tell."""
    today = now.astimezone(UTC).date()
    nights = AlarmNight.objects.filter(workspace__in=workspace_ids, day__lt=today)
    nights = nights.filter(day__gte=today - timedelta(days=_READ))
    user_days: dict[int, dict[date, int]] = defaultdict(dict)
    for workspace_id, day, count in nights.values_list("workspace", "day", "user_days"):
        user_days[workspace_id][day] = count
    judged = {
        workspace_id: _judge(by_day)
        for workspace_id, by_day in user_days.items()
        if max(by_day) >= today - MAX_AGE
    }
    return {workspace_id: activity for workspace_id, activity in judged.items() if activity}


def _judge(by_day: dict[date, int]) -> ProductActivity | None:
    first, last = min(by_day), max(by_day)
    days = [by_day.get(first + timedelta(days=n), 0) for n in range((last - first).days + 1)]
    return judge(days, last)


def silent_senders(now: datetime, product_ids: Collection[int] | None = None) -> list[SilentSender]:
    """The products, or those among *product_ids*, whose sender was silent on the last complete
    day."""
    lasts = _last_days(now)
    days = {last - timedelta(weeks=week) for last in lasts for week in range(WEEKDAYS + 1)}
    workspaces = Workspace.objects.order_by("product_id", "pk").distinct("product_id")
    if product_ids is not None:
        workspaces = workspaces.filter(product__in=product_ids)
    by_product: dict[Product, dict[date, int]] = {}
    nights = AlarmNight.objects.filter(workspace__in=workspaces.values("pk"), day__in=days)
    for night in nights.select_related("workspace__product"):
        by_product.setdefault(night.workspace.product, {})[night.day] = night.user_days
    return [
        silent
        for own, user_days in by_product.items()
        if (silent := _silent(own, user_days, lasts))
    ]


def knows_sender(product: Product, now: datetime) -> bool:
    """Whether anybody can tell now if the product's sender is silent."""
    nights = AlarmNight.objects.filter(workspace__product=product, day__in=_last_days(now))
    return nights.exists()


def _last_days(now: datetime) -> list[date]:
    """The last complete day, and the one before: the last night may not be decided yet."""
    today = now.astimezone(UTC).date()
    return [today - timedelta(days=1), today - timedelta(days=2)]


def _silent(
    product: Product, user_days: dict[date, int], lasts: Sequence[date]
) -> SilentSender | None:
    day = next((day for day in lasts if day in user_days), None)
    if day is None:
        return None
    before = [day - timedelta(weeks=week) for week in range(1, WEEKDAYS + 1)]
    same_weekdays = [user_days[other] for other in before if other in user_days]
    if not is_silent(user_days[day], same_weekdays):
        return None
    return SilentSender(product, day, user_days[day], median(same_weekdays))
