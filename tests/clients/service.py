"""A running service, the data that arrived in it, and the failures that a test can cause."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, Literal, LiteralString, NamedTuple, TypeAlias
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import psutil
from django.conf import settings

from config.local.postgres import stop_process
from tests.start.running import Up, free_port, listens, survivors, until

PATIENCE = 90.0

Scope: TypeAlias = Literal["user", "account"]

_USERS: LiteralString = """
    SELECT external_id, traits FROM engagement_user
    WHERE is_identified AND starts_with(external_id, %s)
"""
_ACCOUNTS: LiteralString = """
    SELECT external_id, traits FROM engagement_account WHERE starts_with(external_id, %s)
"""
_EVENTS: LiteralString = """
    SELECT u.external_id, n.name, a.external_id, e.occurred_at
    FROM engagement_event e
    JOIN engagement_user u ON (u.product_id, u.id) = (e.product_id, e.user_id)
    JOIN engagement_eventname n ON (n.product_id, n.id) = (e.product_id, e.event_name_id)
    LEFT JOIN engagement_account a ON (a.product_id, a.id) = (e.product_id, e.account_id)
    WHERE starts_with(u.external_id, %s)
    ORDER BY e.occurred_at, e.arrival
"""
_DROPPED: LiteralString = "SELECT reason, sum(count)::int FROM ingestion_dropcount GROUP BY reason"


class Happened(NamedTuple):
    """A stored event, with the ids and names that its sender used."""

    user: str
    event: str
    account: str | None
    at: datetime


class Service:
    """``up``, and a connection to its database."""

    def __init__(self, up: Up, read_token: str) -> None:
        self.up = up
        self.host = f"127.0.0.1:{up.port}"
        self.address = f"http://{self.host}"
        self.key: str = up.credentials["ingestion_key"]
        self.read_token = read_token
        self.workspace_id: int = up.credentials["workspace_id"]
        self._database = up.connect()

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def behind_a_proxy(self, host: str) -> Iterator[int]:
        """Run another web server of the service, which knows HTTPS and the host. Yield its port."""
        web = self.up.named("gunicorn")
        environment = {**web[0].environ(), "EDS_HTTPS": "true", "EDS_ALLOWED_HOSTS": host}
        port = free_port()
        command = [sys.executable, "-m", "gunicorn", "--config", "python:config.server.gunicorn"]
        command += ["--bind", f"127.0.0.1:{port}", "--workers", "1", "config.wsgi:application"]
        process = subprocess.Popen(
            command, cwd=settings.BASE_DIR, env=environment, start_new_session=True
        )
        try:
            until(lambda: listens(port), "the server behind the proxy")
            yield port
        finally:
            stop_process(process, signal.SIGTERM, timeout=10)

    # --- What arrived ------------------------------------------------------------------------

    def users(self, prefix: str) -> dict[str, Any]:
        """Return the traits of the users whose ids have the prefix."""
        return dict(self._database.execute(_USERS, [prefix]).fetchall())

    def accounts(self, prefix: str) -> dict[str, Any]:
        return dict(self._database.execute(_ACCOUNTS, [prefix]).fetchall())

    def events(self, prefix: str) -> list[Happened]:
        """Return the events of the users whose ids have the prefix, in order of time."""
        return [Happened(*row) for row in self._database.execute(_EVENTS, [prefix]).fetchall()]

    def counts(self, prefix: str) -> Counter[tuple[str, str]]:
        return Counter((event.user, event.event) for event in self.events(prefix))

    def dropped(self) -> Counter[str]:
        """Return the number of dropped messages for each reason."""
        return Counter(dict(self._database.execute(_DROPPED).fetchall()))

    def until_arrived(self, prefix: str, number: int) -> None:
        """Return when at least *number* events have arrived."""
        until(lambda: len(self.events(prefix)) >= number, f"{number} events", PATIENCE)

    def until_events(self, prefix: str, number: int) -> None:
        """Return when *number* events have arrived and the inbox is empty."""
        self.until_arrived(prefix, number)
        self.until_drained()

    def until_drained(self) -> None:
        def nothing_waits() -> bool:
            row = self._database.execute("SELECT count(*) FROM ingestion_inboxmessage").fetchone()
            return row == (0,)

        until(nothing_waits, "the inbox to be empty", PATIENCE)

    # --- What the read API returns -----------------------------------------------------------

    def read_counted(
        self, scope: Scope, tracking_id: str, counts: dict[str, int]
    ) -> dict[str, Any]:
        """Return the record of the user or the account, once its score has that many events.

        Raises AssertionError if they are not these.
        """
        number = sum(counts.values())

        def counted() -> dict[str, Any] | None:
            record = self._read_subject(scope, tracking_id)
            is_complete = record and record["metrics"]["overall_scored_events"] >= number
            return record if is_complete else None

        record = until(counted, f"{number} events of {tracking_id} in its score", PATIENCE)
        assert record
        assert {event["name"]: event["count"] for event in record["events"]} == counts
        return record

    def _read_subject(self, scope: Scope, tracking_id: str) -> dict[str, Any] | None:
        """Return the record with its traits and events, or None if there is no such subject."""
        path = f"/v2/{scope}s"
        matches = self._read(path, match_type="tracking_id", match_value=tracking_id)
        if not matches:
            return None
        record: dict[str, Any] = self._read(f"{path}/{matches[0]['id']}", expand="traits,events")
        return record

    def _read(self, path: str, **parameters: str) -> Any:
        query = urlencode({"workspace_id": self.workspace_id, **parameters})
        request = Request(f"{self.address}{path}?{query}")
        request.add_header("Authorization", f"Bearer {self.read_token}")
        with urlopen(request, timeout=30) as response:
            return json.load(response)["data"]

    # --- What can happen to it ---------------------------------------------------------------

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Make commits fail inside the block, so that the service answers 503."""
        self._database.execute("ALTER TABLE ingestion_inboxmessage RENAME TO elsewhere")
        try:
            yield
        finally:
            self._database.execute("ALTER TABLE elsewhere RENAME TO ingestion_inboxmessage")

    def kill_the_web_role(self) -> None:
        """Kill the web server with its workers. ``up`` restarts it."""
        web = self.up.named("gunicorn")
        assert web
        for process in web:
            with suppress(psutil.NoSuchProcess):
                os.kill(process.pid, signal.SIGKILL)
        until(lambda: not survivors(web), "the web role to be dead")
        until(lambda: self.up.status_of("/admin/login/") == 200, "the web role to be back")
