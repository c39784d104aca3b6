"""Even samples of a score set's subjects, at the same small cost for any number of subjects."""

from random import Random
from typing import LiteralString, NamedTuple

from core.database import sql
from engagement.metric_names import Scope
from engagement.models import ScoreSet
from engagement.scopes import get_kind

# The range of ids is cut into this many parts, and a piece of each part is read.
ID_RANGES = 100


class SubjectSample(NamedTuple):
    """Ids of subjects. Each stands for ``scale`` subjects of the set; 1.0 if these are all."""

    ids: list[int]
    scale: float


_ENDS: LiteralString = f"""
    SELECT min({{id_column}}), max({{id_column}}) FROM {{table}}
    WHERE product_id = %(product)s AND score_set_id = {sql.SCORE_SET}
"""
# In the order of the key: each piece is a short range of its index.
_SAMPLE: LiteralString = f"""
    SELECT sample.id FROM unnest(%(starts)b::bigint[]) piece(start)
    CROSS JOIN LATERAL (
        SELECT {{id_column}} AS id FROM {{table}}
        WHERE product_id = %(product)s AND score_set_id = {sql.SCORE_SET}
          AND {{id_column}} >= piece.start AND {{id_column}} < piece.start + %(width)s) sample
"""


def sample_subjects(
    score_set: ScoreSet, scope: Scope, total: int, sample_size: int
) -> SubjectSample:
    """About *sample_size* of the set's *total* users or accounts, or all if there are fewer.

    The pieces cover the whole range of ids, so old and new subjects are both represented, however
    many subjects of other products lie between them.
    """
    kind = get_kind(scope)
    names = {"id_column": kind.id_column, "table": kind.engagement_table}
    ids_of = {"product": score_set.product_id, "score_set": score_set.pk}
    ((low, high),) = sql.fetch(_ENDS.format(**names), ids_of)
    if low is None:
        return SubjectSample([], 1.0)
    ids = range(low, high + 1)
    width, starts = _pieces(ids, min(1.0, sample_size / total))
    rows = sql.fetch(_SAMPLE.format(**names), {**ids_of, "starts": starts, "width": width})
    share = min(1.0, width * len(starts) / len(ids))
    return SubjectSample([id for (id,) in rows], 1 / share)


def _pieces(ids: range, share: float) -> tuple[int, list[int]]:
    """The width of the pieces that make up the share, and their starts.

    The places are random, because every tenth id may be of one kind, but the same each time, so
    that repeated samples agree.
    """
    part = -(-len(ids) // ID_RANGES)
    width = max(1, round(part * share))
    random = Random(ids.start)
    return width, [start + random.randint(0, part - width) for start in ids[::part]]
