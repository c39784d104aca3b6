"""The latest suggestions: requested and found. Pages use this: nothing here needs numpy."""

from datetime import datetime

import msgspec

from core.jobs import run
from engagement.models import Workspace
from outcomes.backtests.storage import of_workspace
from outcomes.kinds import Kind
from outcomes.models import StoredBacktest
from outcomes.suggestions.results import Suggestion

JOB = "suggest weights"


def find(workspace: Workspace, kind: Kind) -> tuple[Suggestion, datetime] | None:
    """The latest suggestion, and when it was computed; None if none was."""
    row = _row(workspace, kind)
    if row is None or row.suggestion is None or row.suggested_at is None:
        return None
    return msgspec.convert(row.suggestion, Suggestion), row.suggested_at


def request(workspace: Workspace, kind: Kind, now: datetime) -> bool:
    """Have a suggestion computed soon, in the caller's transaction. Returns False if nobody has
    compared scores with outcomes of this kind yet."""
    row = _row(workspace, kind)
    if row is not None:
        run.request(JOB, now, row.pk)
    return row is not None


def _row(workspace: Workspace, kind: Kind) -> StoredBacktest | None:
    return of_workspace(workspace).filter(kind=kind, segment=None).first()
