"""The members of segments from night to night: their figures, and who entered and left."""

import logging
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime
from typing import Any, LiteralString

import numpy as np
import numpy.typing as npt
from django.core.exceptions import EmptyResultSet
from django.db.models import QuerySet

from core.database import locks, sql
from core.jobs import run
from core.models import Job
from engagement.metric_names import BOTH_SCOPES, Scope
from engagement.models import ForgottenSubject, ScoreSet, Segment
from engagement.recording.suppression import SubjectRef
from engagement.scopes import get_kind
from engagement.scores.active_days import DAY
from engagement.segments import members
from engagement.segments.metric_filters import licensed_seats
from trends.figures.counting import FLAGS, STATEMENT_TIMEOUT_SECONDS, TENTHS, figures_of
from trends.models import WHOLE, DayFigures, SegmentMove, SegmentRoster

logger = logging.getLogger(__name__)

# Of a segment of which more subjects moved in a night, only their number is kept.
MOVES_PER_NIGHT = 1_000
# The parts in which rows are read, and the ids that are looked at together.
PARTS, IDS_AT_ONCE = 64, 100_000
# As long as active days are.
MOVES_KEPT = 53 * 7 * DAY

Array = npt.NDArray[Any]
_ID = np.dtype(">i8")
_SEATS = np.dtype([("id", ">i8"), ("seats", ">f8")])


def _packed(rows: QuerySet[Any], send: LiteralString, *columns: str) -> bytearray:
    """These columns of all rows, in any order, in the binary form of PostgreSQL. *send* says how,
    by the names a, b …; a is an id."""
    packed = bytearray()
    with suppress(EmptyResultSet):
        query, parameters = rows.values_list(*columns).query.sql_with_params()
        own = f"({query}) AS own({', '.join('ab'[: len(columns)])})"
        # The driver keeps room for the largest row that it has read.
        statement = f"SELECT string_agg({send}, '') FROM {own} GROUP BY a %% {PARTS}"
        for (part,) in sql.stream(statement, parameters, at_once=1):
            packed += part
    return packed


def note_night(
    score_set: ScoreSet, day: date, facts: Mapping[Scope, Array], seats: Array, job: Job
) -> None:
    """Store the figures of each segment after *day*, and who entered and left it since the night
    before. *facts* are those of ``counting``. Does nothing about segments that are stored already.

    Raises LeaseLost.
    """
    rows = DayFigures.objects.filter(workspace=score_set.workspace_id, day=day)
    stored_ids = set(rows.values_list("segment_id", flat=True))
    for scope in BOTH_SCOPES:
        for segment in members.usable_segments(score_set.workspace, scope):
            if segment.pk not in stored_ids:
                try:
                    _note_segment(score_set, segment, day, facts[scope], seats, job)
                except sql.StatementTimeout:
                    logger.warning("Reading the members of segment %d took too long.", segment.pk)


def _note_segment(
    score_set: ScoreSet, segment: Segment, day: date, facts: Array, seats: Array, job: Job
) -> None:
    scope = get_kind(segment.scope).scope
    # Nobody is forgotten between reading and writing.
    with run.holding(job), sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
        is_there = locks.share_lock_products([score_set.product_id])
        current = Segment.objects.select_for_update(no_key=True).filter(pk=segment.pk).first()
        if not is_there or current is None or current.stored_rule != segment.stored_rule:
            return
        note_members(score_set, segment, day, _members(score_set, segment, scope), facts, seats)


def note_members(
    score_set: ScoreSet, segment: Segment, day: date, ids: Array, facts: Array, seats: Array
) -> None:
    """Store the figures of the segment, which had these members after *day*, and who entered and
    left it since they were last stored."""
    own_facts, own_seats = (rows[_are_among(rows["id"], ids)] for rows in (facts, seats))
    figures = _figures(get_kind(segment.scope).scope, own_facts, len(ids), own_seats)
    del own_facts, own_seats
    DayFigures.objects.create(
        workspace_id=score_set.workspace_id,
        segment_id=segment.pk,
        day=day,
        score_set_id=score_set.pk,
        **figures,
        **_move(score_set, segment, day, ids),
    )


def _members(score_set: ScoreSet, segment: Segment, scope: Scope) -> Array:
    rows = members.engagement_rows(score_set, scope)
    rows = rows.filter(members.members_filter(score_set, members.segment_rule(segment)))
    packed = _packed(rows, "int8send(a)", get_kind(scope).id_column)
    ids = np.frombuffer(packed, _ID).astype(np.int64)
    # Of 3,000,000 users, each copy is 24 MB.
    del packed
    ids.sort()
    return ids


def _parts(ids: Array) -> Iterator[Array]:
    """The ids, some at once: what is computed from them is larger than they are."""
    return (ids[start : start + IDS_AT_ONCE] for start in range(0, len(ids), IDS_AT_ONCE))


def _are_among(ids: Array, others: Array) -> Array:
    """Whether each of the ids is one of the others, which are sorted."""
    among = (
        np.searchsorted(others, part) < np.searchsorted(others, part, "right")
        for part in _parts(ids)
    )
    return np.concatenate([np.zeros(0, np.bool_), *among])


def _figures(scope: Scope, facts: Array, number: int, seats: Array) -> dict[str, Any]:
    tenths = np.bincount(facts["tenths"], minlength=TENTHS)
    tenths[0] = number - tenths[1:].sum()
    figures = figures_of(scope, number, {name: int(facts[name].sum()) for name in FLAGS}, tenths)
    if scope == "account":
        # A user of two accounts counts in both.
        figures |= {name: int(facts[name].sum()) for name in ("daily_users", "weekly_users")}
        figures |= licensed(facts, seats)
    return figures


# --- Seats ----------------------------------------------------------------------------------


def read_seats(score_set: ScoreSet) -> Array:
    """The accounts of the set with licensed seats, and how many, sorted by id; none where active
    users are no share of the seats."""
    rows = get_kind("account").engagement_rows(score_set)
    if not score_set.counts_seats:
        rows = rows.none()
    rows = rows.annotate(seats=licensed_seats("account__traits")).filter(seats__isnull=False)
    with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
        packed = _packed(rows, "int8send(a) || float8send(b)", "account_id", "seats")
        seats = np.frombuffer(packed, _SEATS)
    return np.sort(seats, order="id")


def licensed(facts: Array, seats: Array) -> dict[str, int | None]:
    """The licensed seats of the accounts, and those with an active user."""
    if not len(seats):
        return {"seats": None, "active_seats": None}
    is_active = np.isin(seats["id"], facts["id"])
    users = facts["weekly_users"][np.searchsorted(facts["id"], seats["id"][is_active])]
    active = np.minimum(users, seats["seats"][is_active])
    return {"seats": int(seats["seats"].sum()), "active_seats": int(active.sum())}


# --- Moves ----------------------------------------------------------------------------------


def _move(score_set: ScoreSet, segment: Segment, day: date, ids: Array) -> dict[str, int | None]:
    """Store the members, and who entered and left since they were last stored; return how many.

    None after an edit of the rule or of what counts: nobody moved by themselves.
    """
    rule = {**segment.stored_rule, "score_set_id": score_set.pk}
    before = SegmentRoster.objects.select_for_update().filter(segment=segment).first()
    SegmentRoster.objects.update_or_create(
        segment=segment, defaults={"day": day, "rule": rule, "members": pack(ids)}
    )
    if before is None or before.rule != rule:
        return {"entered": None, "left": None}
    ids_before = unpack(before.members)
    entrants = ids[~_are_among(ids, ids_before)]
    leavers = ids_before[~_are_among(ids_before, ids)]
    if len(entrants) + len(leavers) <= MOVES_PER_NIGHT:
        SegmentMove.objects.bulk_create(
            (
                SegmentMove(
                    product_id=score_set.product_id,
                    scope=segment.scope,
                    subject_id=int(subject_id),
                    segment_id=segment.pk,
                    day=day,
                    is_entry=is_entry,
                )
                for is_entry, moved in ((True, entrants), (False, leavers))
                for subject_id in moved
            ),
            ignore_conflicts=True,
        )
    return {"entered": len(entrants), "left": len(leavers)}


def pack(ids: Array) -> bytes:
    """Sorted ids in one or two bytes each: what each adds to the one before."""
    packer, packed, last = zlib.compressobj(1), [], 0
    for part in _parts(ids):
        packed.append(packer.compress(np.diff(part, prepend=last).astype("<i8").tobytes()))
        last = int(part[-1])
    return b"".join([*packed, packer.flush()])


def unpack(packed: bytes | memoryview) -> Array:
    ids: Array = np.frombuffer(zlib.decompress(packed), "<i8").cumsum()
    return ids


# --- Deleting -------------------------------------------------------------------------------


def forget(subject: SubjectRef, now: datetime) -> None:
    """Delete what is kept about where the subject that is being forgotten belonged."""
    own = {"product_id": subject.product_id, "scope": subject.scope}
    forgotten = ForgottenSubject.objects.filter(**own, digest=subject.digest, forgotten_at=now)
    for row_id in filter(None, forgotten.values_list("row_id", flat=True)):
        SegmentMove.objects.filter(**own, subject_id=row_id).delete()
        rosters = SegmentRoster.objects.select_for_update().filter(
            segment__scope=subject.scope, segment__workspace__product=subject.product_id
        )
        for roster in rosters.order_by("pk").iterator(chunk_size=1):
            ids = unpack(roster.members)
            if row_id in ids:
                roster.members = pack(ids[ids != row_id])
                roster.save(update_fields=["members"])


def delete_old(score_set: ScoreSet, today: date) -> None:
    """Delete old moves, and the figures and moves of segments that are gone."""
    segments = Segment.objects.filter(workspace__product=score_set.product_id)
    ids = [WHOLE, *segments.values_list("pk", flat=True)]
    own = DayFigures.objects.filter(workspace=score_set.workspace_id)
    own.exclude(segment_id__in=ids).delete()
    moves = SegmentMove.objects.filter(product=score_set.product_id)
    moves.exclude(segment_id__in=ids).delete()
    moves.filter(day__lt=today - MOVES_KEPT).delete()
