"""Events of paid terms: purchased, renewed, churned, won back, and what ends a license early."""

from collections.abc import Iterator
from datetime import date
from itertools import pairwise
from typing import Any

from marketplace.ledger.inputs import Kind, LedgerSettings, Observation, TransactionLine, days
from marketplace.ledger.relations import Relations
from marketplace.ledger.stages import Life, Stage
from marketplace.ledger.vocabulary import Event, EventType


def term_events(life: Life, relations: Relations, settings: LedgerSettings) -> Iterator[Event]:
    yield from _origin(life, relations, settings)
    for stage, after in pairwise(life.stages):
        if stage.kind is Kind.PAID:
            yield from _after_term(life, stage, after, settings)
        elif after.kind is Kind.PAID and stage.kind is not Kind.EVALUATION:
            yield _at(after.first, EventType.PURCHASED, after.start, _text(after.first.end))
        elif after.kind is Kind.FREE:
            yield _at(after.first, EventType.FREE_STARTED, after.start, stage.anchor)
    if (arrival := relations.moved_to.get(life.license)) is not None:
        yield _moved(life, arrival, "to")
    elif life.last.kind is Kind.PAID:
        yield from _after_last_term(life, relations, settings)
    for stage in life.stages:
        if stage.kind is Kind.PAID:
            yield from _early_ends(stage)
    yield from _refunds(life, settings)


def _at(row: Observation, type: EventType, day: date, anchor: str = "") -> Event:
    return Event(type, day, row.as_of, anchor, row.cloud_id, {}, frozenset({row.source}))


def _text(day: date | None) -> str:
    return day.isoformat() if day else ""


# --- The beginning --------------------------------------------------------------------------


def _origin(life: Life, relations: Relations, settings: LedgerSettings) -> Iterator[Event]:
    """How the license began, if that was no trial and continues no other license.
    Source: C3, first_seen and purchased."""
    first, row = life.first, life.first.first
    if first.kind is Kind.EVALUATION or life.license in relations.bought:
        return
    if (previous := relations.predecessors.get(life.license)) is not None:
        if _lapse_between(previous, life.first, settings):
            won_back = _at(row, EventType.WON_BACK, first.start, _text(previous.last.end))
            yield won_back.adding(license=previous.license)
        return
    if (leaver := relations.moved_from.get(life.license)) is not None:
        yield _moved(life, leaver, "from")
        return
    line = next((line for line in life.inputs.lines if line.sale_type == "new"), None)
    if first.kind is Kind.PAID and line is not None and line.start is not None:
        known_on = min(row.as_of, line.sale_date or row.as_of)
        event = Event(EventType.PURCHASED, line.start, known_on, "", row.cloud_id)
        yield event.adding("transactions")
    elif life.is_origin_known and first.kind is Kind.PAID:
        yield _at(row, EventType.PURCHASED, first.start)
    elif life.is_origin_known and first.kind is Kind.FREE:
        yield _at(row, EventType.FREE_STARTED, first.start)
    else:
        yield _at(row, EventType.FIRST_SEEN, row.as_of)


def _moved(life: Life, other: Life, direction: str) -> Event:
    row, there = (
        (life.rows[-1], other.rows[0]) if direction == "to" else (life.rows[0], other.rows[-1])
    )
    event = _at(row, EventType.MOVED_SITE, max(row.as_of, there.as_of), direction)
    return event.adding(license=other.license, direction=direction)


# --- From one term to what follows -----------------------------------------------------------


def gap_days(stage: Stage, after: Stage) -> int:
    """Unpaid days between a term and the next one."""
    return max(0, (_begin_of(after, stage) - stage.left_on).days) if stage.left_on else 0


def _begin_of(stage: Stage, before: Stage) -> date:
    """The day on which a term begins after another one.

    Its start may be that of the first term, or of the trial. Then it says nothing of a gap, and its
    first state counts if an inactive one shows that nobody paid until then.
    """
    is_true = stage.start > before.start
    return stage.start if is_true or before.inactive_from is None else stage.first.as_of


def is_lapse_seen(life: Life, stage: Stage, settings: LedgerSettings) -> bool:
    """Whether somebody saw that nobody paid after the term: an inactive state, the complete
    history, or a sync that still found the old state when grace was over. Without it, weeks without
    syncs would be churn. Source: C3, churned."""
    if life.inputs.has_history or stage.inactive_from is not None:
        return True
    return stage.end is not None and stage.last_seen >= _lapse_known_on(stage, stage.end, settings)


def _lapse_known_on(stage: Stage, end: date, settings: LedgerSettings) -> date:
    is_cancelled = stage.last.status == "cancelled"
    return end + days(settings.report_lag if is_cancelled else settings.grace)


def _lapse_between(life: Life, after: Stage, settings: LedgerSettings) -> bool:
    gap = gap_days(life.last, after)
    return gap > settings.grace and is_lapse_seen(life, life.last, settings)


def _after_term(
    life: Life, stage: Stage, after: Stage, settings: LedgerSettings
) -> Iterator[Event]:
    row, anchor = after.first, _text(stage.end)
    if after.kind is Kind.FREE:
        yield _at(row, EventType.BECAME_FREE, row.as_of, anchor)
    elif after.kind is Kind.EVALUATION:
        day = min(stage.left_on or row.as_of, row.as_of)
        yield _at(row, EventType.CHURNED, day, anchor)
    elif after.kind is Kind.PAID and stage.end is not None:
        gap = gap_days(stage, after)
        if gap > settings.grace and is_lapse_seen(life, stage, settings):
            yield _churned(stage, settings)
            yield _at(row, EventType.WON_BACK, _begin_of(after, stage), anchor)
        else:
            yield _renewed(stage, after, gap, settings)


def _renewed(stage: Stage, after: Stage, gap: int, settings: LedgerSettings) -> Event:
    """A renewal at the old end. Details: the new end, unpaid days, the periods paid for, and
    whether nobody looked while it was unpaid. Source: C3, renewed."""
    assert stage.end is not None
    until = after.end or stage.end
    length = max(1, (until - max(after.start, stage.end)).days)
    details: dict[str, Any] = {
        "until": until.isoformat(),
        "gap_days": gap,
        "periods": max(1, round((until - stage.end).days / length)),
    }
    if gap > settings.grace:
        details["unseen"] = True
    return _at(after.first, EventType.RENEWED, stage.end, _text(stage.end)).adding(**details)


def is_renewal(life: Life, stage: Stage, after: Stage, settings: LedgerSettings) -> bool:
    """Whether *after* continues the paid *stage*."""
    is_lapse = gap_days(stage, after) > settings.grace
    return after.kind is Kind.PAID and not (is_lapse and is_lapse_seen(life, stage, settings))


def _churned(stage: Stage, settings: LedgerSettings) -> Event:
    """Churn at the old end, or at the day on which the license ended early. An inactive state shows
    it at once; else it is known at the end of a cancelled license, or when grace is over."""
    assert stage.end is not None and stage.left_on is not None
    row = stage.inactive_from or stage.last
    known_on = stage.end + days(settings.grace)
    if stage.inactive_from is not None:
        known_on = row.as_of
    elif stage.last.status == "cancelled":
        known_on = stage.end
    event = _at(row, EventType.CHURNED, stage.left_on, _text(stage.end))
    return Event(**{**vars(event), "known_on": known_on})


# --- The last term --------------------------------------------------------------------------


def _after_last_term(life: Life, relations: Relations, settings: LedgerSettings) -> Iterator[Event]:
    """What became of the last term: another license of the site continues it, or nobody does. A
    sync must have seen the end. Source: C3, churned."""
    stage = life.last
    successor = relations.successors.get(life.license)
    if successor is not None and not _lapse_between(life, successor.first, settings):
        if stage.end is not None:
            gap = gap_days(stage, successor.first)
            event = _renewed(stage, successor.first, gap, settings)
            yield event.adding(license=successor.license)
        return
    if stage.end is not None and _is_lapse_final(stage, settings):
        yield _churned(stage, settings)


def _is_lapse_final(stage: Stage, settings: LedgerSettings) -> bool:
    assert stage.end is not None
    return stage.inactive_from is not None or (
        stage.last_seen >= _lapse_known_on(stage, stage.end, settings)
    )


def _early_ends(stage: Stage) -> Iterator[Event]:
    """Inactive before the end, and active again with the same end.
    Source: C3, ended_early and reinstated."""
    was_inactive = False
    for row in stage.rows:
        is_inactive, end = row.status == "inactive", row.end or stage.end
        if is_inactive and not was_inactive and end is not None and row.as_of < end:
            yield _at(row, EventType.ENDED_EARLY, row.as_of, _text(end))
        elif was_inactive and row.status == "active":
            yield _at(row, EventType.REINSTATED, row.as_of, _text(end))
        was_inactive = is_inactive


# --- Money back -----------------------------------------------------------------------------


def _refunds(life: Life, settings: LedgerSettings) -> Iterator[Event]:
    """Money back for the rest of a period. An upgrade is a refund, too, with another line on that
    day. Source: C3, ended_early, and A2."""
    lines = life.inputs.lines
    for line in lines:
        if line.is_refund and line.sale_date is not None and _is_whole(line, lines, settings):
            row = life.rows[-1]
            event = Event(
                EventType.REFUNDED,
                line.sale_date,
                line.sale_date,
                line.transaction_id,
                row.cloud_id,
                {"reason": str(line.fields.get("refundReason") or "")},
            )
            yield event.adding("transactions")


def _is_whole(
    refund: TransactionLine, lines: list[TransactionLine], settings: LedgerSettings
) -> bool:
    same_day = [line for line in lines if line.sale_date == refund.sale_date and not line.is_refund]
    if any(_replaces(line, refund) for line in same_day):
        return False
    ends = [
        line.end
        for line in lines
        if line.is_period and line.end and line.start and refund.start
        if line.start <= refund.start < line.end
    ]
    return not ends or (
        refund.end is not None and refund.end >= max(ends) - days(settings.extension)
    )


def _replaces(line: TransactionLine, refund: TransactionLine) -> bool:
    is_change = line.sale_type in ("upgrade", "downgrade")
    return is_change or (line.sale_type == "renewal" and line.tier != refund.tier)
