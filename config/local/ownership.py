"""Makes an ordinary role the owner of a database and of everything in it."""

from contextlib import suppress
from typing import Any

import psycopg
from psycopg import errors

# As for migrations: a statement that waits for a table's lock blocks all others on that table.
LOCK_TIMEOUT = "3s"
ATTEMPTS = 5
# The object is in use, or was dropped in the meantime, as old partitions are.
TRANSIENT_ERRORS = (errors.LockNotAvailable, errors.DeadlockDetected, errors.UndefinedTable)
# PostgreSQL's own schemas belong to the superuser. Nothing of ours is in them.
_OURS = """
    nspname <> 'information_schema' AND nspname NOT LIKE 'pg\\_%%' AND {owner} = 10
"""
# A statement for each object of the superuser (role 10, whatever its name) that transfers it.
# Dependent objects, such as the sequence of an id, follow the object that they belong to.
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
    """An object could not be transferred, because another session is using it."""


def transfer_ownership(connection: psycopg.Connection[Any], role: str) -> None:
    """Transfer the connection's database, and what the superuser owns in it, to the role.

    Objects are transferred one by one, so each is locked only for a moment. Those in use are tried
    again, and at last ObjectsInUse is raised. It is safe to repeat, which is needed after an older
    release has created tables as the superuser.
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
