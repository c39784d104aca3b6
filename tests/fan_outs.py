"""On a cluster, a statement of the service runs on one node, unless it is named here.

Citus reports each statement that runs on several nodes, and the handler looks which function of
the service ran it. What tests themselves ask is their own affair.
"""

import traceback
from pathlib import Path
from typing import Any

from psycopg.errors import Diagnostic

PROJECT = Path(__file__).resolve().parent.parent
APPS = ("config", "engagement", "exports", "ingestion", "marketplace", "notifications", "readapi")
# The functions that run statements for others.
CARRIERS = "engagement/database/sql.py"

# What runs on several nodes: file and function, and why.
NAMED: dict[str, str] = {}

# What ran on several nodes, and is not named.
unnamed: set[str] = set()


def watch(connection: Any, **_: Any) -> None:
    """Have the server report each statement that runs on several nodes, and note whose it is."""
    connection.connection.execute("SET citus.multi_task_query_log_level = 'notice'")
    connection.connection.add_notice_handler(_note)


def _note(notice: Diagnostic) -> None:
    if not (notice.message_primary or "").startswith("multi-task query"):
        return
    function = _function()
    if function and function not in NAMED:
        unnamed.add(function)


def _function() -> str:
    """The innermost function of the service that is running; "" if it is a test's."""
    for frame in reversed(traceback.extract_stack()):
        path = Path(frame.filename)
        if not path.is_relative_to(PROJECT) or ".venv" in path.parts:
            continue
        name = path.relative_to(PROJECT).as_posix()
        if name.startswith("tests/fan_outs") or name == CARRIERS:
            continue
        return f"{name}::{frame.name}" if name.split("/")[0] in APPS else ""
    return ""
