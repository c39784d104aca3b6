"""The metrics in plain Python, from a list of events. The SQL must agree with them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from engagement.scores.formula import rounded_score


@dataclass(frozen=True)
class Did:
    """A user did an event, in an account or in none."""

    user: str
    event: str
    at: datetime
    account: str | None = None


@dataclass(frozen=True)
class Definition:
    """What a workspace scores."""

    lookback: int = 7
    default_weight: int = 1
    weights: Mapping[str, int] | None = None

    def weight(self, event: str) -> int:
        return (self.weights or {}).get(event, self.default_weight)

    def window(self, last: date) -> tuple[date, date]:
        return last - timedelta(days=self.lookback - 1), last


def within(did: Did, first: date, last: date) -> bool:
    return first <= did.at.date() <= last


def raw(events: Iterable[Did], definition: Definition, last: date) -> int:
    """The raw score of the window that ends on *last*."""
    first, last = definition.window(last)
    return sum(definition.weight(did.event) for did in events if within(did, first, last))


def numbers(events: list[Did], definition: Definition, today: date) -> dict[str, object]:
    """What an engagement row of a subject with these events holds."""
    first, last = definition.window(today)
    scored = [did for did in events if definition.weight(did.event) and did.at.date() <= today]
    recent = [did for did in scored if within(did, first, last)]
    return {
        "raw": raw(events, definition, today),
        "raw_yesterday": raw(events, definition, today - timedelta(days=1)),
        "raw_last_period": raw(events, definition, today - timedelta(days=definition.lookback)),
        "raw_yesterday_last_period": raw(
            events, definition, today - timedelta(days=1 + definition.lookback)
        ),
        "event_count": len(recent),
        "active_days": len({did.at.date() for did in recent}),
        "name_count": len({did.event for did in recent}),
        "last_active_at": max((did.at for did in scored), default=None),
    }


def account_numbers(
    events: list[Did], definition: Definition, today: date, members: Iterable[str] = ()
) -> dict[str, object]:
    """The same for an account, with its users: its *members* and whoever did something in it."""
    before = today - timedelta(days=definition.lookback)
    points = Counter[str]()
    for did in _scored(events, definition, today):
        points[did.user] += definition.weight(did.event)
    return numbers(events, definition, today) | {
        "active_users": len(points),
        "top_user_points": max(points.values(), default=0),
        "active_users_last_period": len({did.user for did in _scored(events, definition, before)}),
        "name_count_last_period": len({did.event for did in _scored(events, definition, before)}),
        "total_users": len(
            {
                *members,
                *(did.user for did in events if within(did, today - timedelta(days=89), today)),
            }
        ),
    }


def _scored(events: Iterable[Did], definition: Definition, last: date) -> list[Did]:
    """The scored events of the window that ends on *last*."""
    first, last = definition.window(last)
    return [did for did in events if definition.weight(did.event) and within(did, first, last)]


def benchmark(raws: Iterable[int]) -> float | None:
    """The 90th percentile of what is above zero, linearly interpolated."""
    scored = sorted(value for value in raws if value > 0)
    if not scored:
        return None
    place = 0.9 * (len(scored) - 1)
    below = int(place)
    above = min(below + 1, len(scored) - 1)
    return scored[below] + (place - below) * (scored[above] - scored[below])


def by_subject(events: Iterable[Did], subject: str) -> dict[str, list[Did]]:
    """The events of each user, or of each account."""
    grouped: dict[str, list[Did]] = {}
    for did in events:
        name = getattr(did, subject)
        if name is not None:
            grouped.setdefault(name, []).append(did)
    return grouped


def history(
    subject: str, grouped: Mapping[str, list[Did]], definition: Definition, today: date
) -> list[tuple[date, float]]:
    """The subject's score on each of the last 90 days, each with the benchmark of its day."""
    days = [today - timedelta(days=ago) for ago in reversed(range(90))]
    return [
        (
            day,
            rounded_score(
                raw(grouped[subject], definition, day),
                benchmark(raw(events, definition, day) for events in grouped.values()),
            ),
        )
        for day in days
    ]


def points(events: Iterable[Did], definition: Definition, today: date) -> dict[str, int]:
    """What each event name adds to the raw score."""
    first, last = definition.window(today)
    counted = Counter(did.event for did in events if within(did, first, last))
    return {
        name: count * definition.weight(name)
        for name, count in counted.items()
        if definition.weight(name)
    }
