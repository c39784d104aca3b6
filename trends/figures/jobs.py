"""The job that computes the figures of days: of each workspace after a day is over, and for days
before, where these are missing or counts arrived late.

A step computes the latest days that are to be computed, under a lease, and stores them in one
transaction. A worker that dies repeats its step. Segments are looked at in the night alone, each in
a transaction of its own, before the figures of the whole workspace say that the night is over.
"""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, LiteralString

from core.database import locks, nodes, sql
from core.jobs import kinds, run
from core.jobs.kinds import Blocked, Done, Later, More, Outcome
from core.models import Job
from engagement.metric_names import Scope
from engagement.models import ScoreSet, Workspace
from engagement.nights.schedule import FIRST_TIME
from engagement.removal import forgetting
from engagement.scopes import ACCOUNTS, USERS
from engagement.scores.active_days import DAY
from trends.models import FIGURES, KEPT_WEEKS, SEATS, WHOLE, DayFigures

if TYPE_CHECKING:
    from engagement.recording.suppression import SubjectRef

JOB = "figures of days"
QUEUE = "trends"
# A quarter, and the quarter a year before it.
REPLAYED = 66 * 7 * DAY
DAYS_PER_STEP = 91
# Later counts of the last days wait for the night. An import, which changes earlier ones, does not.
IMPORT_AGE = 7 * DAY
# Of a large product that is always late, figures may take a twentieth of the time.
SHARE, SHORTEST_REST = 0.05, timedelta(hours=1)
# Longer than a step of a million accounts.
LEASE = timedelta(minutes=30)
# In place of a score set: the figures are to be computed again.
_STALE = 0

_DUE: LiteralString = f"""
    SELECT s.workspace_id
    FROM engagement_scoreset s
    JOIN engagement_product p ON p.id = s.product_id AND p.deletion_requested_at IS NULL
    LEFT JOIN trends_dayfigures f ON f.workspace_id = s.workspace_id AND f.segment_id = {WHOLE}
        AND f.day = s.scored_day - 1 AND f.score_set_id = s.id
    WHERE s.state = 'current' AND s.scored_day IS NOT NULL
      AND (f.day IS NULL OR s.figures_stale_from < s.scored_day - {IMPORT_AGE.days})
      AND {nodes.among_reachable("s")}
    ORDER BY s.workspace_id
"""


def register() -> None:
    """Register the kind of job, and what forgetting a subject asks for."""
    forgetting.register_eraser(_forget)
    kinds.register(
        JOB,
        "Computes how many accounts and users were active, and how their scores were, on each day "
        "that is over, and who entered and left segments.",
        queue=QUEUE,
        step=take_step,
        keys=due_workspaces,
        lease=LEASE,
        share=SHARE,
        shortest_rest=SHORTEST_REST,
        title=Workspace.title_of,
    )


def _forget(subject: "SubjectRef", now: datetime) -> None:
    # numpy takes 0.1 s and 20 MB, and processes that serve pages import this module.
    from trends.figures import members

    members.forget(subject, now)


def due_workspaces() -> list[int]:
    """The keys of the job: the workspaces of which the last day is missing, or many are stale."""
    return [id for (id,) in sql.fetch(_DUE, {"reachable": nodes.reachable_products()})]


def take_step(job: Job, now: datetime) -> Outcome:
    """A step of the job: the latest days that are to be computed."""
    current = ScoreSet.objects.filter(state=ScoreSet.State.CURRENT, workspace_id=job.key)
    current = current.filter(product__deletion_requested_at=None).select_related("workspace")
    score_set = current.defer("user_quantiles", "account_quantiles").first()
    if score_set is None or score_set.scored_day is None:
        return Done()
    if score_set.product_id in nodes.missing_products():
        return Blocked()
    begins_at = datetime.combine(score_set.scored_day, FIRST_TIME)
    # Until then, the last night that is due is the one before.
    until = score_set.scored_day if now >= begins_at else score_set.scored_day - DAY
    if not job.cursor and not _is_due(score_set, until):
        return Later(begins_at) if now < begins_at else Done()
    span = _next_span(job, score_set, until)
    if span is None:
        return Later()
    _compute(job, score_set, *span, until)
    first = until - REPLAYED
    return More(True, progress=(until - span[0]).days, total=(until - first).days)


def _is_due(score_set: ScoreSet, until: date) -> bool:
    stale_from = score_set.figures_stale_from
    is_import = stale_from is not None and stale_from < until - IMPORT_AGE
    last = _of_workspace(score_set).filter(day=until - DAY, score_set_id=score_set.pk)
    return is_import or not last.exists()


def _of_workspace(score_set: ScoreSet) -> Any:
    return DayFigures.objects.filter(workspace=score_set.workspace_id, segment_id=WHOLE)


_FIRST_DAY: LiteralString = """
    SELECT (min(first_seen_at) AT TIME ZONE 'UTC')::date FROM engagement_user
    WHERE product_id = %(product)s
"""


def _next_span(job: Job, score_set: ScoreSet, until: date) -> tuple[date, date] | None:
    """The first and the last of the next days to compute, the latest ones first. Days whose counts
    changed are among them from then on."""
    with run.holding(job):
        rows, stale_from = _of_workspace(score_set), score_set.figures_stale_from
        if stale_from is not None:
            # What became stale meanwhile stays so.
            same_mark = ScoreSet.objects.filter(pk=score_set.pk, figures_stale_from=stale_from)
            if same_mark.update(figures_stale_from=None):
                rows.filter(day__gte=stale_from).update(score_set_id=_STALE)
        # A clock was ahead.
        DayFigures.objects.filter(workspace=score_set.workspace_id, day__gte=until).delete()
        computed = set(rows.filter(score_set_id=score_set.pk).values_list("day", flat=True))
    ((first,),) = sql.fetch(_FIRST_DAY, {"product": score_set.product_id})
    first = max(min(first or until, until - DAY), until - REPLAYED)
    days = [until - n * DAY for n in range(1, (until - first).days + 1)]
    last = next((day for day in days if day not in computed), None)
    if last is None:
        return None
    first = max(first, last - (DAYS_PER_STEP - 1) * DAY)
    while first in computed:
        first += DAY
    return first, last


def _compute(job: Job, score_set: ScoreSet, first: date, last: date, until: date) -> None:
    # As above.
    from trends.figures import counting, members

    # Members are known of now alone.
    is_night = last == until - DAY and until == score_set.scored_day
    users, accounts = (
        counting.count(score_set, kind, first, last, facts=is_night) for kind in (USERS, ACCOUNTS)
    )
    days = [first + n * DAY for n in range((last - first).days + 1)]
    rows = [
        DayFigures(
            workspace_id=score_set.workspace_id,
            day=day,
            score_set_id=score_set.pk,
            **users.figures("user", place),
            **accounts.figures("account", place),
        )
        for place, day in enumerate(days)
    ]
    if is_night:
        seats = members.read_seats(score_set)
        facts: dict[Scope, Any] = {"user": users.facts, "account": accounts.facts}
        members.note_night(score_set, last, facts, seats, job)
        for name, value in members.licensed(accounts.facts, seats).items():
            setattr(rows[-1], name, value)
    with run.holding(job):
        if locks.share_lock_products([score_set.product_id]):
            _store(rows[: -1 if is_night else None], FIGURES)
            if is_night:
                _store(rows[-1:], (*FIGURES, *SEATS))
                members.delete_old(score_set, until)
                old = DayFigures.objects.filter(workspace=score_set.workspace_id)
                old.filter(day__lt=until - KEPT_WEEKS * 7 * DAY).delete()


def _store(rows: list[DayFigures], fields: Sequence[str]) -> None:
    DayFigures.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["workspace", "segment_id", "day"],
        update_fields=["score_set_id", *fields],
    )
