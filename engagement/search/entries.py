"""Keeps the search's entries up to date: scoring calls this for the subjects that changed."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import LiteralString

from core.database import locks, nodes, sql
from core.jobs.kinds import Done, More, Outcome
from core.models import Job
from engagement.metric_names import Scope
from engagement.models import SearchBacklog, SearchEntry

Kind = SearchEntry.Kind
KINDS: dict[Scope, Kind] = {"account": Kind.ACCOUNT, "user": Kind.USER}
# Subjects per transaction of a backlog.
BACKLOG_STEP = 5_000
BACKLOG_AGE = timedelta(days=1)

# Two line breaks begin a text, see SearchEntry. Longer names than this are cut.
_TEXT: LiteralString = """
    lower(concat(
        E'\\n\\n' || CASE WHEN jsonb_typeof(s.traits->'name') = 'string'
                       THEN left(s.traits->>'name', 320) END,
        E'\\n\\n' || CASE WHEN jsonb_typeof(s.traits->'{trait}') = 'string'
                       THEN left(s.traits->>'{trait}', 320) END,
        E'\\n\\n' || s.external_id{more}))
"""
# The ids that aliases joined to the user's.
_OTHER_IDS: LiteralString = """, (
            SELECT string_agg(DISTINCT E'\\n\\n' || other.id, '')
            FROM engagement_alias a, unnest(ARRAY[a.previous_id, a.new_id]) AS other(id)
            WHERE a.product_id = %(product)s AND a.user_id = s.id AND other.id <> s.external_id)
"""
_INDEX: LiteralString = """
    INSERT INTO engagement_searchentry AS e (product_id, kind, subject_id, text)
    WITH subjects AS (
        SELECT s.id, {text} AS text FROM {table} s
        WHERE s.product_id = %(product)s AND s.id = ANY(%(ids)b::bigint[])
          AND s.is_identified{shown})
    SELECT %(product)s::bigint, %(kind)s, s.id, s.text FROM subjects s
    WHERE NOT EXISTS (
        SELECT FROM engagement_searchentry o
        WHERE o.product_id = %(product)s AND o.kind = %(kind)s AND o.subject_id = s.id
          AND o.text = s.text)
    ORDER BY s.id
    ON CONFLICT (product_id, kind, subject_id) DO UPDATE SET text = EXCLUDED.text
"""
_INDEX_OF: dict[Scope, LiteralString] = {
    "account": _INDEX.format(
        text=_TEXT.format(trait="domain", more=""), table="engagement_account", shown=""
    ),
    "user": _INDEX.format(
        text=_TEXT.format(trait="email", more=_OTHER_IDS),
        table="engagement_user",
        shown=" AND s.joined_to_id IS NULL",
    ),
}
# An alias hides the row of the id that it joins to another.
_REMOVE_JOINED: LiteralString = """
    DELETE FROM engagement_searchentry
    WHERE product_id = %(product)s AND kind = %(kind)s AND subject_id = ANY(ARRAY(
        SELECT id FROM engagement_user
        WHERE product_id = %(product)s AND id = ANY(%(ids)b::bigint[])
          AND joined_to_id IS NOT NULL))
"""


def index(product_id: int, scope: Scope, ids: Collection[int]) -> None:
    """Write the entries of the identified subjects among *ids*, if their texts have changed.

    The caller holds the product's scoring lock, so nobody forgets one of them meanwhile.
    """
    if ids:
        parameters = {"product": product_id, "kind": KINDS[scope].value, "ids": sorted(ids)}
        sql.execute(_INDEX_OF[scope], parameters)
        if scope == "user":
            sql.execute(_REMOVE_JOINED, parameters)


def remove(product_id: int, scope: Scope, subject_id: int) -> None:
    """Delete the subject's entry, in the caller's transaction."""
    SearchEntry.objects.filter(
        product=product_id, kind=KINDS[scope], subject_id=subject_id
    ).delete()


# --- Subjects that are older than the search -------------------------------------------------


def open_backlog(product_id: int, now: datetime) -> None:
    """Have all users and accounts of the product indexed in the background."""
    SearchBacklog.objects.bulk_create(
        SearchBacklog(product_id=product_id, kind=kind, opened_at=now) for kind in Kind
    )


_NEXT_IDS: LiteralString = """
    SELECT id FROM {table} WHERE product_id = %(product)s AND id > %(after)s
    ORDER BY id LIMIT %(limit)s
"""


def work_off_backlog(job: Job, now: datetime) -> Outcome:
    """A step of a job: index some subjects that are older than the search."""
    backlogs = nodes.reachable(SearchBacklog.objects.order_by("product_id", "kind"))
    for product_id, kind in backlogs.values_list("product_id", "kind"):
        if _index_some(product_id, "user" if kind == Kind.USER else "account"):
            return More()
    SearchBacklog.objects.filter(opened_at__lt=now - BACKLOG_AGE).delete()
    return Done()


def _index_some(product_id: int, scope: Scope) -> bool:
    """Return False if nothing is left or another worker scores the product."""
    if not locks.try_lock_scoring(product_id):
        return False
    backlog = SearchBacklog.objects.filter(product=product_id, kind=KINDS[scope])
    after = backlog.values_list("indexed_until", flat=True).first()
    if after is None:
        return False
    statement = _NEXT_IDS.format(table=f"engagement_{scope}")
    parameters = {"product": product_id, "after": after, "limit": BACKLOG_STEP}
    ids = [id for (id,) in sql.fetch(statement, parameters)]
    if ids:
        index(product_id, scope, ids)
        backlog.update(indexed_until=ids[-1])
    return bool(ids)
