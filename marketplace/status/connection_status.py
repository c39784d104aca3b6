"""What a connection's page shows: its state, what to do, and the history of its syncs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.utils.timesince import timesince, timeuntil

from marketplace import texts
from marketplace.models import Connection, FailedRecord, SyncRun
from marketplace.runs import scheduling
from marketplace.runs.timetable import load_timetable
from marketplace.status.health import ExpiryNotice, connection_health, expiry_notice, load_last_runs
from marketplace.status.report_status import ReportStatus, report_statuses
from marketplace.user_names import mask

# Syncs on the page: five days, at four syncs a day.
HISTORY_LENGTH = 20


@dataclass(frozen=True)
class Moment:
    """A time, and its distance from now in words."""

    at: datetime
    distance: str


@dataclass(frozen=True)
class SyncProgress:
    """A sync in progress. *share* is a percentage, None if the total is unknown."""

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
    """The health of a connection, and its syncs. *interval* says how often it syncs."""

    connection: Connection
    user_name: str
    level: str
    title: str
    reason: str
    advice: str
    expiry: ExpiryNotice | None
    interval: str
    progress: SyncProgress | None
    last_success: Moment | None
    last_error: Moment | None
    next_sync: Moment | None
    history: list[HistoryRow]
    reports: list[ReportStatus]


def connection_status(
    connection: Connection, now: datetime, *, may_manage: bool = True
) -> ConnectionStatus:
    recent_runs = list(connection.runs.prefetch_related("failed_records")[:HISTORY_LENGTH])
    last_runs = load_last_runs([connection.pk])[connection.pk]
    timetable = load_timetable()
    latest = next(iter(recent_runs), None)
    next_at = scheduling.next_sync_at(connection, latest, timetable, now)
    return ConnectionStatus(
        connection=connection,
        user_name=mask(connection.user_name),
        **vars(connection_health(connection, last_runs, timetable, may_manage=may_manage)),
        expiry=expiry_notice(connection, now.date(), may_manage=may_manage),
        interval=timetable.describe(),
        progress=_progress(recent_runs, now),
        last_success=_moment(connection.last_success_at, now),
        last_error=_moment(connection.last_error_at, now),
        next_sync=_moment(next_at and max(next_at, now), now),
        history=[_row(run, now) for run in recent_runs],
        reports=report_statuses(connection),
    )


def _progress(recent_runs: Sequence[SyncRun], now: datetime) -> SyncProgress | None:
    run = next((run for run in recent_runs if not run.is_over), None)
    if run is None:
        return None
    kind = f"{run.get_kind_display()} sync"
    if run.state == SyncRun.State.RUNNING:
        return SyncProgress(f"{kind}: {_so_far(run)}.", _share(run, recent_runs))
    if run.due_at <= now:
        return SyncProgress(f"{kind}: waiting for a free worker.", None)
    return None


def _so_far(run: SyncRun) -> str:
    if not run.pages:
        return "requesting the first page"
    return f"page {run.pages:,}, {run.seen:,} licenses so far"


def _share(run: SyncRun, recent_runs: Sequence[SyncRun]) -> int | None:
    """The percentage of the licenses in the last successful sync of the same kind."""
    totals = [
        other.seen
        for other in recent_runs
        if other.state == SyncRun.State.SUCCEEDED and (other.since is None) == (run.since is None)
    ]
    if not totals or not totals[0]:
        return None
    return min(100 * run.seen // totals[0], 99)


def _row(run: SyncRun, now: datetime) -> HistoryRow:
    result, level = _result(run, now)
    return HistoryRow(
        run, result, level, _duration(run, now), failures=list(run.failed_records.all())
    )


def _result(run: SyncRun, now: datetime) -> tuple[str, str]:
    """The outcome in words, with its reason if there is one, and its level."""
    sentence, level = texts.RESULTS[SyncRun.State(run.state)]
    if run.is_over:
        return texts.join_sentences(sentence, run.error, run.note), level
    if run.state == SyncRun.State.WAITING and run.due_at > now:
        resumes = texts.RESUMES.format(timeuntil(run.due_at, now, depth=2))
        return texts.join_sentences(resumes, run.error), "warning"
    return sentence, level


def _duration(run: SyncRun, now: datetime) -> str:
    if run.started_at is None:
        return "–"
    return format_duration((run.finished_at or now) - run.started_at)


def format_duration(duration: timedelta) -> str:
    """The duration for people: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min."""
    seconds = duration.total_seconds()
    if seconds < 10:
        return f"{max(seconds, 0.1):.1f} s"
    rounded = round(seconds)
    if rounded < 60:
        return f"{rounded} s"
    if rounded < 3600:
        return f"{rounded // 60} min {rounded % 60} s"
    return f"{rounded // 3600} h {rounded % 3600 // 60} min"


def _moment(at: datetime | None, now: datetime) -> Moment | None:
    if at is None:
        return None
    if abs(at - now) < timedelta(minutes=1):
        return Moment(at, "now" if at >= now else "just now")
    if at > now:
        return Moment(at, f"in {timeuntil(at, now, depth=2)}")
    return Moment(at, f"{timesince(at, now, depth=2)} ago")
