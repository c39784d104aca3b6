"""The jobs of activation: edited steps are built, published in one step, and told to readers of
changes; figures are counted after somebody did a step; and rows of replaced steps are deleted."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import LiteralString

import msgspec
from django.db import transaction
from django.db.models import F, Q, QuerySet

from core.database import locks, nodes, pace, sql
from core.jobs import run
from core.jobs.kinds import Blocked, Done, Later, More, Outcome
from core.models import Job
from engagement import changes
from engagement.metric_names import Scope
from engagement.models import Activation, StepsDone, Workspace
from engagement.rescoring.ranges import ROWS_PER_DELETION, build_next
from engagement.rules.steps import Step, parse_steps, steps_to_json
from engagement.scopes import get_kind
from engagement.scores import activation_figures
from engagement.scores.activation import current, refresh_rows, write_rows
from engagement.scores.marks import BEGUN
from engagement.segments import counts

State = Activation.State
SUBJECTS_PER_STAMP = 20_000


def update(product_id: int, ids: Mapping[Scope, Collection[int]]) -> None:
    """Compute the steps of these subjects again, in each workspace of the product that has any."""
    live = Activation.objects.filter(product=product_id, workspace__scores__isnull=False)
    live = live.exclude(state=Activation.State.RETIRED).select_related("workspace__scores")
    for activation in live:
        score_set = activation.workspace.scores
        assert score_set is not None, "The filter has left others out."
        refresh = partial(refresh_rows, activation, score_set)
        if any(pace.score_in_chunks(ids[activation.of_scope], refresh)):
            Activation.objects.filter(pk=activation.pk, are_stale=False).update(are_stale=True)


def request(workspace: Workspace, scope: Scope, steps: Sequence[Step]) -> None:
    """Have these steps replace those of the workspace, which stay until the new ones are built.
    Without any, the workspace has none from now on."""
    with transaction.atomic():
        Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)
        own = Activation.objects.filter(workspace=workspace, scope=scope)
        replaced = [State.BUILDING] if steps else [State.BUILDING, State.CURRENT]
        own.filter(state__in=replaced).update(state=State.RETIRED)
        if steps:
            Activation.objects.create(
                product_id=workspace.product_id,
                workspace=workspace,
                scope=scope,
                steps=steps_to_json(steps),
                audience=workspace.scores.audience if workspace.scores else {},
            )
        elif workspace.scores_id:
            counts.invalidate([workspace.scores_id])


def follow_audience(workspace: Workspace) -> None:
    """Have the steps built again if the workspace's scores are about other users than before."""
    assert workspace.scores is not None
    live = Activation.objects.filter(workspace=workspace).exclude(state=State.RETIRED)
    for outdated in live.exclude(audience=workspace.scores.audience).order_by("pk"):
        request(workspace, outdated.of_scope, parse_steps(outdated.steps))


def to_work_on() -> QuerySet[Activation, int]:
    """The keys of a job: steps that are to be built, told of, or deleted."""
    rows = Activation.objects.filter(
        Q(state=State.BUILDING, workspace__scores__scored_day__isnull=False)
        | Q(state=State.CURRENT, is_stamped=False)
        | Q(state=State.RETIRED)
    )
    return nodes.reachable(rows).order_by("pk").values_list("pk", flat=True)


def work(job: Job, now: datetime) -> Outcome:
    """A step of a job: do a bounded part of what there is to do for these steps."""
    activation = Activation.objects.filter(pk=job.key).first()
    if activation is None:
        return Done()
    if not locks.try_lock_scoring(activation.product_id):
        return Blocked()
    # The workspace before its steps, in the same order as an edit.
    workspaces = Workspace.objects.select_for_update(no_key=True, of=["self"])
    workspace = workspaces.select_related("scores").filter(pk=activation.workspace_id).first()
    activation.refresh_from_db()
    if activation.state == State.RETIRED:
        return More() if _delete_some(activation) else Done()
    if workspace is None or workspace.scores is None:
        return Done()
    if activation.state == State.CURRENT:
        return More() if _stamp_some(activation) else Done()
    # Who leaves the set while it is built is scored again, and loses the row then.
    write = partial(write_rows, activation, workspace.scores)
    if not build_next(activation, get_kind(activation.scope), write):
        return More(progress=activation.built, total=activation.to_build)
    _publish(activation, workspace, now)
    return More()


def _publish(activation: Activation, workspace: Workspace, now: datetime) -> None:
    assert workspace.scores is not None and workspace.scores.scored_day is not None
    replaced = Activation.objects.filter(
        workspace=workspace, scope=activation.scope, state=State.CURRENT
    )
    replaced.update(state=State.RETIRED)
    day = workspace.scores.scored_day
    Activation.objects.filter(pk=activation.pk).update(
        state=State.CURRENT,
        published_at=now,
        built_until=0,
        are_stale=False,
        figures=msgspec.to_builtins(activation_figures.count(activation, day)),
        counted_on=day,
    )
    counts.invalidate([workspace.scores.pk])


def _stamp_some(activation: Activation) -> bool:
    """Tell readers of changes of some subjects. Returns whether there may be more."""
    rows = StepsDone.objects.filter(product=activation.product_id, activation=activation)
    rows = rows.filter(subject_id__gt=activation.built_until).order_by("subject_id")
    ids = list(rows.values_list("subject_id", flat=True)[:SUBJECTS_PER_STAMP])
    changes.stamp(activation.product_id, {activation.of_scope: ids})
    Activation.objects.filter(pk=activation.pk).update(
        built_until=ids[-1] if ids else 0, is_stamped=not ids
    )
    return bool(ids)


_DELETE: LiteralString = """
    DELETE FROM engagement_stepsdone WHERE product_id = %(product)s AND ctid = ANY(ARRAY(
        SELECT ctid FROM engagement_stepsdone
        WHERE product_id = %(product)s AND activation_id = %(activation)s LIMIT %(rows)s))
"""


def _delete_some(activation: Activation) -> bool:
    """Delete some of the rows that nobody reads any longer, and then the steps."""
    parameters = {
        "product": activation.product_id,
        "activation": activation.pk,
        "rows": ROWS_PER_DELETION,
    }
    if sql.execute(_DELETE, parameters):
        return True
    # By itself: Django would look on every node for rows that are left.
    sql.execute("DELETE FROM engagement_activation WHERE id = %(activation)s", parameters)
    return False


# --- Figures ----------------------------------------------------------------------------------


def to_count() -> QuerySet[Activation, int]:
    """The keys of a job: steps whose figures are not those of now."""
    outdated = Q(are_stale=True) | ~Q(counted_on=F("workspace__scores__scored_day"))
    rows = Activation.objects.filter(outdated, state=State.CURRENT)
    return nodes.reachable(rows).order_by("pk").values_list("pk", flat=True)


def count(job: Job, now: datetime) -> Outcome:
    """A step of a job with a lease: count the figures, if they are outdated or if a worker that
    began to has died."""
    rows = Activation.objects.filter(pk=job.key, state=State.CURRENT)
    activation = rows.select_related("workspace__scores").first()
    score_set = activation.workspace.scores if activation else None
    if activation is None or score_set is None or score_set.scored_day is None:
        return Done()
    day = score_set.scored_day
    if not (activation.are_stale or activation.counted_on != day or job.cursor == BEGUN):
        return Done()
    if activation.product_id in nodes.missing_products():
        return Blocked()
    with run.holding(job):
        job.cursor = BEGUN
        job.save(update_fields=["cursor"])
    # Cleared first: what changes meanwhile makes the figures stale again.
    rows.update(are_stale=False)
    figures = msgspec.to_builtins(activation_figures.count(activation, day))
    with run.holding(job):
        rows.update(figures=figures, counted_on=day)
    return Later()


# --- What pages say ---------------------------------------------------------------------------


def latest(workspace_id: int, scope: Scope) -> Activation | None:
    """The steps as they were edited last, if there are any."""
    rows = Activation.objects.filter(workspace=workspace_id, scope=scope)
    return rows.exclude(state=State.RETIRED).order_by("-pk").first()


def progress(workspace_id: int, scope: Scope) -> str:
    """How far the building of edited steps is, as a sentence; empty if there is nothing to do."""
    rows = Activation.objects.filter(workspace=workspace_id, scope=scope, state=State.BUILDING)
    building = rows.first()
    if building is None:
        return ""
    suffix = " Until it finishes, you see the old steps." if current(workspace_id, scope) else ""
    if building.to_build is None:
        return f"Computing soon.{suffix}"
    return f"Computing: {building.built:,} of {building.to_build:,} {scope}s.{suffix}"
