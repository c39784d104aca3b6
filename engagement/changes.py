"""Which users and accounts changed since a reader last asked.

Scoring and forgetting stamp the subjects that they touch, in their own transactions. Both hold the
product's scoring lock until they have committed, so the stamps of a product commit in their order:
a reader that has seen a stamp has seen all that are smaller. Recording stamps nothing: what it
changes goes through the rescore queue, and is stamped when it is scored.

A score also depends on the workspace's benchmarks, which move without touching a row. Whose
displayed score that changes is computed when a reader asks.
"""

from collections.abc import Collection
from typing import Final, LiteralString, NamedTuple

from django.db.models import Q
from django.db.models.lookups import Exact

from core.database import sql
from engagement.metric_names import Scope
from engagement.models import ChangeStamp, ScoreSet, SubjectChange
from engagement.scopes import get_kind
from engagement.segments.metric_filters import score_in_tenths

_KINDS: dict[Scope, SubjectChange.Kind] = {
    "account": SubjectChange.Kind.ACCOUNT,
    "user": SubjectChange.Kind.USER,
}


# The ends of the names of their columns.
_ENDS: Final = ("", "_last_period", "_yesterday", "_yesterday_last_period")


class Benchmarks(NamedTuple):
    """The benchmarks that displayed scores and their changes depend on. The release before stored
    the first two."""

    now: float | None
    last_period: float | None
    yesterday: float | None = None
    yesterday_last_period: float | None = None

    @classmethod
    def of(cls, score_set: ScoreSet, scope: Scope) -> "Benchmarks":
        kind = get_kind(scope)
        return cls(*(kind.benchmark(score_set, of) for of in _ENDS))

    def put_into(self, score_set: ScoreSet, scope: Scope) -> None:
        """Let the (unsaved) set show scores by these benchmarks."""
        for of, benchmark in zip(_ENDS, self, strict=True):
            setattr(score_set, f"{scope}_benchmark{of}", benchmark)


# --- Writing --------------------------------------------------------------------------------

_NEXT_STAMP: LiteralString = """
    INSERT INTO engagement_changestamp AS c (product_id, stamp) VALUES (%(product)s, 1)
    ON CONFLICT (product_id) DO UPDATE SET stamp = c.stamp + 1
    RETURNING stamp
"""
# Nearly always all are there. An upsert would lock each row first, which writes as much log again.
_STAMP_AGAIN: LiteralString = """
    UPDATE engagement_subjectchange SET stamp = %(stamp)s
    WHERE product_id = %(product)s AND kind = %(kind)s AND subject_id = ANY(%(ids)b::bigint[])
    RETURNING subject_id
"""
_STAMP: LiteralString = """
    INSERT INTO engagement_subjectchange (product_id, kind, subject_id, stamp)
    SELECT %(product)s, %(kind)s, id, %(stamp)s FROM unnest(%(ids)b::bigint[]) AS id
"""


def stamp(product_id: int, ids: dict[Scope, Collection[int]]) -> None:
    """Stamp the subjects as changed. The caller holds the product's scoring lock."""
    if not any(ids.values()):
        return
    ((stamp,),) = sql.fetch(_NEXT_STAMP, {"product": product_id})
    for scope, subject_ids in ids.items():
        if not subject_ids:
            continue
        parameters = {"product": product_id, "kind": _KINDS[scope].value, "stamp": stamp}
        rows = sql.fetch(_STAMP_AGAIN, {**parameters, "ids": sorted(subject_ids)})
        if new := set(subject_ids).difference(id for (id,) in rows):
            sql.execute(_STAMP, {**parameters, "ids": sorted(new)})


# --- Reading --------------------------------------------------------------------------------


def latest_stamp(product_id: int) -> int:
    """The product's latest stamp; 0 if nothing was ever stamped."""
    stamps = ChangeStamp.objects.filter(product_id=product_id)
    return stamps.values_list("stamp", flat=True).first() or 0


def changed_ids(product_id: int, scope: Scope, since: int, after: int, limit: int) -> list[int]:
    """The subjects with a stamp greater than *since* and an id greater than *after*, in the order
    of their ids. Some of them may be gone, and some may look as before."""
    rows = SubjectChange.objects.filter(
        product_id=product_id, kind=_KINDS[scope], subject_id__gt=after, stamp__gt=since
    )
    return list(rows.order_by("subject_id").values_list("subject_id", flat=True)[:limit])


def candidate_ids(
    score_set: ScoreSet, scope: Scope, since: int, before: Benchmarks, after: int, limit: int
) -> list[int]:
    """The first subjects with an id greater than *after* that may look different in the set than
    at the stamp *since* with the benchmarks of *before*, in the order of their ids."""
    changed = changed_ids(score_set.product_id, scope, since, after, limit)
    rescaled = rescaled_ids(score_set, scope, before, after, limit)
    return sorted({*changed, *rescaled})[:limit]


def rescaled_ids(
    score_set: ScoreSet, scope: Scope, before: Benchmarks, after_id: int, limit: int
) -> list[int]:
    """The subjects whose displayed score or a change of it is another one than with the benchmarks
    of *before*, in the order of their ids, from those after *after_id* on."""
    kind, now = get_kind(scope), Benchmarks.of(score_set, scope)
    differs = Q()
    for of, old, new in zip(_ENDS, before, now, strict=True):
        if old != new:
            raw = f"raw{of}"
            same = Exact(score_in_tenths(raw, old), score_in_tenths(raw, new))
            differs |= ~Q(same)
    if not differs:
        return []
    rows = kind.engagement_rows(score_set).filter(differs, **{f"{kind.id_column}__gt": after_id})
    return list(rows.order_by(kind.id_column).values_list(kind.id_column, flat=True)[:limit])
