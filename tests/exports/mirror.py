"""A PostgreSQL of somebody else, which asks for a password."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from config.local.postgres import EmbeddedPostgres, stop_process
from exports.models import ScheduledExport
from harness.ports import free_prefix
from tests.database import FAST, copy_migrated_cluster, superuser

USER, PASSWORD, DATABASE = "eds_writer", "planted-password", "warehouse"
Rows = list[tuple[Any, ...]]


class Mirror:
    """The database, with a role that owns it and one that only reads."""

    def __init__(self, server: EmbeddedPostgres, host: str) -> None:
        self._server, self.host = server, host

    def fields(self, **others: Any) -> dict[str, Any]:
        """What an export to it has."""
        return {
            "store_kind": ScheduledExport.StoreKind.POSTGRES,
            **{"host": self.host, "port": 5432, "database": DATABASE, "schema": "eds"},
            **{"user_name": USER, "password": PASSWORD, "tls": "disable"},
            **others,
        }

    def execute(self, statement: str, *parameters: Any) -> Rows:
        with superuser(self._server, DATABASE) as connection:
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def column(self, table: str, name: str) -> list[Any]:
        return [value for (value,) in self.execute(f"SELECT {name} FROM eds.{table}")]

    def subjects(self, table: str) -> dict[int, tuple[Any, ...]]:
        rows = self.execute(f"SELECT id, tracking_id, score, traits FROM eds.{table}")
        return {id: (name, score, traits) for id, name, score, traits in rows}

    def empty(self) -> None:
        self.execute("DROP SCHEMA IF EXISTS eds CASCADE")


@contextmanager
def running_mirror() -> Iterator[Mirror]:
    # Not tmp_path: PostgreSQL's own user must be able to reach it, and its path stays short.
    folder = Path(tempfile.mkdtemp(prefix="eds-mirror-"))
    folder.chmod(0o711)
    host = f"{free_prefix()}.2"
    server = EmbeddedPostgres(folder / "postgres", {**FAST, "listen_addresses": host})
    copy_migrated_cluster(server.folder)
    server.initialise()
    rules = "local all all trust\nhost all all 127.0.0.0/8 scram-sha-256\n"
    (server.folder / "pg_hba.conf").write_text(rules)
    process = server.start_with_log(folder / "postgres.log")
    try:
        with superuser(server) as connection:
            role = f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'"
            connection.execute(role.encode())
            connection.execute(f"CREATE DATABASE {DATABASE} OWNER {USER}".encode())
        yield Mirror(server, host)
    finally:
        stop_process(process, signal.SIGINT, timeout=30)
        shutil.rmtree(folder, ignore_errors=True)
