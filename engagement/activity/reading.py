"""What readers see of alarms: the open ones of accounts, and the state of each account's activity.

Readers see the alarms of one level, which the workspace chooses. Alarms about users have no levels.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, NamedTuple

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import BooleanField, F, Func, Max, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import JSONObject

from engagement.alarms.levels import SETTLED_FOR
from engagement.insight_kinds import ActivityState, UnknownReason
from engagement.models import AccountEngagement, ActiveDay, Alarm, AlarmNight, ScoreSet

Signal = Alarm.Signal
_WITHOUT_LEVELS = (Signal.LEAVING, Signal.KEY_USER)
DIRECTIONS = (Signal.FALL, Signal.RISE)
_REASONS: dict[int | None, UnknownReason] = {
    None: "not_decided",
    AccountEngagement.Activity.TOO_QUIET: "too_quiet",
    AccountEngagement.Activity.TOO_NEW: "too_new",
}


class Activity(NamedTuple):
    """The state of an account's activity: *reason* of an unknown one, *since* of a changed one."""

    state: ActivityState
    reason: UnknownReason | None = None
    since: date | None = None


@dataclass(frozen=True)
class AccountAlarms:
    """The alarms of an account that readers see: the open ones by signal, and of those about its
    activity that ended as settled within ``SETTLED_FOR``, the latest."""

    open: Mapping[str, Alarm] = field(default_factory=dict)
    settled: Alarm | None = None

    @classmethod
    def of(cls, alarms: Iterable[Alarm]) -> "AccountAlarms":
        """From rows of one account."""
        rows = list(alarms)
        settled = [each for each in rows if each.ended_on is not None]
        return cls(
            {each.signal: each for each in rows if each.ended_on is None},
            max(settled, key=lambda each: (each.since, each.signal == Signal.FALL), default=None),
        )

    def activity(self, decided: int | None) -> Activity:
        """*decided* is what the last night could tell (``AccountEngagement.activity``)."""
        if fall := self.open.get(Signal.FALL):
            return Activity("stopped" if fall.is_stopped else "falling", since=fall.since)
        if rise := self.open.get(Signal.RISE):
            return Activity("rising", since=rise.since)
        if self.settled:
            is_lower = self.settled.signal == Signal.FALL
            state: ActivityState = "settled_lower" if is_lower else "settled_higher"
            return Activity(state, since=self.settled.since)
        if decided == AccountEngagement.Activity.DECIDABLE:
            return Activity("steady")
        return Activity("unknown", _REASONS[decided])


NO_ALARMS = AccountAlarms()


def alarms_by_account(
    score_set: ScoreSet, account_ids: Collection[int]
) -> Mapping[int, AccountAlarms]:
    """The alarms of these accounts in the set's workspace. Accounts without any are left out."""
    if not account_ids:
        return {}
    by_account: dict[int, list[Alarm]] = defaultdict(list)
    for alarm in _visible_alarms(score_set).filter(account_id__in=account_ids):
        by_account[alarm.account_id].append(alarm)
    return {account_id: AccountAlarms.of(alarms) for account_id, alarms in by_account.items()}


def activities(score_set: ScoreSet, rows: Iterable[AccountEngagement]) -> dict[int, Activity]:
    """The state of each account of the *rows*, by its id. One query."""
    decided = {row.account_id: row.activity for row in rows}
    alarms = alarms_by_account(score_set, decided)
    return {id: alarms.get(id, NO_ALARMS).activity(decided[id]) for id in decided}


def last_decided_day() -> Subquery:
    """For rows of workspaces: the last day after which alarms were decided; NULL before any."""
    nights = AlarmNight.objects.filter(workspace=OuterRef("pk"), decided_at__isnull=False)
    return Subquery(nights.order_by("-day").values("day")[:1])


def monthly_user_days(score_set: ScoreSet, account_id: int) -> float:
    """The active user-days of the account in 28 days, on average of the last 16 weeks."""
    assert score_set.scored_day is not None, "A set that readers see has been scored."
    days = ActiveDay.objects.filter(
        product_id=score_set.product_id,
        score_set_id=score_set.pk,
        account_id=account_id,
        day__gte=score_set.scored_day - timedelta(weeks=16),
        day__lt=score_set.scored_day,
    )
    total: int | None = days.aggregate(total=Sum("users"))["total"]
    return (total or 0) / 4


# --- Filters --------------------------------------------------------------------------------


def open_alarm_filter(score_set: ScoreSet, signal: Signal) -> Q:
    """Keeps the ``AccountEngagement`` rows of accounts with an open alarm. It is never NULL."""
    return _have(alarms_of(score_set, signal).filter(ended_on=None))


def activity_filter(score_set: ScoreSet, state: ActivityState) -> Q:
    """Keeps the ``AccountEngagement`` rows of accounts in the state, as ``AccountAlarms.activity``
    tells it. It is never NULL."""
    alarms = _alarms_of_state(score_set, state)
    if alarms is not None:
        return _have(alarms)
    falls, rises = (alarms_of(score_set, each).filter(ended_on=None) for each in DIRECTIONS)
    settled = alarms_of(score_set, *DIRECTIONS).filter(_is_settled(score_set))
    decidable = AccountEngagement.Activity.DECIDABLE
    # The index of the undecided ones has these very conditions.
    is_undecided = Q(activity=None) | Q(activity__gt=decidable)
    is_steady = Q(activity__isnull=False, activity=decidable)
    return (
        (is_steady if state == "steady" else is_undecided)
        & ~_have(falls)
        & ~_have(rises)
        & ~_have(settled)
    )


def listed_activity_filter(score_set: ScoreSet, state: ActivityState) -> Q:
    """``activity_filter`` for a list. Accounts with an alarm are found first, and ranked alone:
    otherwise PostgreSQL walks the ranking from the top until a page is full, and accounts whose
    activity stopped are at its end."""
    alarms = _alarms_of_state(score_set, state)
    return activity_filter(score_set, state) if alarms is None else _found_first(alarms)


def listed_insight_filter(score_set: ScoreSet, kind: str) -> Q:
    """For a list, besides its filter by an insight: keeps the accounts with an alarm that it needs,
    as ``listed_activity_filter`` does."""
    if kind not in _NEEDED:
        return Q()
    alarms = alarms_of(score_set, *_NEEDED[kind]).filter(ended_on=None)
    if kind in ("trend_down", "activity_stopped"):
        alarms = alarms.filter(is_stopped=kind == "activity_stopped")
    return _found_first(alarms)


# By insight: an account has none without an alarm with one of these signals.
_NEEDED: dict[str, tuple[Signal, ...]] = {
    "trend_down": (Signal.FALL,),
    "activity_stopped": (Signal.FALL,),
    "trend_up": (Signal.RISE,),
    "renewal_at_risk": (Signal.FALL, Signal.LEAVING),
    "users_leaving": (Signal.LEAVING,),
    "key_user_quiet": (Signal.KEY_USER,),
    "breadth_narrowing": (Signal.FEATURE,),
}


def _alarms_of_state(score_set: ScoreSet, state: ActivityState) -> QuerySet[Any] | None:
    """The alarms of the accounts in the state; None for a state without alarms.

    An alarm that excludes another does so here: for a condition on the accounts' rows, the planner
    reads all of them.
    """
    falls, rises = (alarms_of(score_set, each).filter(ended_on=None) for each in DIRECTIONS)
    match state:
        case "falling" | "stopped":
            return falls.filter(is_stopped=state == "stopped")
        case "rising":
            return rises.exclude(account_id__in=falls.values("account_id"))
        case "settled_lower" | "settled_higher":
            return _settled(score_set, is_lower=state == "settled_lower")
    return None


def _found_first(alarms: QuerySet[Any]) -> Q:
    return Q(AnyOf(F("account_id"), ArraySubquery(alarms.values("account_id"))))


class AnyOf(Func):
    """The planner runs the subquery first, and then finds the rows by their key."""

    template = "%(expressions)s)"
    arg_joiner = " = ANY("
    output_field = BooleanField()


def _have(alarms: QuerySet[Any]) -> Q:
    """Keeps the accounts of the alarms."""
    return Q(account_id__in=alarms.values("account_id"))


def _settled(score_set: ScoreSet, *, is_lower: bool) -> QuerySet[Any]:
    """The accounts without an open alarm whose last settled one was a fall, or a rise. Of a fall
    and a rise that began on the same day, the fall is the last."""
    alarms = alarms_of(score_set, *DIRECTIONS)
    is_open = Q(account_id__in=alarms.filter(ended_on=None).values("account_id"))
    # Grouped: for each alarm the search of a later one, the planner may read all of them again.
    fall, rise = (Max("since", filter=Q(signal=signal)) for signal in DIRECTIONS)
    accounts = alarms.filter(~is_open, _is_settled(score_set)).values("account_id")
    accounts = accounts.annotate(fall=fall, rise=rise)
    if is_lower:
        return accounts.filter(Q(rise=None) | Q(fall__gte=F("rise")), fall__isnull=False)
    return accounts.filter(Q(fall=None) | Q(rise__gt=F("fall")), rise__isnull=False)


def shown_alarms(score_set: ScoreSet) -> ArraySubquery:
    """For one ``AccountEngagement`` row: what decides its insights and its state, which
    ``read_alarms`` reads."""
    alarms = _visible_alarms(score_set).filter(account_id=OuterRef("account_id"))
    return ArraySubquery(alarms.values(row=JSONObject(**{name: name for name in _DECIDING})))


_DECIDING = (
    *("signal", "since", "ended_on", "is_stopped", "window_days"),
    *("observed", "expected", "dispersion", "p", "details"),
)


def read_alarms(rows: Iterable[Mapping[str, Any]]) -> AccountAlarms:
    """The alarms that ``shown_alarms`` selected, without the numbers of the last night."""
    return AccountAlarms.of(
        Alarm(**{**row, "since": date.fromisoformat(row["since"])}) for row in rows
    )


def account_ids_at_any_level(score_set: ScoreSet) -> list[int]:
    """The accounts that may look different when the workspace chooses another level."""
    alarms = Alarm.objects.filter(
        Q(ended_on=None) | _is_settled(score_set),
        product_id=score_set.product_id,
        workspace_id=score_set.workspace_id,
        level__gt=0,
    )
    return sorted(set(alarms.values_list("account_id", flat=True)))


def _visible_alarms(score_set: ScoreSet) -> QuerySet[Alarm]:
    alarms = alarms_of(score_set, *Signal)
    return alarms.filter(Q(ended_on=None) | (Q(signal__in=DIRECTIONS) & _is_settled(score_set)))


def _is_settled(score_set: ScoreSet) -> Q:
    assert score_set.scored_day is not None, "A set that readers see has been scored."
    return Q(outcome=Alarm.Outcome.SETTLED, since__gte=score_set.scored_day - SETTLED_FOR)


def alarms_of(score_set: ScoreSet, *signals: Signal) -> QuerySet[Alarm]:
    """The alarms with these signals of the set's workspace, of the level that it shows."""
    alarms = Alarm.objects.filter(
        product_id=score_set.product_id, workspace_id=score_set.workspace_id
    )
    level = score_set.workspace.alarm_level
    with_levels = [signal for signal in signals if signal not in _WITHOUT_LEVELS]
    without = [signal for signal in signals if signal in _WITHOUT_LEVELS]
    if not without:
        return alarms.filter(signal__in=with_levels, level=level)
    if not with_levels:
        return alarms.filter(signal__in=without, level=0)
    return alarms.filter(Q(signal__in=with_levels, level=level) | Q(signal__in=without, level=0))


# --- Notifications --------------------------------------------------------------------------


def told_to_nobody(score_set: ScoreSet, signal: Signal, account_ids: Collection[int]) -> set[int]:
    """Those of the accounts whose open alarm is old news: a replay or a first look found that it
    began before the last night."""
    last_night = AlarmNight.latest_of(score_set.workspace_id).first()
    if last_night is None or not account_ids:
        return set()
    alarms = alarms_of(score_set, signal).filter(
        ended_on=None, is_replayed=True, since__lt=last_night.day, account_id__in=account_ids
    )
    return set(alarms.values_list("account_id", flat=True))


def last_alarms(
    score_set: ScoreSet, signal: Signal, account_ids: Collection[int]
) -> dict[int, Alarm]:
    """The latest alarm of each of the accounts that had one."""
    alarms = alarms_of(score_set, signal).filter(account_id__in=account_ids)
    latest = alarms.order_by("account_id", "-since").distinct("account_id")
    return {alarm.account_id: alarm for alarm in latest} if account_ids else {}


def last_replay(score_set: ScoreSet) -> date | None:
    """The last day that a replay decided again."""
    replayed = AlarmNight.latest_of(score_set.workspace_id).filter(is_replayed=True)
    return replayed.values_list("day", flat=True).first()
