"""Counts SQL statements, including those that Django does not count."""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from django.db import connections

from core.database import routing, sql


def statements_by_database(work: Callable[[], Any]) -> Counter[str]:
    """How many statements *work* runs on each database."""
    statements: Counter[str] = Counter()

    def count(execute: Any, statement: str, *arguments: Any) -> Any:
        statements[arguments[-1]["connection"].alias] += 1
        return execute(statement, *arguments)

    cursor = sql._cursor

    def counting_cursor() -> Any:
        statements[routing.current_connection().alias] += 1
        return cursor()

    with pytest.MonkeyPatch.context() as patch, ExitStack() as wrappers:
        patch.setattr(sql, "_cursor", counting_cursor)
        for connection in connections.all():
            wrappers.enter_context(connection.execute_wrapper(count))
        work()
    return statements
