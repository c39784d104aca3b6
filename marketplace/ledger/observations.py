"""Stores the states in which syncs and the marketplace's history show licenses.

A state that is stored already costs no write: ``Ledger.looked_at`` says that it was seen again.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final, LiteralString, NamedTuple

import msgspec

from core.database import clocks, sql
from marketplace.ledger import joining
from marketplace.licenses import conversion, duplicates
from marketplace.licenses.conversion import ParsedLicense
from marketplace.licenses.duplicates import Merge
from marketplace.licenses.record_fields import Fields
from marketplace.models import (
    LICENSE_KEY_LENGTH,
    Ledger,
    LedgerLicense,
    Observation,
    SyncRun,
)

# The fields of a state. Everything else is noise, or personal.
STATE_FIELDS: Final = (
    *("appEdition", "cloudId", "hosting", "inGracePeriod", "invoiceDunningReason"),
    *("latestEvaluationStartDate", "latestMaintenanceStartDate", "licenseLevel", "licenseType"),
    *("maintenanceEndDate", "maintenanceStartDate", "multiInstanceEntitlementId"),
    *("multiInstanceEntitlementNumber", "status", "tier", "upgradeEvaluatingEdition"),
    "upgradeEvaluationStartDate",
)
# Only rows with data insights have these, so their absence means nothing.
FACT_FIELDS: Final = (
    *("installedOnSandbox", "evaluationLicense", "evaluationSaleDate"),
    "evaluationOpportunitySize",
)
# What a field has that tells nothing. Paid licenses no longer say what was asked for.
_NOTHING: Final = {"evaluationOpportunitySize": ("NA", "")}
# The ids of a license, the surest first.
NAME_FIELDS: Final = ("appEntitlementNumber", "appEntitlementId", "licenseId", "addonLicenseId")
_LINK_FIELDS: Final = {
    "cloudId": "site:",
    "evaluationLicense": "id:",
    "transactionAccountId": "purchaser:",
    "hostEntitlementId": "host:",
}
_SYNC, _HISTORY = Observation.Source.SYNC.value, Observation.Source.HISTORY.value


class SeenState(NamedTuple):
    """A row of ``Observation``; ``fields`` are JSON."""

    license: str
    as_of: date
    digest: bytes
    fields: bytes
    first_seen: datetime
    last_seen: datetime
    source: str


@dataclass
class _Entry:
    """A ledger license that is being brought up to date."""

    license: str
    key: str
    cloud_id: str
    as_of: date
    digest: bytes
    facts: dict[str, Any]
    links: set[str]
    listings: list[Any]
    is_changed: bool = False

    @property
    def is_listed(self) -> bool:
        return not self.listings or bool(self.listings[-1][1])


def register_times() -> None:
    """A state that was seen in the future would show that its term was not renewed."""
    clocks.register(Ledger, {"looked_at": clocks.NOW, "filled_at": clocks.NOW})
    clocks.register(LedgerLicense, {"seen_at": clocks.NOW})
    clocks.register(Observation, {"first_seen": clocks.NOW, "last_seen": clocks.NOW})


def names_of(fields: Fields) -> list[str]:
    """The license's ids, the surest first."""
    values = (fields.get(name) for name in NAME_FIELDS)
    return [
        value for value in values if isinstance(value, str) and len(value) <= LICENSE_KEY_LENGTH
    ]


def encode_state(fields: Fields) -> tuple[bytes, bytes]:
    """The JSON of the state and its digest."""
    encoded = msgspec.json.encode({name: fields[name] for name in STATE_FIELDS if name in fields})
    return encoded, hashlib.blake2b(encoded, digest_size=16).digest()


def _links(fields: Fields) -> set[str]:
    links = {f"id:{name}" for name in names_of(fields)}
    links |= {f"{link}{fields[name]}" for name, link in _LINK_FIELDS.items() if fields.get(name)}
    if parent := conversion.parent_key(fields):
        links.add(f"parent:{parent}")
    if not fields.get("transactionAccountId") and (namesake := _namesake(fields)):
        links.add(f"namesake:{namesake}")
    return links


def _namesake(fields: Fields) -> str:
    """A digest of the customer's company and country; "" without both, and for the address of a
    person, which may be in that field."""
    values = (fields.get(f"contactDetails.{name}") for name in ("company", "country"))
    company, country = (str(value or "").strip().casefold() for value in values)
    if not (company and country) or "@" in company:
        return ""
    return hashlib.blake2b(f"{company}\0{country}".encode(), digest_size=16).hexdigest()


# --- From syncs -----------------------------------------------------------------------------


def observe_sync(product_id: int, merge: Merge, now: datetime) -> None:
    """Store the states of the licenses that a sync found new or changed, before it writes these.
    Writes only, in the caller's transaction, which holds the product.

    The first import leaves new licenses to the job: it takes less than half as long.
    """
    ledger, _ = Ledger.objects.get_or_create(product_id=product_id)
    rows = list(merge.changed.values())
    if ledger.filled_at is None:
        rows = [row for row in rows if row.key in merge.stored]
        # The job may not have come to the states in which they are stored.
        stored_rows = duplicates.find_rows(product_id, [row.key for row in rows])
        observe(product_id, stored_rows.values(), now, ledger, is_new=False)
    observe(product_id, rows, now, ledger, is_new=ledger.filled_at is not None)


def observe(
    product_id: int, rows: Iterable[ParsedLicense], now: datetime, ledger: Ledger, *, is_new: bool
) -> None:
    """Store the states of these licenses. Those that the ledger lacks began now if they are new.
    Writes only."""
    ordered = sorted(rows, key=lambda row: row.key)
    if not ordered:
        return
    names = {row.key: names_of(row.fields) or [row.key] for row in ordered}
    licenses = _find_joined(product_id, names.values(), ledger, now)
    entries = _load_entries(product_id, set(licenses.values()))
    aliases: dict[str, str] = {}
    states = []
    for row in ordered:
        license = next((licenses[name] for name in names[row.key] if name in licenses), row.key)
        new_names = dict.fromkeys(
            (name for name in names[row.key] if name not in licenses), license
        )
        licenses |= new_names
        aliases |= new_names
        entry = entries.get(license)
        if entry is None:
            entry = entries[license] = _new_entry(license, row)
        if state := _update(entry, row, now):
            states.append(state)
    changed = [entry for entry in entries.values() if entry.is_changed]
    _write_entries(product_id, changed, ledger, is_new)
    _write_aliases(product_id, aliases)
    store_states(product_id, states)


def _new_entry(license: str, row: ParsedLicense) -> _Entry:
    return _Entry(license, row.key, row.cloud_id, date.min, b"", {}, set(), [])


def _update(entry: _Entry, row: ParsedLicense, now: datetime) -> SeenState | None:
    """Bring the entry up to date. Returns the state if it is another than the latest."""
    today = now.astimezone(UTC).date()
    encoded, digest = encode_state(row.fields)
    facts: dict[str, Any] = {
        name: row.fields[name]
        for name in FACT_FIELDS
        if name in row.fields and row.fields[name] not in _NOTHING.get(name, ())
    }
    links = _links(row.fields)
    is_known = facts.items() <= entry.facts.items() and links <= entry.links
    if digest == entry.digest and is_known and entry.is_listed and entry.key == row.key:
        return None
    entry.is_changed = True
    entry.key, entry.cloud_id = row.key, row.cloud_id
    entry.facts |= facts
    entry.links |= links
    if not entry.is_listed:
        entry.listings.append([today.isoformat(), True])
    if digest == entry.digest:
        return None
    updated = conversion.updated_ordinal(row.fields)
    as_of = min(date.fromordinal(updated), today) if updated else today
    # A state that changed without another last update is true since today, as far as we know.
    entry.as_of = as_of if as_of > entry.as_of else max(today, entry.as_of)
    entry.digest = digest
    return SeenState(entry.license, entry.as_of, digest, encoded, now, now, _SYNC)


def mark_unlisted(product_id: int, keys: Collection[str], now: datetime) -> None:
    """Note that these licenses left the reports. From now on, no look confirms their state."""
    licenses = find_licenses(product_id, keys)
    ledger = Ledger.objects.filter(product=product_id).first()
    entries = _load_entries(product_id, set(licenses.values()))
    # A license that has another key by now is listed under that.
    leavers = [entry for entry in entries.values() if entry.is_listed and entry.key in keys]
    for entry in leavers:
        entry.listings.append([now.astimezone(UTC).date().isoformat(), False])
    if ledger is not None:
        _write_entries(product_id, leavers, ledger, is_new=False)


def note_look(product_id: int, looked_at: datetime) -> None:
    """Note that a sync began then that found or marked every license."""
    Ledger.objects.update_or_create(
        product_id=product_id, defaults={"looked_at": looked_at, "needs_fill": True}
    )


_NOTE_SEEN: LiteralString = """
    UPDATE marketplace_ledgerlicense l
    SET seen_at = %(at)s,
        stale = CASE WHEN l.deadline <= %(on)s THEN GREATEST(l.stale, 1) ELSE l.stale END
    FROM marketplace_licensealias a
    WHERE a.product_id = %(product)s AND l.product_id = %(product)s AND a.license = l.license
      AND a.name IN (SELECT unnest(s.keys) FROM marketplace_seenlicenses s WHERE s.run_id = %(run)s)
"""


def note_seen(run: SyncRun, product_id: int) -> None:
    """Note which licenses the run found unchanged, because it could not look for every one."""
    assert run.started_at is not None
    Ledger.objects.update_or_create(product_id=product_id, defaults={"needs_fill": True})
    on = run.started_at.astimezone(UTC).date()
    sql.execute(_NOTE_SEEN, {"at": run.started_at, "on": on, "product": product_id, "run": run.pk})


# --- From the marketplace's history ----------------------------------------------------------


def add_history(product_id: int, rows: Iterable[tuple[ParsedLicense, date]], now: datetime) -> int:
    """Store the states of licenses that the marketplace's history shows, each with its day; return
    how many. Licenses that no sync has met are left out. Writes only."""
    named = [(row, as_of, names_of(row.fields) or [row.key]) for row, as_of in rows]
    ledger = Ledger.objects.get(product=product_id)
    licenses = _find_joined(product_id, [names for *_, names in named], ledger, now)
    states = []
    for row, as_of, names in named:
        license = next((licenses[name] for name in names if name in licenses), None)
        if license is not None:
            encoded, digest = encode_state(row.fields)
            at = datetime(as_of.year, as_of.month, as_of.day, tzinfo=UTC)
            states.append(SeenState(license, as_of, digest, encoded, at, at, _HISTORY))
    store_states(product_id, states)
    mark_changed(product_id, {state.license for state in states})
    return len(states)


def mark_changed(product_id: int, names: Collection[str]) -> None:
    """Have the events of these licenses, by any of their ids, computed again. Writes only."""
    licenses = set(find_licenses(product_id, names).values())
    LedgerLicense.objects.filter(product=product_id, license__in=sorted(licenses)).update(
        stale=LedgerLicense.Stale.CHANGED
    )


# --- Tables ---------------------------------------------------------------------------------

_FIND: LiteralString = """
    SELECT a.name, a.license
    FROM unnest(%(products)b::bigint[], %(names)b::text[]) AS k(product_id, name)
    JOIN marketplace_licensealias a USING (product_id, name)
"""
_LOAD: LiteralString = """
    SELECT l.license, l.key, l.cloud_id, l.as_of, l.digest, l.facts::text, l.links,
           l.listings::text
    FROM unnest(%(products)b::bigint[], %(licenses)b::text[]) AS k(product_id, license)
    JOIN marketplace_ledgerlicense l USING (product_id, license)
    ORDER BY l.license
    FOR NO KEY UPDATE OF l
"""
# When the latest states of licenses were last seen, which nothing says once others follow. No look
# confirms the state of a license that left the reports.
_KEEP_LAST_SEEN: LiteralString = """
    UPDATE marketplace_observation o
    SET last_seen = GREATEST(o.last_seen, l.seen_at, CASE
        WHEN coalesce((l.listings->-1->>1)::boolean, true) THEN %(looked_at)s::timestamptz END)
    FROM unnest(%(products)b::bigint[], %(licenses)b::text[]) AS k(product_id, license)
    JOIN marketplace_ledgerlicense l USING (product_id, license)
    WHERE o.product_id = %(product)s AND l.product_id = %(product)s AND o.license = l.license
      AND o.as_of = l.as_of AND o.digest = l.digest
"""
_WRITE_ENTRIES: LiteralString = """
    INSERT INTO marketplace_ledgerlicense (product_id, license, key, cloud_id, as_of, digest, facts,
        links, listings, is_new, stale)
    SELECT %(product)s, k.license, k.key, k.cloud_id, k.as_of, k.digest, k.facts::jsonb,
           ARRAY(SELECT jsonb_array_elements_text(k.links::jsonb)), k.listings::jsonb, %(is_new)s, 2
    FROM unnest(%(licenses)b::text[], %(keys)b::text[], %(cloud_ids)b::text[], %(days)b::date[],
                %(digests)b::bytea[], %(facts)b::text[], %(links)b::text[], %(listings)b::text[])
         AS k(license, key, cloud_id, as_of, digest, facts, links, listings)
    ON CONFLICT (product_id, license) DO UPDATE
    SET key = excluded.key, cloud_id = excluded.cloud_id, as_of = excluded.as_of,
        digest = excluded.digest, facts = excluded.facts, links = excluded.links,
        listings = excluded.listings, stale = 2
"""
_WRITE_ALIASES: LiteralString = """
    INSERT INTO marketplace_licensealias (product_id, name, license)
    SELECT %(product)s, k.name, k.license
    FROM unnest(%(names)b::text[], %(licenses)b::text[]) AS k(name, license)
    ON CONFLICT DO NOTHING
"""
# The same state again, for example as a part of the history, widens the days on which it was seen.
_STORE_STATES: LiteralString = """
    INSERT INTO marketplace_observation AS o (product_id, license, as_of, digest, fields,
        first_seen, last_seen, source)
    SELECT %(product)s, k.license, k.as_of, k.digest, k.fields::jsonb, k.first_seen, k.last_seen,
           k.source
    FROM unnest(%(license)b::text[], %(as_of)b::date[], %(digest)b::bytea[], %(fields)b::text[],
                %(first_seen)b::timestamptz[], %(last_seen)b::timestamptz[], %(source)b::text[])
         AS k(license, as_of, digest, fields, first_seen, last_seen, source)
    ON CONFLICT (product_id, license, as_of, digest) DO UPDATE
    SET first_seen = LEAST(o.first_seen, excluded.first_seen),
        last_seen = GREATEST(o.last_seen, excluded.last_seen),
        source = CASE WHEN excluded.source = 'history' THEN excluded.source ELSE o.source END
"""


def find_licenses(product_id: int, names: Collection[str]) -> dict[str, str]:
    """The ledger's name of each license, by any of its ids."""
    if not names:
        return {}
    unique = sorted(set(names))
    rows = sql.fetch(_FIND, {"products": [product_id] * len(unique), "names": unique})
    return dict(rows)


def _find_joined(
    product_id: int, names: Iterable[Sequence[str]], ledger: Ledger, now: datetime
) -> dict[str, str]:
    """As ``find_licenses``, after several licenses of which a row has ids were made one."""
    names = list(names)
    licenses = find_licenses(product_id, [name for each in names for name in each])
    for own_names in names:
        own = {licenses[name] for name in own_names if name in licenses}
        if len(own) > 1:
            _keep_last_seen(product_id, own, ledger)
            own_name = joining.join(product_id, own, now)
            licenses = {
                name: own_name if license in own else license for name, license in licenses.items()
            }
    return licenses


def _load_entries(product_id: int, licenses: Collection[str]) -> dict[str, _Entry]:
    if not licenses:
        return {}
    keys = sorted(licenses)
    rows = sql.fetch(_LOAD, {"products": [product_id] * len(keys), "licenses": keys})
    decode = msgspec.json.decode
    return {
        license: _Entry(
            license, key, cloud_id, as_of, digest, decode(facts), set(links), decode(listings)
        )
        for license, key, cloud_id, as_of, digest, facts, links, listings in rows
    }


def _keep_last_seen(product_id: int, licenses: Collection[str], ledger: Ledger) -> None:
    keys = sorted(licenses)
    parameters = {"product": product_id, "looked_at": ledger.looked_at, "licenses": keys}
    sql.execute(_KEEP_LAST_SEEN, {**parameters, "products": [product_id] * len(keys)})


def _write_entries(
    product_id: int, entries: Sequence[_Entry], ledger: Ledger, is_new: bool
) -> None:
    if not entries:
        return
    _keep_last_seen(product_id, [entry.license for entry in entries], ledger)
    rows = [
        (
            entry.license, entry.key, entry.cloud_id, entry.as_of, entry.digest,
            _json(entry.facts), _json(sorted(entry.links)), _json(entry.listings),
        )
        for entry in sorted(entries, key=lambda entry: entry.license)
    ]  # fmt: skip
    names = ("licenses", "keys", "cloud_ids", "days", "digests", "facts", "links", "listings")
    parameters = {"product": product_id, "is_new": is_new, **sql.arrays(rows, *names)}
    sql.execute(_WRITE_ENTRIES, parameters)


def _write_aliases(product_id: int, aliases: dict[str, str]) -> None:
    if aliases:
        arrays = sql.arrays(sorted(aliases.items()), "names", "licenses")
        sql.execute(_WRITE_ALIASES, {"product": product_id, **arrays})


def store_states(product_id: int, states: Iterable[SeenState]) -> None:
    """Store the states, each once. Writes only."""
    once = {state[:3]: state for state in states}
    rows = [once[key]._replace(fields=once[key].fields.decode()) for key in sorted(once)]  # type: ignore[arg-type]
    if rows:
        sql.execute(_STORE_STATES, {"product": product_id, **sql.arrays(rows, *SeenState._fields)})


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
