"""The events of a license: a pure function of everything that is known of it and of those linked to
it.

Nothing depends on the order in which syncs and reports arrived, on how often a row came, or on
today: only on the last day on which a sync looked.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date, timedelta

from marketplace.ledger.changes import change_events
from marketplace.ledger.inputs import (
    DEFAULTS,
    FeedbackEntry,
    Kind,
    LedgerSettings,
    LicenseInputs,
    days,
)
from marketplace.ledger.relations import Relations, relate
from marketplace.ledger.stages import Life, life_of
from marketplace.ledger.terms import term_events
from marketplace.ledger.trials import trial_events
from marketplace.ledger.vocabulary import Event, EventType


def license_events(
    inputs: LicenseInputs,
    linked: Iterable[LicenseInputs],
    looked_on: date,
    settings: LedgerSettings = DEFAULTS,
) -> list[Event]:
    """The license's events by date. *looked_on* is the day of the last sync that would have noticed
    any change."""
    every = [inputs, *linked]
    lives = [life_of(each, looked_on, settings) for each in every if each.observations]
    relations = relate(lives, settings)
    return events_of(lives[0], relations, settings) if inputs.observations else []


def events_of(life: Life, relations: Relations, settings: LedgerSettings = DEFAULTS) -> list[Event]:
    """The events of a life, of which the *relations* to other lives are known."""
    events = [
        *trial_events(life, relations, settings),
        *term_events(life, relations, settings),
        *change_events(life, settings),
        *_listing_events(life),
        *_feedback_events(life),
    ]
    events = list(_with_reasons(events, life.inputs.feedback, settings))
    events = list(_with_perhaps(events, life, relations))
    return sorted(_with_own_ids(events), key=lambda event: (event.date, event.type, event.anchor))


def next_deadline(life: Life, settings: LedgerSettings = DEFAULTS) -> date | None:
    """The next day from which on a sync that finds the license unchanged makes an event."""
    stage = life.last
    if stage.end is None or stage.kind not in (Kind.PAID, Kind.EVALUATION):
        return None
    if stage.last.status == "inactive":
        return None
    grace = settings.grace if stage.kind is Kind.PAID else settings.evaluation_grace
    is_cancelled = stage.last.status == "cancelled"
    deadline = stage.end + days(settings.report_lag if is_cancelled else grace)
    return deadline if deadline > stage.last_seen else None


def _with_own_ids(events: Iterable[Event]) -> Iterator[Event]:
    """The events, of which each has an anchor of its own: a customer may go from 10 seats to 20
    twice in a term."""
    counts: Counter[tuple[str, str]] = Counter()
    for event in sorted(events, key=lambda event: (event.date, event.type, event.anchor)):
        counts[event.type, event.anchor] += 1
        number = counts[event.type, event.anchor]
        yield event if number == 1 else replace(event, anchor=f"{event.anchor}#{number}")


# --- Reports --------------------------------------------------------------------------------


def _listing_events(life: Life) -> Iterator[Event]:
    """The days on which the license left the reports and returned. That is never churn."""
    for day, is_listed in sorted(life.inputs.listings):
        type = EventType.RELISTED if is_listed else EventType.UNLISTED
        site = life.rows[-1].cloud_id
        yield Event(type, day, day, day.isoformat(), site, {}, frozenset({"sync"}))


def _feedback_events(life: Life) -> Iterator[Event]:
    for entry in sorted(set(life.inputs.feedback), key=_feedback_key):
        event = Event(
            EventType.FEEDBACK,
            entry.date,
            entry.date,
            f"{entry.type}-{entry.date}",
            life.rows[-1].cloud_id,
            {"type": entry.type, "reason_key": entry.reason_key, "reason": entry.reason},
        )
        yield event.adding("feedback")


def _feedback_key(entry: FeedbackEntry) -> tuple[date, str, str, str]:
    return entry.date, entry.type, entry.reason_key, entry.reason


_EXPLAINED = {EventType.CANCELLED, EventType.CHURNED, EventType.EVALUATION_EXPIRED}


def _with_reasons(
    events: Iterable[Event], feedback: Iterable[FeedbackEntry], settings: LedgerSettings
) -> Iterator[Event]:
    """The events, those of leaving with the reason given nearest to them; churn after a refund has
    that reason. Source: C3, feedback, and example 30."""
    events, entries = list(events), sorted(set(feedback), key=_feedback_key)
    refund_dates = [event.date for event in events if event.type is EventType.REFUNDED]
    for event in events:
        near = [entry for entry in entries if _explains(entry, event, settings)]
        if event.type not in _EXPLAINED:
            yield event
        elif near:
            entry = min(
                near, key=lambda entry: (abs(entry.date - event.date), _feedback_key(entry))
            )
            reason = entry.reason_key or entry.reason
            yield event.adding("feedback", reason=reason, reason_text=entry.reason)
        elif event.type is EventType.CHURNED and any(
            abs(day - event.date) <= timedelta(settings.feedback_after) for day in refund_dates
        ):
            yield event.adding("transactions", reason="refund")
        else:
            yield event


_LEAVING = {EventType.BECAME_FREE, EventType.CHURNED, EventType.CANCELLED, EventType.UNLISTED}
_LEAVING |= {EventType.ENDED_EARLY}
_BEGINNING = {EventType.PURCHASED, EventType.FIRST_SEEN}


def _with_perhaps(events: list[Event], life: Life, relations: Relations) -> Iterator[Event]:
    """The events, those of leaving and of beginning with the license that perhaps continues it, or
    that it continues."""
    arrival = relations.perhaps_to.get(life.license)
    leaver = relations.perhaps_from.get(life.license)
    left_on = max((event.date for event in events if event.type in _LEAVING), default=None)
    for event in events:
        if arrival is not None and event.type in _LEAVING and event.date == left_on:
            yield event.adding(perhaps_to=arrival.license)
        elif leaver is not None and event.type in _BEGINNING:
            yield event.adding(perhaps_from=leaver.license)
        else:
            yield event


def _explains(entry: FeedbackEntry, event: Event, settings: LedgerSettings) -> bool:
    distance = (entry.date - event.date).days
    return -settings.feedback_before <= distance <= settings.feedback_after
