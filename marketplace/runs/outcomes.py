"""What a run that read all its lists has brought: something usable, and everything or not."""

from marketplace import texts
from marketplace.models import FailedRecord, License, SyncRun
from marketplace.runs import lifecycle
from marketplace.runs.progress import ListTotal
from marketplace.source.client import PAGE_SIZE

# An empty list is a failure if at least this many licenses were listed before.
MIN_LICENSES_MISSED = 50


class NothingUsable(Exception):
    """The run read its lists, but imported nothing. The message says why and what to do."""


def check_usable(run: SyncRun) -> None:
    """Raise NothingUsable if the run cannot be a success.

    The few rows of a sync of recent changes may all be unusable.
    """
    if run.imported + run.unchanged:
        return
    is_full = run.kind != SyncRun.Kind.RECENT
    if run.seen >= (1 if is_full else PAGE_SIZE):
        first = FailedRecord.objects.filter(run=run).first()
        raise NothingUsable(texts.nothing_usable(run, first.reason if first else ""))
    if is_full and not run.seen and (previous := _count_listed(run)) >= MIN_LICENSES_MISSED:
        raise NothingUsable(texts.NOTHING_LISTED.format(previous))


def _count_listed(run: SyncRun) -> int:
    """The licenses that the last full sync found."""
    return License.objects.filter(
        product=run.connection.product_id, unlisted_since__isnull=True
    ).count()


def missing_licenses(run: SyncRun) -> dict[str, ListTotal]:
    """The lists of which the marketplace sent less than it reports, by name."""
    totals = {name: ListTotal(*total) for name, total in (run.totals or {}).items()}
    return {
        name: total
        for name, total in totals.items()
        if (total.received < total.reported if total.reported is not None else total.is_cut)
    }


def describe_missing(run: SyncRun) -> str:
    """Sentences about what the marketplace did not send; "" if nothing is missing."""
    return " ".join(
        texts.missing_licenses(name, total.reported, total.received)
        for name, total in missing_licenses(run).items()
    )


def is_exhaustive(run: SyncRun) -> bool:
    """Whether a license that the run did not find is no longer listed."""
    return (
        run.kind != SyncRun.Kind.RECENT
        and not missing_licenses(run)
        and not any(lifecycle.is_refused_list_in_use(run, name) for name in run.lists or {})
    )
