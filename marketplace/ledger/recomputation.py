"""Computes the events and outcomes of licenses again: of those with something new, and of those
whose deadline a sync has seen pass.

A step is one transaction, so a worker that dies leaves events and outcomes as they were before it.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, LiteralString

import msgspec

from core.database import locks, sql
from core.jobs import kinds
from core.jobs.kinds import Done, More, Outcome
from core.models import Job
from marketplace.ledger import observations
from marketplace.ledger.accounts import note_changed_events
from marketplace.ledger.events import events_of, next_deadline
from marketplace.ledger.inputs import (
    DEFAULTS,
    FeedbackEntry,
    LicenseInputs,
    Observation,
    TransactionLine,
)
from marketplace.ledger.labels import outcomes_of
from marketplace.ledger.relations import MAX_LINKED, relate
from marketplace.ledger.stages import Life, life_of
from marketplace.ledger.vocabulary import Event
from marketplace.licenses.conversion import ParsedLicense
from marketplace.models import Connection, Ledger, LedgerLicense
from outcomes.sources import licenses as outcomes

KIND: Final = "license events"
QUEUE: Final = "marketplace"
BATCH_SIZE = 500
# An event that was first known longer ago is no news. Source: C1.
NEWS_DAYS = 7


def register() -> None:
    kinds.register(
        KIND,
        "Computes what happened to licenses, after syncs and reports.",
        queue=QUEUE,
        step=recompute_some,
        keys=_products_with_work,
        title=lambda product_id: f"product {product_id}",
    )
    observations.register_times()


# A connection without a ledger is one of an earlier release.
_WITH_WORK: LiteralString = """
    SELECT c.product_id
    FROM marketplace_connection c
    JOIN engagement_product p ON p.id = c.product_id AND p.deletion_requested_at IS NULL
    LEFT JOIN marketplace_ledger g ON g.product_id = c.product_id
    LEFT JOIN outcomes_licenserevision r ON r.product_id = c.product_id
    WHERE g.needs_fill IS NOT FALSE
       OR COALESCE(r.revision, 0) <> g.revision
       OR (g.filled_at IS NULL AND c.full_synced_at IS NOT NULL)
       OR EXISTS (SELECT FROM marketplace_ledgerlicense l
                  WHERE l.product_id = c.product_id AND l.stale > 0)
       OR EXISTS (SELECT FROM marketplace_ledgerlicense l
                  WHERE l.product_id = c.product_id
                    AND l.deadline <= (g.looked_at AT TIME ZONE 'UTC')::date)
    ORDER BY c.product_id
"""


def _products_with_work() -> list[int]:
    return [product_id for (product_id,) in sql.fetch(_WITH_WORK)]


def recompute_some(job: Job, now: datetime) -> Outcome:
    """Compute the events of some licenses of the product again, or fill in stored licenses that the
    ledger lacks."""
    product_id = int(job.key)
    if not locks.share_lock_products([product_id]):
        return Done()
    Ledger.objects.get_or_create(product_id=product_id)
    ledger = Ledger.objects.select_for_update(no_key=True).get(product_id=product_id)
    if ledger.needs_fill:
        filled = _fill_some(product_id, ledger, now)
        Ledger.objects.filter(product=product_id).update(needs_fill=filled == BATCH_SIZE)
        return More(job.cursor, progress=job.progress)
    batch = _take(product_id, ledger)
    if batch:
        _recompute(product_id, batch, ledger, now)
        return More(job.cursor, progress=job.progress + len(batch))
    if outcomes.revision_of(product_id) != ledger.revision:
        last, count = _recompute_next(product_id, job.cursor or "", ledger, now)
        return More(last, progress=job.progress + count)
    connection = Connection.objects.filter(product=product_id).first()
    if ledger.filled_at is None and connection and connection.full_synced_at:
        Ledger.objects.filter(product=product_id).update(filled_at=now)
    return Done()


# --- Licenses of before the ledger -----------------------------------------------------------

_UNKNOWN: LiteralString = """
    SELECT l.key, l.cloud_id, l.fields::text, l.digest
    FROM marketplace_license l
    WHERE l.product_id = %(product)s AND NOT EXISTS (
        SELECT FROM marketplace_licensealias a
        WHERE a.product_id = l.product_id AND a.name = l.key)
    ORDER BY l.key LIMIT %(limit)s
"""


def _fill_some(product_id: int, ledger: Ledger, now: datetime) -> int:
    """Store the present states of licenses that the ledger lacks: those that were imported before
    there was one, and those of which a part was forgotten. Returns how many."""
    rows = sql.fetch(_UNKNOWN, {"product": product_id, "limit": BATCH_SIZE})
    licenses = [
        ParsedLicense(key, cloud_id, msgspec.json.decode(fields), fields.encode(), digest)
        for key, cloud_id, fields, digest in rows
    ]
    observations.observe(product_id, licenses, now, ledger, is_new=False)
    return len(rows)


# --- Which licenses -------------------------------------------------------------------------

_TAKE_STALE: LiteralString = """
    SELECT l.license, l.links, l.stale FROM marketplace_ledgerlicense l
    WHERE l.product_id = %(product)s AND l.stale > 0
    ORDER BY l.license LIMIT %(limit)s
    FOR NO KEY UPDATE
"""
_TAKE_DUE: LiteralString = """
    SELECT l.license, l.links, l.stale FROM marketplace_ledgerlicense l
    WHERE l.product_id = %(product)s AND l.deadline <= %(looked_on)s
    ORDER BY l.license LIMIT %(limit)s
    FOR NO KEY UPDATE
"""
# The planner would compare each row of the product with thousands of links or names. The sums in
# such statements and this setting leave it the index.
_BY_INDEX: LiteralString = "SELECT set_config('enable_seqscan', %(setting)s, true)"
_LINKED: LiteralString = """
    SELECT l.license, l.links FROM marketplace_ledgerlicense l
    WHERE l.product_id + 0 = %(product)s AND l.links && %(links)b::text[]
"""
Taken = Sequence[tuple[str, list[str], int]]


def _looked_on(ledger: Ledger) -> date:
    return ledger.looked_at.astimezone(UTC).date() if ledger.looked_at else date.min


def _take(product_id: int, ledger: Ledger) -> Taken:
    parameters = {"product": product_id, "limit": BATCH_SIZE, "looked_on": _looked_on(ledger)}
    return sql.fetch(_TAKE_STALE, parameters) or sql.fetch(_TAKE_DUE, parameters)


def _fetch_overlapping(statement: LiteralString, parameters: dict[str, Any]) -> list[sql.Row]:
    sql.fetch(_BY_INDEX, {"setting": "off"})
    rows = sql.fetch(statement, parameters)
    sql.fetch(_BY_INDEX, {"setting": "on"})
    return rows


def _find_linked(product_id: int, batch: Taken) -> tuple[set[str], set[str]]:
    """The licenses that share a link with those of the batch, and of these the ones linked to a
    license of which something is new."""
    links = sorted({link for _, links, _ in batch for link in links})
    rows = _fetch_overlapping(_LINKED, {"product": product_id, "links": links})
    counts = Counter(link for _, own in rows for link in own)
    own_links: dict[bool, set[str]] = defaultdict(set)
    for _, own, stale in batch:
        own_links[stale == LedgerLicense.Stale.CHANGED].update(own)
    usable = {link for link, count in counts.items() if 1 < count <= MAX_LINKED}
    batch_licenses = {license for license, *_ in batch}
    changed_links, all_links = (
        own_links[True] & usable,
        (own_links[True] | own_links[False]) & usable,
    )
    linked = {license for license, own in rows if not all_links.isdisjoint(own)} - batch_licenses
    own_rows: dict[str, list[str]] = dict(rows)
    return linked, {
        license for license in linked if not changed_links.isdisjoint(own_rows[license])
    }


_TAKE_NEXT: LiteralString = """
    SELECT l.license, l.links, l.stale FROM marketplace_ledgerlicense l
    WHERE l.product_id = %(product)s AND l.license > %(after)s
    ORDER BY l.license LIMIT %(limit)s
    FOR NO KEY UPDATE
"""


def _recompute_next(
    product_id: int, after: str, ledger: Ledger, now: datetime
) -> tuple[str | None, int]:
    """Compute the next licenses again, of which a release without outcomes wrote the events.
    Returns the last one, None after all, and their number."""
    parameters = {"product": product_id, "after": after, "limit": BATCH_SIZE}
    batch = sql.fetch(_TAKE_NEXT, parameters)
    if batch:
        _recompute(product_id, batch, ledger, now)
        return batch[-1][0], len(batch)
    outcomes.follow(product_id, ledger.revision)
    return None, 0


# --- Their events ---------------------------------------------------------------------------


def _recompute(product_id: int, batch: Taken, ledger: Ledger, now: datetime) -> None:
    licenses = [license for license, *_ in batch]
    linked, to_recompute = _find_linked(product_id, batch)
    lives = {
        inputs.license: life_of(inputs, _looked_on(ledger), DEFAULTS)
        for inputs in load_inputs(product_id, {*licenses, *linked})
        if inputs.observations
    }
    relations = relate(lives.values(), DEFAULTS)
    computed = [
        (lives[license], events_of(lives[license], relations))
        for license in licenses
        if license in lives
    ]
    writes = _write_events(product_id, licenses, computed, ledger, now)
    rows = [row for each in computed for row in outcomes_of(*each, relations)]
    writes += outcomes.replace(product_id, licenses, rows)
    LedgerLicense.objects.filter(
        product=product_id, license__in=sorted(to_recompute), stale=LedgerLicense.Stale.NO
    ).update(stale=LedgerLicense.Stale.LINKED)
    _rest(product_id, licenses, lives)
    if writes:
        Ledger.objects.filter(product=product_id).update(revision=ledger.revision + 1)
        if outcomes.revision_of(product_id) == ledger.revision:
            outcomes.follow(product_id, ledger.revision + 1)


_REST: LiteralString = """
    UPDATE marketplace_ledgerlicense l SET stale = 0, deadline = k.deadline
    FROM unnest(%(licenses)b::text[], %(deadlines)b::date[]) AS k(license, deadline)
    WHERE l.product_id = %(product)s AND l.license = k.license
"""


def _rest(product_id: int, licenses: Sequence[str], lives: dict[str, Life]) -> None:
    deadlines = []
    for license in licenses:
        life = lives.get(license)
        is_listed = life is not None and life.inputs.is_listed
        deadlines.append(next_deadline(life) if life is not None and is_listed else None)
    sql.execute(_REST, {"product": product_id, "licenses": list(licenses), "deadlines": deadlines})


# --- What they follow from ------------------------------------------------------------------

_LICENSES: LiteralString = """
    SELECT l.license, l.facts::text, l.links, l.listings::text, l.is_new, l.has_history, l.seen_at
    FROM marketplace_ledgerlicense l
    WHERE l.product_id = %(product)s AND l.license = ANY(%(licenses)b::text[])
    ORDER BY l.license
"""
_OBSERVATIONS: LiteralString = """
    SELECT o.license, o.as_of, o.first_seen, o.last_seen, o.digest, o.fields::text, o.source
    FROM marketplace_observation o
    WHERE o.product_id = %(product)s AND o.license = ANY(%(licenses)b::text[])
    ORDER BY o.license, o.as_of, o.first_seen
"""
_NAMES: LiteralString = """
    SELECT a.license, a.name FROM marketplace_licensealias a
    WHERE a.product_id = %(product)s AND a.license = ANY(%(licenses)b::text[])
"""
_TRANSACTIONS: LiteralString = """
    SELECT t.names, t.transaction_id, t.line_item_id, t.sale_date, t.fields::text
    FROM marketplace_transaction t
    WHERE t.product_id + 0 = %(product)s AND t.names && %(names)b::text[]::varchar[]
"""
_FEEDBACK: LiteralString = """
    SELECT f.names, f.date, f.type, f.reason_key, f.reason
    FROM marketplace_feedback f
    WHERE f.product_id + 0 = %(product)s AND f.names && %(names)b::text[]::varchar[]
"""


def load_inputs(product_id: int, licenses: Collection[str]) -> list[LicenseInputs]:
    """All that is known of these licenses."""
    parameters: dict[str, Any] = {"product": product_id, "licenses": sorted(licenses)}
    names: dict[str, set[str]] = defaultdict(set)
    owners: dict[str, str] = {}
    for license, name in sql.fetch(_NAMES, parameters):
        names[license].add(name)
        owners[name] = license
    states: dict[str, list[Observation]] = defaultdict(list)
    for license, *values in sql.fetch(_OBSERVATIONS, parameters):
        states[license].append(_observation(*values))
    parameters["names"] = sorted(owners)
    transactions: dict[str, list[TransactionLine]] = defaultdict(list)
    for own, order, item, sold_on, fields in _fetch_overlapping(_TRANSACTIONS, parameters):
        line = TransactionLine(order, item, sold_on, msgspec.json.decode(fields))
        for license in _owners(own, owners):
            transactions[license].append(line)
    feedback: dict[str, list[FeedbackEntry]] = defaultdict(list)
    for own, *entry in _fetch_overlapping(_FEEDBACK, parameters):
        for license in _owners(own, owners):
            feedback[license].append(FeedbackEntry(*entry))
    return [
        LicenseInputs(
            license,
            _seen_until(states[license], seen_at),
            tuple(transactions[license]),
            tuple(feedback[license]),
            frozenset(names[license]),
            msgspec.json.decode(facts),
            frozenset(links),
            tuple((date.fromisoformat(day), is_in) for day, is_in in msgspec.json.decode(listings)),
            is_new,
            has_history,
        )
        for license, facts, links, listings, is_new, has_history, seen_at in sql.fetch(
            _LICENSES, parameters
        )
    ]


def _owners(names: Iterable[str], owners: dict[str, str]) -> set[str]:
    return {owners[name] for name in names if name in owners}


def _observation(
    as_of: date, first_seen: datetime, last_seen: datetime, digest: bytes, fields: str, source: str
) -> Observation:
    first, last = (at.astimezone(UTC).date() for at in (first_seen, last_seen))
    is_history = source == "history"
    return Observation(as_of, first, last, digest.hex(), msgspec.json.decode(fields), is_history)


def _seen_until(rows: list[Observation], seen_at: datetime | None) -> tuple[Observation, ...]:
    """The observations, of which the latest was seen at this time, too."""
    if rows and seen_at is not None:
        rows[-1] = rows[-1].seen_again(seen_at.astimezone(UTC).date())
    return tuple(rows)


# --- Writing them ---------------------------------------------------------------------------

_STORED: LiteralString = """
    SELECT e.license, e.type, e.anchor, e.date, e.known_on, e.cloud_id, e.details::text, e.sources,
           e.withdrawn_at IS NOT NULL
    FROM marketplace_licenseevent e
    WHERE e.product_id = %(product)s AND e.license = ANY(%(licenses)b::text[])
"""
_UPSERT: LiteralString = """
    INSERT INTO marketplace_licenseevent (product_id, license, type, anchor, date, known_on,
        cloud_id, details, sources, recorded_at, changed_at, is_announced)
    SELECT %(product)s, k.license, k.type, k.anchor, k.date, k.known_on, k.cloud_id,
           k.details::jsonb, string_to_array(k.sources, ','), %(now)s, %(now)s, k.is_news
    FROM unnest(%(licenses)b::text[], %(types)b::text[], %(anchors)b::text[], %(dates)b::date[],
                %(known)b::date[], %(cloud_ids)b::text[], %(details)b::text[], %(sources)b::text[],
                %(is_news)b::boolean[])
         AS k(license, type, anchor, date, known_on, cloud_id, details, sources, is_news)
    ON CONFLICT (product_id, license, type, anchor) DO UPDATE
    SET date = excluded.date, known_on = excluded.known_on, cloud_id = excluded.cloud_id,
        details = excluded.details, sources = excluded.sources, changed_at = excluded.changed_at,
        withdrawn_at = NULL
"""
_WITHDRAW: LiteralString = """
    UPDATE marketplace_licenseevent e SET withdrawn_at = %(now)s, changed_at = %(now)s
    FROM unnest(%(licenses)b::text[], %(types)b::text[], %(anchors)b::text[])
         AS k(license, type, anchor)
    WHERE e.product_id = %(product)s AND e.license = k.license AND e.type = k.type
      AND e.anchor = k.anchor
"""


def _write_events(
    product_id: int,
    licenses: Sequence[str],
    computed: Sequence[tuple[Life, list[Event]]],
    ledger: Ledger,
    now: datetime,
) -> int:
    """Insert, correct, withdraw, and restore events; return how many rows were written.

    An event is announced if it is new and was first known within the last days, but not if it came
    with the import of its license.
    """
    stored: dict[tuple[str, str, str], tuple[Any, ...]] = {}
    rows = sql.fetch(_STORED, {"product": product_id, "licenses": list(licenses)})
    for license, type, anchor, day, known_on, cloud_id, details, sources, is_withdrawn in rows:
        values = day, known_on, cloud_id, msgspec.json.decode(details), sources, is_withdrawn
        stored[license, type, anchor] = values
    events_by_id = {
        (life.license, event.type.value, event.anchor): _values(event)
        for life, events in computed
        for event in events
    }
    news_from = now.astimezone(UTC).date() - timedelta(days=NEWS_DAYS)
    news = {
        (life.license, event.type.value, event.anchor)
        for life, events in computed
        for event in events
        if ledger.filled_at and event.known_on >= news_from and _is_after_import(life, event)
    }
    changed = [
        (*id, *events_by_id[id], id in news)
        for id in sorted(events_by_id)
        if stored.get(id) != events_by_id[id]
    ]
    withdrawn = [id for id in sorted(stored) if id not in events_by_id and not stored[id][-1]]
    if changed:
        sql.execute(
            _UPSERT,
            {**_columns(changed), "product": product_id, "now": now},
        )
    if withdrawn:
        arrays = sql.arrays(withdrawn, "licenses", "types", "anchors")
        sql.execute(_WITHDRAW, {"product": product_id, "now": now, **arrays})
    ids = [values[:3] for values in (*changed, *withdrawn)]
    states = [rows.get(id) for id in ids for rows in (stored, events_by_id)]
    note_changed_events(product_id, [values[2] for values in states if values])
    return len(changed) + len(withdrawn)


def _is_after_import(life: Life, event: Event) -> bool:
    """Whether the event is not of the import that first brought the license."""
    return life.inputs.is_new or event.known_on > min(row.first_seen for row in life.rows)


def _values(event: Event) -> tuple[Any, ...]:
    sources = sorted(event.sources)
    return event.date, event.known_on, event.cloud_id, event.details, sources, False


def _columns(changed: Iterable[tuple[Any, ...]]) -> dict[str, list[Any]]:
    rows = [
        (*id, msgspec.json.encode(details).decode(), ",".join(sources), is_news)
        for *id, details, sources, _, is_news in changed
    ]
    names = ("licenses", "types", "anchors", "dates", "known", "cloud_ids", "details", "sources")
    return sql.arrays(rows, *names, "is_news")
