"""Pages of licenses into the licenses that are stored and the traits of their accounts."""

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
from marketplace.duplicates import StoredLicense
from marketplace.licenses import (
    Fields,
    InvalidRecord,
    ParsedLicense,
    ParsedRecord,
    SkippedRecord,
    SkipReason,
)
from marketplace.models import FailedRecord, SyncRun

# A sync lists so many records that it could not use, and counts the others.
MAX_FAILED_RECORDS = 100


class AccountState(NamedTuple):
    """An account as it stands; ``ours`` are the names of the traits that syncs wrote, and
    ``written_at`` is when one did last."""

    traits: dict[str, Any]
    synced_traits: set[str]
    written_at: datetime | None


def import_pages(
    run: SyncRun, product_id: int, outcomes: Sequence[ParsedRecord], step: runs.Step, now: datetime
) -> None:
    """Store what the pages say and how far the run comes with them, all or nothing.

    Raises what ``runs.hold`` and the database raise.
    """
    with transaction.atomic(durable=True):
        runs.lock_run(run)
        outcomes = _without_forgotten(product_id, outcomes)
        found = [outcome for outcome in outcomes if isinstance(outcome, ParsedLicense)]
        known = duplicates.fetch_stored(product_id, {license.key for license in found})
        choice = duplicates.decide(run, product_id, found, known)
        counted = Counter(pages=step.pages) + _tally(outcomes, len(choice.changed))
        counted += _store(run, product_id, choice.changed, known, now)
        duplicates.save_pending(run, choice)
        _list_failed(run, outcomes)
        runs.advance(run, step, counted)


def import_pending(run: SyncRun, product_id: int, now: datetime) -> None:
    """Store the rows that had to wait for the end of the run, and still count.

    Raises what ``runs.hold`` and the database raise.
    """
    is_over = False
    while not is_over:
        with transaction.atomic(durable=True):
            runs.lock_run(run)
            rows = duplicates.resolve_pending(run, product_id)
            known = duplicates.fetch_stored(product_id, rows)
            counted = Counter(imported=len(rows))
            counted += _store(run, product_id, rows, known, now)
            # They were counted as unchanged when they came.
            counted["unchanged"] = -len(rows)
            runs.advance(
                run, runs.Step(runs.position_of(run), run.recent, 0, lists=run.lists), counted
            )
            is_over = not rows


def _store(
    run: SyncRun,
    product_id: int,
    changed: dict[str, ParsedLicense],
    known: Mapping[str, StoredLicense],
    now: datetime,
) -> Counter[str]:
    """Write the licenses and the traits of their accounts; what the counters grow by."""
    if not changed:
        return Counter()
    _write(product_id, changed, run)
    moved = {known[key].cloud_id for key in changed if key in known}
    cloud_ids = moved | {license.cloud_id for license in changed.values()}
    return _write_traits(product_id, cloud_ids, changed, run, now)


def _without_forgotten(product_id: int, outcomes: Sequence[ParsedRecord]) -> list[ParsedRecord]:
    """The outcomes; licenses of accounts that are suppressed are skipped."""
    named = {outcome.cloud_id for outcome in outcomes if isinstance(outcome, ParsedLicense)}
    forgotten = suppression.suppressed_ids(product_id, suppression.SubjectScope.ACCOUNT, named)
    return [
        SkippedRecord(SkipReason.FORGOTTEN)
        if isinstance(outcome, ParsedLicense) and outcome.cloud_id in forgotten
        else outcome
        for outcome in outcomes
    ]


def _tally(outcomes: Sequence[ParsedRecord], imported: int) -> Counter[str]:
    """What the run's counters grow by."""
    kinds = Counter(type(outcome) for outcome in outcomes)
    without = sum(
        isinstance(outcome, SkippedRecord) and outcome.reason == SkipReason.NO_CLOUD_ID
        for outcome in outcomes
    )
    return Counter(
        seen=len(outcomes),
        imported=imported,
        unchanged=kinds[ParsedLicense] - imported,
        skipped=kinds[SkippedRecord],
        failed=kinds[InvalidRecord],
        without_cloud_id=without,
    )


def _list_failed(run: SyncRun, outcomes: Iterable[ParsedRecord]) -> None:
    failed = [outcome for outcome in outcomes if isinstance(outcome, InvalidRecord)]
    if not failed:
        return
    room = MAX_FAILED_RECORDS - FailedRecord.objects.filter(run=run).count()
    FailedRecord.objects.bulk_create(
        FailedRecord(run=run, license_key=one.key, reason=one.reason) for one in failed[:room]
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


def _write(product_id: int, changed: dict[str, ParsedLicense], run: SyncRun) -> None:
    # Sorted by the key, as every batch is.
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
    """Give each account the traits of the best of its licenses; what the counters grow by."""
    # Sorted by the key, as every batch is.
    ordered = sorted(cloud_ids)
    named = {"products": [product_id] * len(ordered), "cloud_ids": ordered}
    wanted = _wanted(named, changed)
    accounts = _accounts(named)
    counted: Counter[str] = Counter()
    patches = {}
    for cloud_id in ordered:
        account = accounts.get(cloud_id)
        if patch := _patch(wanted.get(cloud_id, {}), account):
            patches[cloud_id] = patch
            counted[_counter(account, run)] += 1
    _record(product_id, patches, now)
    del counted[""]
    return counted


def _wanted(
    named: dict[str, Any], changed: Mapping[str, ParsedLicense]
) -> dict[str, dict[str, Any]]:
    """The traits of each account, from all of its licenses: those at hand and the others."""
    found: dict[str, dict[str, Fields]] = defaultdict(dict)
    for license in changed.values():
        found[license.cloud_id][license.key] = license.fields
    for cloud_id, key, fields in sql.fetch(_OTHER_LICENSES, {**named, "keys": list(changed)}):
        found[cloud_id][key] = msgspec.json.decode(fields)
    return {
        cloud_id: licenses.account_traits(some[licenses.best_key(some)])
        for cloud_id, some in found.items()
    }


def _accounts(named: dict[str, Any]) -> dict[str, AccountState]:
    return {
        external_id: _account(msgspec.json.decode(traits), msgspec.json.decode(stamps))
        for external_id, traits, stamps in sql.fetch(_ACCOUNTS, named)
    }


def _account(traits: dict[str, Any], stamps: dict[str, Any]) -> AccountState:
    written = {name: read_stamp(stamp) for name, stamp in stamps.items() if name[:3] == "am."}
    ours = {name: one.at for name, one in written.items() if one.source is Source.MARKETPLACE}
    return AccountState(traits, set(ours), max(ours.values(), default=None))


def _patch(wanted: dict[str, Any], account: AccountState | None) -> dict[str, Any]:
    """What has to change so that the account has these traits from us, and no others from us.

    What somebody else wrote becomes ours even where it says the same: it stays then. Nobody but
    us changes what is ours, so nothing can come between this look and the write.
    """
    if account is None:
        return wanted
    patch = {
        name: value
        for name, value in wanted.items()
        if name not in account.synced_traits or account.traits.get(name) != value
    }
    gone = account.synced_traits & account.traits.keys() - wanted.keys()
    return patch | dict.fromkeys(gone)


def _counter(account: AccountState | None, run: SyncRun) -> str:
    """The counter that an account's change belongs to; "" where this run has counted it before."""
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
