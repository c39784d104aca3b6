"""Events of a license that goes on: seats, editions, payment, cancellation, billing, its site."""

import hashlib
from collections.abc import Iterator
from datetime import date
from itertools import pairwise

from marketplace.ledger.inputs import Kind, LedgerSettings, Observation
from marketplace.ledger.stages import Life, Stage
from marketplace.ledger.terms import is_renewal
from marketplace.ledger.vocabulary import Event, EventType

# Editions of the marketplace, from the smallest on.
_EDITIONS = ("free", "standard", "advanced")


def change_events(life: Life, settings: LedgerSettings) -> Iterator[Event]:
    for stage in life.stages:
        if stage.kind in (Kind.PAID, Kind.EVALUATION):
            yield from _cancellations(stage)
    for stretch in _paid_stretches(life):
        if not life.inputs.is_sandbox:
            yield from _seats(life, stretch, settings)
        yield from _editions(life, stretch, settings)
        yield from _edition_trials(stretch)
        yield from _payments(life, stretch)
    yield from _billing(life, settings)
    yield from _sites(life)


def _at(row: Observation, type: EventType, day: date, anchor: str) -> Event:
    return Event(type, day, row.as_of, anchor, row.cloud_id, {}, frozenset({row.source}))


def _paid_stretches(life: Life) -> Iterator[list[Stage]]:
    """Paid terms without another kind between them."""
    stretch: list[Stage] = []
    for stage in life.stages:
        if stage.kind is Kind.PAID:
            stretch.append(stage)
        elif stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def _dated_rows(
    life: Life, stretch: list[Stage], settings: LedgerSettings
) -> Iterator[tuple[Observation, date]]:
    """Each state, and the day of a change that it shows: that of the renewal with which it came."""
    for before, stage in pairwise([None, *stretch]):
        assert stage is not None
        renews = before is not None and is_renewal(life, before, stage, settings)
        for row in stage.rows:
            is_first = row is stage.first and before is not None and renews
            yield row, (before.end or row.as_of) if before is not None and is_first else row.as_of


def _cancellations(stage: Stage) -> Iterator[Event]:
    """Active to cancelled, and back with the same end. Source: C3, cancelled and resumed."""
    previous = ""
    for row in stage.rows:
        anchor = (row.end or stage.start).isoformat()
        if row.status == "cancelled" and previous in ("", "active"):
            yield _at(row, EventType.CANCELLED, row.as_of, anchor)
        elif previous == "cancelled" and row.status == "active":
            yield _at(row, EventType.RESUMED, row.as_of, anchor)
        previous = row.status


def _seats(life: Life, stretch: list[Stage], settings: LedgerSettings) -> Iterator[Event]:
    """Another number of seats, by the renewal if that brought it. The tiers of sandboxes change
    constantly. Source: C3, seats_up and seats_down."""
    previous: int | None = None
    for row, day in _dated_rows(life, stretch, settings):
        seats = row.seats
        if seats is None or row.status == "inactive":
            continue
        if previous is not None and seats != previous:
            type = EventType.SEATS_UP if seats > previous else EventType.SEATS_DOWN
            event = _at(row, type, day, f"{previous}-{seats}-{row.end}")
            yield event.adding(**{"from": previous, "to": seats})
        previous = seats


def _editions(life: Life, stretch: list[Stage], settings: LedgerSettings) -> Iterator[Event]:
    """Another edition, like seats. Source: C3, edition_up and edition_down."""
    previous = ""
    for row, day in _dated_rows(life, stretch, settings):
        edition = row.edition
        if edition.lower() not in _EDITIONS or row.status == "inactive" or row.edition_trial_start:
            # While an edition is on trial, the license may name it already.
            continue
        ranks = [_EDITIONS.index(name.lower()) for name in (previous, edition) if name]
        if previous and ranks[0] != ranks[1]:
            type = EventType.EDITION_UP if ranks[0] < ranks[1] else EventType.EDITION_DOWN
            event = _at(row, type, day, f"{previous}-{edition}-{row.end}")
            yield event.adding(**{"from": previous, "to": edition})
        previous = edition


def _edition_trials(stretch: list[Stage]) -> Iterator[Event]:
    """Another day on which an edition was first tried. Source: C3, edition_trial_started."""
    previous: date | None = None
    for stage in stretch:
        for row in stage.rows:
            start = row.edition_trial_start
            if start is not None and (previous is None or start > previous):
                event = _at(row, EventType.EDITION_TRIAL_STARTED, start, start.isoformat())
                edition = row.fields.get("upgradeEvaluatingEdition")
                yield event.adding(**({"edition": edition} if edition else {}))
                previous = start


def _payments(life: Life, stretch: list[Stage]) -> Iterator[Event]:
    """Grace or an invoice that could not be collected, on a license that costs something, and its
    end. Licenses that never paid have such invoices, too. Source: C3, payment_failed, and A1."""
    lines = [line for line in life.inputs.lines if not line.is_refund]
    is_sold = any(line.amount > 0 for line in lines)
    anchor = ""
    for stage in stretch:
        for row in stage.rows:
            may_owe = is_sold or not lines
            is_failing = row.status != "inactive" and (
                (row.is_overdue and may_owe) or (row.has_uncollected_invoice and is_sold)
            )
            if is_failing and not anchor:
                anchor = (row.end or row.as_of).isoformat()
                yield _at(row, EventType.PAYMENT_FAILED, row.as_of, anchor)
            elif anchor and not is_failing and row.status == "active":
                yield _at(row, EventType.PAYMENT_RECOVERED, row.as_of, anchor)
                anchor = ""


def _billing(life: Life, settings: LedgerSettings) -> Iterator[Event]:
    """Monthly to annual or back: by the lines of orders; without any, by periods that are clearly
    one or the other. Source: C3, billing_changed."""
    lines = [
        line for line in life.inputs.lines if line.is_period and line.billing_period and line.start
    ]
    if lines:
        for previous, line in pairwise(lines):
            if previous.billing_period != line.billing_period and line.start is not None:
                known_on = line.sale_date or line.start
                event = Event(EventType.BILLING_CHANGED, line.start, known_on)
                yield _billing_change(
                    event, previous.billing_period, line.billing_period, "transactions"
                )
        return
    for before, stage in pairwise(life.stages):
        periods = before.billing_period, stage.billing_period
        if all(periods) and periods[0] != periods[1]:
            row = stage.first
            event = _at(row, EventType.BILLING_CHANGED, stage.start, "")
            yield _billing_change(event, *periods, row.source)


def _billing_change(event: Event, before: str, after: str, source: str) -> Event:
    event = event.adding(source, **{"from": before, "to": after})
    return Event(**{**vars(event), "anchor": f"{after}-{event.date}"})


def _sites(life: Life) -> Iterator[Event]:
    """Another Cloud ID of the same license. Source: C3, moved_site."""
    rows = [row for row in life.rows if row.cloud_id]
    for previous, row in pairwise(rows):
        if previous.cloud_id != row.cloud_id:
            # Ids of sites may be longer than an anchor.
            sites = f"{previous.cloud_id}>{row.cloud_id}".encode()
            anchor = hashlib.blake2b(sites, digest_size=8).hexdigest()
            event = _at(row, EventType.MOVED_SITE, row.as_of, anchor)
            yield event.adding(from_site=previous.cloud_id, to_site=row.cloud_id)
