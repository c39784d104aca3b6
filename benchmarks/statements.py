"""What pages ask the database: ``python -m benchmarks.statements TOKEN PATH …`` for the read API,
``login:NAME`` instead of the token for the admin.

A process of its own, as ``benchmarks.within``. Prints JSON: for each path its statements, each with
its plan. With ``--costs`` before the token, prints the milliseconds of processor time that each
path costs, in this process and in PostgreSQL, which other work on the machine hardly changes.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import django
import psycopg

django.setup()

# The apps must be loaded first.
from django.contrib.auth.models import User  # noqa: E402
from django.test import Client  # noqa: E402

from benchmarks.within import Stopwatch  # noqa: E402

PLANNED = ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE")


@contextmanager
def statement_log() -> Iterator[list[dict[str, str]]]:
    """The statements that are executed meanwhile, through any cursor."""
    executed: list[dict[str, str]] = []
    execute = psycopg.Cursor.execute

    def note(cursor: Any, query: Any, parameters: Any = None, **options: Any) -> Any:
        text = str(query)
        executed.append(
            {"statement": " ".join(text.split()), "plan": plan(cursor, text, parameters)}
        )
        return execute(cursor, query, parameters, **options)

    def plan(cursor: Any, text: str, parameters: Any) -> str:
        if not text.lstrip().upper().startswith(PLANNED):
            return ""
        # A cursor of the same kind, because kinds differ in how parameters reach the planner.
        with type(cursor)(cursor.connection) as other:
            execute(other, f"EXPLAIN {text}", parameters)
            return "\n".join(str(row[0]) for row in other.fetchall())

    psycopg.Cursor.execute = note  # type: ignore[method-assign, assignment]
    try:
        yield executed
    finally:
        psycopg.Cursor.execute = execute  # type: ignore[method-assign]


def statements_of(client: Client, path: str) -> list[dict[str, str]]:
    """What a request of the path executes; not the first one, which notes the token's use."""
    for _ in range(2):
        with statement_log() as executed:
            response = client.get(path)
            assert response.status_code == 200, response.content
    return executed


# The system counts a process's time in hundredths of a second.
COUNTED_REQUESTS = 6


def costs_of(client: Client, path: str) -> dict[str, float]:
    client.get(path)
    watch = Stopwatch()
    for _ in range(COUNTED_REQUESTS):
        client.get(path)
    costs = watch.read()
    names = {"Python": "processor_seconds", "PostgreSQL": "database_seconds"}
    return {name: costs[key] * 1000 / COUNTED_REQUESTS for name, key in names.items()}


if __name__ == "__main__":
    has_costs = sys.argv[1] == "--costs"
    token, *paths = sys.argv[1 + has_costs :]
    reader = Client(headers={"authorization": f"Bearer {token}", "host": "localhost"})
    if token.startswith("login:"):
        reader = Client(headers={"host": "localhost"})
        reader.force_login(User.objects.get(username=token.removeprefix("login:")))
    describe = costs_of if has_costs else statements_of
    print(json.dumps({path: describe(reader, path) for path in paths}))
