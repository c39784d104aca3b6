"""What pages ask the database: ``python -m benchmarks.statements TOKEN PATH …`` for the read API,
``login:NAME`` instead of the token for the admin.

A process of its own, as ``benchmarks.within``. Prints JSON: for each path its statements, each with
its plan.
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

PLANNED = ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE")


@contextmanager
def noted() -> Iterator[list[dict[str, str]]]:
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
        with noted() as executed:
            response = client.get(path)
            assert response.status_code == 200, response.content
    return executed


if __name__ == "__main__":
    token, *paths = sys.argv[1:]
    reader = Client(headers={"authorization": f"Bearer {token}", "host": "localhost"})
    if token.startswith("login:"):
        reader = Client(headers={"host": "localhost"})
        reader.force_login(User.objects.get(username=token.removeprefix("login:")))
    print(json.dumps({path: statements_of(reader, path) for path in paths}))
