"""What changed, in words."""

from collections.abc import Iterator
from datetime import date

from engagement.activity.reading import Signal
from engagement.activity.sentences import describe_change
from engagement.insight_kinds import InsightKind
from engagement.models import Alarm
from engagement.scores.insight_texts import join_texts
from trends.changes.results import Changes, Period

MOST_NAMED_EVENTS = 3
_INSIGHTS: dict[str, InsightKind] = {
    Signal.FALL: "trend_down",
    Signal.RISE: "trend_up",
    Signal.FEATURE: "breadth_narrowing",
    Signal.LEAVING: "users_leaving",
    Signal.KEY_USER: "key_user_quiet",
}


def insight_of(signal: str, *, is_stopped: bool) -> InsightKind:
    """The insight that people know the alarm as."""
    return "activity_stopped" if is_stopped else _INSIGHTS[signal]


def describe_alarm(alarm: Alarm) -> str:
    """What is unusual, without the names of users."""
    match alarm.signal:
        case Signal.FEATURE:
            names = [f"“{event.get('name', '')}”" for event in alarm.details["events"]]
            if more := names[MOST_NAMED_EVENTS:]:
                names[MOST_NAMED_EVENTS:] = [f"{len(more):,} more"]
            return f"No longer used: {join_texts(names)}."
        case Signal.LEAVING:
            quiet, regular = alarm.details["quiet"], alarm.details["regular"]
            verb = "has" if quiet == 1 else "have"
            return (
                f"{quiet:,} of {regular:,} regular users {verb} not been seen for "
                f"{alarm.window_days} days."
            )
        case Signal.KEY_USER:
            since = date.fromisoformat(alarm.details["last_day"])
            return f"The most active user has not been seen since {format_day(since)}."
    return describe_change(alarm)


def describe_end(alarm: Alarm) -> str:
    """How the alarm ended."""
    if alarm.outcome == Alarm.Outcome.RECOVERED:
        return "Back to usual."
    level = {Signal.FALL: "at a lower level", Signal.RISE: "at a higher level"}
    return f"Settled {level.get(Signal(alarm.signal), 'as it is')}."


def format_day(day: date) -> str:
    return f"{day.day} {day:%B}"


def format_period(period: Period) -> str:
    """“9 to 15 November”."""
    first, last = period.first, period.last
    if first == last:
        return format_day(last)
    is_same_month = (first.year, first.month) == (last.year, last.month)
    return f"{first.day if is_same_month else format_day(first)} to {format_day(last)}"


def summary(changes: Changes) -> str:
    """The whole period in one sentence."""
    if changes.is_quiet:
        noun = "day" if changes.period.days == 1 else "week"
        return (
            f"A quiet {noun}: no alarm began or ended, and no account is new, stopped, or came "
            "back."
        )
    return f"{join_texts(list(_facts(changes))).capitalize()}."


def _facts(changes: Changes) -> Iterator[str]:
    if began := changes.began.count:
        yield f"{began:,} {_plural('alarm', began)} began"
    if ended := changes.ended.count:
        yield f"{ended:,} ended" if began else f"{ended:,} {_plural('alarm', ended)} ended"
    accounts = [
        (changes.new.count, "new"),
        (changes.stopped, "stopped"),
        (changes.returned, "came back"),
    ]
    counted = [(number, text) for number, text in accounts if number]
    for place, (number, text) in enumerate(counted):
        is_state = text == "new"
        verb = ("is " if number == 1 else "are ") if is_state else ""
        noun = f" {_plural('account', number)}" if not place else ""
        yield f"{number:,}{noun} {verb}{text}"
    if not (began or ended or counted):
        yield "accounts entered or left segments"


def _plural(noun: str, number: int) -> str:
    return noun if number == 1 else f"{noun}s"
