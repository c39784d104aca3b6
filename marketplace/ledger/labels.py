"""What became of each paid term and of each trial, to judge scores and to count rates by.

A label is what was true, and says since when it is known: before that, the outcome is open.
"""

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from marketplace.ledger.inputs import Kind
from marketplace.ledger.stages import Life, Stage
from marketplace.ledger.vocabulary import Event, EventType


class Outcome(StrEnum):
    RENEWED = "renewed"
    CHURNED = "churned"
    # Left out of rates: the customer went on elsewhere, or nobody can say.
    MOVED = "moved"
    UNKNOWN = "unknown"
    OPEN = "open"
    CONVERTED = "converted"
    NOT_CONVERTED = "not_converted"


@dataclass(frozen=True)
class TermLabel:
    """Whether the term that began on ``start`` and is due on a day was renewed.

    ``known_on`` is None while it is open. ``answered_on`` is when the customer first said so: by
    cancelling, by unsubscribing, or by renewing early. ``is_free`` if its sales add up to nothing.
    """

    license: str
    start: datetime.date
    due: datetime.date
    outcome: Outcome
    known_on: datetime.date | None
    answered_on: datetime.date | None
    is_annual: bool
    is_free: bool


@dataclass(frozen=True)
class TrialLabel:
    """Whether a customer's trial was bought, when (or on which day it ended), and since when that
    is known."""

    license: str
    cloud_id: str
    start: datetime.date
    outcome: Outcome
    date: datetime.date | None
    known_on: datetime.date | None


def label_terms(life: Life, events: Iterable[Event]) -> list[TermLabel]:
    """The labels of the license's terms. Sandboxes and the sites of a multi-instance license have
    none. Source: C4."""
    events = list(events)
    if life.inputs.is_sandbox or any(row.belongs_to_several_sites for row in life.rows):
        return []
    return [
        _label_term(life, stage, stage.end, events)
        for stage in life.stages
        if stage.kind is Kind.PAID and stage.end is not None
    ]


def _label_term(life: Life, stage: Stage, due: datetime.date, events: list[Event]) -> TermLabel:
    own = {event.type: event for event in events if event.anchor == due.isoformat()}
    outcome, event = _outcome(life, stage, due, own, events)
    answers = [own[type].known_on for type in _ANSWERS if type in own]
    answers += [
        entry.date
        for entry in life.inputs.feedback
        if entry.type == "unsubscribe" and stage.start <= entry.date < due
    ]
    lines = [
        line
        for line in life.inputs.lines
        if line.is_period and line.start is not None and stage.start <= line.start < due
    ]
    periods = [line.billing_period for line in lines if line.billing_period]
    period = periods[-1] if periods else stage.billing_period
    return TermLabel(
        life.license,
        stage.start,
        due,
        outcome,
        event.known_on if event else None,
        min(answers, default=None),
        period == "annual" or (not period and (due - stage.start).days >= _ANNUAL),
        bool(lines) and not sum(line.amount for line in lines),
    )


_ANSWERS = (EventType.CANCELLED, EventType.RENEWED)
_ANNUAL = 300


def _outcome(
    life: Life, stage: Stage, due: datetime.date, own: dict[EventType, Event], events: list[Event]
) -> tuple[Outcome, Event | None]:
    moves = [e for e in events if e.type is EventType.MOVED_SITE and e.anchor == "to"]
    first, is_last = stage.first, stage is life.stages[-1]
    listings = life.inputs.listings
    if not first.is_history and first.first_seen > due:
        return Outcome.UNKNOWN, None
    if (event := own.get(EventType.RENEWED)) is not None:
        return (Outcome.UNKNOWN if event.details.get("unseen") else Outcome.RENEWED), event
    is_left = is_last or EventType.BECAME_FREE in own
    if is_left and any("perhaps_to" in event.details for event in events):
        # Until a person decides.
        return Outcome.UNKNOWN, None
    if (event := own.get(EventType.CHURNED)) is not None:
        return Outcome.CHURNED, event
    if moves and is_left:
        return Outcome.MOVED, moves[0]
    if (event := own.get(EventType.BECAME_FREE)) is not None:
        return Outcome.CHURNED, event
    if is_last and listings and not listings[-1][1] and listings[-1][0] <= due:
        return Outcome.UNKNOWN, None
    return Outcome.OPEN, None


_RANKS = (Outcome.CHURNED, Outcome.MOVED, Outcome.UNKNOWN, Outcome.OPEN, Outcome.RENEWED)


def label_quarters(terms: Iterable[TermLabel]) -> list[TermLabel]:
    """The monthly terms of a license as one for each calendar quarter on whose first day it was
    paid: they are not independent. Source: C4."""
    by_quarter: dict[tuple[str, datetime.date], list[TermLabel]] = {}
    for term in terms:
        if not term.is_annual:
            first = datetime.date(term.due.year, (term.due.month - 1) // 3 * 3 + 1, 1)
            by_quarter.setdefault((term.license, first), []).append(term)
    return [
        replace(
            min(group, key=lambda term: _RANKS.index(term.outcome)),
            start=first,
            answered_on=min((term.answered_on for term in group if term.answered_on), default=None),
        )
        for (_, first), group in sorted(by_quarter.items())
        if min(term.start for term in group) <= first
    ]


def label_trials(life: Life, events: Iterable[Event]) -> list[TrialLabel]:
    """The labels of the license's trials. Each trial of a customer is one. Source: C4."""
    ends = {EventType.EVALUATION_BOUGHT: Outcome.CONVERTED}
    ends[EventType.EVALUATION_EXPIRED] = Outcome.NOT_CONVERTED
    by_anchor = {event.anchor: event for event in events if event.type in ends}
    labels = []
    for stage in life.stages:
        if stage.kind is Kind.EVALUATION:
            event = by_anchor.get(stage.anchor)
            outcome = ends[event.type] if event else Outcome.OPEN
            when = (event.date, event.known_on) if event else (None, None)
            labels.append(
                TrialLabel(life.license, stage.first.cloud_id, stage.start, outcome, *when)
            )
    return labels
