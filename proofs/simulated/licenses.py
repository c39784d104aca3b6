"""A marketplace in a schedule: its licenses change while syncs read them, and its answers get lost.

Afterwards, what is stored must be what a calm sync stores in another product, and computing the
ledger again must change nothing.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from random import Random
from typing import Any, LiteralString
from unittest.mock import patch

import psycopg
import requests
import urllib3

from core.jobs import run as jobs
from engagement.models import Product
from harness.marketplace.endpoints import Marketplace
from harness.marketplace.faults import SimulatedResponse, error_response
from harness.marketplace.feed import Feed
from harness.marketplace.records import Record, create_license, create_site
from harness.marketplace.vendor import create_vendor
from marketplace import connecting
from marketplace.connecting import ConnectionDetails
from marketplace.ledger import recomputation
from marketplace.models import Connection, LedgerLicense, SyncRun
from marketplace.runs import scheduling, sync
from marketplace.runs.lifecycle import unfinished_runs
from marketplace.source import client
from marketplace.source.deadlines import DeadlineRunner
from proofs.simulated.scheduler import Scheduler, current

# Two pages of the marketplace. They are on so many sites.
LICENSES, SITES = 55, 50
CHANGES, SYNCS = 4, 2
# Seconds between two of these, and between two looks at a sync.
PAUSE, LOOK = 40.0, 20.0
_SEED = 1
# What the marketplace lists; of the accounts that have no other license.
LISTED: LiteralString = """
    SELECT key, cloud_id, fields::text FROM marketplace_license
    WHERE product_id = %s AND unlisted_since IS NULL
"""
TRAITS: LiteralString = """
    SELECT a.external_id, t.key, t.value::text
    FROM engagement_account a, jsonb_each(a.traits) AS t
    WHERE a.product_id = %s AND t.key LIKE 'am.%%' AND NOT EXISTS (
        SELECT FROM marketplace_license l
        WHERE l.cloud_id = a.external_id AND l.unlisted_since IS NOT NULL)
"""
_UNLISTED: LiteralString = """
    SELECT key FROM marketplace_license WHERE product_id = %s AND unlisted_since IS NOT NULL
"""
EVENTS: LiteralString = """
    SELECT license, type, anchor, date, cloud_id, details::text, withdrawn_at IS NULL
    FROM marketplace_licenseevent WHERE product_id = %s
"""


class Licenses:
    """The marketplace of one vendor, as a sync finds it before the first schedule."""

    def __init__(self, start: datetime) -> None:
        self.start = start
        self._vendor, self._chance = create_vendor(_SEED), Random(_SEED)
        self._records = [self._new_license(number % SITES) for number in range(LICENSES)]
        self._synced = {record["appEntitlementNumber"] for record in self._records}
        self._removed: set[str] = set()
        self._marketplace = Marketplace(Feed(self._records), self._vendor)

    def _new_license(self, site: int) -> Record:
        where, today = create_site(_SEED, site), self.start.date()
        return create_license(self._vendor.app, where, self._chance, today)

    def connect(self, product: Product) -> None:
        """Connect the product, and import everything."""
        owner = self._vendor
        details = ConnectionDetails(
            owner.user_name, owner.token, owner.vendor_id, owner.app.product_id
        )
        with self.answering(None):
            checked = connecting.verify_details(details, client.create_client)
            connection = connecting.save_connection(product, checked, self.start)
            environment = sync.SyncEnvironment(client.create_client, lambda: self.start)
            sync.run_sync(connection.pk, environment)
        self._compute_ledger(product.pk)

    def _compute_ledger(self, product_id: int) -> None:
        jobs.finish(recomputation.KIND, product_id, lambda: self.start)

    # --- In a schedule --------------------------------------------------------------------

    def change(self, scheduler: Scheduler) -> None:
        """Let licenses change, come, and go."""
        chance, today = scheduler.chance, self.start.date().isoformat()
        for number in range(CHANGES):
            scheduler.sleep(chance.uniform(0, PAUSE))
            index, kind = chance.randrange(len(self._records)), chance.randrange(4)
            if kind == 0:
                new = {**self._new_license(SITES + number), "lastUpdated": today}
                self._records.insert(index, new)
            elif kind == 1:
                self._removed.add(self._records.pop(index)["appEntitlementNumber"])
            else:
                changed = {"tier": f"{chance.randrange(1, 900)} Users", "lastUpdated": today}
                self._records[index] = {**self._records[index], **changed}
            self._marketplace.feed.replace(self._records)

    def ask(self, scheduler: Scheduler, is_troubled: Callable[[], bool]) -> None:
        """Ask for syncs, as people do in the admin, and for a full one when trouble is over."""
        connection, chance = Connection.objects.get(), scheduler.chance
        for _ in range(SYNCS):
            scheduler.sleep(chance.uniform(0, PAUSE))
            kind = chance.choice((SyncRun.Kind.RECENT, SyncRun.Kind.FULL))
            scheduling.request_sync(connection, kind, scheduler.now())
        while is_troubled():
            scheduler.sleep(LOOK)
        while unfinished_runs(connection).exists():
            # It does not wait for its pause to end.
            scheduling.request_sync(connection, SyncRun.Kind.RECENT, scheduler.now())
            scheduler.sleep(LOOK)
        scheduling.request_sync(connection, SyncRun.Kind.FULL, scheduler.now())

    @contextmanager
    def answering(
        self, scheduler: Scheduler | None, is_troubled: Callable[[], bool] = lambda: False
    ) -> Iterator[None]:
        """While the block runs, clients of marketplaces ask this one, in their own thread. If there
        is trouble, some answers are errors, and some get lost."""

        def send(_: Any, request: requests.PreparedRequest, **__: Any) -> requests.Response:
            if (thread := current()) is None or scheduler is None:
                return self._respond(request)
            thread.pause("request")
            kind = scheduler.chance.randrange(16) if is_troubled() else -1
            if kind == 0:
                raise requests.ConnectionError("refused")
            refusal = {1: error_response(503), 2: error_response(429)}.get(kind)
            response = _received(refusal) if refusal else self._respond(request)
            thread.pause("response")
            if kind == 3:
                raise requests.ReadTimeout("lost")
            return response

        policy = client.BACKGROUND_RETRY_POLICY
        if scheduler is not None:
            policy = replace(policy, sleep=scheduler.sleep, now=scheduler.now)
        with (
            patch.object(requests.Session, "send", send),
            patch.object(DeadlineRunner, "run", lambda _, __, step, *___: step()),
            patch.object(sync, "Prefetcher", _Pages),
            patch.object(client, "BACKGROUND_RETRY_POLICY", policy),
        ):
            yield

    def _respond(self, request: requests.PreparedRequest) -> requests.Response:
        headers = {name: str(value) for name, value in request.headers.items()}
        target, method = request.path_url, request.method or ""
        return _received(self._marketplace.respond(target, headers, method))

    # --- Afterwards -----------------------------------------------------------------------

    def find_violations(self, database: "psycopg.Connection[Any]") -> Iterator[str]:
        """A sentence for each promise that does not hold."""
        product_id = Connection.objects.get().product_id
        calm = Product.create_with_workspace("Calm")
        self.connect(calm)
        for what, statement in ("licenses", LISTED), ("traits of licenses", TRAITS):
            stored, expected = (rows_of(database, statement, id) for id in (product_id, calm.pk))
            if differences := stored ^ expected:
                yield f"{len(differences)} {what} are not as in the marketplace: {min(differences)}"
        unlisted = {key for (key,) in rows_of(database, _UNLISTED, product_id)}
        # No sync may have seen one that came and went.
        if not self._removed & self._synced <= unlisted <= self._removed:
            yield f"Removed are {self._removed}, unlisted {unlisted}."
        events = rows_of(database, EVENTS, product_id)
        LedgerLicense.objects.filter(product=product_id).update(stale=LedgerLicense.Stale.CHANGED)
        self._compute_ledger(product_id)
        if changed := events ^ rows_of(database, EVENTS, product_id):
            yield f"{len(changed)} events do not follow from the observations: {min(changed)}"


def rows_of(
    database: "psycopg.Connection[Any]", statement: LiteralString, product_id: int
) -> set[tuple[Any, ...]]:
    return set(database.execute(statement, [product_id]).fetchall())


def _received(response: SimulatedResponse) -> requests.Response:
    """The response as the library gives it."""
    received = requests.Response()
    received.status_code = response.status
    received.headers.update({"Content-Type": response.content_type, **response.headers})
    received.raw = urllib3.HTTPResponse(io.BytesIO(response.body), preload_content=False)
    return received


class _Pages:
    """A ``Prefetcher`` that reads each page when it is asked for."""

    def __init__(
        self, read: Callable[[Any], Any], next_position: Callable[[Any], Any], first: Any, _: int
    ) -> None:
        self._read, self._next_position, self._position = read, next_position, first

    def __enter__(self) -> "_Pages":
        return self

    def __exit__(self, *_: object) -> None: ...

    def allow(self, number: int) -> None: ...

    def get_ready(self) -> list[Any]:
        page = self._read(self._position)
        self._position = self._next_position(page)
        return [page]
