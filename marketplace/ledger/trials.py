"""Events of trials: started, extended, bought, expired."""

from collections.abc import Iterator
from datetime import date

from marketplace.ledger.inputs import Kind, LedgerSettings, days
from marketplace.ledger.relations import Relations
from marketplace.ledger.stages import Life, Stage
from marketplace.ledger.vocabulary import Event, EventType


def trial_events(life: Life, relations: Relations, settings: LedgerSettings) -> Iterator[Event]:
    for place, stage in enumerate(life.stages):
        if stage.kind is not Kind.EVALUATION:
            continue
        after = life.stages[place + 1] if place + 1 < len(life.stages) else None
        yield _at(stage, EventType.EVALUATION_STARTED, stage.start, stage.first.as_of)
        yield from _extensions(stage, settings)
        if after is not None and after.kind is Kind.PAID:
            yield _bought_here(life, stage, after)
        elif (buyer := relations.purchases.get((life.license, stage.anchor))) is not None:
            yield _bought_elsewhere(stage, buyer)
        elif (expiry := _expiry(stage, after, settings)) is not None:
            yield _at(stage, EventType.EVALUATION_EXPIRED, *expiry)


def _at(stage: Stage, type: EventType, day: date, known_on: date) -> Event:
    row = stage.first if type is EventType.EVALUATION_STARTED else stage.last
    return Event(type, day, known_on, stage.anchor, row.cloud_id, {}, frozenset({row.source}))


def _extensions(stage: Stage, settings: LedgerSettings) -> Iterator[Event]:
    """Each end that moves a week or more; less is aligned to the day of billing.
    Source: C3, evaluation_extended."""
    end = stage.first.end
    for row in stage.rows[1:]:
        if row.end is None:
            continue
        if end is not None and row.end - end >= days(settings.extension):
            yield Event(
                EventType.EVALUATION_EXTENDED,
                row.as_of,
                row.as_of,
                f"{end}-{row.end}",
                row.cloud_id,
                {"days": (row.end - end).days, "until": row.end.isoformat()},
                frozenset({row.source}),
            )
        end = row.end


def _bought_here(life: Life, trial: Stage, term: Stage) -> Event:
    """The sale's day, else the start of the paid period if it is after the trial's, else the
    trial's end or the day on which the license was paid. Source: C3, evaluation_bought."""
    row = term.first
    starts = (row.day("latestMaintenanceStartDate"), row.day("maintenanceStartDate"))
    paid_from = [day for day in starts if day is not None and day > trial.start]
    day = _sale_date(life, trial) or max(paid_from, default=min(row.as_of, trial.end or row.as_of))
    return _bought(trial, term, day)


def _bought_elsewhere(trial: Stage, buyer: Life) -> Event:
    term = buyer.first
    event = _bought(trial, term, _sale_date(buyer, trial) or term.start)
    return event.adding(license=buyer.license)


def _sale_date(life: Life, trial: Stage) -> date | None:
    from_facts = life.inputs.sale_date
    return from_facts if from_facts is not None and from_facts >= trial.start else None


def _bought(trial: Stage, term: Stage, day: date) -> Event:
    row = term.first
    event = _at(trial, EventType.EVALUATION_BOUGHT, day, max(row.as_of, trial.start))
    return event.adding(row.source, **({"seats": row.seats} if row.seats else {}))


def _expiry(
    trial: Stage, after: Stage | None, settings: LedgerSettings
) -> tuple[date, date] | None:
    """The day on which a trial ended and that on which it was known; None while it is open. A trial
    of which no sync has seen the end is open. Source: C3, evaluation_expired."""
    end, row = trial.end, trial.inactive_from
    if row is not None:
        ended = min(row.as_of, end or row.as_of)
        return ended, row.as_of
    if after is not None:
        return min(end or after.first.as_of, after.first.as_of), after.first.as_of
    if end is None:
        return None
    if trial.last.status == "cancelled" and trial.last_seen >= end + days(settings.report_lag):
        return end, end
    known_on = end + days(settings.evaluation_grace)
    return (end, known_on) if trial.last_seen >= known_on else None
