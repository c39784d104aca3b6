"""Makes a product of millions from a small one that is scored, in minutes: copies of its rows.

A copy of a user or an account has an id, an external id, a domain, and an address of its own, and
the behavior, the scores, and the history of the original. So the benchmarks, which are
percentiles, stay right. One account's users all stay in it, so that it is a very large one. Half of
the accounts get a license.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from harness.processes import Failed
from harness.report import progress
from harness.service import Service

# How many users the large account gets, about.
LARGE_ACCOUNT_USERS = 12_000
# Indexes are built at the end, which takes less time than adding rows to them.
_TABLES = (
    "engagement_account",
    "engagement_user",
    "engagement_membership",
    "engagement_dailycount",
    "engagement_userengagement",
    "engagement_accountengagement",
    "engagement_subjectchange",
    "engagement_searchentry",
    "engagement_accountuse",
)
_SIZES: LiteralString = """
    SELECT (SELECT max(id) - min(id) + 1 FROM engagement_account WHERE product_id = %(product)s),
           (SELECT max(id) - min(id) + 1 FROM engagement_user WHERE product_id = %(product)s)
"""
_LARGE: LiteralString = """
    SELECT account_id FROM engagement_user WHERE product_id = %(product)s
    GROUP BY account_id ORDER BY abs(count(*) - %(users)s), account_id LIMIT 1
"""
# "org-000017" becomes "org-040017", and "ember.example" becomes "ember-3.example".
_NUMBER: LiteralString = (
    "(substring(external_id FROM '[0-9]+$')::bigint + %(copy)s::bigint * {span})::text"
)
_SUBJECT: LiteralString = f"""
    id + %(copy)s::bigint * {{span}}, product_id,
    '{{prefix}}' || lpad({_NUMBER}, greatest({{digits}}, length({_NUMBER})), '0'),
    {{traits}}, trait_stamps, is_identified, first_seen_at, last_seen_at, created_at
"""
_COLUMNS: LiteralString = """
    id, product_id, external_id, traits, trait_stamps, is_identified, first_seen_at, last_seen_at,
    created_at
"""
_ACCOUNT_TRAITS: LiteralString = """
    traits || jsonb_build_object(
        'name', (traits->>'name') || ' ' || %(copy)s::bigint + 1,
        'domain', replace(traits->>'domain', '.example', '-' || %(copy)s::bigint + 1 || '.example'))
"""
_USER_TRAITS: LiteralString = """
    traits || jsonb_build_object(
        'email', replace(traits->>'email', '.example', '-' || %(copy)s::bigint + 1 || '.example'))
"""
_ACCOUNT: LiteralString = """
    CASE account_id WHEN %(large)s THEN account_id
    ELSE account_id + %(copy)s::bigint * %(accounts)s END
"""
_METRICS: LiteralString = """
    product_id, score_set_id, raw, raw_yesterday, raw_last_period, raw_yesterday_last_period,
    event_count, active_days, name_count, last_active_at
"""
_COPIES: tuple[LiteralString, ...] = (
    f"INSERT INTO engagement_account ({_COLUMNS}) SELECT "
    + _SUBJECT.format(span="%(accounts)s", prefix="org-", digits="6", traits=_ACCOUNT_TRAITS)
    + "FROM template_account ORDER BY id",
    f"INSERT INTO engagement_user ({_COLUMNS}, account_id) SELECT "
    + _SUBJECT.format(span="%(users)s", prefix="u-", digits="7", traits=_USER_TRAITS)
    + f", {_ACCOUNT} FROM template_user ORDER BY id",
    f"""
    INSERT INTO engagement_membership (product_id, user_id, occurred_at, account_id, arrival)
    SELECT product_id, user_id + %(copy)s::bigint * %(users)s, occurred_at, {_ACCOUNT}, arrival
    FROM template_membership ORDER BY user_id
    """,
    f"""
    INSERT INTO engagement_dailycount
        (product_id, user_id, day, event_name_id, account_id, count, last_at)
    SELECT product_id, user_id + %(copy)s::bigint * %(users)s, day, event_name_id,
        {_ACCOUNT}, count, last_at
    FROM template_dailycount
    """,
    f"""
    INSERT INTO engagement_userengagement ({_METRICS}, user_id)
    SELECT {_METRICS}, user_id + %(copy)s::bigint * %(users)s
    FROM template_userengagement ORDER BY user_id
    """,
    f"""
    INSERT INTO engagement_accountengagement ({_METRICS}, account_id, active_users, total_users,
        top_user_points, active_users_last_period, name_count_last_period)
    SELECT {_METRICS}, account_id + %(copy)s::bigint * %(accounts)s, active_users, total_users,
        top_user_points, active_users_last_period, name_count_last_period
    FROM template_accountengagement ORDER BY account_id
    """,
    """
    INSERT INTO engagement_subjectchange (product_id, kind, subject_id, stamp)
    SELECT product_id, kind,
        subject_id + %(copy)s::bigint * CASE kind WHEN 0 THEN %(accounts)s ELSE %(users)s END, stamp
    FROM template_subjectchange ORDER BY kind, subject_id
    """,
    # Not counted by a first night, which takes half an hour.
    """
    INSERT INTO engagement_accountuse (product_id, account_id, event_name_id, first_day, last_day)
    SELECT product_id, account_id + %(copy)s::bigint * %(accounts)s, event_name_id, first_day,
        last_day
    FROM template_accountuse
    """,
)
# Accounts with a license, of several types, ends, and sizes.
_LICENSES: LiteralString = """
    UPDATE engagement_account SET (traits, trait_stamps) = (
        SELECT traits || license, trait_stamps || (
            SELECT jsonb_object_agg(key, trait_stamps->'name') FROM jsonb_object_keys(license) key)
        FROM (SELECT jsonb_build_object(
            'am.licenseType', (ARRAY['COMMERCIAL', 'COMMERCIAL', 'ACADEMIC', 'EVALUATION'])
                [1 + id %% 4],
            'am.status', CASE id %% 11 WHEN 0 THEN 'inactive' ELSE 'active' END,
            'am.tier', 25 * (1 + id %% 20) || ' Users',
            'am.users', 25 * (1 + id %% 20),
            'am.maintenanceEndDate', (now()::date - 60 + (id * 7 %% 365)::int)::text)) l(license))
    WHERE product_id = %(product)s AND id %% 2 = 0
"""
_SEARCH: LiteralString = r"""
    INSERT INTO engagement_searchentry (product_id, kind, subject_id, text)
    SELECT product_id, {kind}, id, lower(concat(E'\n\n' || (traits->>'name'),
        E'\n\n' || (traits->>'{trait}'), E'\n\n' || external_id))
    FROM {table} WHERE product_id = %(product)s ORDER BY id
    ON CONFLICT DO NOTHING
"""
# The scores of the large account and of its copies, which have nobody.
_RESCORE: LiteralString = """
    INSERT INTO engagement_stalemark (product_id, account_id)
    SELECT %(product)s, %(large)s + copy * %(accounts)s FROM generate_series(0, %(copies)s - 1) copy
"""
_SESSION: tuple[LiteralString, ...] = (
    # No foreign keys: the copies have the same as the originals.
    "SET session_replication_role = replica",
    "SET synchronous_commit = off",
    "SET maintenance_work_mem = '1GB'",
    "SET work_mem = '256MB'",
)


def multiply(service: Service, product: int, copies: int) -> None:
    """Have the subjects of the product, the only one in the database, *copies* times."""
    connection = _connect(service)
    if _row(connection, "SELECT count(*) FROM engagement_product") != (1,):
        raise Failed(f"{service.folder} has other data. Remove the folder, or keep another one.")
    accounts, users = _row(connection, _SIZES, product=product)
    (large,) = _row(connection, _LARGE, product=product, users=LARGE_ACCOUNT_USERS // copies)
    numbers = {"product": product, "accounts": accounts, "users": users, "large": large}

    def copy_rows(numbers_of_copies: range) -> None:
        own_connection = _connect(service)
        _make_templates(own_connection, product)
        for copy in numbers_of_copies:
            progress(f"Copy {copy} of {copies - 1}.")
            for statement in _COPIES:
                own_connection.execute(statement, {**numbers, "copy": copy})

    def write_entries(kind: int, trait: str, table: str) -> None:
        statement = _SEARCH.format(kind=kind, trait=trait, table=f"engagement_{table}")
        _connect(service).execute(statement, numbers)

    with _without_indexes(service, connection):
        connection.execute(_LICENSES, numbers)
        _run_together(
            partial(copy_rows, range(1, copies, 2)), partial(copy_rows, range(2, copies, 2))
        )
        progress("Writing the search's entries.")
        _run_together(
            partial(write_entries, 0, "domain", "account"),
            partial(write_entries, 1, "email", "user"),
        )
    connection.execute(_RESCORE, {**numbers, "copies": copies})
    for table in ("searchbacklog", "orderchunk", "storedorder"):
        connection.execute(f"DELETE FROM engagement_{table}")
    for table in ("account", "user"):
        connection.execute(
            f"SELECT setval('engagement_{table}_id_seq', (SELECT max(id) FROM engagement_{table}))"
        )
    progress("Vacuuming.")
    connection.execute(f"VACUUM (ANALYZE) {', '.join(_TABLES)}")


def _make_templates(connection: psycopg.Connection[Any], product: int) -> None:
    """The rows to copy, each table in the order of its key."""
    for table in _TABLES:
        template = table.replace("engagement_", "template_", 1)
        key = "product_id, user_id, day" if table.endswith("dailycount") else "1"
        connection.execute(
            sql.SQL(
                "CREATE TEMPORARY TABLE {} AS SELECT * FROM {} WHERE product_id = {} ORDER BY "
            ).format(sql.Identifier(template), sql.Identifier(table), sql.Literal(product))
            + sql.SQL(key)
        )


_INDEXES: LiteralString = """
    SELECT indexname, indexdef FROM pg_indexes
    WHERE schemaname = 'public' AND tablename = ANY(%s) AND NOT EXISTS (
        SELECT FROM pg_constraint WHERE conname = indexname)
    ORDER BY indexdef !~ 'USING gin'
"""

_LARGEST_KEY: LiteralString = """
    SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE conrelid = 'engagement_dailycount'::regclass AND contype = 'p'
"""


@contextmanager
def _without_indexes(service: Service, connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Drop the key of the largest table and all indexes that are no keys, and build them again, two
    at a time."""
    indexes = connection.execute(_INDEXES, [list(_TABLES)]).fetchall()
    for name, _ in indexes:
        connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
    ((key, columns),) = connection.execute(_LARGEST_KEY).fetchall()
    largest = sql.SQL("ALTER TABLE engagement_dailycount {}")
    connection.execute(largest.format(sql.SQL("DROP CONSTRAINT {}").format(sql.Identifier(key))))
    yield
    progress(f"Building {len(indexes) + 1} indexes.")
    add_key = sql.SQL("ADD CONSTRAINT {} {}").format(sql.Identifier(key), sql.SQL(columns))
    statements = [*(definition for _, definition in indexes), largest.format(add_key)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda statement: _connect(service).execute(statement), statements))


def _run_together(*tasks: Callable[[], None]) -> None:
    """Run the tasks at the same time, each with a connection of its own. Raise what one raises."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        for future in [pool.submit(task) for task in tasks]:
            future.result()


def _connect(service: Service) -> psycopg.Connection[Any]:
    connection = service.connect()
    for statement in _SESSION:
        connection.execute(statement)
    return connection


def _row(
    connection: psycopg.Connection[Any], statement: LiteralString, **parameters: int
) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = connection.execute(statement, parameters).fetchone()
    assert row is not None
    return row
