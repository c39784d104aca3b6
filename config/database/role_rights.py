"""Which of the service's tables the database role lacks rights on."""

from typing import LiteralString

from django.apps import apps

from core.database import sql

_LACKING: LiteralString = """
    SELECT c.relname::text FROM pg_class c
    WHERE c.relname = ANY(%(tables)s) AND pg_table_is_visible(c.oid) AND NOT (
        has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
        AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))
    ORDER BY c.relname
"""


def tables_without_rights() -> list[str]:
    """The names of the tables that the role may not read or not write."""
    models = apps.get_models(include_auto_created=True)
    tables = [model._meta.db_table for model in models if model._meta.managed]
    return [name for (name,) in sql.fetch(_LACKING, {"tables": tables})]


def describe(tables: list[str]) -> str:
    """A sentence about the tables; "" if there are none."""
    if not tables:
        return ""
    others = f" and {len(tables) - 1} more tables" if len(tables) > 1 else ""
    return f"The database role may not read and write {tables[0]}{others}."
