"""The timelines of accounts and of users."""

from collections.abc import Collection, Mapping
from datetime import date
from typing import Any

from engagement.metric_names import Scope
from engagement.models import ScoreSet, Workspace
from engagement.scopes import SubjectKind, kind_of
from trends.timeline.entries import Entry, EntryKind
from trends.timeline.sources import SOURCES, Subjects


def kinds_of(scope: Scope) -> list[EntryKind]:
    """The kinds of entries that such a timeline may have."""
    return list(SOURCES[scope])


def timeline(
    workspace: Workspace, row: Any, today: date, kinds: Collection[EntryKind] = ()
) -> list[Entry]:
    """What happened to a subject in the last year, the latest day first: of these *kinds*, or of
    all. *row*, which has its subject, is its row in the scores that the workspace shows.

    A bounded number of entries, which is computed again each time: so a correction of late data, a
    withdrawn license event, or a forgotten user changes it at once.
    """
    score_set, kind = workspace.scores, kind_of(row)
    assert score_set is not None, "A subject without scores has no row."
    # What alarms its accounts show is up to the workspace.
    score_set.workspace = workspace
    id = kind.subject_id(row)
    return timelines(score_set, kind, {id: row}, today, kinds or kinds_of(kind.scope))[id]


def timelines(
    score_set: ScoreSet,
    kind: SubjectKind,
    rows: Mapping[int, Any],
    today: date,
    kinds: Collection[EntryKind],
) -> dict[int, list[Entry]]:
    """The entries of each subject of these rows, by its id, as ``timeline`` has them."""
    about = Subjects(score_set, kind, rows, today)
    entries_by_id: dict[int, list[Entry]] = {id: [] for id in rows}
    for source_kind, source in SOURCES[kind.scope].items():
        for id, entry in source(about) if source_kind in kinds else ():
            # A license may have a date to come.
            if about.first_day <= entry.day <= today:
                entries_by_id[id].append(entry)
    for entries in entries_by_id.values():
        entries.sort(key=lambda entry: entry.position, reverse=True)
    return entries_by_id
