"""What became of each term and of each trial, to judge scores and to count rates by.

A label is what was true, and says since when it is known: before that, the outcome is open. What
rates leave out has a label with the reason.
"""

import datetime
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from marketplace.ledger.inputs import Kind
from marketplace.ledger.relations import Relations
from marketplace.ledger.stages import Life, Stage
from marketplace.ledger.vocabulary import Event, EventType
from outcomes import kinds as outcomes
from outcomes.kinds import Exclusion
from outcomes.sources.licenses import OutcomeRow


class Outcome(StrEnum):
    RENEWED = "renewed"
    # With fewer seats.
    RENEWED_LOWER = "renewed_lower"
    CHURNED = "churned"
    # Left out of rates: the customer went on elsewhere, or nobody can say.
    MOVED = "moved"
    UNKNOWN = "unknown"
    OPEN = "open"
    BOUGHT = "bought"
    NOT_BOUGHT = "not_bought"


@dataclass(frozen=True)
class Label:
    """What became of the term or the trial that began on ``start`` and is due on a day.

    ``known_on`` and ``decided_on`` are None while it is open. ``answered_on`` is a day before
    ``due`` on which the customer had said it: by cancelling, by unsubscribing, or by renewing,
    buying, or leaving early. ``seats`` are those of its last state, ``cents`` what its sales add up
    to; None if unknown. ``earlier_seats`` are those of its states before, each with the first day
    on which it had others.
    """

    license: str
    cloud_id: str
    start: datetime.date
    due: datetime.date
    outcome: Outcome
    known_on: datetime.date | None
    decided_on: datetime.date | None
    answered_on: datetime.date | None
    exclusion: Exclusion | None
    seats: int | None
    cents: int | None = None
    is_annual: bool = False
    earlier_seats: tuple[tuple[str, int | None], ...] = ()


_LABELED = (Kind.PAID, Kind.INTERNAL)
_LEFT_OUT = {
    Outcome.MOVED: Exclusion.MOVED,
    Outcome.UNKNOWN: Exclusion.UNKNOWN,
    Outcome.OPEN: Exclusion.OPEN,
}


def outcomes_of(life: Life, events: Iterable[Event], relations: Relations) -> list[OutcomeRow]:
    """All that became of the license, as rows to store."""
    events = list(events)
    terms = label_terms(life, events, relations)
    renewals = [term for term in terms if term.is_annual]
    return [
        *(_row(outcomes.Kind.RENEWAL, label, label.outcome) for label in renewals),
        *(_row(outcomes.Kind.MONTHLY_STAY, label, _stay(label)) for label in label_quarters(terms)),
        *(
            _row(outcomes.Kind.EVALUATION, label, label.outcome)
            for label in label_trials(life, events)
        ),
    ]


def _stay(label: Label) -> str:
    return "stayed" if label.outcome in _RENEWED else label.outcome


def _row(kind: outcomes.Kind, label: Label, result: str) -> OutcomeRow:
    return OutcomeRow(
        license=label.license,
        kind=kind.value,
        day=label.due,
        cloud_id=label.cloud_id,
        began_on=label.start,
        known_on=label.known_on,
        answered_on=label.answered_on,
        decided_on=label.decided_on,
        result=str(result),
        exclusion=str(label.exclusion or ""),
        seats=label.seats,
        cents=label.cents,
        earlier_seats=json.dumps(label.earlier_seats) if label.earlier_seats else None,
    )


def label_terms(life: Life, events: Iterable[Event], relations: Relations) -> list[Label]:
    """The labels of the license's terms, and of the times in which it was the vendor's own.
    Source: C4."""
    events = list(events)
    return [
        _label_term(life, stage, stage.end, events, relations)
        for stage in life.stages
        if stage.kind in _LABELED and stage.end is not None
    ]


def _label_term(
    life: Life, stage: Stage, due: datetime.date, events: list[Event], relations: Relations
) -> Label:
    own = {event.type: event for event in events if event.anchor == due.isoformat()}
    outcome, event = _outcome(life, stage, due, own, events)
    if outcome is Outcome.RENEWED and _has_fewer_seats(life, stage, relations):
        outcome = Outcome.RENEWED_LOWER
    lines = [
        line
        for line in life.inputs.lines
        if line.is_period and line.start is not None and stage.start <= line.start < due
    ]
    periods = [line.billing_period for line in lines if line.billing_period]
    period = periods[-1] if periods else stage.billing_period
    cents = round(100 * sum(line.amount for line in lines)) if lines else None
    return Label(
        life.license,
        stage.last.cloud_id,
        stage.start,
        due,
        outcome,
        event.known_on if event else None,
        event.date if event else None,
        _answered_on(life, stage, due, [own.get(EventType.CANCELLED), event]),
        _exclusion(life, stage, outcome, is_free=cents == 0),
        stage.last.seats,
        cents,
        period == "annual" or (not period and (due - stage.start).days >= _ANNUAL),
        tuple(
            (row.as_of.isoformat(), before.seats)
            for before, row in pairwise(stage.rows)
            if before.seats != row.seats
        ),
    )


_ANNUAL = 300


def _has_fewer_seats(life: Life, stage: Stage, relations: Relations) -> bool:
    """Whether the term that continues this one, perhaps of another license, has fewer seats."""
    place = life.stages.index(stage) + 1
    successor = relations.successors.get(life.license)
    after = life.stages[place] if place < len(life.stages) else successor and successor.first
    seats = after.first.seats if after else None
    return seats is not None and stage.last.seats is not None and seats < stage.last.seats


def _answered_on(
    life: Life, stage: Stage, due: datetime.date, answers: Iterable[Event | None]
) -> datetime.date | None:
    days = [min(event.date, event.known_on) for event in answers if event is not None]
    days += [
        entry.date
        for entry in life.inputs.feedback
        if entry.type == "unsubscribe" and stage.start <= entry.date < due
    ]
    return min((day for day in days if day < due), default=None)


def _exclusion(
    life: Life, stage: Stage, outcome: Outcome, *, is_free: bool = False
) -> Exclusion | None:
    if life.inputs.is_sandbox:
        return Exclusion.SANDBOX
    if any(row.belongs_to_several_sites for row in life.rows):
        return Exclusion.SITE_OF_A_LARGER_LICENSE
    if stage.kind is Kind.INTERNAL:
        return Exclusion.INTERNAL
    return Exclusion.FREE if is_free else _LEFT_OUT.get(outcome)


def _outcome(
    life: Life, stage: Stage, due: datetime.date, own: dict[EventType, Event], events: list[Event]
) -> tuple[Outcome, Event | None]:
    moves = [e for e in events if e.type is EventType.MOVED_SITE and e.anchor == "to"]
    is_last = stage is life.stages[-1]
    listings = life.inputs.listings
    if _is_first_seen_after(stage, due):
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


def _is_first_seen_after(stage: Stage, due: datetime.date) -> bool:
    """Whether it was over when it was first seen. Of what ended before the first sync, the reports
    have only a part, so rates would be wrong."""
    return not stage.first.is_history and stage.first.first_seen > due


_RENEWED = (Outcome.RENEWED, Outcome.RENEWED_LOWER)
_RANKS = (Outcome.CHURNED, Outcome.MOVED, Outcome.UNKNOWN, Outcome.OPEN, *_RENEWED)


def label_quarters(terms: Iterable[Label]) -> list[Label]:
    """The monthly terms of a license as one for each calendar quarter on whose first day it was
    paid: they are not independent. Source: C4.

    The label is that of the term that decided: the one that was not renewed, or else the last one.
    So each is about a term that was due, and what was known before that.
    """
    by_quarter: dict[tuple[str, datetime.date], list[Label]] = {}
    for term in terms:
        if not term.is_annual:
            first = datetime.date(term.due.year, (term.due.month - 1) // 3 * 3 + 1, 1)
            by_quarter.setdefault((term.license, first), []).append(term)
    return [
        replace(min(reversed(group), key=_rank), start=first)
        for (_, first), group in sorted(by_quarter.items())
        if min(term.start for term in group) <= first
    ]


def _rank(term: Label) -> int:
    return min(_RANKS.index(term.outcome), _RANKS.index(Outcome.RENEWED))


_ENDS = {
    EventType.EVALUATION_BOUGHT: Outcome.BOUGHT,
    EventType.EVALUATION_EXPIRED: Outcome.NOT_BOUGHT,
}


def label_trials(life: Life, events: Iterable[Event]) -> list[Label]:
    """The labels of the license's trials. Each trial of a customer is one. Source: C4."""
    events = list(events)
    return [
        _label_trial(life, stage, events) for stage in life.stages if stage.kind is Kind.EVALUATION
    ]


def _label_trial(life: Life, stage: Stage, events: list[Event]) -> Label:
    event = next((e for e in events if e.type in _ENDS and e.anchor == stage.anchor), None)
    due = stage.end or (event.date if event else stage.start)
    cancelled = [e for e in events if e.type is EventType.CANCELLED and e.anchor == due.isoformat()]
    outcome = _ENDS[event.type] if event else Outcome.OPEN
    if _is_first_seen_after(stage, due):
        outcome = Outcome.UNKNOWN
    seats = stage.last.seats
    # What was bought before the first look no longer says what was asked for: to know it of the
    # others alone would tell what became of them.
    if seats is None and (outcome is Outcome.OPEN or life.inputs.is_new):
        seats = life.inputs.seats_asked
    return Label(
        life.license,
        stage.first.cloud_id,
        stage.start,
        due,
        outcome,
        event.known_on if event else None,
        event.date if event else None,
        _answered_on(life, stage, due, [*cancelled, event]),
        _exclusion(life, stage, outcome),
        seats,
    )
