"""The metrics in plain Python, from a list of events. The SQL must agree with them."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from hypothesis import strategies as st

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
    """What a workspace scores, and with a half-life the day on whose scale raw scores are."""

    lookback: int = 7
    default_weight: int = 1
    weights: Mapping[str, int] | None = None
    half_life: int | None = None
    reference: date = date(2026, 9, 24)

    def unit(self, day: date) -> int:
        """What an event of the day with a weight of one adds to raw scores."""
        if self.half_life is None:
            return 1
        return round(math.pow(2, (day - self.reference).days / self.half_life) * 2**20)

    def weight(self, event: str) -> int:
        return (self.weights or {}).get(event, self.default_weight)

    def window(self, last: date) -> tuple[date, date]:
        return last - timedelta(days=self.lookback - 1), last


# The lookback and the half-life of a definition.
COUNTING = st.one_of(
    st.tuples(st.sampled_from([1, 7, 30]), st.none()),
    st.tuples(st.just(30), st.integers(7, 180)),
)


def definitions(names: Sequence[str]) -> st.SearchStrategy[Definition]:
    return st.builds(
        lambda counting, default_weight, weights: Definition(
            counting[0], default_weight, weights, counting[1]
        ),
        COUNTING,
        st.integers(0, 2),
        st.dictionaries(st.sampled_from(names), st.integers(0, 10)),
    )


def within(did: Did, first: date, last: date) -> bool:
    return first <= did.at.date() <= last


def raw(events: Iterable[Did], definition: Definition, last: date) -> int:
    """The raw score of the window that ends on *last*; with a half-life, of all days until then."""
    first, last = definition.window(last)
    if definition.half_life:
        first = date.min
    return sum(
        definition.weight(did.event) * definition.unit(did.at.date())
        for did in events
        if within(did, first, last)
    )


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
        points[did.user] += definition.weight(did.event) * definition.unit(did.at.date())
    active = {did.user for did in _scored(events, definition, today)}
    return numbers(events, definition, today) | {
        "active_users": len(active),
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


def is_active(events: Iterable[Did], definition: Definition, day: date) -> bool:
    return bool(_scored(events, definition, day))


def benchmark(raws: Iterable[float]) -> float | None:
    """The 90th percentile of what is above zero, linearly interpolated."""
    scored = sorted(value for value in raws if value > 0)
    if not scored:
        return None
    place = 0.9 * (len(scored) - 1)
    below = int(place)
    above = min(below + 1, len(scored) - 1)
    return scored[below] + (place - below) * (scored[above] - scored[below])


def benchmark_on(
    grouped: Mapping[str, list[Did]], definition: Definition, day: date
) -> float | None:
    """The benchmark of the subjects with these events who are active on the day."""
    return benchmark(
        raw(events, definition, day)
        for events in grouped.values()
        if is_active(events, definition, day)
    )


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
                raw(grouped[subject], definition, day), benchmark_on(grouped, definition, day)
            ),
        )
        for day in days
    ]


def points(events: Iterable[Did], definition: Definition, today: date) -> dict[str, int]:
    """What each event name adds to the raw score, in points of today."""
    by_name: dict[str, list[Did]] = {}
    for did in events:
        by_name.setdefault(did.event, []).append(did)
    by_event = {name: shown_points(own, definition, today) for name, own in by_name.items()}
    return {name: points for name, points in by_event.items() if points}


def shown_points(events: Iterable[Did], definition: Definition, day: date) -> int:
    """The raw score of the day in points of that day, straight from the ages of the events."""
    if definition.half_life is None:
        return raw(events, definition, day)
    return round(
        sum(
            definition.weight(did.event) * math.pow(2, -age / definition.half_life)
            for did in events
            if (age := (day - did.at.date()).days) >= 0
        )
    )
