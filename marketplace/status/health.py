"""How a connection is doing and what to do, in words: for its page, the home page, and metrics."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date

from django.db.models import Q
from django.utils.formats import date_format

from marketplace import texts
from marketplace.models import Connection, SyncRun
from marketplace.runs.timetable import Timetable

State = Connection.State

# Days before the end of a token from which a notice says so, and from which it is urgent.
EXPIRY_NOTICE_DAYS, EXPIRY_URGENT_DAYS = 30, 7


@dataclass(frozen=True)
class ConnectionHealth:
    """The sentences of ``texts.Health`` for one connection and one reader."""

    level: str
    title: str
    reason: str
    advice: str

    @property
    def sentence(self) -> str:
        return texts.join_sentences(self.title, self.reason, self.advice)


@dataclass(frozen=True)
class ExpiryNotice:
    """That a token ends soon, or has ended. *level* is warning or bad."""

    level: str
    text: str


@dataclass(frozen=True)
class LastRuns:
    """The runs that show how a connection is doing: the unfinished one, and the last full one that
    is over."""

    unfinished: SyncRun | None = None
    full: SyncRun | None = None


def load_last_runs(connection_ids: Collection[int]) -> dict[int, LastRuns]:
    """The last runs of each of the connections, with one query."""
    runs = SyncRun.objects.filter(
        Q(state__in=SyncRun.UNFINISHED) | ~Q(kind=SyncRun.Kind.RECENT),
        connection__in=connection_ids,
    )
    # The latest run in each state.
    latest = runs.order_by("connection_id", "state", "-id").distinct("connection_id", "state")
    runs_by_connection: dict[int, list[SyncRun]] = defaultdict(list)
    for run in latest:
        runs_by_connection[run.connection_id].append(run)
    return {pk: _last_runs(runs_by_connection[pk]) for pk in connection_ids}


def _last_runs(runs: Sequence[SyncRun]) -> LastRuns:
    over = [run for run in runs if run.is_over]
    return LastRuns(
        unfinished=next((run for run in runs if not run.is_over), None),
        full=max(over, key=lambda run: run.pk, default=None),
    )


def connection_health(
    connection: Connection, last_runs: LastRuns, timetable: Timetable, *, may_manage: bool = True
) -> ConnectionHealth:
    """How the connection is doing. The advice depends on whether the reader *may_manage* it."""
    condition, error = _condition(connection, last_runs, timetable)
    level, title, reason, advice, viewer_advice = texts.HEALTH[condition]
    if viewer_advice is not None and not may_manage:
        advice = viewer_advice
    values = {"error": error, "interval": timetable.describe()}
    return ConnectionHealth(level, title, reason.format(**values), advice.format(**values))


def _condition(
    connection: Connection, last_runs: LastRuns, timetable: Timetable
) -> tuple[str, str]:
    """Which sentences of ``texts.HEALTH`` tell of the connection, and the error in them."""
    if connection.state != State.ACTIVE:
        return connection.state, connection.state_reason
    is_first, waiting = connection.last_success_at is None, last_runs.unfinished
    if waiting is not None and waiting.state == SyncRun.State.WAITING and waiting.error:
        return "pending" if is_first else "interrupted", waiting.error
    if has_failed_last(connection):
        return "failed", connection.last_error
    if last_runs.full is not None and last_runs.full.state == SyncRun.State.FAILED:
        return "full_failed", last_runs.full.error
    if timetable.task is None:
        return "off", ""
    return "new" if is_first else "active", ""


def has_failed_last(connection: Connection) -> bool:
    succeeded, failed = connection.last_success_at, connection.last_error_at
    return failed is not None and (succeeded is None or succeeded < failed)


def expiry_notice(
    connection: Connection, today: date, *, may_manage: bool = True
) -> ExpiryNotice | None:
    """A notice from 30 days before the token ends, by the date that was entered with it."""
    ends = connection.token_expires_on
    if ends is None or connection.state != State.ACTIVE:
        return None
    days = (ends - today).days
    if days > EXPIRY_NOTICE_DAYS:
        return None
    level = "bad" if days <= EXPIRY_URGENT_DAYS else "warning"
    on = date_format(ends, "DATE_FORMAT")
    if days < 0:
        text = f"By the date that was entered, the API token expired on {on}."
    elif days == 0:
        text = "The API token expires today."
    else:
        text = f"The API token expires in {days} day{'s' if days > 1 else ''}, on {on}."
    todo = "Create a new one and replace the details." if may_manage else texts.MANAGERS_ONLY
    return ExpiryNotice(level, f"{text} {todo}")
