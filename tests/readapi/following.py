"""A replica that streams from the tests' server, as EDS_REPLICA_URL would make it known."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connection, connections

from benchmarks.standby import SLOT, Standby
from engagement.database import routing, sql
from readapi import replica
from tests.database import FAST, superuser

PATIENCE = 20.0
# A replica that lets no statement hold up what it has to apply.
IMPATIENT = {"max_standby_streaming_delay": "0", "hot_standby_feedback": "off"}


def until(look: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not look():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


class Replica:
    """The tests' replica, which a test may pause, stop, and wait for."""

    def __init__(self, standby: Standby) -> None:
        self._standby = standby

    def ask(self, statement: str) -> Any:
        while True:
            # This does not hold it up either, where it has rows to remove just then.
            try:
                with closing(self._connect()) as direct:
                    row = direct.execute(statement.encode()).fetchone()
                    return row[0] if row else None
            except psycopg.OperationalError as error:
                # While it connects there is no SQLSTATE yet.
                if "conflict with recovery" not in str(error):
                    raise

    def catch_up(self) -> None:
        """Return once it has all that has been committed until now."""
        # Written to disk at once, unlike what the tests commit.
        ((place,),) = sql.fetch("SELECT pg_logical_emit_message(false, 'tests', '', true)::text")
        until(lambda: self.ask(f"SELECT pg_last_wal_replay_lsn() >= '{place}'"), "the replica")

    def pause(self) -> None:
        """Have it stay as it is now, whatever happens at the primary."""
        self.catch_up()
        self.ask("SELECT pg_wal_replay_pause()")
        until(lambda: self.ask("SELECT pg_get_wal_replay_pause_state()") == "paused", "the pause")

    def resume(self) -> None:
        self.ask("SELECT pg_wal_replay_resume()")
        self.catch_up()

    def stop(self) -> None:
        self._standby.stop()

    def start(self) -> None:
        self._standby.start()

    def _connect(self) -> "psycopg.Connection[Any]":
        name = connection.settings_dict["NAME"]
        return superuser(self._standby.server, name)


def start(folder: Path) -> Standby:
    assert settings.EMBEDDED_POSTGRES is not None
    standby = Standby(settings.EMBEDDED_POSTGRES, folder, {**FAST, **IMPATIENT})
    with superuser(settings.EMBEDDED_POSTGRES) as primary:
        primary.execute("CREATE ROLE reader LOGIN IN ROLE pg_read_all_data")
    standby.copy()
    standby.start()
    known = connections.settings
    known[replica.ALIAS] = {
        **known["default"],
        **standby.server.database_settings(),
        "NAME": known["default"]["NAME"],
        # Who may only read is enough.
        "USER": "reader",
        # It is emptied and filled by its primary.
        "TEST": {**known["default"]["TEST"], "MIRROR": "default"},
    }
    return standby


def end(standby: Standby) -> None:
    connections[replica.ALIAS].close()
    del connections[replica.ALIAS], connections.settings[replica.ALIAS]
    standby.stop()
    assert settings.EMBEDDED_POSTGRES is not None
    with superuser(settings.EMBEDDED_POSTGRES) as primary:
        primary.execute("SELECT pg_drop_replication_slot(%s)", [SLOT])
        primary.execute("DROP ROLE reader")


def asked_of_each(work: Callable[[], Any]) -> Counter[str]:
    """How many statements the work has run on each side."""
    seen: Counter[str] = Counter()

    def count(execute: Any, statement: str, *arguments: Any) -> Any:
        seen[arguments[-1]["connection"].alias] += 1
        return execute(statement, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        cursor = sql._cursor

        def counted() -> Any:
            seen[routing.current_connection().alias] += 1
            return cursor()

        patch.setattr(sql, "_cursor", counted)
        follower = connections[replica.ALIAS]
        with connection.execute_wrapper(count), follower.execute_wrapper(count):
            work()
    return seen
