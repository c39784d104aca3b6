"""Compares the ledger's events with those that the marketplace counts.

The marketplace counts by definitions of its own, which differ between its reports, so its numbers
are shown beside ours and never change the ledger.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, LiteralString, NamedTuple

from core.database import sql
from marketplace.ledger import event_texts, monthly
from marketplace.ledger.inputs import DEFAULTS
from marketplace.ledger.monthly import OTHER
from marketplace.ledger.vocabulary import EventType
from marketplace.models import MetricEvent

Metric = MetricEvent.Metric

# The events that each metric counts.
EVENT_TYPES: Final = {
    Metric.CHURN: EventType.CHURNED,
    Metric.CONVERSION: EventType.EVALUATION_BOUGHT,
    Metric.RENEWAL: EventType.RENEWED,
}
# Days between our date and theirs: the same event on the same day, and perhaps the same event.
SAME_DAY, SAME_EVENT = 3, 31
# Months that a license is valid: of a monthly and of an annual term.
_MONTHLY_UP_TO, _ANNUAL_FROM = 1, 10


class CountedEvent(NamedTuple):
    """An event of a license on a day, as either side counts it. *term* is empty if nobody knows
    it, or for a conversion."""

    license: str
    date: date
    term: str = ""
    cloud_id: str = ""


# An event with both sides, ours first, of which one may lack it.
Side = tuple[CountedEvent | None, CountedEvent | None]


class Matching(NamedTuple):
    """The events that both sides have, ours first, and those that only one has."""

    pairs: list[tuple[CountedEvent, CountedEvent]]
    only_ours: list[CountedEvent]
    only_theirs: list[CountedEvent]

    def sides(self) -> Iterator[Side]:
        yield from self.pairs
        yield from ((event, None) for event in self.only_ours)
        yield from ((None, event) for event in self.only_theirs)


class MonthCounts(NamedTuple):
    """The events of a term in a month, by its first day. Each side's are in the months of its own
    dates. *differing* counts licenses that only one side has, or that both have on other days."""

    month: date
    term: str
    ours: int
    theirs: int
    differing: int


@dataclass(frozen=True)
class Difference:
    """A license of which the sides have different events. A day is None if a side has none."""

    license: str
    cloud_id: str
    ours: date | None
    theirs: date | None
    reason: str


def match(ours: Sequence[CountedEvent], theirs: Sequence[CountedEvent]) -> Matching:
    """Match the events of the same license whose dates are at most a month apart, the closest
    first."""
    others: dict[str, list[CountedEvent]] = defaultdict(list)
    for event in theirs:
        others[event.license].append(event)
    own: dict[str, list[CountedEvent]] = defaultdict(list)
    for event in ours:
        own[event.license].append(event)
    matching = Matching([], [], [])
    for license in own | others:
        _match_license(own.get(license, []), others.get(license, []), matching)
    for events in matching:
        events.sort()
    return matching


def _match_license(
    ours: list[CountedEvent], theirs: list[CountedEvent], matching: Matching
) -> None:
    distances = sorted(
        (days, own, other)
        for own, event in enumerate(ours)
        for other, candidate in enumerate(theirs)
        if (days := abs((event.date - candidate.date).days)) <= SAME_EVENT
    )
    unmatched: list[set[int]] = [set(range(len(ours))), set(range(len(theirs)))]
    for _, own, other in distances:
        if own in unmatched[0] and other in unmatched[1]:
            unmatched[0].remove(own)
            unmatched[1].remove(other)
            matching.pairs.append((ours[own], theirs[other]))
    matching.only_ours.extend(ours[place] for place in unmatched[0])
    matching.only_theirs.extend(theirs[place] for place in unmatched[1])


def differs(ours: CountedEvent | None, theirs: CountedEvent | None) -> bool:
    """Whether only one side has the event, or both in different months, or on days that are further
    apart than definitions explain."""
    if ours is None or theirs is None or month_of(ours) != month_of(theirs):
        return True
    return abs((ours.date - theirs.date).days) > SAME_DAY


def month_of(event: CountedEvent) -> date:
    """The month that counts the event, by its first day."""
    return event.date.replace(day=1)


def count_by_month(matching: Matching) -> list[MonthCounts]:
    """The counts of each month and term that has an event. Both sides of a pair are of one term:
    ours, unless the ledger does not know it."""
    numbers: list[Counter[tuple[date, str]]] = [Counter(), Counter(), Counter()]
    for ours, theirs in matching.sides():
        terms = [event.term for event in (ours, theirs) if event]
        term = next((term for term in terms if term not in ("", OTHER)), terms[0])
        months = {month_of(event) for event in (ours, theirs) if event}
        for number, event in zip(numbers, (ours, theirs), strict=False):
            if event:
                number[month_of(event), term] += 1
        if differs(ours, theirs):
            numbers[2].update((month, term) for month in months)
    keys = sorted(set().union(*numbers))
    return [MonthCounts(*key, *(number[key] for number in numbers)) for key in keys]


# --- What is stored -------------------------------------------------------------------------

# The license of the ledger that has one of the names, the first one if they belong to several.
_THEIRS: LiteralString = """
    SELECT coalesce(
               (SELECT a.license FROM marketplace_licensealias a
                WHERE a.product_id = %(product)s AND a.name = ANY(m.names)
                ORDER BY array_position(m.names, a.name) LIMIT 1), m.name),
           m.date, m.months, m.cloud_id
    FROM marketplace_metricevent m
    WHERE m.product_id = %(product)s AND m.metric = %(metric)s
      AND m.date >= %(since)s AND m.date < %(until)s
"""


def compare(product_id: int, metric: Metric, since: date, until: date) -> Matching:
    """What both sides have from *since* to the day before *until*. An event near these days may be
    the other side of one in them."""
    since, until = since - timedelta(SAME_EVENT), until + timedelta(SAME_EVENT)
    own = monthly.events_of(product_id, EVENT_TYPES[metric], since, until)
    parameters = {"product": product_id, "metric": metric.value, "since": since, "until": until}
    # A license may have had another first name when the same event was read before.
    theirs = {
        (license, day): CountedEvent(license, day, _term(months, metric), cloud_id)
        for license, day, months, cloud_id in sql.fetch(_THEIRS, parameters)
    }
    return match([CountedEvent(*values) for values in own], list(theirs.values()))


def _term(months: int | None, metric: Metric) -> str:
    if metric is Metric.CONVERSION:
        return ""
    if months is None:
        return OTHER
    if months <= _MONTHLY_UP_TO:
        return monthly.MONTHLY
    return monthly.ANNUAL if months >= _ANNUAL_FROM else OTHER


# --- Why they differ ------------------------------------------------------------------------

_CONTEXT: LiteralString = """
    SELECT l.license, l.cloud_id, coalesce(lower(l.facts->>'installedOnSandbox') = 'yes', false),
           (SELECT min(o.as_of) FROM marketplace_observation o
            WHERE o.product_id = %(product)s AND o.license = l.license)
    FROM marketplace_ledgerlicense l
    WHERE l.product_id = %(product)s AND l.license = ANY(%(licenses)b::text[])
"""
_NEAR: LiteralString = """
    SELECT e.license, e.type, e.date FROM marketplace_licenseevent e
    WHERE e.product_id = %(product)s AND e.license = ANY(%(licenses)b::text[])
      AND e.withdrawn_at IS NULL AND e.type <> ALL(%(unrelated)b::text[])
      AND e.date >= %(since)s AND e.date <= %(until)s
"""
# What says nothing about whether the customer goes on paying.
_UNRELATED = (
    *(EventType.FEEDBACK, EventType.SEATS_UP, EventType.SEATS_DOWN, EventType.FIRST_SEEN),
    *(EventType.EDITION_UP, EventType.EDITION_DOWN, EventType.EDITION_TRIAL_STARTED),
)
_FREE = (EventType.BECAME_FREE, EventType.FREE_STARTED)


class _Context(NamedTuple):
    """What the ledger knows of a license."""

    cloud_id: str
    is_sandbox: bool
    first_day: date
    events: list[tuple[str, date]]


def explain(
    product_id: int,
    metric: Metric,
    sides: Iterable[Side],
    read_on: date,
) -> list[Difference]:
    """The differences of these licenses with their reasons, as far as the ledger knows them.
    *read_on* is the day on which the marketplace's counts were last read."""
    every = list(sides)
    dates = [event.date for side in every for event in side if event]
    if not dates:
        return []
    licenses = sorted({event.license for side in every for event in side if event})
    span = (min(dates) - timedelta(SAME_EVENT), max(dates) + timedelta(SAME_EVENT))
    contexts = _contexts(product_id, licenses, *span)
    return [_difference(metric, ours, theirs, contexts, read_on) for ours, theirs in every]


def _contexts(
    product_id: int, licenses: list[str], since: date, until: date
) -> dict[str, _Context]:
    parameters = {"product": product_id, "licenses": licenses, "since": since, "until": until}
    contexts = {
        license: _Context(cloud_id, is_sandbox, first_day or date.max, [])
        for license, cloud_id, is_sandbox, first_day in sql.fetch(_CONTEXT, parameters)
    }
    unrelated = [type.value for type in _UNRELATED]
    for license, type, day in sql.fetch(_NEAR, {**parameters, "unrelated": unrelated}):
        if license in contexts:
            contexts[license].events.append((type, day))
    return contexts


def _difference(
    metric: Metric,
    ours: CountedEvent | None,
    theirs: CountedEvent | None,
    contexts: dict[str, _Context],
    read_on: date,
) -> Difference:
    event = ours or theirs
    assert event is not None
    context = contexts.get(event.license)
    if ours and theirs:
        is_near = abs((ours.date - theirs.date).days) <= SAME_DAY
        reason = f"Both have it, {'in different months' if is_near else 'on different days'}."
    elif ours:
        reason = _why_only_ours(ours, context, read_on)
    else:
        reason = _why_only_theirs(metric, event, context, read_on)
    cloud_id = event.cloud_id or (context.cloud_id if context else "")
    return Difference(event.license, cloud_id, ours and ours.date, theirs and theirs.date, reason)


def _why_only_ours(event: CountedEvent, context: _Context | None, read_on: date) -> str:
    if event.date > read_on - timedelta(DEFAULTS.report_lag):
        return "The marketplace’s reports lag behind: it may still count this."
    return "The license is on a sandbox." if context and context.is_sandbox else ""


def _why_only_theirs(
    metric: Metric, event: CountedEvent, context: _Context | None, read_on: date
) -> str:
    if context is None:
        return "The ledger does not know this license."
    if event.date < context.first_day:
        return f"The ledger’s first state of this license is of {_day(context.first_day)}."
    near = sorted((abs((day - event.date).days), day, type) for type, day in context.events)
    near = [row for row in near if row[0] <= SAME_EVENT]
    if metric is Metric.CHURN:
        if reason := _known_reason(near):
            return reason
        if event.date > read_on - timedelta(DEFAULTS.grace):
            return f"The ledger waits for {DEFAULTS.grace} days: it may still count this."
    return f"The ledger has: {event_texts.title(near[0][2])}, {_day(near[0][1])}." if near else ""


def _known_reason(near: Sequence[tuple[int, date, str]]) -> str:
    """Why the marketplace counts churn and the ledger does not; "" if that is not known."""
    days = {type: day for _, day, type in reversed(near)}
    if moved_on := days.get(EventType.MOVED_SITE):
        return (
            f"The license moved to another site on {_day(moved_on)}. The marketplace counts the "
            "old site as lost."
        )
    free_on = next((days[type] for type in _FREE if type in days), None)
    if free_on is None:
        return ""
    return (
        f"The license became free on {_day(free_on)}. The marketplace counts the move from STARTER "
        "to FREE as churn."
    )


def _day(day: date) -> str:
    return f"{day.day} {day:%b %Y}"
