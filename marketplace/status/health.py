"""How a connection is doing and what to do, in words: for its page, the home page, and metrics."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date

from django.db.models import Q
from django.utils.formats import date_format

from marketplace.models import Connection, SyncRun
from marketplace.runs.timetable import Timetable

State = Connection.State

TITLES = {
    State.ACTIVE: "Connected.",
    State.REQUIRES_AUTHENTICATION: "Requires authentication.",
    State.DISCONNECTED: "Disconnected.",
}
ADVICE = {
    State.REQUIRES_AUTHENTICATION: "Create a new API token without scopes in the account’s "
    "security settings (the marketplace rejects tokens with scopes and those of service accounts) "
    "and enter all four details again. A sync then starts at once. Until then nothing is synced, "
    "and imported traits stay.",
    State.DISCONNECTED: "Nothing is synced. Imported traits stay on their accounts, and the user "
    "name and the API token were deleted. Enter all four details to connect again.",
}
# For people who may not change the connection.
VIEWER_ADVICE = {
    State.REQUIRES_AUTHENTICATION: "Nothing is synced until a manager of the product enters the "
    "details with a new API token. Imported traits stay.",
    State.DISCONNECTED: "Nothing is synced. Imported traits stay on their accounts. A manager of "
    "the product can connect it again.",
}
MANAGERS_ONLY = "A manager of the product can change this."
TIMETABLE_OFF = (
    "The periodic task of the syncs is disabled or missing. Ask the operator to enable “sync "
    "marketplace licenses”. Until then only “Sync now” and “Full sync” start a sync."
)
# Days before the end of a token from which a notice says so, and from which it is urgent.
EXPIRY_NOTICE_DAYS, EXPIRY_URGENT_DAYS = 30, 7


@dataclass(frozen=True)
class ConnectionHealth:
    """The state of a connection in words. *level* sets its color: good, warning, bad, or quiet."""

    level: str
    title: str
    reason: str
    advice: str

    @property
    def sentence(self) -> str:
        return " ".join(filter(None, (self.title, self.reason, self.advice)))


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
    state = State(connection.state)
    if state != State.ACTIVE:
        advice = ADVICE if may_manage else VIEWER_ADVICE
        level = "bad" if state == State.REQUIRES_AUTHENTICATION else "quiet"
        return ConnectionHealth(level, TITLES[state], connection.state_reason, advice[state])
    if trouble := _trouble(connection, last_runs):
        reason, error = trouble
        advice_text = error if may_manage else f"{error} {MANAGERS_ONLY}"
        return ConnectionHealth("warning", TITLES[state], reason, advice_text)
    if timetable.task is None:
        return ConnectionHealth("warning", TITLES[state], "Syncs are switched off.", TIMETABLE_OFF)
    if connection.last_success_at is None:
        return ConnectionHealth("good", TITLES[state], "The first sync imports all licenses.", "")
    reason = f"Licenses are updated {timetable.describe()}."
    return ConnectionHealth("good", TITLES[state], reason, "")


def _trouble(connection: Connection, last_runs: LastRuns) -> tuple[str, str] | None:
    """What is wrong with the syncs of an active connection, and why; None if nothing is."""
    waiting = last_runs.unfinished
    if waiting is not None and waiting.state == SyncRun.State.WAITING and waiting.error:
        is_first = connection.last_success_at is None
        reason = "The first sync is pending." if is_first else "A sync is interrupted."
        return reason, waiting.error
    if has_failed_last(connection):
        return "The last sync failed.", connection.last_error
    if last_runs.full is not None and last_runs.full.state == SyncRun.State.FAILED:
        return "The last full sync failed.", last_runs.full.error
    return None


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
    todo = "Create a new one and replace the details." if may_manage else MANAGERS_ONLY
    return ExpiryNotice(level, f"{text} {todo}")
