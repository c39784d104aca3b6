"""Where a run ends, and the next one of changes begins."""

from datetime import date, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from engagement import changes
from engagement.changes import Benchmarks
from engagement.metric_names import Scope
from engagement.models import ScoreSet, Workspace

# A transaction that writes license events ends within that time. Later ones are in the next run.
_SETTLED: Final = timedelta(minutes=5)


class Cursor(msgspec.Struct, frozen=True):
    """A state of a workspace: the latest change stamp and the benchmarks that scores show.

    ``day`` is the last UTC day whose scores are exported. ``run`` is the run that ended there.
    License events that changed before ``events_at`` are exported; None in a cursor of an older
    release.
    """

    score_set: int
    stamp: int
    account_benchmarks: Benchmarks
    user_benchmarks: Benchmarks
    day: date
    run: int = 0
    events_at: datetime | None = None

    def benchmarks(self, scope: Scope) -> Benchmarks:
        return self.user_benchmarks if scope == "user" else self.account_benchmarks

    def dump(self) -> dict[str, Any]:
        dumped: dict[str, Any] = msgspec.to_builtins(self)
        return dumped


class NotScored(Exception):
    """The workspace has no scores yet."""


class Beginning(NamedTuple):
    """The cursor that a run of changes begins at, or why the run is complete."""

    since: Cursor | None
    complete_because: str = ""


def cursor_of(stored: Any) -> Cursor:
    return msgspec.convert(stored, Cursor)


def current_cursor(workspace: Workspace, run: int, now: datetime) -> Cursor:
    """The state of the workspace now. Read it before the rows: what changes in between is in the
    next run of changes."""
    score_set = workspace.scores
    if score_set is None or score_set.scored_day is None:
        raise NotScored
    return Cursor(
        score_set=score_set.pk,
        stamp=changes.latest_stamp(workspace.product_id),
        account_benchmarks=Benchmarks.of(score_set, "account"),
        user_benchmarks=Benchmarks.of(score_set, "user"),
        day=score_set.scored_day - timedelta(days=1),
        run=run,
        events_at=now - _SETTLED,
    )


def find_beginning(stored: dict[str, Any], until: Cursor) -> Beginning:
    """Where a run of changes begins, if its export has the stored cursor."""
    if not stored:
        return Beginning(None, "It is the first run since the export was added or edited.")
    since = cursor_of(stored)
    if since.score_set != until.score_set:
        return Beginning(None, "The workspace was edited and rescored since the last run.")
    if since.stamp > until.stamp:
        return Beginning(None, "The database is older than the last run: a backup was restored.")
    return Beginning(since)


def show_scores_of(score_set: ScoreSet, cursor: Cursor) -> None:
    """Let the (unsaved) set show scores by the benchmarks of the cursor."""
    cursor.benchmarks("account").put_into(score_set, "account")
    cursor.benchmarks("user").put_into(score_set, "user")
