"""Runs schedules in the environment of a service: ``python -m proofs.simulated.running``.

Prints a line of JSON for each seed.
"""

import argparse
import gc
import hashlib
import itertools
import json
import logging
import os
import random
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, LiteralString, NamedTuple
from unittest.mock import patch

import django
import psycopg
from psycopg.sql import SQL, Identifier

django.setup()

from django.db import connection  # noqa: E402
from django.utils import timezone  # noqa: E402

from config.celery import app  # noqa: E402
from config.local.postgres import SUPERUSER  # noqa: E402
from engagement.models import Product, Segment  # noqa: E402
from engagement.rescoring.rescore import rescore  # noqa: E402
from ingestion.models import IngestionKey  # noqa: E402
from notifications.delivery import signing  # noqa: E402
from notifications.models import Destination, Subscription  # noqa: E402
from notifications.watching.sweep import sweep  # noqa: E402
from notifications.watching.watches import assign_watch  # noqa: E402
from proofs.simulated import invariants  # noqa: E402
from proofs.simulated.database import Database, follow_schedule, leave  # noqa: E402
from proofs.simulated.faults import Faults  # noqa: E402
from proofs.simulated.licenses import Licenses  # noqa: E402
from proofs.simulated.scheduler import Scheduler, Stuck  # noqa: E402
from proofs.simulated.world import World, load, simulate  # noqa: E402

# Points of a schedule while clients send, and until everything is settled.
MAX_POINTS = 20_000
# Simulated seconds after the last message in which things still go wrong, if it takes so long until
# everything is settled. What goes wrong later meets nothing.
TROUBLE_SECONDS = 120.0
# One schedule of so many also has a marketplace and its syncs.
SYNCING = 3
# So often it is looked whether all is settled, in points.
LOOK_EVERY = 100
_UNSETTLED: LiteralString = """
    SELECT what FROM (VALUES
        ('messages', EXISTS (SELECT FROM ingestion_inboxmessage)),
        ('claims', EXISTS (SELECT FROM ingestion_claimedbatch)),
        ('changed subjects', EXISTS (SELECT FROM engagement_stalemark)),
        ('scores', EXISTS (SELECT FROM engagement_scoreset
                           WHERE state = 'building' OR watches_stale)),
        ('syncs', EXISTS (SELECT FROM marketplace_syncrun WHERE state IN ('waiting', 'running'))),
        ('ledger', EXISTS (SELECT FROM marketplace_ledgerlicense WHERE stale > 0)),
        ('watches', EXISTS (SELECT FROM notifications_watch WHERE is_stale)),
        ('notifications', EXISTS (SELECT FROM notifications_outboxmessage
                                  WHERE state = 'waiting'))) AS v(what, waits) WHERE waits
"""
# A copy of the service's database from before the first schedule.
PRISTINE = "pristine"
# Noon of today: schedules have no day rollover.
START = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
# Where the product's key is in it.
_KEEP_KEY: LiteralString = "CREATE TABLE simulated_key AS SELECT %s::text AS secret"
_KEY: LiteralString = "SELECT secret FROM simulated_key"
_HAS_PRISTINE: LiteralString = "SELECT FROM pg_database WHERE datname = 'pristine'"
_COPY_DATABASE = SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")


class Outcome(NamedTuple):
    """What became of a schedule. ``digest`` is that of its trace: equal in each run of the seed.
    ``faults`` is how many were drawn."""

    seed: int
    violations: list[str]
    points: int
    faults: int
    digest: str
    seconds: float
    incidents: dict[str, int]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--seeds", type=int, nargs=3, required=True, metavar=("FIRST", "END", "STEP")
    )
    parser.add_argument("--until", type=float, default=float("inf"), help="a time of the clock")
    parser.add_argument("--messages", type=int, default=5, help="that each client sends")
    parser.add_argument("--only", type=int, nargs="*", help="the faults that happen, by number")
    parser.add_argument("--trace", action="store_true", help="print each point to standard error")
    options = parser.parse_args()
    # What the service logs of failures that a schedule makes would hide what matters.
    logging.disable(logging.CRITICAL)
    app.loader.import_default_modules()
    load()
    # The collections of drains need not look at what is here for ever.
    gc.freeze()
    for seed in range(*options.seeds):
        if time.time() > options.until:
            break
        _restore_database()
        in_child(partial(_run_and_print, seed, options))


def in_child(work: Callable[[], None]) -> None:
    """Run it in a process of its own: modules remember what they did before."""
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"A process ended with {status}.")


def _run_and_print(seed: int, options: argparse.Namespace) -> None:
    with _connect() as database:
        outcome, trace = run(seed, options, database)
    if options.trace:
        sys.stderr.write("\n".join([*trace, ""]))
    print(json.dumps(outcome._asdict()), flush=True)
    sys.stderr.flush()


def run(
    seed: int, options: argparse.Namespace, database: "psycopg.Connection[Any]"
) -> tuple[Outcome, list[str]]:
    """Run the schedule of this seed. Returns what became of it, and all its points."""
    began = time.monotonic()
    random.seed(seed)
    faults = Faults(seed, options.only)
    scheduler = Scheduler(seed, START, Database(database), faults, leave)
    [(key,)] = database.execute(_KEY).fetchall()
    licenses = None if seed % SYNCING else Licenses(START)
    world = World(scheduler, key, START, options.messages, licenses)
    violations: list[str] = []
    with follow_schedule(scheduler), simulate(world):
        try:
            world.begin()
            scheduler.run(world.clients_are_done, MAX_POINTS)
            # What was sent is watched, told, and delivered in the same trouble.
            ends, settled = scheduler.monotonic() + TROUBLE_SECONDS, _looking(database)
            scheduler.run(lambda: scheduler.monotonic() >= ends or settled(), MAX_POINTS)
            faults.end()
            world.is_troubled = False
            scheduler.run(world.people_are_done, MAX_POINTS)
            scheduler.run(_looking(database), MAX_POINTS)
        except Stuck as error:
            violations.append(f"{error} Unsettled: {_unsettled(database)}.")
        except Exception as error:
            violations.append(f"{type(error).__name__}: {error}")
        scheduler.stop()
        # In the simulation, too: nobody needs a broker.
        violations += invariants.find_violations(world, database)
    digest = hashlib.sha256("\n".join(scheduler.trace).encode()).hexdigest()[:12]
    seconds = time.monotonic() - began
    incidents = dict(scheduler.incidents)
    return (
        Outcome(seed, violations, len(scheduler.trace), faults.number, digest, seconds, incidents),
        scheduler.trace,
    )


def _prepare() -> None:
    """Create a product, whose segment is watched."""
    product = Product.create_with_workspace("Schedules")
    segment = Segment.objects.create(
        workspace=product.workspaces.get(),
        scope="user",
        name="Watched",
        conditions=[
            {
                "kind": "event",
                "operator": "done",
                "event": invariants.EVENT,
                "times": invariants.TIMES,
            }
        ],
    )
    destination = Destination.objects.create(
        product=product,
        kind=Destination.Kind.WEBHOOK,
        name="Receiver",
        address="https://example.com/",
        address_hint="example.com",
        signing_secrets=signing.generate_secret(),
        state=Destination.State.ACTIVE,
        verified_at=START,
        site_url="https://eds.example.com",
    )
    for trigger in ("segment_entered", "segment_left"):
        assign_watch(
            Subscription.objects.create(
                product=product,
                destination=destination,
                trigger=trigger,
                workspace=segment.workspace,
                scope="user",
                segment=segment,
                quiet_hours=0,
            )
        )
    Licenses(START).connect(product)
    # The first look tells nobody.
    for minutes in (3, 2, 1):
        rescore(START - timedelta(minutes=minutes))
        sweep(START - timedelta(minutes=minutes))
    key = IngestionKey.create(product, "Schedules").secret
    with connection.cursor() as cursor:
        cursor.execute(_KEEP_KEY, [key])
    connection.close()


def _looking(database: "psycopg.Connection[Any]") -> Callable[[], bool]:
    """Whether nothing waits. It looks at every LOOK_EVERY-th call; False meanwhile."""
    calls = itertools.count(1)
    return lambda: next(calls) % LOOK_EVERY == 0 and not _unsettled(database)


def _unsettled(database: "psycopg.Connection[Any]") -> list[str]:
    """What still waits."""
    return [what for (what,) in database.execute(_UNSETTLED).fetchall()]


def _connect(name: str = "") -> "psycopg.Connection[Any]":
    """A connection that sees and ends the sessions of all, to this database or the service's."""
    settings = connection.get_connection_params()
    name = name or settings["dbname"]
    return psycopg.connect(host=settings["host"], dbname=name, user=SUPERUSER, autocommit=True)


def _restore_database() -> None:
    """Have the service's database be as it was before the first schedule of this server: ids,
    statistics, and partitions decide what the next statement finds."""
    name = Identifier(connection.get_connection_params()["dbname"])
    with _connect("postgres") as server:
        if server.execute(_HAS_PRISTINE).fetchone() is None:
            with (
                # How long it takes decides when jobs are due, and nothing may differ from server
                # to server.
                patch.object(time, "monotonic", return_value=0.0),
                patch.object(timezone, "now", return_value=START - timedelta(minutes=4)),
            ):
                in_child(_prepare)
            server.execute(_COPY_DATABASE.format(Identifier(PRISTINE), name))
        server.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(name))
        server.execute(_COPY_DATABASE.format(name, Identifier(PRISTINE)))


if __name__ == "__main__":
    main()
