"""Goes through all users or accounts of a product in bounded steps, whose place a row keeps."""

from collections.abc import Callable
from typing import LiteralString

from core.database import pace, sql
from engagement.models import Activation, ScoreSet
from engagement.scopes import SubjectKind

# A range of ids. It has fewer subjects of one product where products are mixed.
IDS_PER_RANGE = 5_000
# The number of ranges without a subject of the product that one step may pass.
RANGES_PER_STEP = 100
ROWS_PER_DELETION = 20_000

_COUNT: LiteralString = """
    SELECT count(*) FROM {table} WHERE product_id = %(product)s AND is_identified
"""
_LAST_ID: LiteralString = "SELECT COALESCE(max(id), 0) FROM {table} WHERE {on_node}"
# A range of ids, so that the plan does not depend on statistics.
_RANGE: LiteralString = """
    SELECT id FROM {table}
    WHERE id > %(after)s AND id <= %(until)s AND product_id = %(product)s AND is_identified
"""


def build_next(
    built: ScoreSet | Activation, kind: SubjectKind, build: Callable[[list[int]], object]
) -> bool:
    """Build the next users or accounts, and save how far it is. Returns whether these were the last
    ones: then the next call begins again.

    Subjects that are created later have rescore requests, which also cover what is being built.
    """
    if built.to_build is None:
        count = _COUNT.format(table=kind.table)
        ((built.to_build,),) = sql.fetch(count, {"product": built.product_id})
    ((last_id,),) = sql.fetch(
        _LAST_ID.format(table=kind.table, on_node=sql.on_node(kind.table)),
        {"product": built.product_id},
    )
    subjects: list[int] = []
    for _ in range(RANGES_PER_STEP):
        subjects = _next_range(built, kind)
        if subjects or built.built_until >= last_id:
            break
    pace.score_in_chunks(subjects, build)
    built.built += len(subjects)
    is_last = bool(built.built_until >= last_id)
    if is_last:
        built.built_until, built.built, built.to_build = 0, 0, None
    built.save(update_fields=["built_until", "built", "to_build"])
    return is_last


def _next_range(built: ScoreSet | Activation, kind: SubjectKind) -> list[int]:
    """The product's subjects in the next range of ids; moves ``built_until`` past it."""
    after, until = built.built_until, built.built_until + IDS_PER_RANGE
    built.built_until = until
    parameters = {"after": after, "until": until, "product": built.product_id}
    return [id for (id,) in sql.fetch(_RANGE.format(table=kind.table), parameters)]
