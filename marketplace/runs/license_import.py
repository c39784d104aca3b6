"""Imports pages of licenses: stores the licenses and gives their accounts the traits."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, LiteralString, NamedTuple

import msgspec
from django.db import transaction

from core.database import sql
from core.database.arrivals import take_arrivals
from engagement.license_traits import FORMER_HOSTNAME_TRAIT, HOSTNAME_TRAIT, LICENSE_PREFIX
from engagement.messages import Group, ReceivedMessage
from engagement.recording import suppression
from engagement.recording.record import record
from engagement.traits import Source, read_stamp
from marketplace.ledger import observations
from marketplace.licenses import conversion, duplicates
from marketplace.licenses.conversion import (
    InvalidRecord,
    ParsedLicense,
    ParsedRecord,
    SkippedRecord,
    SkipReason,
)
from marketplace.licenses.duplicates import Merge
from marketplace.licenses.record_fields import Fields
from marketplace.models import FailedRecord, License, SyncRun
from marketplace.runs import lifecycle, progress, reports
from marketplace.runs.progress import Step

# A sync lists this many invalid records, and counts all of them.
MAX_FAILED_RECORDS = 100


class StoredFields(NamedTuple):
    """A license's fields, and since when it is no longer listed."""

    fields: Fields
    unlisted_since: datetime | None = None

    @property
    def unlisted_on(self) -> date | None:
        return self.unlisted_since.astimezone(UTC).date() if self.unlisted_since else None


class AccountState(NamedTuple):
    """A stored account: its traits, the names of those that syncs wrote, and when one last did."""

    traits: dict[str, Any]
    synced_traits: set[str]
    written_at: datetime | None


def import_pages(
    run: SyncRun, product_id: int, records: Sequence[ParsedRecord], step: Step, now: datetime
) -> None:
    """Import the pages' records and store the run's progress, all or nothing.

    Raises Superseded and database errors.
    """
    with transaction.atomic(durable=True):
        lifecycle.lock_run(run)
        if step.starts_over:
            FailedRecord.objects.filter(run=run).delete()
        records = skip_suppressed(product_id, records)
        rows = [parsed for parsed in records if isinstance(parsed, ParsedLicense)]
        merge = duplicates.merge(run, product_id, rows)
        imported = len(merge.changed) + _count_written(run, rows, merge)
        counts = Counter(pages=step.pages) + _count(records, imported)
        counts += _store(run, product_id, merge, now)
        _list_failed(run, records)
        progress.advance(run, step, counts)


def import_pending(run: SyncRun, product_id: int, now: datetime) -> None:
    """Import the rows that had to wait for the end of the run and still count.

    Raises Superseded and database errors.
    """
    is_done = False
    while not is_done:
        with transaction.atomic(durable=True):
            lifecycle.lock_run(run)
            merge = duplicates.merge_pending(run, product_id)
            is_done = not merge.changed
            counts = Counter(imported=len(merge.changed))
            counts += _store(run, product_id, merge, now)
            # They were counted as unchanged when they arrived.
            counts["unchanged"] = -len(merge.changed)
            progress.advance(run, progress.same_step(run), counts)


def mark_unlisted(run: SyncRun, product_id: int, now: datetime) -> None:
    """Mark the licenses that the run has not found, and choose among the others of their accounts.

    Only for a run that has read all licenses there are. Raises Superseded and database errors.
    """
    is_done = False
    while not is_done:
        with transaction.atomic(durable=True):
            lifecycle.lock_run(run)
            batch = duplicates.find_unlisted(run, product_id)
            is_done = len(batch) < duplicates.PENDING_BATCH_SIZE
            keys = [license.key for license in batch]
            License.objects.filter(product=product_id, key__in=keys).update(
                unlisted_since=run.started_at
            )
            assert run.started_at is not None
            observations.mark_unlisted(product_id, keys, run.started_at)
            if is_done:
                observations.note_look(product_id, run.started_at)
            counts = Counter(unlisted=len(batch))
            counts += _write_traits(product_id, _accounts_of(product_id, batch), {}, run, now)
            progress.advance(run, progress.same_step(run), counts)


def _store(run: SyncRun, product_id: int, merge: Merge, now: datetime) -> Counter[str]:
    """Write the changed licenses and their accounts' traits; return the account counters."""
    changed, stored = merge
    if not changed:
        return Counter()
    observations.observe_sync(product_id, merge, now)
    _write_licenses(product_id, merge, run)
    left_accounts = {stored[key].cloud_id for key in changed if key in stored} - {""}
    cloud_ids = left_accounts | _accounts_of(product_id, changed.values())
    return _write_traits(product_id, cloud_ids, changed, run, now)


def _accounts_of(product_id: int, changed: Iterable[ParsedLicense]) -> set[str]:
    """The accounts whose traits may come from these licenses: a multi-instance license lends its
    tier to those of its sites."""
    cloud_ids = {license.cloud_id for license in changed if license.cloud_id}
    parents = [license for license in changed if not license.cloud_id]
    if not parents:
        return cloud_ids
    names = {name for parent in parents for name in conversion.names_as_parent(parent.fields)}
    # The second condition makes the partial index usable.
    sites = License.objects.filter(product=product_id, parent_key__in=names, parent_key__gt="")
    return cloud_ids | set(sites.values_list("cloud_id", flat=True))


def skip_suppressed(product_id: int, records: Sequence[ParsedRecord]) -> list[ParsedRecord]:
    """The records, in which licenses of suppressed accounts are skipped."""
    cloud_ids = {parsed.cloud_id for parsed in records if isinstance(parsed, ParsedLicense)}
    suppressed = suppression.suppressed_ids(product_id, suppression.SubjectScope.ACCOUNT, cloud_ids)
    return [
        SkippedRecord(SkipReason.FORGOTTEN)
        if isinstance(parsed, ParsedLicense) and parsed.cloud_id in suppressed
        else parsed
        for parsed in records
    ]


def _count(records: Sequence[ParsedRecord], imported: int) -> Counter[str]:
    """The run's license counters for these records."""
    types = Counter(type(parsed) for parsed in records)
    reasons = Counter(parsed.reason for parsed in records if isinstance(parsed, SkippedRecord))
    return Counter(
        seen=len(records),
        imported=imported,
        unchanged=types[ParsedLicense] - imported,
        skipped=types[SkippedRecord],
        failed=types[InvalidRecord],
        without_cloud_id=reasons[SkipReason.NO_CLOUD_ID],
        of_other_product=reasons[SkipReason.OTHER_PRODUCT],
    )


def _count_written(run: SyncRun, rows: Iterable[ParsedLicense], merge: Merge) -> int:
    """The licenses that the run wrote before it started over: they count as imported again."""
    if not reports.has_started_over(run):
        return 0
    own_keys = {
        row.key
        for row in rows
        if (stored := merge.stored.get(row.key)) and stored.run_id == run.pk and stored.matches(row)
    }
    return len(own_keys - merge.changed.keys())


def _list_failed(run: SyncRun, records: Iterable[ParsedRecord]) -> None:
    invalid_records = [parsed for parsed in records if isinstance(parsed, InvalidRecord)]
    if not invalid_records:
        return
    duplicates.save_invalid(run, (parsed.key for parsed in invalid_records))
    room = MAX_FAILED_RECORDS - FailedRecord.objects.filter(run=run).count()
    FailedRecord.objects.bulk_create(
        FailedRecord(run=run, license_key=parsed.key, reason=parsed.reason)
        for parsed in invalid_records[:room]
    )


# --- Licenses -------------------------------------------------------------------------------

# No other transaction creates licenses of the product: this one has the lock on the run.
_CREATE: LiteralString = """
    COPY marketplace_license (product_id, key, cloud_id, parent_key, fields, digest, run_id)
    FROM STDIN (FORMAT BINARY)
"""
# The version of the binary format of a jsonb value, which precedes its text.
_JSONB_VERSION = b"\x01"
# The JSON is sent as the bytes that it is.
_TYPES = ("int8", "text", "text", "text", "bytea", "bytea", "int8")
_UPDATE: LiteralString = """
    UPDATE marketplace_license l
    SET cloud_id = k.cloud_id, parent_key = k.parent_key, fields = k.fields::jsonb,
        digest = k.digest, run_id = %(run)s, unlisted_since = NULL
    FROM unnest(%(products)b::bigint[], %(keys)b::text[], %(cloud_ids)b::text[],
                %(parent_keys)b::text[], %(fields)b::text[], %(digests)b::bytea[])
         AS k(product_id, key, cloud_id, parent_key, fields, digest)
    WHERE l.product_id = k.product_id AND l.key = k.key
"""


def _write_licenses(product_id: int, merge: Merge, run: SyncRun) -> None:
    # Sorted by key, like every batch.
    rows = [merge.changed[key] for key in sorted(merge.changed)]
    if new := [row for row in rows if row.key not in merge.stored]:
        sql.copy(_CREATE, _TYPES, (_copied(product_id, row, run) for row in new))
    if changed := [row for row in rows if row.key in merge.stored]:
        sql.execute(
            _UPDATE,
            {
                "products": [product_id] * len(changed),
                "run": run.pk,
                "keys": [row.key for row in changed],
                "cloud_ids": [row.cloud_id for row in changed],
                "parent_keys": [conversion.parent_key(row.fields) for row in changed],
                "fields": [row.encoded.decode() for row in changed],
                "digests": [row.digest for row in changed],
            },
        )


def _copied(product_id: int, row: ParsedLicense, run: SyncRun) -> sql.Row:
    parent_key, fields = conversion.parent_key(row.fields), _JSONB_VERSION + row.encoded
    return product_id, row.key, row.cloud_id, parent_key, fields, row.digest, run.pk


# --- Accounts -------------------------------------------------------------------------------

_OTHER_LICENSES: LiteralString = """
    SELECT l.cloud_id, l.key, l.fields::text, l.unlisted_since
    FROM unnest(%(products)b::bigint[], %(cloud_ids)b::text[]) AS k(product_id, cloud_id)
    JOIN marketplace_license l USING (product_id, cloud_id)
    WHERE l.key <> ALL(%(keys)b::text[])
"""
_PARENTS: LiteralString = """
    SELECT l.fields::text, l.unlisted_since
    FROM marketplace_license l
    WHERE l.product_id = %(product)s AND l.cloud_id = ''
      AND (l.key = ANY(%(names)b::text[]) OR l.fields->>'appEntitlementId' = ANY(%(names)b::text[]))
"""
_ACCOUNTS: LiteralString = f"""
    SELECT a.external_id, a.traits::text, a.trait_stamps::text
    FROM unnest(%(products)b::bigint[], %(cloud_ids)b::text[]) AS k(product_id, external_id)
    JOIN engagement_account a USING (product_id, external_id)
    WHERE a.is_identified AND {sql.on_node("a")}
"""


def _write_traits(
    product_id: int,
    cloud_ids: Collection[str],
    changed: Mapping[str, ParsedLicense],
    run: SyncRun,
    now: datetime,
) -> Counter[str]:
    """Give each account the traits of its best license; return the account counters."""
    # Sorted by key, like every batch.
    sorted_ids = sorted(cloud_ids)
    parameters = {
        "product": product_id,
        "products": [product_id] * len(sorted_ids),
        "cloud_ids": sorted_ids,
    }
    license_traits = _license_traits(product_id, parameters, changed)
    accounts = _find_accounts(parameters)
    counts: Counter[str] = Counter()
    patches = {}
    for cloud_id in sorted_ids:
        account = accounts.get(cloud_id)
        if patch := _patch(license_traits.get(cloud_id, {}), account):
            patches[cloud_id] = patch
            counts[_counter(account, run)] += 1
    _record(product_id, patches, now)
    del counts[""]
    return counts


def _license_traits(
    product_id: int, parameters: dict[str, Any], changed: Mapping[str, ParsedLicense]
) -> dict[str, dict[str, Any]]:
    """Each account's traits from its licenses: the changed ones and those that are stored."""
    by_account: dict[str, dict[str, StoredFields]] = defaultdict(dict)
    for license in changed.values():
        by_account[license.cloud_id][license.key] = StoredFields(license.fields)
    rows = sql.fetch(_OTHER_LICENSES, {**parameters, "keys": list(changed)})
    for cloud_id, key, fields, unlisted_since in rows:
        by_account[cloud_id][key] = StoredFields(msgspec.json.decode(fields), unlisted_since)
    by_account.pop("", None)
    best = {cloud_id: _best(by_key) for cloud_id, by_key in by_account.items()}
    parents = _find_parents(product_id, best.values())
    return {
        cloud_id: conversion.account_traits(
            license.fields, parents.get(conversion.parent_key(license.fields)), license.unlisted_on
        )
        for cloud_id, license in best.items()
    }


def _best(by_key: Mapping[str, StoredFields]) -> StoredFields:
    """The license that gives its account the traits."""
    if len(by_key) == 1:
        return next(iter(by_key.values()))
    unlisted = {key for key, license in by_key.items() if license.unlisted_since}
    fields_by_key = {key: license.fields for key, license in by_key.items()}
    return by_key[conversion.best_key(fields_by_key, unlisted)]


def _find_parents(product_id: int, sites: Collection[StoredFields]) -> dict[str, Fields]:
    """The multi-instance licenses of these sites by number and by id."""
    names = {name for site in sites if (name := conversion.parent_key(site.fields))}
    if not names:
        return {}
    rows = sql.fetch(_PARENTS, {"product": product_id, "names": sorted(names)})
    parents: dict[str, Fields] = {}
    # A parent that is listed comes last and counts.
    for encoded, _ in sorted(rows, key=lambda row: row[1] is None):
        fields = msgspec.json.decode(encoded)
        parents |= dict.fromkeys(conversion.names_as_parent(fields), fields)
    return parents


def _find_accounts(parameters: dict[str, Any]) -> dict[str, AccountState]:
    return {
        external_id: _account_state(msgspec.json.decode(traits), msgspec.json.decode(stamps))
        for external_id, traits, stamps in sql.fetch(_ACCOUNTS, parameters)
    }


def _account_state(traits: dict[str, Any], stamps: dict[str, Any]) -> AccountState:
    times = {
        name: stamp.at
        for name, encoded in stamps.items()
        if name.startswith(LICENSE_PREFIX)
        and (stamp := read_stamp(encoded)).source is Source.MARKETPLACE
    }
    return AccountState(traits, set(times), max(times.values(), default=None))


def _patch(license_traits: dict[str, Any], account: AccountState | None) -> dict[str, Any]:
    """The changes that leave the account with exactly these traits from syncs.

    A trait that a sender wrote is written again even if its value is the same: a sync owns it from
    then on, and no sender can change it. Only syncs change such traits, so nothing can happen
    between this comparison and the write.
    """
    if account is None:
        return license_traits
    license_traits = _with_former_hostname(license_traits, account)
    patch = {
        name: value
        for name, value in license_traits.items()
        if name not in account.synced_traits or account.traits.get(name) != value
    }
    removed_names = account.synced_traits & account.traits.keys() - license_traits.keys()
    return patch | dict.fromkeys(removed_names)


def _with_former_hostname(license_traits: dict[str, Any], account: AccountState) -> dict[str, Any]:
    """The traits, with the hostname that the site had before it was renamed, if it ever was."""
    own = {name: account.traits[name] for name in account.synced_traits & account.traits.keys()}
    present, previous = license_traits.get(HOSTNAME_TRAIT), own.get(HOSTNAME_TRAIT)
    is_renamed = present and previous and present != previous
    former = previous if is_renamed else own.get(FORMER_HOSTNAME_TRAIT)
    if not license_traits or former is None:
        return license_traits
    return {**license_traits, FORMER_HOSTNAME_TRAIT: former}


def _counter(account: AccountState | None, run: SyncRun) -> str:
    """The counter for a change of the account; "" if this run has already counted it."""
    if account is None:
        return "accounts_created"
    assert run.started_at is not None
    is_counted = account.written_at is not None and account.written_at >= run.started_at
    return "" if is_counted else "accounts_updated"


def _record(product_id: int, patches: dict[str, dict[str, Any]], now: datetime) -> None:
    if not patches:
        return
    # One arrival for all: no order among different accounts matters, and new accounts with the
    # same stamps are cheaper.
    (arrival,) = take_arrivals(1)
    record(
        [
            ReceivedMessage(
                product_id, arrival, now, Group(cloud_id, now, patch), Source.MARKETPLACE
            )
            for cloud_id, patch in patches.items()
        ]
    )
