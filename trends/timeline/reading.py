"""The timeline of an account or of a user."""

from collections.abc import Collection
from datetime import date
from itertools import chain
from typing import Any

from engagement.metric_names import Scope
from engagement.models import Account, User, Workspace
from trends.timeline.entries import Entry, EntryKind
from trends.timeline.sources import SOURCES, Subject


def kinds_of(scope: Scope) -> list[EntryKind]:
    """The kinds of entries that such a timeline may have."""
    return list(SOURCES[scope])


def timeline(
    workspace: Workspace,
    row: Any,
    subject: Account | User,
    today: date,
    kinds: Collection[EntryKind] = (),
) -> list[Entry]:
    """What happened to the subject in the last year, the latest day first: of these *kinds*, or of
    all. *row* is its row in the scores that the workspace shows.

    A bounded number of entries, which is computed again each time: so a correction of late data, a
    withdrawn license event, or a forgotten user changes it at once.
    """
    score_set = workspace.scores
    assert score_set is not None, "A subject without scores has no row."
    # What alarms its accounts show is up to the workspace.
    score_set.workspace = workspace
    about = Subject(workspace, score_set, row, subject, today)
    sources = SOURCES[about.scope]
    own_sources = [source for kind, source in sources.items() if not kinds or kind in kinds]
    entries = chain.from_iterable(source(about) for source in own_sources)
    # A license may have a date to come.
    visible = (entry for entry in entries if about.first_day <= entry.day <= today)
    return sorted(visible, key=lambda entry: entry.position, reverse=True)
