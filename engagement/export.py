"""Reads what a product holds, as statements that ``recording.record()`` takes back.

One snapshot of the database, however long the reading takes, and in bounded memory.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import LiteralString, TypeAlias

import msgspec
from django.db import transaction

from core.database import distribution, sql
from engagement.messages import (
    Alias,
    CountStatement,
    Group,
    Identify,
    MembershipStatement,
    Statement,
    SubjectStatement,
    Track,
    Traits,
)
from engagement.models import ForgottenSubject
from engagement.traits import Source, group_by_stamp, read_stamp

ExportedStatement: TypeAlias = tuple[Statement, Source]

# Rows of forgotten subjects may still exist; an export leaves them out.
_SUBJECTS: LiteralString = """
    SELECT external_id, first_seen_at, last_seen_at, is_identified, traits::text, trait_stamps::text
    FROM {} WHERE product_id = %(product)s AND id <> ALL(%(hidden)s)
"""
_ACCOUNTS = _SUBJECTS.format("engagement_account")
_USERS = _SUBJECTS.format("engagement_user") + " AND joined_to_id IS NULL"
# In the order of arrival, which decides between aliases of the same time.
_ALIASES: LiteralString = """
    SELECT new_id, previous_id, occurred_at FROM engagement_alias
    WHERE product_id = %(product)s ORDER BY arrival
"""
# Rows that are still to be moved to another user are exported as that user's.
_MOVING: LiteralString = """
    SELECT u.id, u.joined_to_id
    FROM engagement_joinrequest r
    JOIN engagement_user u ON u.id = r.user_id AND u.product_id = r.product_id
    WHERE r.product_id = %(product)s
"""
_JOIN_USERS: LiteralString = """
    LEFT JOIN unnest(%(joined)s::bigint[], %(kept)s::bigint[]) AS j(id, kept_id)
        ON j.id = {row}.user_id
    JOIN engagement_user u ON u.id = COALESCE(j.kept_id, {row}.user_id)
        AND u.product_id = {row}.product_id
"""
# In the order of arrival, which decides between memberships of the same time.
_MEMBERSHIPS: LiteralString = f"""
    SELECT u.external_id, a.external_id, m.occurred_at
    FROM engagement_membership m
    {_JOIN_USERS.format(row="m")}
    JOIN engagement_account a ON a.id = m.account_id AND a.product_id = m.product_id
    WHERE m.product_id = %(product)s
      AND m.user_id <> ALL(%(hidden_users)s) AND m.account_id <> ALL(%(hidden_accounts)s)
    ORDER BY m.arrival
"""
_EVENTS: LiteralString = f"""
    SELECT u.external_id, n.name, e.occurred_at
    FROM engagement_event e
    {_JOIN_USERS.format(row="e")}
    JOIN engagement_eventname n ON n.id = e.event_name_id AND n.product_id = e.product_id
    WHERE e.product_id = %(product)s AND e.user_id <> ALL(%(hidden_users)s)
      AND COALESCE(e.account_id, 0) <> ALL(%(hidden_accounts)s)
"""
# What is counted beyond the events that are still stored.
_COUNTS: LiteralString = """
    SELECT u.external_id, n.name, d.last_at, d.count - COALESCE(e.stored, 0), a.external_id
    FROM {counts} d
    LEFT JOIN (
        SELECT COALESCE(j.kept_id, user_id) AS user_id,
               (occurred_at AT TIME ZONE 'UTC')::date AS day, event_name_id,
               COALESCE(account_id, 0) AS account_id, count(*) AS stored
        FROM engagement_event
        LEFT JOIN unnest(%(joined)s::bigint[], %(kept)s::bigint[]) AS j(id, kept_id)
            ON j.id = user_id
        WHERE product_id = %(product)s
        GROUP BY 1, 2, 3, 4) e USING (user_id, day, event_name_id, account_id)
    JOIN engagement_user u ON u.id = d.user_id AND u.product_id = d.product_id
    JOIN engagement_eventname n ON n.id = d.event_name_id AND n.product_id = d.product_id
    LEFT JOIN engagement_account a ON a.id = d.account_id AND a.product_id = d.product_id
    WHERE d.product_id = %(product)s AND d.count > COALESCE(e.stored, 0)
      AND d.user_id <> ALL(%(hidden_users)s) AND d.account_id <> ALL(%(hidden_accounts)s)
"""
_COUNTS_OF_MOVING: LiteralString = """
    (SELECT product_id, COALESCE(j.kept_id, user_id) AS user_id, day, event_name_id, account_id,
            sum(count)::bigint AS count, max(last_at) AS last_at
     FROM engagement_dailycount
     LEFT JOIN unnest(%(joined)s::bigint[], %(kept)s::bigint[]) AS j(id, kept_id) ON j.id = user_id
     WHERE product_id = %(product)s
     GROUP BY 1, 2, 3, 4, 5)
"""
_ROW_COUNT: LiteralString = """
    SELECT (SELECT count(*) FROM engagement_account WHERE product_id = %(product)s)
         + (SELECT count(*) FROM engagement_user WHERE product_id = %(product)s)
         + (SELECT count(*) FROM engagement_membership WHERE product_id = %(product)s)
         + (SELECT count(*) FROM engagement_event WHERE product_id = %(product)s)
"""


def estimate_statements(product_id: int) -> int:
    """About how many statements ``stream_statements`` yields: traits and counts add to them."""
    ((rows,),) = sql.fetch(_ROW_COUNT, {"product": product_id})
    return int(rows)


def stream_statements(product_id: int) -> Iterator[ExportedStatement]:
    """The statements that lead to the product's state, each with its source."""
    with transaction.atomic(durable=True):
        sql.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        # Before the first snapshot, to which a table that replaces another one would be empty.
        if not distribution.is_distributed():
            sql.execute("LOCK TABLE engagement_event IN ACCESS SHARE MODE")
        # The export reads all rows and does not need the first ones early.
        sql.execute("SET LOCAL cursor_tuple_fraction = 1")
        # The reader may be slow.
        sql.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        yield from _statements(product_id)


def _statements(product_id: int) -> Iterator[ExportedStatement]:
    hidden_users = _forgotten_ids(product_id, ForgottenSubject.Scope.USER)
    hidden_accounts = _forgotten_ids(product_id, ForgottenSubject.Scope.ACCOUNT)
    moving = sql.fetch(_MOVING, {"product": product_id})
    parameters = {
        "product": product_id,
        "hidden_users": hidden_users,
        "hidden_accounts": hidden_accounts,
        **sql.arrays(moving, "joined", "kept"),
    }
    counts = _COUNTS.format(counts=_COUNTS_OF_MOVING if moving else "engagement_dailycount")
    for row in sql.stream(_ACCOUNTS, {"product": product_id, "hidden": hidden_accounts}):
        yield from _account_statements(row)
    for row in sql.stream(_USERS, {"product": product_id, "hidden": hidden_users}):
        yield from _user_statements(row)
    for row in sql.stream(_ALIASES, {"product": product_id}):
        yield Alias(*row), Source.MESSAGE
    for row in sql.stream(_MEMBERSHIPS, parameters):
        yield MembershipStatement(*row), Source.MESSAGE
    for row in sql.stream(_EVENTS, parameters):
        yield Track(*row), Source.MESSAGE
    for row in sql.stream(counts, parameters):
        yield CountStatement(*row), Source.MESSAGE


def _forgotten_ids(product_id: int, scope: ForgottenSubject.Scope) -> list[int]:
    forgotten = ForgottenSubject.objects.filter(product=product_id, scope=scope)
    rows = forgotten.values_list("row_id", flat=True)
    return [row_id for row_id in rows if row_id is not None]


def _account_statements(row: sql.Row) -> Iterator[ExportedStatement]:
    id, first_at, last_at, is_identified, traits, stamps = row
    yield SubjectStatement(first_at, last_at, is_identified, group_id=id), Source.MESSAGE
    for source, at, patch in _written_traits(traits, stamps):
        yield Group(id, at, patch), source


def _user_statements(row: sql.Row) -> Iterator[ExportedStatement]:
    id, first_at, last_at, is_identified, traits, stamps = row
    yield SubjectStatement(first_at, last_at, is_identified, user_id=id), Source.MESSAGE
    for source, at, patch in _written_traits(traits, stamps):
        yield Identify(id, at, patch), source


def _written_traits(traits: str, stamps: str) -> Iterator[tuple[Source, datetime, Traits]]:
    """The traits, grouped by who wrote them and when, the oldest first."""
    values: Traits = msgspec.json.decode(traits)
    for stamp, patch in group_by_stamp(values, msgspec.json.decode(stamps)).items():
        source, at = read_stamp(stamp)
        yield source, at, patch
