"""Sets of scores: asked for, built in the background, published in one step, and cleared away.

Readers go by a workspace's ``scores``: a set and the definition that it was computed under. So an
edited workspace shows its old scores until the new ones are complete, and never a mixture.
"""

import logging
from collections.abc import Callable
from datetime import date, datetime, timedelta
from functools import partial
from typing import LiteralString, NamedTuple

from django.db import transaction
from django.db.models import Prefetch, Q, QuerySet
from django.utils.formats import date_format

from engagement.database import locks, pace, sql
from engagement.models import EventWeight, ScoredEvent, ScoreSet, Workspace
from engagement.models.scores import FORMULA_VERSION
from engagement.scores import benchmarks, event_names, past_benchmarks, raw
from engagement.segments import counts

logger = logging.getLogger(__name__)

# Ids, not subjects: where products are mixed, a range has less than this of one of them.
IDS_PER_RANGE = 5_000
# So many ranges that have nobody of the product are passed in one step.
RANGES_PER_STEP = 100
# Whoever began to read a set before another one took its place may still be reading it.
RETIRED_RETENTION = timedelta(minutes=1)
ROWS_PER_DELETION = 20_000


# --- Asking ---------------------------------------------------------------------------------


def request_score_set(workspace_id: int) -> None:
    """Have the workspace scored anew as it is defined now, in the caller's transaction or its own.

    A set that was still being built for an earlier definition is given up.
    """
    with transaction.atomic():
        workspace = Workspace.objects.select_for_update(no_key=True).get(pk=workspace_id)
        _give_up_building(workspace)
        score_set = ScoreSet.objects.create(
            product_id=workspace.product_id,
            workspace=workspace,
            lookback_days=workspace.lookback_days,
            default_weight=workspace.default_weight,
            audience=workspace.audience,
        )
        weights = EventWeight.objects.filter(workspace=workspace)
        ScoredEvent.objects.bulk_create(
            ScoredEvent(score_set=score_set, event_name_id=name_id, weight=weight)
            for name_id, weight in weights.values_list("event_name_id", "weight")
        )


def request_missing_score_sets() -> None:
    """Ask for a set for each workspace that has none yet, or one of an older formula."""
    wanting = Q(scores=None) | Q(scores__formula__lt=FORMULA_VERSION)
    without = Workspace.objects.filter(wanting).exclude(score_sets__state="building")
    for pk in without.values_list("pk", flat=True):
        request_score_set(pk)


def _give_up_building(workspace: Workspace) -> None:
    # Nobody reads it, so it need not be kept.
    ScoreSet.objects.filter(workspace=workspace, state=ScoreSet.State.BUILDING).update(
        state=ScoreSet.State.RETIRED, retired_at=None
    )


# --- Building -------------------------------------------------------------------------------


def lock_live_score_sets(product_id: int) -> list[ScoreSet]:
    """The product's sets that follow what is recorded: those that are read and those being built.

    They cannot be deleted until the caller's transaction ends.
    """
    held = sql.fetch(_HOLD, {"product": product_id})
    return list(ScoreSet.objects.filter(pk__in=[pk for (pk,) in held]).order_by("pk"))


_HOLD: LiteralString = """
    SELECT id FROM engagement_scoreset
    WHERE product_id = %(product)s AND state IN ('building', 'current')
    ORDER BY id FOR KEY SHARE
"""


def build_requested(now: datetime, today: date, out_of_time: Callable[[], bool]) -> None:
    """Go on with the sets that are asked for, in turns; publish those that are complete.

    Ends when all are, or when *out_of_time* says so, but not before each had a step: recording
    that keeps scoring busy must not put off an edit for ever.
    """
    asked = ScoreSet.objects.filter(state=ScoreSet.State.BUILDING).order_by("pk")
    waiting = [pk for pk in asked.values_list("pk", flat=True) if _try_step(pk, now, today)]
    while waiting and not out_of_time():
        waiting = [pk for pk in waiting if _try_step(pk, now, today)]


def _try_step(pk: int, now: datetime, today: date) -> bool:
    """As ``_step``; what takes too long waits for the next call, and keeps no other set waiting."""
    try:
        return _step(pk, now, today)
    except sql.StatementTimeout:
        logger.warning("A step of building score set %d took too long.", pk)
        return False


def _step(pk: int, now: datetime, today: date) -> bool:
    """One bounded piece of work on the set; whether there is more to do, and it is free to do."""
    with transaction.atomic(durable=True):
        score_set = _lock_to_build(pk)
        if score_set is None:
            return False
        match score_set.phase:
            case ScoreSet.Phase.USERS:
                _build_some(score_set, today, ScoreSet.Phase.ACCOUNTS)
            case ScoreSet.Phase.ACCOUNTS:
                _build_some(score_set, today, ScoreSet.Phase.BENCHMARKS)
            case _:
                past_benchmarks.compute_past_benchmarks(score_set, now, today)
                event_names.refresh_done_by(score_set.product_id, include_not_done=True)
                benchmarks.compute_benchmarks(score_set, now)
                counts.try_recount(score_set, now)
                _publish(score_set, now)
                return False
    return True


def _lock_to_build(pk: int) -> ScoreSet | None:
    """The set, if it is still to be built and nobody else is scoring its product."""
    found = ScoreSet.objects.filter(pk=pk).first()
    if found is None or not locks.try_lock_scoring(found.product_id):
        return None
    # The workspace before its set, as whoever edits it.
    Workspace.objects.select_for_update(no_key=True).filter(pk=found.workspace_id).first()
    building = ScoreSet.objects.select_for_update(no_key=True)
    return building.filter(pk=pk, state=ScoreSet.State.BUILDING).first()


class _Subjects(NamedTuple):
    """How to walk over a product's users or accounts."""

    how_many: LiteralString
    last: LiteralString
    some: LiteralString


def _walk(table: LiteralString) -> _Subjects:
    return _Subjects(
        f"SELECT count(*) FROM {table} WHERE product_id = %(product)s AND is_identified",
        f"SELECT COALESCE(max(id), 0) FROM {table}",
        # Ranges of ids, because statistics must not decide how this is found.
        f"SELECT id FROM {table} WHERE id > %(after)s AND id <= %(until)s "
        "AND product_id = %(product)s AND is_identified",
    )


_WALKS = {
    ScoreSet.Phase.USERS: _walk("engagement_user"),
    ScoreSet.Phase.ACCOUNTS: _walk("engagement_account"),
}


def _build_some(score_set: ScoreSet, today: date, next_phase: ScoreSet.Phase) -> None:
    """Score the next users or accounts; after the last of them begin the next phase.

    Subjects that come later than this walk carry marks, and marks are worked off for sets that
    are being built too.
    """
    walk = _WALKS[ScoreSet.Phase(score_set.phase)]
    if score_set.scored_day is None:
        score_set.scored_day = today
    if score_set.to_build is None:
        ((score_set.to_build,),) = sql.fetch(walk.how_many, {"product": score_set.product_id})
    ((end,),) = sql.fetch(walk.last)
    subjects: list[int] = []
    for _ in range(RANGES_PER_STEP):
        subjects = _next_range(score_set, walk)
        if subjects or score_set.built_until >= end:
            break
    # A user who enters the audience needs no mark here: accounts come after all users.
    if score_set.phase == ScoreSet.Phase.USERS:
        pace.score_in_chunks(subjects, partial(raw.score_users, score_set, today=today))
    else:
        pace.score_in_chunks(subjects, partial(raw.score_accounts, score_set, today=today))
    score_set.built += len(subjects)
    if score_set.built_until >= end:
        score_set.phase = next_phase
        score_set.built_until, score_set.built, score_set.to_build = 0, 0, None
    score_set.save(update_fields=["scored_day", "phase", "built_until", "built", "to_build"])


def _next_range(score_set: ScoreSet, walk: _Subjects) -> list[int]:
    """The product's subjects in the range of ids after the last one that was built."""
    after, until = score_set.built_until, score_set.built_until + IDS_PER_RANGE
    score_set.built_until = until
    asked = {"after": after, "until": until, "product": score_set.product_id}
    return [id for (id,) in sql.fetch(walk.some, asked)]


def _publish(score_set: ScoreSet, now: datetime) -> None:
    replaced = ScoreSet.objects.filter(
        workspace_id=score_set.workspace_id, state=ScoreSet.State.CURRENT
    )
    replaced.update(state=ScoreSet.State.RETIRED, retired_at=now)
    ScoreSet.objects.filter(pk=score_set.pk).update(state=ScoreSet.State.CURRENT, published_at=now)
    Workspace.objects.filter(pk=score_set.workspace_id).update(scores=score_set.pk)


# --- Clearing away --------------------------------------------------------------------------

_DELETE: LiteralString = """
    DELETE FROM {table} WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM {table} WHERE score_set_id = %(score_set)s LIMIT %(rows)s))
"""
_DELETE_USERS = _DELETE.format(table="engagement_userengagement")
_DELETE_ACCOUNTS = _DELETE.format(table="engagement_accountengagement")


def delete_retired(now: datetime, out_of_time: Callable[[], bool]) -> None:
    """Delete the sets that nobody reads any more, in bounded pieces."""
    forgotten = Q(retired_at=None) | Q(retired_at__lt=now - RETIRED_RETENTION)
    retired = ScoreSet.objects.filter(forgotten, state=ScoreSet.State.RETIRED)
    for score_set in retired:
        while _clear_some(score_set) and not out_of_time():
            pass


def _clear_some(score_set: ScoreSet) -> bool:
    """Delete some rows of the set, and the set itself after the last; whether there is more."""
    with transaction.atomic(durable=True):
        # Whoever works off marks may have begun before the set was retired.
        if not locks.try_lock_scoring(score_set.product_id):
            return False
        piece = {"score_set": score_set.pk, "rows": ROWS_PER_DELETION}
        if sql.execute(_DELETE_USERS, piece) or sql.execute(_DELETE_ACCOUNTS, piece):
            return True
        score_set.delete()
        return False


# --- For people -----------------------------------------------------------------------------


def prefetch_building(workspaces: QuerySet[Workspace]) -> QuerySet[Workspace]:
    """The workspaces with what ``progress`` looks at, at the cost of one query for all."""
    building = ScoreSet.objects.filter(state=ScoreSet.State.BUILDING)
    return workspaces.prefetch_related(Prefetch("score_sets", building, to_attr="sets_being_built"))


def is_building(workspace: Workspace) -> bool:
    """Whether scores of the workspace (of ``prefetch_building``) are on their way."""
    return bool(_building(workspace))


def describe_progress(workspace: Workspace) -> str:
    """How far the scores of a workspace (of ``prefetch_building``) are, in words."""
    building = _building(workspace)
    if not building:
        day = workspace.scores and workspace.scores.scored_day
        return f"Of the days up to {date_format(day)}" if day else "Not computed yet"
    old = " The scores shown are those of before the change." if workspace.scores_id else ""
    return f"Being computed: {_done(building[0])}.{old}"


def _building(workspace: Workspace) -> list[ScoreSet]:
    building: list[ScoreSet] = workspace.sets_being_built  # type: ignore[attr-defined]
    return building


def _done(score_set: ScoreSet) -> str:
    if score_set.phase == ScoreSet.Phase.BENCHMARKS:
        return "all users and accounts are scored, the benchmarks are next"
    if score_set.to_build is None:
        return f"{score_set.phase} are next"
    return f"{score_set.built:,} of {score_set.to_build:,} {score_set.phase}"
