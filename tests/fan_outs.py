"""On a cluster, a statement of the service runs on one node, unless it is named here.

Citus reports each statement that runs on several nodes, and the handler looks which function of
the service ran it. What tests themselves ask is their own affair.
"""

import traceback
from pathlib import Path
from typing import Any

from psycopg.errors import Diagnostic

PROJECT = Path(__file__).resolve().parent.parent
APPS = (
    "access",
    "config",
    "console",
    "core",
    "engagement",
    "exports",
    "destinations",
    "outcomes",
    "ingestion",
    "marketplace",
    "notifications",
    "readapi",
    "trends",
)
# The functions that run statements for others.
CARRIERS = "core/database/sql.py"

# What runs on several nodes: file and function, of what class if not of all, and why.
NAMED: dict[str, str] = {
    "core/database/products.py::with_rows": "which products have rows in a queue",
    "engagement/prometheus.py::collect_metrics": "counts for /metrics",
    "engagement/rescoring/sets.py::_delete_rows": "Django looks for what is left of a score set",
    "notifications/retention.py::_orphaned_watches": "which watches have members",
    "ingestion/retention.py::_delete_message_ids": "deletes message ids of all products",
    "engagement/segments/counts.py::_count_rows": "numbers of several products on the home page",
    "core/database/partitions.py::_delete_old_defaults": "deletes events of all products",
    "core/database/packing.py::_run": "packs the events of all products",
    "core/database/partitions.py::_execute": "makes and drops the partitions of weeks",
    "engagement/removal/deletion.py::_delete_product": "Django looks for what is left of one",
    "console/workspaces/workspaces.py::delete_view": "Django looks for the scores of one workspace",
    "access/pages/history.py::get_object": "a page is asked for by an id alone",
    "access/pages/lookups.py::get_changelist_instance of EventNameAdmin": "those of all products",
    "access/pages/scoping.py::changelist_view of EventNameAdmin": "those of all products",
    "console/workspaces/feature_pages.py::get_results": "features of all products",
    "console/subjects/subject_details.py::_trait_row": "Django reads a deferred field by an id",
    "console/workspaces/weight_forms.py::clean": "the names of a workspace's events, by ids",
    "console/workspaces/what_if.py::_problems": "the names of a workspace's events, by ids",
    "access/trail/models_followed.py::read_state": "a row that changes is read by its id alone",
    "access/trail/models_followed.py::_events": "a feature that changes is read by its id alone",
    "access/trail/models_followed.py::_weights": "the names of a workspace's events, by ids",
    "config/web/middleware.py::__call__": "Django's own queries of a page, by ids",
}

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
    for frame, _ in traceback.walk_stack(None):
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(PROJECT) or ".venv" in path.parts:
            continue
        name = path.relative_to(PROJECT).as_posix()
        if name.startswith("tests/fan_outs") or name == CARRIERS:
            continue
        if name.split("/")[0] not in APPS:
            return ""
        function = f"{name}::{frame.f_code.co_name}"
        own = type(frame.f_locals.get("self", None)).__name__
        return function if function in NAMED else f"{function} of {own}"
    return ""
