"""A replica that streams from the tests' server, configured as by EDS_REPLICA_URL."""

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from django.db import connection, connections

from core.database import sql
from harness.standby import SLOT, Standby
from readapi import replica
from tests.database import FAST, superuser

PATIENCE = 20.0
# A replica that applies changes at once, and cancels statements for that.
IMPATIENT = {"max_standby_streaming_delay": "0", "hot_standby_feedback": "off"}


def until(condition: Callable[[], Any], name: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {name}"
        time.sleep(0.01)


class Replica:
    """The tests' replica. A test can pause it, stop it, and wait for it."""

    def __init__(self, standby: Standby) -> None:
        self._standby = standby

    def ask(self, statement: str) -> Any:
        while True:
            # The replica may cancel this statement, too.
            try:
                with closing(self._connect()) as direct_connection:
                    row = direct_connection.execute(statement.encode()).fetchone()
                    return row[0] if row else None
            except psycopg.OperationalError as error:
                # There is no SQLSTATE while it connects.
                if "conflict with recovery" not in str(error):
                    raise

    def catch_up(self) -> None:
        """Wait until it has everything that is committed."""
        # This is written to disk at once; the tests' commits are not.
        ((position,),) = sql.fetch("SELECT pg_logical_emit_message(false, 'tests', '', true)::text")
        until(lambda: self.ask(f"SELECT pg_last_wal_replay_lsn() >= '{position}'"), "the replica")

    def pause(self) -> None:
        """Keep it at its state, whatever happens on the primary."""
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
    databases = connections.settings
    databases[replica.ALIAS] = {
        **databases["default"],
        **standby.server.database_settings(),
        "NAME": databases["default"]["NAME"],
        # A role that can only read is enough.
        "USER": "reader",
        # Its primary creates and empties it.
        "TEST": {**databases["default"]["TEST"], "MIRROR": "default"},
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
