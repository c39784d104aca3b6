"""How the alarms of a weekly look begin, go on, and end. Nothing here asks the database."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from engagement.alarms.levels import ALLOWED_RATES
from engagement.models import Alarm

if TYPE_CHECKING:
    from engagement.alarms.habits import EndedHabit, QuietKeyUser, QuietUsers

SIGNALS = [Alarm.Signal.FEATURE, Alarm.Signal.LEAVING, Alarm.Signal.KEY_USER]
EVERY = timedelta(days=7)
# An event is in use again with that many user-days in that many days.
RETURN_USER_DAYS, RECENT_DAYS = 2, 14
# After this time what was lost is how the account is now.
SETTLED_AFTER = timedelta(weeks=13)
# Users leave: at least that many are quiet, and their tail is below the first p. Above the second,
# the alarm ends.
MIN_QUIET_USERS, LEAVING_ON, LEAVING_OFF = 2, 0.02, 0.05
WINDOW_DAYS = 28
# The level of alarms that do not depend on the number of false ones that people allow.
ANY_LEVEL = 0


@dataclass(frozen=True)
class Look:
    """What a look found after a complete *day*.

    *recent_uses* are the user-days of the last RECENT_DAYS by account and event name, and
    *recent_users* has the accounts and users with one, both at least of accounts with open alarms.
    *is_first* says that no look has seen these counts before: what it finds may be old.
    """

    day: date
    ended: Sequence["EndedHabit"]
    leaving: Sequence["QuietUsers"]
    key_users: Sequence["QuietKeyUser"]
    recent_uses: Mapping[tuple[int, int], int]
    recent_users: Collection[tuple[int, int]]
    is_first: bool = False


def follow(look: Look, open_alarms: Sequence[Alarm]) -> list[Alarm]:
    """The alarms that begin, and the open ones with their new numbers, or ended. New ones lack
    their product and workspace."""
    by_kind: dict[tuple[str, int], dict[int, Alarm]] = defaultdict(dict)
    for alarm in open_alarms:
        by_kind[alarm.signal, alarm.level][alarm.account_id] = alarm
    changed: list[Alarm] = []
    for level, rate in ALLOWED_RATES.items():
        changed += _follow_events(look, level, rate, by_kind[Alarm.Signal.FEATURE, level])
    changed += _follow_leaving(look, by_kind[Alarm.Signal.LEAVING, ANY_LEVEL])
    changed += _follow_key_users(look, by_kind[Alarm.Signal.KEY_USER, ANY_LEVEL])
    return changed


def _begin(
    look: Look,
    account: int,
    signal: Alarm.Signal,
    level: int,
    days: Collection[date],
    **numbers: Any,
) -> Alarm:
    """An alarm that began on the first of the *days*. Nobody is told of it if all are past."""
    return Alarm(
        account_id=account,
        signal=signal,
        level=level,
        since=min(days),
        is_replayed=max(days) < look.day,
        dispersion=1.0,
        **numbers,
    )


def _onset_day(look: Look, quiet_days: int) -> date:
    """The day of the look. In a first one, the day on which four weeks were over, if a look of that
    week would have seen it."""
    ago = timedelta(days=quiet_days - WINDOW_DAYS)
    return look.day - ago if look.is_first and ago >= EVERY else look.day


def _end(alarm: Alarm, look: Look, outcome: Alarm.Outcome) -> Alarm:
    alarm.ended_on, alarm.outcome = look.day, outcome
    return alarm


# --- Events -----------------------------------------------------------------------------------


def _follow_events(
    look: Look, level: int, rate: float, open_alarms: Mapping[int, Alarm]
) -> Iterator[Alarm]:
    by_account: dict[int, list[EndedHabit]] = defaultdict(list)
    for habit in look.ended:
        if habit.p < rate:
            by_account[habit.account].append(habit)
    for account in sorted(by_account.keys() | open_alarms.keys()):
        habits = sorted(by_account[account], key=lambda habit: -habit.expected)
        alarm = open_alarms.get(account)
        if alarm is None:
            first = min(habits, key=lambda habit: habit.p)
            alarm = _begin(
                look,
                account,
                Alarm.Signal.FEATURE,
                level,
                [_onset_day(look, habit.quiet_days) for habit in habits],
                window_days=first.window_days,
                observed=0,
                expected=first.expected,
                p=first.p,
            )
        yield _continue_events(alarm, look, habits)


def _continue_events(alarm: Alarm, look: Look, habits: Sequence["EndedHabit"]) -> Alarm:
    events = alarm.details.get("events", [])
    lost = [event for event in events if not _is_back(look, alarm.account_id, event)]
    now_lost = [event for event in lost if look.day < _day(event["since"]) + SETTLED_AFTER]
    old_ids = {event["id"] for event in events}
    now_lost += [_event(habit, look) for habit in habits if habit.name not in old_ids]
    if not now_lost:
        return _end(alarm, look, Alarm.Outcome.SETTLED if lost else Alarm.Outcome.RECOVERED)
    alarm.details = {"events": now_lost}
    alarm.latest = {"day": look.day.isoformat(), "events": len(now_lost)}
    return alarm


def _event(habit: "EndedHabit", look: Look) -> dict[str, Any]:
    return {
        "id": habit.name,
        "since": _onset_day(look, habit.quiet_days).isoformat(),
        "window_days": habit.window_days,
        "expected": round(habit.expected, 2),
        "comparable": habit.comparable,
        "ended": habit.ended,
        "p": habit.p,
    }


def _is_back(look: Look, account: int, event: Mapping[str, Any]) -> bool:
    return look.recent_uses.get((account, event["id"]), 0) >= RETURN_USER_DAYS


def _day(text: str) -> date:
    return date.fromisoformat(text)


# --- Users ------------------------------------------------------------------------------------


def _follow_leaving(look: Look, open_alarms: Mapping[int, Alarm]) -> Iterator[Alarm]:
    by_account = {users.account: users for users in look.leaving}
    for account in sorted(by_account.keys() | open_alarms.keys()):
        users, alarm = by_account.get(account), open_alarms.get(account)
        if alarm is None:
            if users is None or len(users.users) < MIN_QUIET_USERS or users.p >= LEAVING_ON:
                continue
            came = users.regular - len(users.users)
            enough = next(
                n for n, p in enumerate(users.tails) if n + 1 >= MIN_QUIET_USERS and p < LEAVING_ON
            )
            alarm = _begin(
                look,
                account,
                Alarm.Signal.LEAVING,
                ANY_LEVEL,
                [_onset_day(look, users.quiet_days[enough])],
                window_days=WINDOW_DAYS,
                observed=came,
                expected=users.regular * (1 - users.usual_share),
                p=users.p,
            )
        if users is None or users.p >= LEAVING_OFF or look.day >= alarm.since + SETTLED_AFTER:
            yield _end(alarm, look, _outcome_of(alarm, look))
        else:
            yield _continue_leaving(alarm, look, users)


def _continue_leaving(alarm: Alarm, look: Look, users: "QuietUsers") -> Alarm:
    numbers = {
        "quiet": len(users.users),
        "regular": users.regular,
        "usual_share": round(users.usual_share, 4),
        "p": users.p,
    }
    # Users who were quiet before are so still, unless they came: a look no longer expects them.
    before = [id for id in alarm.details.get("users", ()) if id not in users.users]
    absent = [id for id in before if (alarm.account_id, id) not in look.recent_users]
    alarm.details = {"users": absent + users.users, **numbers}
    alarm.latest = {"day": look.day.isoformat(), **numbers}
    return alarm


def _outcome_of(alarm: Alarm, look: Look) -> Alarm.Outcome:
    """Whether most of the users came back, or the account is without them now."""
    users = alarm.details["users"]
    back = sum((alarm.account_id, id) in look.recent_users for id in users)
    return Alarm.Outcome.RECOVERED if 2 * back > len(users) else Alarm.Outcome.SETTLED


def _follow_key_users(look: Look, open_alarms: Mapping[int, Alarm]) -> Iterator[Alarm]:
    for account, alarm in sorted(open_alarms.items()):
        if any((account, id) in look.recent_users for id in alarm.details["users"]):
            yield _end(alarm, look, Alarm.Outcome.RECOVERED)
        elif look.day >= alarm.since + SETTLED_AFTER:
            yield _end(alarm, look, Alarm.Outcome.SETTLED)
        else:
            last_day = _day(alarm.details["last_day"])
            alarm.latest = {"day": look.day.isoformat(), "quiet_days": (look.day - last_day).days}
            yield alarm
    for user in look.key_users:
        if user.account in open_alarms:
            continue
        alarm = _begin(
            look,
            user.account,
            Alarm.Signal.KEY_USER,
            ANY_LEVEL,
            [_onset_day(look, user.quiet_days)],
            window_days=WINDOW_DAYS,
            observed=0,
            expected=user.expected,
            p=user.ended / user.comparable,
        )
        alarm.details = {
            "users": [user.user],
            "share": round(user.share, 3),
            "last_day": (look.day - timedelta(days=user.quiet_days)).isoformat(),
            "comparable": user.comparable,
            "ended": user.ended,
        }
        alarm.latest = {"day": look.day.isoformat(), "quiet_days": user.quiet_days}
        yield alarm
