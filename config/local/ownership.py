"""Makes an ordinary role the owner of a database and of all that is in it."""

from contextlib import suppress
from typing import Any

import psycopg
from psycopg import errors

# As for migrations: whoever waits for the lock on a table lets nobody else use it.
LOCK_TIMEOUT = "3s"
ATTEMPTS = 5
# It is held by somebody, or has just been dropped, as old partitions are.
TRANSIENT_ERRORS = (errors.LockNotAvailable, errors.DeadlockDetected, errors.UndefinedTable)
# What is in the schemas of PostgreSQL itself is the superuser's. So is nothing that we make.
_OURS = """
    nspname <> 'information_schema' AND nspname NOT LIKE 'pg\\_%%' AND {owner} = 10
"""
# For each object of the superuser (role 10, whatever its name) the statement that gives it away.
# What belongs to another object, such as the sequence of an id, goes with that.
_STATEMENTS = f"""
    SELECT format('ALTER DATABASE %%I OWNER TO %%I', datname, %(role)s::text)
    FROM pg_database WHERE datname = current_database() AND datdba = 10
    UNION ALL
    SELECT format('ALTER SCHEMA %%I OWNER TO %%I', nspname, %(role)s::text)
    FROM pg_namespace WHERE {_OURS.format(owner="nspowner")}
    UNION ALL
    SELECT format('ALTER %%s %%s OWNER TO %%I',
                  CASE relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW'
                               WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'c' THEN 'TYPE'
                               ELSE 'TABLE' END,
                  format('%%I.%%I', nspname, relname), %(role)s::text)
    FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
    WHERE relkind IN ('r', 'p', 'v', 'm', 'S', 'c') AND {_OURS.format(owner="relowner")}
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass
                      AND d.objid = c.oid AND d.deptype IN ('a', 'i') AND relkind = 'S')
    UNION ALL
    SELECT format('ALTER ROUTINE %%s OWNER TO %%I', p.oid::regprocedure, %(role)s::text)
    FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
    WHERE {_OURS.format(owner="proowner")}
    UNION ALL
    SELECT format('ALTER TYPE %%I.%%I OWNER TO %%I', nspname, typname, %(role)s::text)
    FROM pg_type t JOIN pg_namespace n ON n.oid = typnamespace
    WHERE typtype IN ('d', 'e') AND {_OURS.format(owner="typowner")}
    UNION ALL
    SELECT format('ALTER STATISTICS %%I.%%I OWNER TO %%I', nspname, stxname, %(role)s::text)
    FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = stxnamespace
    WHERE {_OURS.format(owner="stxowner")}
"""


class ObjectsInUse(Exception):
    """Something could not be given to the role, because somebody else holds it."""


def transfer_ownership(connection: psycopg.Connection[Any], role: str) -> None:
    """Give the connection's database and what the superuser owns in it to the role.

    One by one, so that nothing is locked for longer than a moment; what is in use is tried again,
    and InUse raised where it stays so. Safe to repeat: an older release that runs in between makes
    tables as the superuser.
    """
    connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
    for _ in range(ATTEMPTS):
        statements = connection.execute(_STATEMENTS, {"role": role}).fetchall()
        if not statements:
            return
        for (statement,) in statements:
            with suppress(*TRANSIENT_ERRORS):
                connection.execute(statement)
    if connection.execute(_STATEMENTS, {"role": role}).fetchone():
        raise ObjectsInUse
