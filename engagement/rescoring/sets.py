"""Score sets: requested, built in the background, published in one step, and deleted later.

Readers use a workspace's ``scores``: a set, and the definition that it was computed with. So an
edited workspace shows its old scores until the new ones are complete, and never a mixture.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import LiteralString

from django.db import transaction
from django.db.models import DateField, ExpressionWrapper, F, Prefetch, Q, QuerySet, Value
from django.db.models.lookups import GreaterThan
from django.utils.formats import date_format

from core.database import locks, nodes, retries, sql
from core.jobs.kinds import Blocked, Done, More, Outcome
from core.models import Job
from engagement.models import EventWeight, ScoredEvent, ScoreSet, Workspace
from engagement.models.scores import FORMULA_VERSION
from engagement.orders import storage as orders
from engagement.rescoring import activation
from engagement.rescoring.ranges import ROWS_PER_DELETION, build_next
from engagement.scopes import ACCOUNTS, USERS, SubjectKind
from engagement.scores import benchmarks, event_names, past_benchmarks, raw
from engagement.scores.formula import MAX_HALF_LIVES
from engagement.segments import counts

# A reader may still use a set for a moment after another one has replaced it.
RETIRED_RETENTION = timedelta(minutes=1)


# --- Requesting -----------------------------------------------------------------------------


def request_score_set(workspace_id: int) -> None:
    """Request a new set with the workspace's current definition.

    Works in the caller's transaction or its own. Abandons a set that is still being built.
    """
    with transaction.atomic():
        workspace = Workspace.objects.select_for_update(no_key=True).get(pk=workspace_id)
        _abandon_building(workspace)
        score_set = ScoreSet.objects.create(
            product_id=workspace.product_id,
            workspace=workspace,
            lookback_days=workspace.lookback_days,
            half_life_days=workspace.half_life_days,
            default_weight=workspace.default_weight,
            audience=workspace.audience,
            seats=workspace.product.seats,
        )
        weights = EventWeight.objects.filter(workspace=workspace)
        ScoredEvent.objects.bulk_create(
            ScoredEvent(score_set=score_set, event_name_id=name_id, weight=weight)
            for name_id, weight in weights.values_list("event_name_id", "weight")
        )


def request_missing_score_sets(today: date) -> None:
    """Request a set for each workspace that has none, one of an older formula, or one whose
    reference day is long ago."""
    is_outdated = Q(scores=None) | Q(scores__formula_version__lt=FORMULA_VERSION)
    days = F("scores__half_life_days") * MAX_HALF_LIVES
    end = ExpressionWrapper(F("scores__reference_day") + days, DateField())
    is_outdated |= Q(GreaterThan(Value(today), end))
    workspaces = Workspace.objects.filter(is_outdated).exclude(score_sets__state="building")
    for pk in workspaces.values_list("pk", flat=True):
        # Weights have a copy on each node, and wait for all of them.
        with retries.without_missing_nodes():
            request_score_set(pk)


def _abandon_building(workspace: Workspace) -> None:
    # Nobody reads it, so it can be deleted at once.
    ScoreSet.objects.filter(workspace=workspace, state=ScoreSet.State.BUILDING).update(
        state=ScoreSet.State.RETIRED, retired_at=None
    )


# --- Building -------------------------------------------------------------------------------


_LOCK_LIVE: LiteralString = """
    SELECT id FROM engagement_scoreset
    WHERE product_id = %(product)s AND state IN ('building', 'current')
    ORDER BY id FOR KEY SHARE
"""


def lock_live_score_sets(product_id: int) -> list[ScoreSet]:
    """Lock and return the product's current sets and those being built.

    Nobody can delete them until the caller's transaction ends.
    """
    pks = [pk for (pk,) in sql.fetch(_LOCK_LIVE, {"product": product_id})]
    return list(ScoreSet.objects.filter(pk__in=pks).order_by("pk"))


def sets_to_build() -> QuerySet[ScoreSet, int]:
    """The keys of a job: the requested sets, those that wait longest first."""
    building = nodes.reachable(ScoreSet.objects.filter(state=ScoreSet.State.BUILDING))
    return building.order_by("pk").values_list("pk", flat=True)


def build(job: Job, now: datetime) -> Outcome:
    """A step of a job: build a bounded part of the set, and publish it when it is complete."""
    score_set = ScoreSet.objects.filter(pk=job.key).first()
    if score_set is None:
        return Done()
    if not locks.try_lock_scoring(score_set.product_id):
        return Blocked()
    building = _lock_building(score_set)
    if building is None:
        return Done()
    if _build_part(building, now):
        return Done()
    return More(building.phase, progress=building.built, total=building.to_build)


def _build_part(score_set: ScoreSet, now: datetime) -> bool:
    """Do one bounded step of building the set; return whether it is complete, and published."""
    today = now.astimezone(UTC).date()
    match score_set.phase:
        case ScoreSet.Phase.USERS:
            score_users = partial(raw.score_users, score_set, today=today)
            _build_range(score_set, USERS, today, score_users, ScoreSet.Phase.ACCOUNTS)
        case ScoreSet.Phase.ACCOUNTS:
            score_accounts = partial(raw.score_accounts, score_set, today=today)
            _build_range(score_set, ACCOUNTS, today, score_accounts, ScoreSet.Phase.BENCHMARKS)
        case _:
            past_benchmarks.compute_past_benchmarks(score_set, today)
            event_names.refresh_done_by(score_set.product_id, include_not_done=True)
            benchmarks.compute_benchmarks(score_set, now)
            counts.recount(score_set, now)
            _publish(score_set, now)
            return True
    return False


def _lock_building(score_set: ScoreSet) -> ScoreSet | None:
    """The set as it is now, unless its building has ended."""
    # The workspace before its set, in the same order as an edit.
    Workspace.objects.select_for_update(no_key=True).filter(pk=score_set.workspace_id).first()
    building = ScoreSet.objects.select_for_update(no_key=True)
    return building.filter(pk=score_set.pk, state=ScoreSet.State.BUILDING).first()


def _build_range(
    score_set: ScoreSet,
    kind: SubjectKind,
    today: date,
    score: Callable[[list[int]], object],
    next_phase: ScoreSet.Phase,
) -> None:
    """Score the next users or accounts; after the last ones begin the next phase.

    A user who enters the audience needs no rescore request, because accounts come after all users.
    """
    if score_set.scored_day is None:
        score_set.scored_day = score_set.reference_day = today
    if build_next(score_set, kind, score):
        score_set.phase = next_phase
    score_set.save(update_fields=["scored_day", "reference_day", "phase"])


def _publish(score_set: ScoreSet, now: datetime) -> None:
    replaced = ScoreSet.objects.filter(
        workspace_id=score_set.workspace_id, state=ScoreSet.State.CURRENT
    )
    replaced.update(state=ScoreSet.State.RETIRED, retired_at=now)
    ScoreSet.objects.filter(pk=score_set.pk).update(state=ScoreSet.State.CURRENT, published_at=now)
    Workspace.objects.filter(pk=score_set.workspace_id).update(scores=score_set.pk)
    activation.follow_audience(Workspace.objects.get(pk=score_set.workspace_id))


# --- Deleting -------------------------------------------------------------------------------

_DELETE: LiteralString = """
    DELETE FROM {table} WHERE {owner} AND ctid = ANY(ARRAY(
        SELECT ctid FROM {table} WHERE {owner} AND score_set_id = %(score_set)s LIMIT %(rows)s))
"""


def delete_retired(job: Job, now: datetime) -> Outcome:
    """A step of a job: delete some rows of a set that nobody reads any longer, or the empty set."""
    is_unread = Q(retired_at=None) | Q(retired_at__lt=now - RETIRED_RETENTION)
    retired = ScoreSet.objects.filter(is_unread, state=ScoreSet.State.RETIRED).order_by("pk")
    # Rescoring may have started before the set was retired.
    for score_set in nodes.reachable(retired):
        if locks.try_lock_scoring(score_set.product_id) and _delete_rows(score_set):
            return More()
    return Done()


def _delete_rows(score_set: ScoreSet) -> bool:
    """Return whether anything was deleted."""
    parameters = {
        "product": score_set.product_id,
        "score_set": score_set.pk,
        "rows": ROWS_PER_DELETION,
    }
    for table, owner in (
        (USERS.engagement_table, sql.on_node(USERS.engagement_table)),
        (ACCOUNTS.engagement_table, sql.on_node(ACCOUNTS.engagement_table)),
        # Its only index begins with the product.
        ("engagement_activeday", "product_id = %(product)s"),
    ):
        if sql.execute(_DELETE.format(table=table, owner=owner), parameters):
            return True
    if not orders.delete_order_of(score_set):
        score_set.delete()
    return True


# --- Progress -------------------------------------------------------------------------------


def prefetch_building(workspaces: QuerySet[Workspace]) -> QuerySet[Workspace]:
    """Prefetches what ``is_building()`` and ``describe_progress()`` read, with one query."""
    building = ScoreSet.objects.filter(state=ScoreSet.State.BUILDING)
    return workspaces.prefetch_related(Prefetch("score_sets", building, to_attr="sets_being_built"))


def is_building(workspace: Workspace) -> bool:
    """Whether new scores of the workspace (from ``prefetch_building()``) are being computed."""
    return bool(_building(workspace))


def describe_progress(workspace: Workspace) -> str:
    """The state of the scores of the workspace (from ``prefetch_building()``), as a sentence."""
    building = _building(workspace)
    if not building:
        day = workspace.scores and workspace.scores.scored_day
        return f"Up to date through {date_format(day, 'j M Y')}" if day else "Not computed yet"
    suffix = " Until it finishes, you see the old scores." if workspace.scores_id else ""
    return f"Recalculating ({_phase_progress(building[0])}).{suffix}"


def _building(workspace: Workspace) -> list[ScoreSet]:
    building: list[ScoreSet] = workspace.sets_being_built  # type: ignore[attr-defined]
    return building


def _phase_progress(score_set: ScoreSet) -> str:
    if score_set.phase == ScoreSet.Phase.BENCHMARKS:
        return "benchmarks next"
    if score_set.to_build is None:
        return f"{score_set.phase} next"
    return f"{score_set.built:,} of {score_set.to_build:,} {score_set.phase}"
