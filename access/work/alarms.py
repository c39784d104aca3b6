"""What people do about open alarms: take them, let them rest, and close them with a result."""

from collections.abc import Collection, Iterable
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery

from access.trail.entries import Actor
from access.work.accounts import CannotWork, record, shown_under_lock
from access.work.settings import Means, results_of
from engagement.activity.reading import NO_ALARMS, alarms_by_account, alarms_of
from engagement.insight_kinds import INSIGHTS, InsightKind
from engagement.models import Account, AccountWork, Alarm, AlarmWork, Product, ScoreSet

MOST_SNOOZED = timedelta(days=365)
# Closed alarms of an account that programs get.
MOST_SHOWN = 20
DAY = timedelta(days=1)
Signal = Alarm.Signal
_KINDS: dict[str, InsightKind] = {
    Signal.FALL: "trend_down",
    Signal.RISE: "trend_up",
    Signal.FEATURE: "breadth_narrowing",
    Signal.LEAVING: "users_leaving",
    Signal.KEY_USER: "key_user_quiet",
}


class OpenAlarm(NamedTuple):
    """An open alarm, and what people did about it, which may be nothing (an unsaved row)."""

    alarm: Alarm
    work: AlarmWork

    def rests_until(self, today: date) -> date | None:
        until = self.work.snoozed_until
        return until if until is not None and until > today else None


class ClosedAlarm(NamedTuple):
    """An alarm that somebody closed, and what people made of it."""

    kind: InsightKind
    since: date
    result: str
    means: Means
    closed_at: datetime


def label(signal: str, *, is_stopped: bool = False) -> str:
    """What people call an alarm."""
    return INSIGHTS["activity_stopped" if is_stopped else _KINDS[signal]].label


def open_alarms(score_set: ScoreSet, account_id: int) -> list[OpenAlarm]:
    """The open alarms of the account, in the order of their signals."""
    alarms = alarms_by_account(score_set, [account_id]).get(account_id, NO_ALARMS).open
    own = AlarmWork.objects.filter(
        product=score_set.product_id, workspace=score_set.workspace_id, account=account_id
    )
    rows = list(own.order_by("-since"))
    open_ones = (alarms[signal] for signal in Signal if signal in alarms)
    return [OpenAlarm(alarm, _work_of(alarm, rows)) for alarm in open_ones]


def _work_of(alarm: Alarm, rows: Iterable[AlarmWork]) -> AlarmWork:
    """Of the rows, the latest first, that of the alarm: while this was on, somebody did it. A
    replay may have moved the day on which the alarm began."""
    for row in rows:
        if row.signal == alarm.signal and row.seen_on >= alarm.since:
            return row
    return AlarmWork(
        product_id=alarm.product_id,
        workspace_id=alarm.workspace_id,
        account_id=alarm.account_id,
        signal=alarm.signal,
        since=alarm.since,
    )


# --- Lists ------------------------------------------------------------------------------------


def listed(score_set: ScoreSet, state: str, login: str, today: date) -> QuerySet[Any]:
    """The alarms of the workspace that are "open" to be worked on, "snoozed", or "closed", the
    latest first; with a *login*, those of accounts that it owns, and those that it took. Each row
    has the ``owner`` of its account, and what people did about it."""
    own = {"product": score_set.product_id, "workspace": score_set.workspace_id}
    if state == "closed":
        rows = AlarmWork.objects.filter(**own, closed_at__isnull=False)
        closed = _with_owner(score_set.product_id, rows)
        if login:
            closed = closed.filter(Q(owner=login) | Q(taken_by=login) | Q(closed_by=login))
        return closed.order_by("-closed_at", "account_id")
    rows = AlarmWork.objects.filter(
        **own,
        account_id=OuterRef("account_id"),
        signal=OuterRef("signal"),
        seen_on__gte=OuterRef("since"),
    ).order_by("-since")
    alarms: QuerySet[Any] = alarms_of(score_set, *Signal).filter(ended_on=None)
    alarms = _with_owner(score_set.product_id, alarms)
    alarms = alarms.annotate(**{name: Subquery(rows.values(name)[:1]) for name in _SAID})
    is_open = Q(result=None) | Q(result="")
    rests = Q(snoozed_until__gt=today)
    awake = Q(snoozed_until=None) | ~rests
    alarms = alarms.filter(is_open, rests if state == "snoozed" else awake)
    if login:
        alarms = alarms.filter(Q(owner=login) | Q(taken_by=login))
    return alarms.order_by("-since", "account_id", "signal")


_SAID = ("taken_by", "snoozed_until", "result", "closed_by")


def _with_owner(product_id: int, rows: QuerySet[Any]) -> QuerySet[Any]:
    # A cluster finds the node by the product as a plain value.
    works = AccountWork.objects.filter(product=product_id, account_id=OuterRef("account_id"))
    annotated: QuerySet[Any] = rows.annotate(owner=Subquery(works.values("owner")))
    return annotated


def closed_of(score_set: ScoreSet, ids: Collection[int]) -> QuerySet[Any]:
    """The alarms of the accounts that people closed in the workspace, the last one first."""
    rows = AlarmWork.objects.filter(product=score_set.product_id, account__in=ids)
    rows = rows.filter(workspace=score_set.workspace_id, closed_at__isnull=False)
    return rows.order_by("-closed_at")


def results_by_account(
    product: Product, score_set: ScoreSet, ids: Collection[int]
) -> dict[int, list[ClosedAlarm]]:
    """The closed alarms of the accounts, of each the latest ones, the last one first."""
    means, by_id = results_of(product), dict[int, list[ClosedAlarm]]()
    for row in closed_of(score_set, ids):
        own = by_id.setdefault(row.account_id, [])
        if len(own) < MOST_SHOWN and row.closed_at is not None:
            meaning = means.get(row.result, Means.NOTHING)
            own.append(
                ClosedAlarm(_KINDS[row.signal], row.since, row.result, meaning, row.closed_at)
            )
    return by_id


def count_results(score_set: ScoreSet, since: datetime) -> dict[tuple[str, str], int]:
    """How many alarms people closed since then, by signal and result."""
    closed = AlarmWork.objects.filter(
        product=score_set.product_id, workspace=score_set.workspace_id, closed_at__gte=since
    )
    rows = closed.values_list("signal", "result").annotate(number=Count("since"))
    places = list(Signal)
    return {
        (signal, result): number
        for signal, result, number in sorted(rows, key=lambda row: places.index(row[0]))
    }


def began(score_set: ScoreSet, since: date) -> int:
    """How many alarms of the workspace began since then."""
    alarms = alarms_of(score_set, *Signal).exclude(outcome=Alarm.Outcome.REPLACED)
    return alarms.filter(since__gte=since).count()


# --- Writing ----------------------------------------------------------------------------------


def take(score_set: ScoreSet, account: Account, signal: str, actor: Actor, now: datetime) -> None:
    _change(score_set, account, signal, actor, now, "Took", taken_by=actor.name)


def snooze(
    score_set: ScoreSet, account: Account, signal: str, until: date, actor: Actor, now: datetime
) -> None:
    """Let the alarm rest until the day."""
    if not now.date() < until <= now.date() + MOST_SNOOZED:
        raise CannotWork("Choose a day after today, within a year.")
    _change(score_set, account, signal, actor, now, f"Snoozed until {until}", snoozed_until=until)


def close(
    score_set: ScoreSet, account: Account, signal: str, result: str, actor: Actor, now: datetime
) -> None:
    """Close the alarm with a result, which may be another one than before."""
    if result not in results_of(account.product):
        raise CannotWork("Choose what became of it.")
    values = {"result": result, "closed_by": actor.name, "closed_at": now, "snoozed_until": None}
    _change(score_set, account, signal, actor, now, f"Closed as “{result}”", **values)


def reopen(score_set: ScoreSet, account: Account, signal: str, actor: Actor, now: datetime) -> None:
    """Undo what closed the alarm, or let it rest."""
    values = {"result": "", "closed_by": "", "closed_at": None, "snoozed_until": None}
    _change(score_set, account, signal, actor, now, "Reopened", **values)


def _change(
    score_set: ScoreSet,
    account: Account,
    signal: str,
    actor: Actor,
    now: datetime,
    deed: str,
    **values: Any,
) -> None:
    with transaction.atomic():
        shown_under_lock(account.product_id, [account.pk])
        alarms = {each.alarm.signal: each for each in open_alarms(score_set, account.pk)}
        if signal not in alarms:
            raise CannotWork("This alarm has ended meanwhile.")
        alarm, work = alarms[signal]
        # The last complete day: the alarm was on then.
        work.seen_on = max(alarm.since, now.date() - DAY)
        for name, value in values.items():
            setattr(work, name, value)
        work.save()
        what = label(signal, is_stopped=alarm.is_stopped)
        record(account.product_id, [account.pk], actor, f"{deed} the alarm “{what}” of")
