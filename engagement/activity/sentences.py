"""What alarms say: the usual range, how rare the numbers are by chance, and the sentences.

An *active user-day* is a user who did something that counts on one day.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from engagement.alarms.levels import GREATEST_YEARS, once_in_days, usual_range
from engagement.insight_kinds import UnknownReason
from engagement.models import Alarm

# Alarms per account-quarter and unit of p, where a workspace has measured none of its own.
KAPPA = 20.0
DAYS_PER_YEAR = 365.25
_WEEKS = {14: "two weeks", 28: "four weeks", 56: "eight weeks"}

_NAMES = {
    Alarm.Signal.FALL: "Activity falling",
    Alarm.Signal.RISE: "Activity rising",
    Alarm.Signal.FEATURE: "Fewer events in use",
    Alarm.Signal.LEAVING: "Users leaving",
    Alarm.Signal.KEY_USER: "Most active user quiet",
}
ENDED = {
    Alarm.Outcome.RECOVERED: "back to usual",
    Alarm.Outcome.SETTLED: "settled at the new level",
}


def alarm_name(alarm: Alarm) -> str:
    """What the alarm says, in a few words."""
    is_stop = alarm.signal == Alarm.Signal.FALL and alarm.is_stopped
    return "Activity stopped" if is_stop else _NAMES[Alarm.Signal(alarm.signal)]


@dataclass(frozen=True)
class Figures:
    """What an alarm was decided by, of the last night: active user-days of ``window_days``, and
    what was expected. ``common_change`` is how comparable accounts moved, 0.02 for two percent."""

    window_days: int
    observed: int
    expected: float
    dispersion: float
    p: float
    common_change: float | None
    kappa: float

    @classmethod
    def of(cls, alarm: Alarm) -> "Figures":
        latest = {**alarm.details, **alarm.latest}
        common = latest.get("common")
        return cls(
            latest.get("window_days", alarm.window_days),
            latest.get("observed", alarm.observed),
            latest.get("expected", alarm.expected),
            latest.get("dispersion", alarm.dispersion),
            latest.get("p", alarm.p),
            None if common is None else common - 1,
            latest.get("kappa", KAPPA),
        )

    @property
    def usual(self) -> tuple[int, int]:
        return usual_range(self.expected, self.dispersion)

    @property
    def once_in_days(self) -> float:
        return once_in_days(self.p, self.kappa)


def rarity(days: float) -> str:
    """“Once in” this number of days, in words."""
    years = days / DAYS_PER_YEAR
    if years >= GREATEST_YEARS:
        return f"less than once in {GREATEST_YEARS:.0f} years"
    if years >= 1:
        number = round(years)
        return "once a year" if number == 1 else f"once in {number} years"
    number = round(12 * years)
    if not number:
        return "more than once a month"
    return "once a month" if number == 1 else f"once in {number} months"


def alarm_numbers(alarm: Alarm) -> dict[str, Any]:
    """The numbers of an alarm about an account's activity, for programs."""
    figures = Figures.of(alarm)
    low, high = figures.usual
    first, last = alarm.baseline_from, alarm.baseline_to
    baseline = None
    if first and last:
        weeks = ((last - first).days + 1) // 7
        baseline = {"from": first.isoformat(), "to": last.isoformat(), "weeks": weeks}
    return {
        "window_days": figures.window_days,
        "observed": figures.observed,
        "expected": round(figures.expected, 1),
        "expected_low": low,
        "expected_high": high,
        "common_change": _rounded(figures.common_change),
        "once_in_days": round(figures.once_in_days),
        "p": figures.p,
        "since": alarm.since.isoformat(),
        "baseline": baseline,
    }


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 3)


# --- Sentences ------------------------------------------------------------------------------


def describe_change(alarm: Alarm) -> str:
    """That activity falls or rises."""
    figures = Figures.of(alarm)
    low, high = figures.usual
    return (
        f"Usually {low:,}–{high:,} active user-days in {_window(figures)}, now "
        f"{figures.observed:,}. By chance this account would do so {rarity(figures.once_in_days)}. "
        f"Since {_day(alarm.since)}.{_comparison(figures)}"
    )


def describe_stop(alarm: Alarm, days: int) -> str:
    """That there was no activity for this many days."""
    figures = Figures.of(alarm)
    expected = figures.expected * days / figures.window_days
    low, high = usual_range(expected, _dispersion(alarm, figures, days))
    return f"No activity for {days:,} days; expected {low:,}–{high:,} user-days in that time."


def describe_new_level(alarm: Alarm) -> str:
    """That activity stays at its new level."""
    figures = Figures.of(alarm)
    low, high = figures.usual
    level = "lower" if alarm.signal == Alarm.Signal.FALL else "higher"
    return (
        f"Settled at a {level} level since {_day(alarm.since)}: {figures.observed:,} active "
        f"user-days in {_window(figures)}, usually {low:,}–{high:,} before."
    )


def describe_unknown(reason: UnknownReason, user_days: float) -> str:
    """Why nobody can tell about an account with this many active user-days in 28 days."""
    match reason:
        case "too_new":
            return "Cannot tell yet: an account needs ten weeks of activity to compare with."
        case "not_decided":
            return "Cannot tell yet: alarms are decided after the end of each day (UTC)."
    if user_days < 1:
        return "Cannot tell: with no activity in most months, silence would be nothing unusual."
    return (
        f"Cannot tell yet: with {_user_days(round(user_days))} a month, eight silent weeks would "
        "be nothing unusual."
    )


def _dispersion(alarm: Alarm, figures: Figures, days: int) -> float:
    """That of a window of *days*: what is unsure about the baseline weighs more in a longer one."""
    if alarm.baseline_from is None or alarm.baseline_to is None:
        return figures.dispersion
    baseline = (alarm.baseline_to - alarm.baseline_from + timedelta(days=1)).days
    growth = (1 + days / baseline) / (1 + figures.window_days / baseline)
    return figures.dispersion * max(1.0, growth)


def _window(figures: Figures) -> str:
    return _WEEKS.get(figures.window_days, f"{figures.window_days} days")


def _comparison(figures: Figures) -> str:
    if figures.common_change is None:
        return ""
    percent = round(100 * figures.common_change)
    sign = "+" if percent > 0 else "\N{MINUS SIGN}" if percent < 0 else "±"
    return f" Comparable accounts: {sign}{abs(percent)}%."


def _day(day: date) -> str:
    return f"{day.day} {day:%B}"


def _user_days(number: int) -> str:
    return "1 active user-day" if number == 1 else f"{number:,} active user-days"
