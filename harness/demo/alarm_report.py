"""Compares the alarms of synthetic products with the truth that was planted (``truths``)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from statistics import median
from typing import NamedTuple

from django.db.models import Q, Sum

from engagement.models import Account, ActiveDay, Alarm, AlarmNight, Workspace
from harness.demo import truths

# Which alarms find a change.
_SIGNALS: dict[str, set[str]] = {
    truths.HALVED: {"fall"},
    truths.STOPPED: {"fall"},
    truths.DOUBLED: {"rise"},
    truths.USERS_LEFT: {"fall", "leaving"},
    truths.FEATURE_DROPPED: {"feature"},
}
_LABELS = {"fall": "falling or stopped", "rise": "rising"}
# An alarm that begins later is about something else.
FOUND_WITHIN = timedelta(days=91)
# A change that is no older may still be found.
EARLY = timedelta(days=56)
# What is usual is counted over this time before the change, and too little to tell anything by is
# fewer than this many active user-days in 28 days.
USUAL_DAYS, LEAST_MONTHLY = 112, 4
HALF_YEAR, QUARTER_DAYS = timedelta(days=182), 91


class Planted(NamedTuple):
    """An account, what really happened to it, and when; *changed_on* is None if nothing did."""

    account_id: int
    change: str
    changed_on: date | None


@dataclass
class Outcome:
    """What the alarms said of the accounts with one truth: *days* until each was found."""

    change: str
    days: list[int] = field(default_factory=list)
    early: int = 0
    missed: int = 0
    cannot_tell: int = 0

    @property
    def accounts(self) -> int:
        return len(self.days) + self.early + self.missed + self.cannot_tell


class FalseAlarms(NamedTuple):
    """Alarms of one signal that began on accounts that do not change, in so many quarters of an
    account, and how many a quarter the workspaces allow."""

    signal: str
    alarms: int
    account_quarters: float

    @property
    def rate(self) -> float:
        return self.alarms / self.account_quarters if self.account_quarters else 0.0


@dataclass(frozen=True)
class Report:
    outcomes: Sequence[Outcome]
    false_alarms: Sequence[FalseAlarms]


def report(workspaces: Iterable[Workspace]) -> Report:
    """How the alarms of the workspaces did. Their last night is the present."""
    outcomes = {change: Outcome(change) for change in _SIGNALS}
    numbers, quarters = {"fall": 0, "rise": 0}, 0.0
    for workspace in workspaces:
        night = AlarmNight.objects.filter(workspace=workspace, accounts__isnull=False)
        today = night.order_by("-day").values_list("day", flat=True).first()
        if today is None:
            continue
        alarms, planted = _alarms(workspace), planted_truths(workspace.product_id)
        monthly = _monthly_user_days(workspace, planted)
        for each in planted:
            own = alarms.get(each.account_id, ())
            if each.change in outcomes:
                _add(outcomes[each.change], each, own, today, monthly[each.account_id])
            elif each.change == truths.UNCHANGED:
                quarters += HALF_YEAR.days / QUARTER_DAYS
                for signal in numbers:
                    numbers[signal] += sum(
                        alarm.signal == signal and alarm.since > today - HALF_YEAR for alarm in own
                    )
    return Report(
        list(outcomes.values()),
        [FalseAlarms(signal, number, quarters) for signal, number in numbers.items()],
    )


def planted_truths(product_id: int) -> list[Planted]:
    """The accounts of a product with a planted truth."""
    accounts = Account.objects.filter(product=product_id, traits__has_key=truths.TRUTH_TRAIT)
    return [
        Planted(
            pk,
            traits[truths.TRUTH_TRAIT],
            date.fromisoformat(day) if (day := traits.get(truths.CHANGED_ON_TRAIT)) else None,
        )
        for pk, traits in accounts.values_list("id", "traits")
    ]


def _alarms(workspace: Workspace) -> dict[int, list[Alarm]]:
    """The alarms that people see, by account, those that began first in front."""
    alarms = Alarm.objects.filter(
        Q(level=workspace.alarm_level) | Q(level=0, signal__in=("leaving", "key_user")),
        product=workspace.product_id,
        workspace_id=workspace.pk,
    ).exclude(outcome=Alarm.Outcome.REPLACED)
    by_account: dict[int, list[Alarm]] = {}
    for alarm in alarms.order_by("since"):
        by_account.setdefault(alarm.account_id, []).append(alarm)
    return by_account


def _monthly_user_days(workspace: Workspace, planted: Iterable[Planted]) -> Mapping[int, float]:
    """The usual active user-days of 28 days before each account's change."""
    assert workspace.scores_id is not None
    days = ActiveDay.objects.filter(product=workspace.product_id, score_set=workspace.scores_id)
    monthly = {}
    for each in planted:
        total = 0
        if each.changed_on:
            since = each.changed_on - timedelta(days=USUAL_DAYS)
            usual = days.filter(account=each.account_id, day__gte=since, day__lt=each.changed_on)
            total = usual.aggregate(total=Sum("users"))["total"] or 0
        monthly[each.account_id] = 28 * total / USUAL_DAYS
    return monthly


def _add(
    outcome: Outcome, planted: Planted, alarms: Iterable[Alarm], today: date, monthly: float
) -> None:
    """Count what the alarms say of an account that changed."""
    assert planted.changed_on is not None
    signals, until = _SIGNALS[planted.change], planted.changed_on + FOUND_WITHIN
    days = [
        (alarm.since - planted.changed_on).days
        for alarm in alarms
        if alarm.signal in signals and planted.changed_on <= alarm.since <= until
    ]
    if days:
        outcome.days.append(days[0])
    elif monthly < LEAST_MONTHLY:
        outcome.cannot_tell += 1
    elif planted.changed_on + EARLY > today:
        outcome.early += 1
    else:
        outcome.missed += 1


def as_table(report: Report) -> Iterator[str]:
    """The report as lines of Markdown."""
    yield (
        "| what happened | accounts | found | after days (median) | not yet | missed "
        "| too little to tell |"
    )
    yield "|---|---|---|---|---|---|---|"
    for outcome in report.outcomes:
        days = f"{median(outcome.days):.0f}" if outcome.days else "–"
        cells = (outcome.accounts, len(outcome.days), days, outcome.early, outcome.missed)
        yield f"| {' | '.join(map(str, (outcome.change, *cells, outcome.cannot_tell)))} |"
    yield ""
    yield "| of accounts that do not change | alarms in half a year | per account and quarter |"
    yield "|---|---|---|"
    for signal in report.false_alarms:
        yield f"| {_LABELS[signal.signal]} | {signal.alarms} | {signal.rate:.3f} |"
