"""Imports pages of licenses: stores the licenses and gives their accounts the traits."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

import msgspec
from django.db import transaction

from engagement.database import sql
from engagement.database.arrivals import take_arrivals
from engagement.messages import Group, ReceivedMessage
from engagement.recording import suppression
from engagement.recording.record import record
from engagement.traits import Source, read_stamp
from marketplace import duplicates, licenses, runs
from marketplace.duplicates import Merge
from marketplace.licenses import (
    TRAIT_PREFIX,
    Fields,
    InvalidRecord,
    ParsedLicense,
    ParsedRecord,
    SkippedRecord,
    SkipReason,
)
from marketplace.models import FailedRecord, SyncRun

# A sync lists this many invalid records, and counts all of them.
MAX_FAILED_RECORDS = 100


class AccountState(NamedTuple):
    """A stored account: its traits, the names of those that syncs wrote, and when one last did."""

    traits: dict[str, Any]
    synced_traits: set[str]
    written_at: datetime | None


def import_pages(
    run: SyncRun, product_id: int, records: Sequence[ParsedRecord], step: runs.Step, now: datetime
) -> None:
    """Import the pages' records and store the run's progress, all or nothing.

    Raises Superseded and database errors.
    """
    with transaction.atomic(durable=True):
        runs.lock_run(run)
        records = _skip_suppressed(product_id, records)
        rows = [parsed for parsed in records if isinstance(parsed, ParsedLicense)]
        merge = duplicates.merge(run, product_id, rows)
        counts = Counter(pages=step.pages) + _count(records, len(merge.changed))
        counts += _store(run, product_id, merge, now)
        _list_failed(run, records)
        runs.advance(run, step, counts)


def import_pending(run: SyncRun, product_id: int, now: datetime) -> None:
    """Import the rows that had to wait for the end of the run and still count.

    Raises Superseded and database errors.
    """
    is_done = False
    while not is_done:
        with transaction.atomic(durable=True):
            runs.lock_run(run)
            merge = duplicates.merge_pending(run, product_id)
            is_done = not merge.changed
            counts = Counter(imported=len(merge.changed))
            counts += _store(run, product_id, merge, now)
            # They were counted as unchanged when they arrived.
            counts["unchanged"] = -len(merge.changed)
            step = runs.Step(runs.position_of(run), run.recent, 0, lists=run.lists)
            runs.advance(run, step, counts)


def _store(run: SyncRun, product_id: int, merge: Merge, now: datetime) -> Counter[str]:
    """Write the changed licenses and their accounts' traits; return the account counters."""
    changed, stored = merge
    if not changed:
        return Counter()
    _write_licenses(product_id, changed, run)
    left_accounts = {stored[key].cloud_id for key in changed if key in stored}
    cloud_ids = left_accounts | {license.cloud_id for license in changed.values()}
    return _write_traits(product_id, cloud_ids, changed, run, now)


def _skip_suppressed(product_id: int, records: Sequence[ParsedRecord]) -> list[ParsedRecord]:
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
    return Counter(
        seen=len(records),
        imported=imported,
        unchanged=types[ParsedLicense] - imported,
        skipped=types[SkippedRecord],
        failed=types[InvalidRecord],
        without_cloud_id=sum(
            isinstance(parsed, SkippedRecord) and parsed.reason == SkipReason.NO_CLOUD_ID
            for parsed in records
        ),
    )


def _list_failed(run: SyncRun, records: Iterable[ParsedRecord]) -> None:
    failed = [parsed for parsed in records if isinstance(parsed, InvalidRecord)]
    if not failed:
        return
    room = MAX_FAILED_RECORDS - FailedRecord.objects.filter(run=run).count()
    FailedRecord.objects.bulk_create(
        FailedRecord(run=run, license_key=parsed.key, reason=parsed.reason)
        for parsed in failed[:room]
    )


# --- Licenses -------------------------------------------------------------------------------

_WRITE: LiteralString = """
    INSERT INTO marketplace_license AS l (product_id, key, cloud_id, fields, digest, run_id)
    SELECT %(product)s, k.key, k.cloud_id, k.fields::jsonb, k.digest, %(run)s
    FROM unnest(%(keys)b::text[], %(cloud_ids)b::text[], %(fields)b::text[], %(digests)b::bytea[])
         AS k(key, cloud_id, fields, digest)
    ON CONFLICT (product_id, key) DO UPDATE
    SET cloud_id = EXCLUDED.cloud_id, fields = EXCLUDED.fields, digest = EXCLUDED.digest,
        run_id = EXCLUDED.run_id
"""


def _write_licenses(product_id: int, changed: dict[str, ParsedLicense], run: SyncRun) -> None:
    # Sorted by key, like every batch.
    rows = [changed[key] for key in sorted(changed)]
    sql.execute(
        _WRITE,
        {
            "product": product_id,
            "run": run.pk,
            "keys": [row.key for row in rows],
            "cloud_ids": [row.cloud_id for row in rows],
            "fields": [msgspec.json.encode(row.fields).decode() for row in rows],
            "digests": [row.digest for row in rows],
        },
        prepare=True,
    )


# --- Accounts -------------------------------------------------------------------------------

_OTHER_LICENSES: LiteralString = """
    SELECT l.cloud_id, l.key, l.fields::text
    FROM unnest(%(products)b::bigint[], %(cloud_ids)b::text[]) AS k(product_id, cloud_id)
    JOIN marketplace_license l USING (product_id, cloud_id)
    WHERE l.key <> ALL(%(keys)b::text[])
"""
_ACCOUNTS: LiteralString = """
    SELECT a.external_id, a.traits::text, a.trait_stamps::text
    FROM unnest(%(products)b::bigint[], %(cloud_ids)b::text[]) AS k(product_id, external_id)
    JOIN engagement_account a USING (product_id, external_id)
    WHERE a.is_identified
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
    ordered = sorted(cloud_ids)
    parameters = {"products": [product_id] * len(ordered), "cloud_ids": ordered}
    license_traits = _license_traits(parameters, changed)
    accounts = _find_accounts(parameters)
    counts: Counter[str] = Counter()
    patches = {}
    for cloud_id in ordered:
        account = accounts.get(cloud_id)
        if patch := _patch(license_traits.get(cloud_id, {}), account):
            patches[cloud_id] = patch
            counts[_counter(account, run)] += 1
    _record(product_id, patches, now)
    del counts[""]
    return counts


def _license_traits(
    parameters: dict[str, Any], changed: Mapping[str, ParsedLicense]
) -> dict[str, dict[str, Any]]:
    """Each account's traits from its licenses: the changed ones and those that are stored."""
    fields_by_account: dict[str, dict[str, Fields]] = defaultdict(dict)
    for license in changed.values():
        fields_by_account[license.cloud_id][license.key] = license.fields
    rows = sql.fetch(_OTHER_LICENSES, {**parameters, "keys": list(changed)})
    for cloud_id, key, fields in rows:
        fields_by_account[cloud_id][key] = msgspec.json.decode(fields)
    return {
        cloud_id: licenses.account_traits(fields_by_key[licenses.best_key(fields_by_key)])
        for cloud_id, fields_by_key in fields_by_account.items()
    }


def _find_accounts(parameters: dict[str, Any]) -> dict[str, AccountState]:
    return {
        external_id: _account_state(msgspec.json.decode(traits), msgspec.json.decode(stamps))
        for external_id, traits, stamps in sql.fetch(_ACCOUNTS, parameters)
    }


def _account_state(traits: dict[str, Any], stamps: dict[str, Any]) -> AccountState:
    times = {
        name: stamp.at
        for name, encoded in stamps.items()
        if name.startswith(TRAIT_PREFIX)
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
    patch = {
        name: value
        for name, value in license_traits.items()
        if name not in account.synced_traits or account.traits.get(name) != value
    }
    removed = account.synced_traits & account.traits.keys() - license_traits.keys()
    return patch | dict.fromkeys(removed)


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
    arrivals = take_arrivals(len(patches))
    record(
        [
            ReceivedMessage(
                product_id, arrival, now, Group(cloud_id, now, patch), Source.MARKETPLACE
            )
            for arrival, (cloud_id, patch) in zip(arrivals, patches.items(), strict=True)
        ]
    )
