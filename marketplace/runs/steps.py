"""What pages of licenses mean for a run: the records that are new, and the run's progress."""

from collections.abc import Sequence
from typing import Any, Final

from marketplace import texts
from marketplace.licenses.conversion import ParsedRecord
from marketplace.models import SyncRun
from marketplace.runs.progress import ListTotal, PageMarker, Position, Step, position_of
from marketplace.runs.reading import ParsedPage
from marketplace.source.client import PAGE_SIZE
from marketplace.source.errors import UnexpectedResponse

# More than any vendor's licenses fill: a longer feed does not end.
MAX_PAGES: Final = 20_000
# Pages in a row without a new record, though more follow. Two are read again at a list's end.
MAX_REPEATED_PAGES: Final = 5
# How often a page may come again before the list is taken for a circle.
MAX_PAGE_REPEATS: Final = 2

Finding = SyncRun.Finding


def new_records(
    pages: Sequence[ParsedPage], fingerprints: list[str], repeated: int
) -> tuple[list[ParsedRecord], list[str], int]:
    """The records that came neither earlier on a page nor among the last ones, whose *fingerprints*
    are known.

    Also returns the fingerprints of the last records now, and the number of pages in a row without
    a new record though more follow, which was *repeated* before.
    """
    records: list[ParsedRecord] = []
    for page in pages:
        known_fingerprints = set(fingerprints)
        new: dict[str, ParsedRecord] = {}
        for fingerprint, record in page.records:
            if fingerprint not in known_fingerprints:
                new.setdefault(fingerprint, record)
        records += new.values()
        fingerprints = [*fingerprints, *new][-2 * PAGE_SIZE :]
        repeated = repeated + 1 if page.has_more and not new else 0
    return records, fingerprints, repeated


def make_step(
    run: SyncRun, pages: Sequence[ParsedPage], fingerprints: list[str], note: str, starts_over: bool
) -> Step:
    """The run's progress once these pages are written. *note* says how they were read."""
    refused = {page.list_name: page.refusal for page in pages if page.refusal}
    refusals = (texts.refused_list(name, refusal) for name, refusal in refused.items())
    return Step(
        pages[-1].after,
        fingerprints,
        len(pages) - len(refused),
        texts.join_sentences(note, *refusals),
        None if run.kind == SyncRun.Kind.RECENT else _update_findings(run.lists or {}, pages),
        _update_totals(run.totals or {}, pages),
        _update_marker(run.page_marker, pages, position_of(run)),
        starts_over,
    )


def check_end(run: SyncRun, step: Step, repeated: int) -> None:
    """Raise UnexpectedResponse if the list goes round in a circle or does not end."""
    is_circle = step.page_marker is not None and step.page_marker.repeats > MAX_PAGE_REPEATS
    if repeated > MAX_REPEATED_PAGES or is_circle or run.pages > MAX_PAGES:
        raise UnexpectedResponse("its list of licenses does not end")


def _update_findings(findings: dict[str, str], pages: Sequence[ParsedPage]) -> dict[str, str]:
    """The ``Finding`` for each list, updated by these pages."""
    findings = dict(findings)
    for page in pages:
        if page.refusal:
            findings[page.list_name] = Finding.REFUSED.value
        elif page.records:
            findings[page.list_name] = Finding.USED.value
        else:
            findings.setdefault(page.list_name, Finding.EMPTY.value)
    return findings


def _update_totals(
    totals: dict[str, Sequence[Any]], pages: Sequence[ParsedPage]
) -> dict[str, ListTotal]:
    """The ``ListTotal`` of each list, updated by the lists or parts that end with these pages."""
    updated = {name: ListTotal(*total) for name, total in totals.items()}
    for page in pages:
        if not page.ends_list:
            continue
        total = updated.get(page.list_name, ListTotal())
        is_reported = page.total is not None or total.reported is not None
        updated[page.list_name] = ListTotal(
            (page.total or 0) + (total.reported or 0) if is_reported else None,
            total.received + page.end,
            total.is_cut or page.is_cut,
        )
    return updated


def _update_marker(
    stored: Sequence[Any] | None, pages: Sequence[ParsedPage], position: Position
) -> PageMarker | None:
    """The marker of the list that the last of these pages belongs to. Pages before *position* were
    read again on purpose."""
    marker = PageMarker(*stored) if stored else None
    for page in pages:
        if not page.records or page.at.is_closing or page.at.sort_key < position.sort_key:
            continue
        fingerprint = page.fingerprint
        if marker is None or marker.pass_number != page.at.pass_number:
            marker = PageMarker(page.at.pass_number, fingerprint)
            continue
        repeats = marker.repeats + (fingerprint == marker.fingerprint)
        marker = marker._replace(pages=marker.pages + 1, repeats=repeats)
        if marker.pages == marker.limit and repeats <= MAX_PAGE_REPEATS:
            marker = PageMarker(page.at.pass_number, fingerprint, 2 * marker.limit)
    return marker
