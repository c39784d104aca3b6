"""Pages of a score set's users or accounts in the order of any column, in either direction.

    page = pages.read_page(
        score_set, ACCOUNTS, "change", descending=False, offset=50, limit=50, now=now
    )
    rows = {row.account_id: row for row in rows_with_ids(page.ids)}
    shown = [rows[id] for id in page.ids if id in rows]

A small set is sorted for each page, so the page is exact. A large set has stored orders
(``engagement.orders.storage``): a page is one read of the ids, from anywhere in the order, and
``as_of`` says when the order was computed. Subjects that were deleted since have no row any more,
so a page may show fewer rows than ids.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.postgres.fields import ArrayField
from django.db.models import BigIntegerField, F, Q
from django.db.models.expressions import RawSQL

from core.database import sql
from engagement.activity.reading import AnyOf
from engagement.models import OrderChunk, ScoreSet, Segment, StoredOrder
from engagement.orders.columns import check_column, sorted_rows
from engagement.orders.matches import FEATURE_PREFIX, column_of, columns_of
from engagement.orders.storage import CHUNK_SIZE, is_large, request_order
from engagement.rules.rules import Rule
from engagement.scopes import ACCOUNTS, SubjectKind

# The first rows by score come from the index of the ranking, and are always exact.
MAX_INDEXED_ROWS = 1_000
# Of as many accounts that match, a list can rank all.
FEW = 10_000
# Finding a page of a segment's members takes longer than this only if few of the first match.
WAIT_SECONDS = 0.1
# Limit for sorting a large set, while its order has not been computed yet.
LIVE_TIMEOUT_SECONDS = 3.0
# How exactly the time of the last use is known.
USE_INTERVAL = timedelta(hours=1)


_IDS = ArrayField(BigIntegerField())


class OrderNotReady(Exception):
    """The order is being computed in the background, and sorting all rows takes too long."""


@dataclass(frozen=True)
class OrderPage:
    """Ids in the requested order.

    ``version`` and ``as_of`` are None for a page that is exact. Else they name the stored order and
    its time, and ``row_count`` is the number of ids in it.
    """

    ids: Sequence[int]
    version: int | None = None
    as_of: datetime | None = None
    row_count: int | None = None

    def among(self, kind: SubjectKind) -> Q:
        """Keeps the engagement rows of the page. The planner does not see how many there are: it
        would walk a ranking instead."""
        ids = RawSQL("(SELECT %s::bigint[])::bigint[]", ([*self.ids],), _IDS)
        return Q(AnyOf(F(kind.id_column), ids))


def read_page(
    score_set: ScoreSet,
    kind: SubjectKind,
    column: str,
    *,
    descending: bool,
    offset: int,
    limit: int,
    now: datetime,
    version: int | None = None,
) -> OrderPage:
    """*limit* ids from *offset* on, in the order of the column (``engagement.orders.columns``).

    Rows without a value are last in both directions, and ties are by id. A walk passes the
    ``version`` of its first page: it then goes through one order, as long as that one is stored,
    which is at least two minutes. After that it continues at the same place of the newest order.
    Version 0 begins with the newest stored order, even where an exact page would be quick.

    Raises UnknownColumn, and OrderNotReady for a large set that nobody has sorted by this column
    yet. Select the *score_set* with its ``cached_counts``.
    """
    check_column(column, kind.scope)
    is_indexed = column == "score" and offset + limit <= MAX_INDEXED_ROWS and version is None
    if is_indexed or not is_large(score_set, kind):
        rows = sorted_rows(score_set, kind, column, descending=descending)
        ids = rows.values_list(f"{kind.id_column}", flat=True)[offset : offset + limit]
        return OrderPage(list(ids))
    order = _used_order(score_set, kind, column, now)
    if order is None or order.version == 0:
        return _sort_now(score_set, kind, column, descending, offset, limit)
    return _read_stored(order, descending, offset, limit, version)


def matches_column(
    score_set: ScoreSet, kind: SubjectKind, rule: Rule, segment: Segment | None = None
) -> str:
    """The name of the stored order of all who match the rule, which is that of the *segment*, if
    there is one; empty if the set is not large, or if no order may have them."""
    return column_of(rule, score_set.product_id, segment) if is_large(score_set, kind) else ""


def read_matches(
    score_set: ScoreSet,
    kind: SubjectKind,
    column: str,
    *,
    descending: bool = True,
    offset: int = 0,
    limit: int,
    now: datetime,
) -> OrderPage | None:
    """As ``read_page``, of the stored order of a ``matches_column``, by their scores. None if that
    is empty, or if the order has not been computed yet."""
    if not column:
        return None
    # Those of segments wait until somebody has waited for one.
    is_wanted = column.startswith(FEATURE_PREFIX)
    order = _used_order(score_set, kind, column, now, is_wanted=is_wanted)
    if order is None or order.version == 0:
        return None
    return _read_stored(order, descending, offset, limit, None)


def candidates(rule: Rule, score_set: ScoreSet, now: datetime) -> list[OrderPage]:
    """For a list by a condition on a feature, the accounts that may match, if they are few: it
    finds them first, and ranks them alone."""
    columns = columns_of(rule, score_set.product_id) if is_large(score_set, ACCOUNTS) else []
    pages = [read_matches(score_set, ACCOUNTS, each, limit=FEW, now=now) for each in columns]
    return [page for page in pages if page and (page.row_count or 0) <= FEW]


@contextmanager
def noting_wait(
    score_set: ScoreSet, kind: SubjectKind, column: str, now: datetime
) -> Iterator[None]:
    """Have the matches of the column stored if the block, which finds the first of them, takes
    long, or too long."""
    started = time.monotonic()
    try:
        yield
    finally:
        if column and time.monotonic() - started > WAIT_SECONDS:
            request_order(score_set, kind, column, now)


def _used_order(
    score_set: ScoreSet, kind: SubjectKind, column: str, now: datetime, *, is_wanted: bool = True
) -> StoredOrder | None:
    """The stored order, with a note that somebody uses it, or wants it if there is none."""
    order = StoredOrder.objects.filter(score_set=score_set, scope=kind.scope, column=column).first()
    if order is None and not is_wanted:
        return None
    if order is None or order.used_at is None or now > order.used_at + USE_INTERVAL:
        _note_use(order, score_set, kind, column, now)
    return order


def _note_use(
    order: StoredOrder | None, score_set: ScoreSet, kind: SubjectKind, column: str, now: datetime
) -> None:
    if order is None:
        request_order(score_set, kind, column, now)
    else:
        StoredOrder.objects.filter(pk=order.pk).update(used_at=now)


def _sort_now(
    score_set: ScoreSet,
    kind: SubjectKind,
    column: str,
    descending: bool,
    offset: int,
    limit: int,
) -> OrderPage:
    rows = sorted_rows(score_set, kind, column, descending=descending)
    try:
        with sql.statement_timeout(LIVE_TIMEOUT_SECONDS):
            ids = list(rows.values_list(kind.id_column, flat=True)[offset : offset + limit])
    except sql.StatementTimeout as error:
        raise OrderNotReady from error
    return OrderPage(ids)


# --- Stored orders --------------------------------------------------------------------------


def _read_stored(
    order: StoredOrder, descending: bool, offset: int, limit: int, version: int | None
) -> OrderPage:
    rows, present = order.row_count, order.present_count
    if version == order.version - 1 and version > 0:
        rows, present = order.previous_row_count, order.previous_present_count
    else:
        version = order.version
    places = _places(offset, limit, rows, present, descending=descending)
    numbers = sorted({place // CHUNK_SIZE for place in places})
    chunks = OrderChunk.objects.filter(
        product=order.product_id, order=order, version=version, number__in=numbers
    )
    ids = {
        number * CHUNK_SIZE + index: id
        for number, chunk in chunks.values_list("number", "ids")
        for index, id in enumerate(chunk)
    }
    # A forgotten subject left a 0.
    page_ids = [ids[place] for place in places if ids.get(place)]
    return OrderPage(page_ids, version, order.computed_at, rows)


def _places(
    offset: int, limit: int, row_count: int, present_count: int, *, descending: bool
) -> list[int]:
    """The places in the ascending order, where rows without a value are last."""
    until = min(offset + limit, row_count)
    if not descending:
        return list(range(offset, until))
    return [
        present_count - 1 - place
        if place < present_count
        else row_count - 1 - (place - present_count)
        for place in range(offset, until)
    ]
