"""Finds what changed, by indexes of what happened and not by reading all accounts."""

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any

from django.db.models import Case, Count, F, IntegerField, Q, QuerySet, Sum, When
from django.db.models.functions import Coalesce

from engagement.activity.reading import Signal, alarms_of
from engagement.insight_kinds import INSIGHTS, InsightKind
from engagement.models import Account, AccountChance, Alarm, AlarmNight, ScoreSet, Segment
from engagement.segments import counts, movers
from engagement.segments.movers import Mover
from outcomes.kinds import Exclusion, Kind
from outcomes.models import LicenseOutcome
from outcomes.statistics.estimates import Estimate
from trends.changes import texts
from trends.changes.results import (
    BeganAlarm,
    BeganAlarms,
    Cadence,
    ChangedAccount,
    Changes,
    Due,
    EndedAlarm,
    Listed,
    Moved,
    Period,
    SegmentMoves,
)
from trends.changes.whose import Whose
from trends.models import WHOLE, DayFigures

MOST_LISTED = 10
# Accounts of a set whose movers are counted while a page waits.
MOST_COUNTED = 20_000
DUE_DAYS = 30
# A night that is decided late, or again, holds nothing up for longer.
_WAIT_FOR_NIGHTS = timedelta(days=2)
_ENDS = (Alarm.Outcome.RECOVERED, Alarm.Outcome.SETTLED)


def last_period(score_set: ScoreSet, cadence: Cadence) -> Period:
    """The last complete days of which alarms are decided."""
    assert score_set.scored_day is not None, "A set that readers see has been scored."
    yesterday = score_set.scored_day - timedelta(days=1)
    nights = AlarmNight.latest_of(score_set.workspace_id).values_list("day", flat=True)
    decided = nights.first() or yesterday
    is_late = decided < yesterday - _WAIT_FOR_NIGHTS
    return Period.until(yesterday if is_late else min(yesterday, decided), cadence)


def find_changes(
    whose: Whose, period: Period, *, counts_all: bool = False, like: Changes | None = None
) -> Changes:
    """What changed for them in the period, which ends with one of the last days. With *counts_all*
    also how many scores of a large set moved, which reads all of its rows. *like* is what changed
    in another period with the same end, and not read again."""
    at_end = {name: getattr(like, name) for name in _AT_END} if like else None
    return Changes(
        period=period,
        lookback_days=whose.score_set.lookback_days,
        began=_began(whose, period),
        ended=_ended(whose, period),
        new=_new(whose, period),
        segments=_segments(whose, period),
        **_figures(whose, period),
        **(at_end or _at_end(whose, period, counts_all)),
    )


_AT_END = ("rose", "fell", "evaluations", "renewals")


def _at_end(whose: Whose, period: Period, counts_all: bool) -> dict[str, Any]:
    """What is the same for all periods with this end."""
    extremes = _movers(whose)
    return {
        "rose": Listed(_count_moved(whose, counts_all, up=True), _moved(extremes.rising)),
        "fell": Listed(_count_moved(whose, counts_all, up=False), _moved(extremes.falling)),
        "evaluations": _due(whose, period, Kind.EVALUATION),
        "renewals": _due(whose, period, Kind.RENEWAL),
    }


def _changed(account: Account) -> ChangedAccount:
    name = account.name or account.domain or account.external_id
    return ChangedAccount(account.pk, account.external_id, name)


# --- Alarms ---------------------------------------------------------------------------------


def _alarms(whose: Whose) -> QuerySet[Alarm]:
    alarms = alarms_of(whose.score_set, *Signal)
    if whose.matches is None:
        return alarms
    return alarms.filter(account_id__in=whose.rows.values("account_id"))


def _first(alarms: QuerySet[Alarm]) -> list[Alarm]:
    """The first of them with their accounts: rises last, and what was lost most first."""
    is_good = Case(When(signal=Signal.RISE, then=1), default=0, output_field=IntegerField())
    in_order = alarms.order_by(is_good, F("observed") - F("expected"), "account_id", "signal")
    return list(in_order.select_related("account").defer("account__trait_stamps")[:MOST_LISTED])


def _began(whose: Whose, period: Period) -> BeganAlarms:
    alarms = _alarms(whose).filter(since__range=(period.first, period.last))
    alarms = alarms.exclude(outcome=Alarm.Outcome.REPLACED)
    numbers: dict[InsightKind, int] = {}
    rows = alarms.values_list("signal", "is_stopped").annotate(number=Count("since"))
    for signal, is_stopped, number in rows.order_by():
        kind = texts.insight_of(signal, is_stopped=is_stopped)
        numbers[kind] = numbers.get(kind, 0) + number
    count = sum(numbers.values())
    first = [
        BeganAlarm(
            _changed(alarm.account),
            texts.insight_of(alarm.signal, is_stopped=alarm.is_stopped),
            alarm.since,
            texts.describe_alarm(alarm),
        )
        for alarm in (_first(alarms) if count else ())
    ]
    return BeganAlarms(count, first, {kind: numbers[kind] for kind in INSIGHTS if kind in numbers})


def _ended(whose: Whose, period: Period) -> Listed[EndedAlarm]:
    alarms = _alarms(whose).filter(ended_on__range=(period.first, period.last), outcome__in=_ENDS)
    count = alarms.count()
    first = [
        EndedAlarm(
            _changed(alarm.account),
            texts.insight_of(alarm.signal, is_stopped=alarm.is_stopped),
            alarm.since,
            alarm.ended_on or period.last,
            alarm.outcome,
            texts.describe_end(alarm),
        )
        for alarm in (_first(alarms) if count else ())
    ]
    return Listed(count, first)


# --- Scores ---------------------------------------------------------------------------------


def _movers(whose: Whose) -> movers.Movers:
    if whose.matches is None:
        return counts.top_movers(whose.score_set)
    return movers.find_movers(whose.score_set, whose.matches)


def _moved(rows: Sequence[Mover], *, are_new: bool = False) -> list[Moved]:
    """New accounts have nothing to compare with."""
    return [
        Moved(
            _changed(each.account),
            each.scores.yesterday,
            None if are_new else each.scores.complete_change,
        )
        for each in rows
    ]


def _count_moved(whose: Whose, counts_all: bool, *, up: bool) -> int | None:
    own = whose.score_set
    if not counts_all and counts.subject_totals([own])[own.pk].accounts > MOST_COUNTED:
        return None
    return movers.moved_rows(whose.score_set, whose.matches, up=up).count()


def _new(whose: Whose, period: Period) -> Listed[Moved]:
    """Accounts that were created, or first heard of, in the period."""
    begin = datetime.combine(period.first, time(), UTC)
    accounts = whose.accounts.annotate(known_at=Coalesce("created_at", "first_seen_at"))
    own = accounts.filter(known_at__gte=begin, known_at__lt=begin + timedelta(days=period.days))
    rows = whose.rows.filter(account_id__in=own.values("pk"))
    count = rows.count()
    first = rows.order_by("-raw_yesterday", "-account_id")
    newest = movers.read_movers(whose.score_set, first) if count else []
    return Listed(count, _moved(newest, are_new=True))


# --- Figures of days ------------------------------------------------------------------------


def _figures(whose: Whose, period: Period) -> dict[str, Any]:
    """Sums over the period; None if a day has none."""
    own = _days(whose, period).filter(segment_id=whose.segment_id)
    sums = own.aggregate(
        days=Count("stopped_accounts", filter=Q(returned_accounts__isnull=False)),
        stopped=Sum("stopped_accounts"),
        returned=Sum("returned_accounts"),
    )
    is_complete = sums.pop("days") == period.days
    return sums if is_complete else dict.fromkeys(sums)


def _segments(whose: Whose, period: Period) -> list[SegmentMoves]:
    """Of the workspace all that moved, those with most moves first; or the segment itself."""
    rows = _days(whose, period).exclude(segment_id=WHOLE)
    if whose.segment_id != WHOLE:
        rows = rows.filter(segment_id=whose.segment_id)
    sums = rows.values_list("segment_id").annotate(
        days=Count("entered", filter=Q(left__isnull=False)), came=Sum("entered"), went=Sum("left")
    )
    moved = {id: pair for id, days, *pair in sums.order_by() if days == period.days and any(pair)}
    named = Segment.objects.filter(workspace=whose.score_set.workspace_id, pk__in=moved)
    moves = [SegmentMoves(each.pk, each.name, each.scope, *moved[each.pk]) for each in named]
    return sorted(moves, key=lambda each: (-(each.entered + each.left), each.id))[:MOST_LISTED]


def _days(whose: Whose, period: Period) -> QuerySet[DayFigures]:
    return DayFigures.objects.filter(
        workspace=whose.score_set.workspace_id, day__range=(period.first, period.last)
    )


# --- What is decided next -------------------------------------------------------------------


def _due(whose: Whose, period: Period, kind: Kind) -> Listed[Due]:
    """What ends within ``DUE_DAYS`` of the end of the period and nobody has answered, the next day
    first."""
    today = period.last + timedelta(days=1)
    accounts = whose.accounts
    if whose.matches is not None:
        accounts = accounts.filter(pk__in=whose.rows.values("account_id"))
    ends = LicenseOutcome.objects.filter(
        Q(answered_on=None) | Q(answered_on__gt=today),
        product=whose.score_set.product_id,
        kind=kind,
        exclusion=Exclusion.OPEN,
        known_on=None,
        day__range=(today, today + timedelta(days=DUE_DAYS - 1)),
        cloud_id__in=accounts.values("external_id"),
    ).exclude(cloud_id="")
    count = ends.count()
    first = list(ends.order_by("day", "license")[:MOST_LISTED]) if count else []
    return Listed(count, _with_chances(whose, kind, first))


def _with_chances(whose: Whose, kind: Kind, ends: Sequence[LicenseOutcome]) -> list[Due]:
    if not ends:
        return []
    named = whose.accounts.filter(external_id__in={end.cloud_id for end in ends})
    accounts = {account.external_id: account for account in named}
    rows = AccountChance.objects.filter(
        product=whose.score_set.product_id,
        workspace=whose.score_set.workspace_id,
        account__in=[account.pk for account in accounts.values()],
        kind=kind,
    )
    chances: dict[Any, AccountChance] = {(row.account_id, row.license): row for row in rows}
    return [
        _as_due(end, accounts[end.cloud_id], chances.get((accounts[end.cloud_id].pk, end.license)))
        for end in ends
        if end.cloud_id in accounts
    ]


def _as_due(end: LicenseOutcome, account: Account, row: AccountChance | None) -> Due:
    chance = Estimate(row.chance, row.low, row.high, row.outcomes) if row else None
    is_share = row is not None and row.is_share
    return Due(_changed(account), end.license, end.day, end.seats, chance, is_share)
