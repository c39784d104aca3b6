"""Empties the database after a test that commits, within some milliseconds.

Django truncates all tables and does again what follows a migration, which takes 0.2 to 0.5
seconds. Here only tables that have rows lose them, and those that the migrations filled are
filled again where a test changed them.
"""

from typing import Any

from django.core.management.sql import emit_post_migrate_signal
from django.db import DEFAULT_DB_ALIAS, connection, transaction

# Partitions one by one, and also tables that belong to no model, as the broker's queues.
# Smaller numbers are PostgreSQL's own, and those in its catalog are an extension's.
_TABLES = """
    SELECT oid::regclass::text FROM pg_class
    WHERE relkind = 'r' AND relpersistence <> 't' AND oid >= 16384
      AND relnamespace <> 'pg_catalog'::regnamespace
      AND oid <> 'django_migrations'::regclass
    ORDER BY oid
"""


class Fresh:
    """What a new database has: its tables, and the rows that its migrations put into them."""

    def __init__(self) -> None:
        with connection.cursor() as cursor:
            self.tables = _tables(cursor)
            self.rows = {table: _rows(cursor, table) for table in _filled(cursor, self.tables)}

    def restore(self) -> None:
        """Give the database these rows and no others. Sequences go on from where they are."""
        with transaction.atomic(), connection.cursor() as cursor:
            tables = _tables(cursor)
            # Whoever else still writes is waited for, as TRUNCATE does.
            cursor.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")
            # Foreign keys are not looked at on the way from one sound state to another.
            cursor.execute("SET LOCAL session_replication_role = replica")
            for table in _filled(cursor, [table for table in tables if table not in self.rows]):
                cursor.execute(f"DELETE FROM {table}")
            for table in self.rows.keys() & set(tables):
                self._refill(cursor, table)
        if tables != self.tables:
            # A test ran migrations, made partitions or dropped them.
            emit_post_migrate_signal(0, False, DEFAULT_DB_ALIAS)
            with connection.cursor() as cursor:
                self.tables = _tables(cursor)

    def _refill(self, cursor: Any, table: str) -> None:
        if _rows(cursor, table) == self.rows[table]:
            return
        cursor.execute(f"DELETE FROM {table}")
        with cursor.copy(f"COPY {table} FROM STDIN") as copy:
            copy.write(self.rows[table])


def _tables(cursor: Any) -> list[str]:
    cursor.execute(_TABLES)
    return [table for (table,) in cursor.fetchall()]


def _filled(cursor: Any, tables: list[str]) -> list[str]:
    """Those of the tables that have rows."""
    looks = (
        f"SELECT {number} WHERE EXISTS (SELECT 1 FROM {table})"
        for number, table in enumerate(tables)
    )
    cursor.execute(" UNION ALL ".join(looks))
    return [tables[number] for (number,) in cursor.fetchall()]


def _rows(cursor: Any, table: str) -> bytes:
    with cursor.copy(f"COPY {table} TO STDOUT") as copy:
        return b"".join(map(bytes, copy))
