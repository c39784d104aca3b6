"""What a connection's page says: how it stands, what to do, and what its syncs did."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.utils.timesince import timesince, timeuntil

from marketplace import scheduling
from marketplace.models import Connection, FailedRecord, SyncRun

State = Connection.State
# How many syncs the page shows; with four a day the last five days.
HISTORY_LENGTH = 20

TITLES = {
    State.ACTIVE: "Connected.",
    State.REQUIRES_AUTHENTICATION: "Requires authentication.",
    State.DISCONNECTED: "Disconnected.",
}
ADVICE = {
    State.REQUIRES_AUTHENTICATION: "Make a new API token in the account’s security settings and "
    "enter all four details again; a sync then starts at once. Until then nothing is synced, and "
    "the traits that were imported stay.",
    State.DISCONNECTED: "Nothing is synced. The traits that were imported stay on their accounts; "
    "the API token was deleted. Enter all four details to connect again.",
}


@dataclass(frozen=True)
class Moment:
    """A time, and how far away it is in words."""

    at: datetime
    distance: str


@dataclass(frozen=True)
class SyncProgress:
    """A sync that is under way. *share* is in per cent, None where nobody knows the whole."""

    sentence: str
    share: int | None


@dataclass(frozen=True)
class HistoryRow:
    run: SyncRun
    result: str
    level: str
    duration: str
    failures: Sequence[FailedRecord] = field(default=())

    @property
    def failures_left_out(self) -> int:
        return self.run.failed - len(self.failures)


@dataclass(frozen=True)
class ConnectionStatus:
    """*level* is how the state is coloured: good, warning, bad or quiet."""

    connection: Connection
    level: str
    title: str
    reason: str
    advice: str
    progress: SyncProgress | None
    last_success: Moment | None
    last_error: Moment | None
    next_sync: Moment | None
    history: list[HistoryRow]


@dataclass(frozen=True)
class ConnectionHealth:
    """How a connection stands, without a look at its syncs; *level* as in ``Status``."""

    level: str
    title: str
    reason: str
    advice: str


def health(connection: Connection) -> ConnectionHealth:
    state = State(connection.state)
    level, reason, advice = _health(connection, state)
    return ConnectionHealth(level, TITLES[state], reason, advice)


def connection_status(connection: Connection, now: datetime) -> ConnectionStatus:
    recent = list(connection.runs.prefetch_related("failed_records")[:HISTORY_LENGTH])
    stands = _with_full_syncs(health(connection), recent)
    next_sync = scheduling.next_sync_at(connection, now)
    return ConnectionStatus(
        connection=connection,
        level=stands.level,
        title=stands.title,
        reason=stands.reason,
        advice=stands.advice,
        progress=_progress(recent, now),
        last_success=_moment(connection.last_success_at, now),
        last_error=_moment(connection.last_error_at, now),
        next_sync=_moment(next_sync, now),
        history=[_row(run, now) for run in recent],
    )


def _health(connection: Connection, state: State) -> tuple[str, str, str]:
    """Level, reason and advice."""
    if state == State.REQUIRES_AUTHENTICATION:
        return "bad", connection.state_reason, ADVICE[state]
    if state == State.DISCONNECTED:
        return "quiet", connection.state_reason, ADVICE[state]
    if _failed_last(connection):
        return "warning", "But the last sync failed.", connection.last_error
    if connection.last_success_at is None:
        return "good", "The first sync brings all licenses.", ""
    return "good", "Licenses arrive every six hours.", ""


def _with_full_syncs(health: ConnectionHealth, recent: Sequence[SyncRun]) -> ConnectionHealth:
    """The health; it also says that the last full sync failed, while changes go on arriving."""
    full = (run for run in recent if run.is_over and run.kind != SyncRun.Kind.RECENT)
    last = next(full, None)
    if health.level != "good" or last is None or last.state != SyncRun.State.FAILED:
        return health
    return ConnectionHealth("warning", health.title, "But the last full sync failed.", last.error)


def _failed_last(connection: Connection) -> bool:
    succeeded, failed = connection.last_success_at, connection.last_error_at
    return failed is not None and (succeeded is None or succeeded < failed)


def _progress(recent: Sequence[SyncRun], now: datetime) -> SyncProgress | None:
    run = next((run for run in recent if not run.is_over), None)
    if run is None:
        return None
    kind = f"{run.get_kind_display()} sync"
    if run.state == SyncRun.State.RUNNING:
        return SyncProgress(f"{kind}: {_so_far(run)}.", _share(run, recent))
    if run.due_at <= now:
        return SyncProgress(f"{kind}: waits for a free worker.", None)
    return None


def _so_far(run: SyncRun) -> str:
    if not run.pages:
        return "asks for the first page"
    return f"page {run.pages:,}, {run.seen:,} licenses so far"


def _share(run: SyncRun, recent: Sequence[SyncRun]) -> int | None:
    """How much of the licenses that the last such sync saw has been seen by now."""
    like_it = [
        other.seen
        for other in recent
        if other.state == SyncRun.State.SUCCEEDED and (other.since is None) == (run.since is None)
    ]
    if not like_it or not like_it[0]:
        return None
    return min(100 * run.seen // like_it[0], 99)


def _row(run: SyncRun, now: datetime) -> HistoryRow:
    result, level = _result(run, now)
    return HistoryRow(
        run, result, level, _duration(run, now), failures=list(run.failed_records.all())
    )


def _result(run: SyncRun, now: datetime) -> tuple[str, str]:
    """What came of it in words, with the reason where there is one; and its level."""
    match SyncRun.State(run.state):
        case SyncRun.State.SUCCEEDED:
            return _told("Succeeded.", run.note), "good"
        case SyncRun.State.FAILED:
            return _told("Failed.", run.error, run.note), "bad"
        case SyncRun.State.STOPPED:
            return _told("Stopped.", run.error, run.note), "quiet"
        case SyncRun.State.WAITING if run.due_at > now:
            later = f"Goes on in {timeuntil(run.due_at, now, depth=2)}."
            return _told(later, run.error), "warning"
        case SyncRun.State.WAITING:
            return "Waits for a free worker.", "quiet"
    return "Running.", "quiet"


def _told(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def _duration(run: SyncRun, now: datetime) -> str:
    if run.started_at is None:
        return "–"
    return format_duration((run.finished_at or now) - run.started_at)


def format_duration(time: timedelta) -> str:
    """A duration as people say it: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min."""
    seconds = time.total_seconds()
    if seconds < 10:
        return f"{max(seconds, 0.1):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _moment(at: datetime | None, now: datetime) -> Moment | None:
    if at is None:
        return None
    if abs(at - now) < timedelta(minutes=1):
        return Moment(at, "now" if at >= now else "just now")
    if at > now:
        return Moment(at, f"in {timeuntil(at, now, depth=2)}")
    return Moment(at, f"{timesince(at, now, depth=2)} ago")
