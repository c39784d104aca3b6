"""The insights that subscriptions can be about."""

from engagement.activity.reading import Signal
from engagement.insight_kinds import INSIGHTS, InsightKind
from engagement.models import Alarm

# The alarm that an insight tells of.
SIGNALS: dict[str, Signal] = {
    "activity_stopped": Signal.FALL,
    "trend_down": Signal.FALL,
    "trend_up": Signal.RISE,
    "users_leaving": Signal.LEAVING,
    "key_user_quiet": Signal.KEY_USER,
    "breadth_narrowing": Signal.FEATURE,
}
# Alarms are a part of their rules.
BY_ALARMS = {*SIGNALS, "renewal_at_risk", "seats_unused"}
_SETTLED: dict[str, str] = {
    Signal.FALL: "settled at a lower level",
    Signal.RISE: "settled at a higher level",
}


def insight_choices() -> list[tuple[str, str]]:
    """Each kind with its label."""
    return [(kind, info.label) for kind, info in INSIGHTS.items()]


def insight_label(kind: str) -> str:
    return dict(insight_choices()).get(kind, kind)


def insight_kind(kind: str) -> InsightKind | None:
    """The kind, or None if no release knows it any more."""
    return kind if kind in INSIGHTS else None


def describe_end(alarm: Alarm | None) -> str:
    """How the insight ended, after a colon; empty if its last alarm does not say."""
    if alarm is None:
        return ""
    match alarm.outcome:
        case Alarm.Outcome.RECOVERED:
            return ": back to usual"
        case Alarm.Outcome.SETTLED:
            return f": {_SETTLED.get(alarm.signal, 'usual by now')}"
        case Alarm.Outcome.REPLACED:
            return ": decided again, with data that came later"
    if alarm.signal != Alarm.Signal.FALL:
        return ""
    return ": activity has stopped" if alarm.is_stopped else ": there is activity again"
