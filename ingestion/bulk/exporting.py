"""Writes a product as lines that ``import_messages`` reads back to the same state.

One snapshot of the database, however long it takes, and in bounded memory. docs/bulk-data.md
describes the lines for people.
"""

from collections.abc import Iterator
from typing import Any, LiteralString, TypeAlias

import msgspec
from django.db import transaction

from engagement.database import sql
from engagement.models import ForgottenSubject
from engagement.traits import Source, read_stamp

ExportLine: TypeAlias = dict[str, Any]
_encode = msgspec.json.Encoder().encode

# The rows of whom people asked to forget may still be there; they are left out.
_SUBJECTS: LiteralString = """
    SELECT external_id, first_seen_at, last_seen_at, is_identified, traits::text, trait_stamps::text
    FROM {} WHERE product_id = %(product)s AND id <> ALL(%(hidden)s)
"""
_ACCOUNTS = _SUBJECTS.format("engagement_account")
_USERS = _SUBJECTS.format("engagement_user")
# In the order of arrival, which decides between links of the same time.
_LINKS: LiteralString = """
    SELECT u.external_id, a.external_id, m.occurred_at
    FROM engagement_membership m
    JOIN engagement_user u ON u.id = m.user_id AND u.product_id = m.product_id
    JOIN engagement_account a ON a.id = m.account_id AND a.product_id = m.product_id
    WHERE m.product_id = %(product)s
      AND m.user_id <> ALL(%(hidden_users)s) AND m.account_id <> ALL(%(hidden_accounts)s)
    ORDER BY m.arrival
"""
_EVENTS: LiteralString = """
    SELECT u.external_id, n.name, e.occurred_at
    FROM engagement_event e
    JOIN engagement_user u ON u.id = e.user_id AND u.product_id = e.product_id
    JOIN engagement_eventname n ON n.id = e.event_name_id
    WHERE e.product_id = %(product)s AND e.user_id <> ALL(%(hidden_users)s)
      AND COALESCE(e.account_id, 0) <> ALL(%(hidden_accounts)s)
"""
# What is counted beyond the events that are still there.
_COUNTS: LiteralString = """
    SELECT u.external_id, n.name, d.last_at, d.count - COALESCE(e.there, 0), a.external_id
    FROM engagement_dailycount d
    LEFT JOIN (
        SELECT user_id, (occurred_at AT TIME ZONE 'UTC')::date AS day, event_name_id,
               COALESCE(account_id, 0) AS account_id, count(*) AS there
        FROM engagement_event WHERE product_id = %(product)s
        GROUP BY 1, 2, 3, 4) e USING (user_id, day, event_name_id, account_id)
    JOIN engagement_user u ON u.id = d.user_id AND u.product_id = d.product_id
    JOIN engagement_eventname n ON n.id = d.event_name_id
    LEFT JOIN engagement_account a ON a.id = d.account_id AND a.product_id = d.product_id
    WHERE d.product_id = %(product)s AND d.count > COALESCE(e.there, 0)
      AND d.user_id <> ALL(%(hidden_users)s) AND d.account_id <> ALL(%(hidden_accounts)s)
"""
_HOW_MANY: LiteralString = """
    SELECT (SELECT count(*) FROM engagement_account WHERE product_id = %(product)s)
         + (SELECT count(*) FROM engagement_user WHERE product_id = %(product)s)
         + (SELECT count(*) FROM engagement_membership WHERE product_id = %(product)s)
         + (SELECT count(*) FROM engagement_event WHERE product_id = %(product)s)
"""


def estimate_lines(product_id: int) -> int:
    """About how many lines ``export`` is going to write: traits and counts may add to them."""
    ((rows,),) = sql.fetch(_HOW_MANY, {"product": product_id})
    return int(rows)


def export_lines(product_id: int) -> Iterator[bytes]:
    """The product's lines, each with its end."""
    with transaction.atomic(durable=True):
        sql.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        # All rows are wanted, not the first ones soon.
        sql.execute("SET LOCAL cursor_tuple_fraction = 1")
        # Whoever takes the lines may take their time.
        sql.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        for line in _lines(product_id):
            yield _encode(line) + b"\n"


def _lines(product_id: int) -> Iterator[ExportLine]:
    hidden_users = _hidden(product_id, ForgottenSubject.Scope.USER)
    hidden_accounts = _hidden(product_id, ForgottenSubject.Scope.ACCOUNT)
    whole = {
        "product": product_id,
        "hidden_users": hidden_users,
        "hidden_accounts": hidden_accounts,
    }
    for row in sql.stream(_ACCOUNTS, {"product": product_id, "hidden": hidden_accounts}):
        yield from _subject("group", "groupId", row)
    for row in sql.stream(_USERS, {"product": product_id, "hidden": hidden_users}):
        yield from _subject("identify", "userId", row)
    for user, account, at in sql.stream(_LINKS, whole):
        yield {"type": "link", "userId": user, "groupId": account, "timestamp": at}
    for user, event, at in sql.stream(_EVENTS, whole):
        yield {"type": "track", "userId": user, "event": event, "timestamp": at}
    for user, event, at, count, account in sql.stream(_COUNTS, whole):
        line = {"type": "count", "userId": user, "event": event, "lastAt": at, "count": count}
        yield line if account is None else {**line, "groupId": account}


def _hidden(product_id: int, scope: ForgottenSubject.Scope) -> list[int]:
    forgotten = ForgottenSubject.objects.filter(product=product_id, scope=scope)
    rows = forgotten.values_list("row_id", flat=True)
    return [row_id for row_id in rows if row_id is not None]


def _subject(kind: str, id_field: str, row: sql.Row) -> Iterator[ExportLine]:
    """A user or an account, and its traits by when and by whom they were written."""
    external_id, first_at, last_at, is_identified, traits, stamps = row
    yield {
        "type": "seen",
        id_field: external_id,
        "firstAt": first_at,
        "lastAt": last_at,
        "identified": is_identified,
    }
    values: dict[str, Any] = msgspec.json.decode(traits)
    written: dict[tuple[int, int], dict[str, Any]] = {}
    for name, stamp in msgspec.json.decode(stamps).items():
        # A removed trait has a stamp and no value: null removes it again.
        written.setdefault(tuple(stamp), {})[name] = values.get(name)
    for stamp in sorted(written):
        source, at = read_stamp(stamp)
        line = {"type": kind, id_field: external_id, "timestamp": at, "traits": written[stamp]}
        yield line if source == Source.MESSAGE else {**line, "source": source.name.lower()}
