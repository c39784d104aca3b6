"""Some of a score set's subjects, picked evenly, at the same small cost however many there are."""

from random import Random
from typing import LiteralString, NamedTuple

from engagement.database import sql
from engagement.metric_names import Scope
from engagement.models import ScoreSet

# So many pieces of the range of ids are looked at.
ID_RANGES = 100


class SubjectSample(NamedTuple):
    """The ids of subjects; each stands for ``one_in`` of the set. Exactly 1.0: they are all."""

    ids: list[int]
    scale: float


_ENDS: LiteralString = f"""
    SELECT min({{subject}}), max({{subject}}) FROM {{table}}
    WHERE product_id = {sql.PRODUCT} AND score_set_id = {sql.SCORE_SET}
"""
# In the order of the key: each piece is a short walk over its index.
_PICKED: LiteralString = f"""
    SELECT picked.id FROM unnest(%(starts)b::bigint[]) piece(start)
    CROSS JOIN LATERAL (
        SELECT {{subject}} AS id FROM {{table}}
        WHERE product_id = {sql.PRODUCT} AND score_set_id = {sql.SCORE_SET}
          AND {{subject}} >= piece.start AND {{subject}} < piece.start + %(width)s) picked
"""
_OF: dict[Scope, tuple[LiteralString, LiteralString]] = {
    "user": (
        _ENDS.format(subject="user_id", table="engagement_userengagement"),
        _PICKED.format(subject="user_id", table="engagement_userengagement"),
    ),
    "account": (
        _ENDS.format(subject="account_id", table="engagement_accountengagement"),
        _PICKED.format(subject="account_id", table="engagement_accountengagement"),
    ),
}


def sample_subjects(score_set: ScoreSet, scope: Scope, total: int, wanted: int) -> SubjectSample:
    """About *wanted* of the set's *total* users or accounts, or all where there are no more.

    Pieces from all of the range of ids, so that whoever came early and whoever came late are both
    met; how many subjects of other products lie between them does not matter.
    """
    ends, picked = _OF[scope]
    of = {"product": score_set.product_id, "score_set": score_set.pk}
    ((low, high),) = sql.fetch(ends, of)
    if low is None:
        return SubjectSample([], 1.0)
    ids = range(low, high + 1)
    width, starts = _pieces(ids, min(1.0, wanted / total))
    rows = sql.fetch(picked, {**of, "starts": starts, "width": width})
    covered = min(1.0, width * len(starts) / len(ids))
    return SubjectSample([id for (id,) in rows], 1 / covered)


def _pieces(ids: range, share: float) -> tuple[int, list[int]]:
    """How wide the pieces are that make up the share, and where they start.

    Somewhere in each of the range's equal parts, because every tenth id may be of one kind; and
    always in the same places, so that who looks twice sees the same.
    """
    part = -(-len(ids) // ID_RANGES)
    width = max(1, round(part * share))
    random = Random(ids.start)
    return width, [start + random.randint(0, part - width) for start in ids[::part]]
