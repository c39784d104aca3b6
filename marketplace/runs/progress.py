"""A run's progress: where it is in its lists, and what it has counted."""

from collections.abc import Mapping
from typing import Any, LiteralString, NamedTuple

import msgspec

from core.database import sql
from marketplace import texts
from marketplace.models import SyncRun

# What a run counts for each license that it reads.
LICENSE_COUNTERS = tuple(name for name in SyncRun.COUNTERS if not name.startswith("accounts_"))


class Position(NamedTuple):
    """Where a run resumes: a list, an offset in it, and whether its end is being read again."""

    pass_number: int
    offset: int
    is_closing: bool = False

    @property
    def sort_key(self) -> tuple[int, bool, int]:
        """Grows as the run advances."""
        return self.pass_number, self.is_closing, self.offset


class ListTotal(NamedTuple):
    """The rows of a list: by the marketplace, if it says so, and received. A list is cut if it
    ended although a link led on."""

    reported: int | None = None
    received: int = 0
    is_cut: bool = False


class PageMarker(NamedTuple):
    """A page of a list, to recognize it if it comes again.

    After ``limit`` further pages another one is marked, for twice as long, so that a circle of any
    length is recognized (Brent's algorithm). ``repeats`` counts how often it came again.
    """

    pass_number: int
    fingerprint: str
    limit: int = 1
    pages: int = 0
    repeats: int = 0


class Step(NamedTuple):
    """The progress that a run makes with one write.

    ``note`` explains in sentences what was left out. ``lists`` is the ``Finding`` for each list,
    None in a sync of recent changes. With ``starts_over``, earlier progress no longer counts.
    """

    position: Position
    recent_fingerprints: list[str]
    pages: int
    note: str = ""
    lists: dict[str, str] | None = None
    totals: dict[str, ListTotal] | None = None
    page_marker: PageMarker | None = None
    starts_over: bool = False


def position_of(run: SyncRun) -> Position:
    return Position(run.pass_number, run.offset, run.is_closing)


def same_step(run: SyncRun) -> Step:
    """A step that leaves the run where it is."""
    return Step(
        position_of(run),
        run.recent_fingerprints,
        0,
        lists=run.lists,
        totals=run.totals,
        page_marker=run.page_marker,
    )


def license_counters(run: SyncRun) -> dict[str, int]:
    return {name: getattr(run, name) for name in LICENSE_COUNTERS}


def start_values() -> dict[str, Any]:
    """The progress of a run that starts over."""
    return {
        **dict.fromkeys(LICENSE_COUNTERS, 0),
        **Position(0, 0)._asdict(),
        **{"recent_fingerprints": [], "lists": None, "totals": None, "page_marker": None},
    }


def advance(run: SyncRun, step: Step, counts: Mapping[str, int]) -> None:
    """Store the (locked) run's progress and add to its counters, in the row and in *run*."""
    values: dict[str, Any] = {
        **step.position._asdict(),
        "recent_fingerprints": step.recent_fingerprints,
        "lists": step.lists,
        "totals": step.totals,
        "page_marker": step.page_marker,
        # The next list has an export of its own.
        "export": run.export if step.position.pass_number == run.pass_number else None,
        "report": run.report,
        "trial_report": run.trial_report,
        "note": texts.join_sentences(run.note, step.note),
        **{name: getattr(run, name) + counts.get(name, 0) for name in SyncRun.COUNTERS},
    }
    # A page that is read again is no progress: the run could fail at the next one forever.
    if step.position.sort_key > position_of(run).sort_key:
        values |= {"backoff_count": 0, "crash_count": 0}
    for name, value in values.items():
        setattr(run, name, value)
    parameters = {
        **values,
        "id": run.pk,
        "backoff_count": run.backoff_count,
        "crash_count": run.crash_count,
        **{name: _json(values[name]) for name in _JSON_FIELDS},
    }
    sql.execute(_ADVANCE, parameters, prepare=True)


_JSON_FIELDS = ("recent_fingerprints", "lists", "totals", "page_marker", "export")


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


_ADVANCE: LiteralString = """
    UPDATE marketplace_syncrun
    SET pass_number = %(pass_number)s, "offset" = %(offset)s, is_closing = %(is_closing)s,
        recent = %(recent_fingerprints)s::jsonb, lists = %(lists)s::jsonb, note = %(note)s,
        totals = %(totals)s::jsonb, page_marker = %(page_marker)s::jsonb,
        export = %(export)s::jsonb, report = %(report)s, trial_report = %(trial_report)s,
        put_downs = %(backoff_count)s, stumbles = %(crash_count)s,
        pages = %(pages)s, seen = %(seen)s, imported = %(imported)s, unchanged = %(unchanged)s,
        skipped = %(skipped)s, failed = %(failed)s, without_cloud_id = %(without_cloud_id)s,
        accounts_updated = %(accounts_updated)s, accounts_created = %(accounts_created)s,
        of_other_product = %(of_other_product)s, unlisted = %(unlisted)s
    WHERE id = %(id)s
"""
