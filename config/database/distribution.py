"""What becomes of each table on a Citus cluster, and how an installation gets there.

Large tables are distributed by product: all rows of a product are on one node, in tables beside
each other, so that one node can join them. A reference table is small, is joined with these, and
has a copy on each node. All other tables stay on the coordinator, where clients connect.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Any, LiteralString, NamedTuple

from django.db import connection, transaction
from psycopg import sql as compose

from core.database import distribution


class Kind(StrEnum):
    DISTRIBUTED = "distributed"
    REFERENCE = "reference"
    LOCAL = "local"


class Placement(NamedTuple):
    """Where the rows of a table are, and why."""

    kind: Kind
    reason: str


def _distributed(reason: str) -> Placement:
    return Placement(Kind.DISTRIBUTED, reason)


def _reference(reason: str) -> Placement:
    return Placement(Kind.REFERENCE, reason)


def _local(reason: str) -> Placement:
    return Placement(Kind.LOCAL, reason)


_SMALL = _local("small, and joined with no large table")
_DJANGO = _local("Django's or Celery's own, and small")
_LOGINS = _local("of people who sign in, and not of a product")
_INBOX = _local("accepted before anybody knows the product")
_LOG = _local("bounded for each product, and read by the admin alone")
_SYNC = _local("of one connection's syncs, and small")
_LEDGER = _local("joined with licenses, and grows with what happens to them")
_SET = _local("one row for each score set, read across products")
_OUTBOX = _local("read across products, in the order of deliveries")

# Each table of a model. Tables are distributed in this order; the first is the one beside which
# the others are placed.
TABLES: dict[str, Placement] = {
    "engagement_user": _distributed("grows with users"),
    "engagement_account": _distributed("grows with accounts"),
    "engagement_membership": _distributed("grows with users"),
    "engagement_alias": _distributed("joined with users, and grows with them"),
    "engagement_eventname": _distributed("joined with daily counts and updated from them"),
    "engagement_event": _distributed("grows with messages"),
    "engagement_dailycount": _distributed("grows with users and days"),
    "engagement_userengagement": _distributed("a row for each user and score set"),
    "engagement_accountengagement": _distributed("a row for each account and score set"),
    "engagement_searchentry": _distributed("a row for each user and account"),
    "engagement_subjectchange": _distributed("a row for each user and account"),
    "engagement_changestamp": _distributed("locked and read with the changes"),
    "engagement_joinrequest": _distributed("joined with users"),
    "engagement_partrequest": _distributed("joined with users"),
    "engagement_reattributionrequest": _distributed("joined with requests to join users"),
    "engagement_stalemark": _distributed("written with each batch, on the node of its counts"),
    "engagement_activeday": _distributed("a row for each account, day, and score set"),
    "engagement_alarm": _distributed("joined with accounts"),
    "engagement_accountchance": _distributed("joined with accounts"),
    "engagement_accountwork": _distributed("joined with accounts"),
    "engagement_accountnote": _distributed("grows with accounts, and is read with them"),
    "engagement_alarmwork": _distributed("joined with alarms"),
    "engagement_traitchange": _distributed("written with accounts, and joined with them"),
    "marketplace_licenseevent": _distributed("joined with accounts"),
    "outcomes_licenseoutcome": _distributed("joined with accounts and daily counts"),
    "trends_segmentmove": _distributed("a row for each move of a subject"),
    "trends_usageday": _distributed("counted from the daily counts of the product"),
    "engagement_feature": _distributed("joined with event names"),
    "engagement_accountuse": _distributed("a row for each account and event that it used"),
    "engagement_lateuse": _distributed("a row for each account with late counts"),
    "engagement_stepsdone": _distributed("a row for each user and account of a workspace"),
    "engagement_lateday": _distributed("a row for each account with late counts and score set"),
    "ingestion_seenmessageid": _distributed("grows with messages"),
    "notifications_watchedmember": _distributed("compared with users and accounts"),
    "engagement_scoredevent": _reference("the weights of score sets, joined with daily counts"),
    "engagement_product": _local("locked by each batch, and read by everybody"),
    "engagement_productmember": _LOGINS,
    "engagement_workspace": _SMALL,
    "engagement_eventweight": _SMALL,
    "engagement_segment": _SMALL,
    "engagement_savedview": _SMALL,
    "engagement_invite": _LOGINS,
    "engagement_loginattempts": _LOGINS,
    "engagement_loginpreferences": _LOGINS,
    "engagement_loginsession": _LOGINS,
    "engagement_secondfactor": _LOGINS,
    "engagement_recoverycode": _LOGINS,
    "engagement_externalidentity": _LOGINS,
    "engagement_provenaddress": _LOGINS,
    "engagement_rolegrant": _LOGINS,
    "engagement_trailentry": _local("also of people without a product, and read by the admin"),
    "engagement_productlimits": _SMALL,
    "engagement_productusage": _SMALL,
    "engagement_traitname": _SMALL,
    "engagement_chore": _SMALL,
    "engagement_keptdefault": _SMALL,
    "engagement_measure": _local("counts of the service itself, and not of a product"),
    "engagement_requestcount": _local("counts of the service itself, and not of a product"),
    "engagement_subjecttrace": _local("kept for an hour, and bounded for each batch"),
    "engagement_scoreset": _SET,
    "engagement_dailybenchmark": _SET,
    "engagement_usagestate": _SMALL,
    "engagement_activation": _SMALL,
    "engagement_tally": _SET,
    "engagement_storedorder": _SET,
    "engagement_alarmnight": _SMALL,
    "engagement_habitpart": _local("written and read by one worker, and deleted within minutes"),
    "engagement_turnedday": _SET,
    "engagement_editedrule": _SET,
    "engagement_movedthreshold": _SET,
    "engagement_orderchunk": _local("lists of ids, read by their key alone"),
    "engagement_searchbacklog": _SMALL,
    "core_job": _local("one row for each job of the service, claimed by any worker"),
    "engagement_forgottensubject": _local("one row for each request to forget, found by digest"),
    "ingestion_forgetkey": _local("found by its digest, before anybody knows the product"),
    "ingestion_ingestionkey": _local("found by its digest, before anybody knows the product"),
    "ingestion_inboxmessage": _INBOX,
    "ingestion_claimedbatch": _INBOX,
    "ingestion_quarantinedmessage": _local("also of messages without a product"),
    "ingestion_droppedmessage": _local("also of messages without a product, and bounded"),
    "ingestion_dropcount": _LOG,
    "ingestion_hourcount": _LOG,
    "ingestion_minutecount": _local("unlogged, and small: a row for each product and minute"),
    "ingestion_recentmessage": _LOG,
    "ingestion_refusedrequest": _LOG,
    "ingestion_refusedcount": _LOG,
    "ingestion_importedfile": _SMALL,
    "readapi_apitoken": _local("found by its digest, before anybody knows the product"),
    "readapi_usage": _local("unlogged, and counted before anybody knows the product"),
    "marketplace_connection": _SYNC,
    "marketplace_syncrun": _SYNC,
    "marketplace_failedrecord": _SYNC,
    "marketplace_license": _local("joined with the rows of a sync, at most a vendor's list"),
    "marketplace_seenlicenses": _SYNC,
    "marketplace_pendinglicense": _SYNC,
    "marketplace_reportreading": _SYNC,
    "marketplace_ledger": _SMALL,
    "outcomes_licenserevision": _SMALL,
    "marketplace_ledgerlicense": _LEDGER,
    "marketplace_licensealias": _LEDGER,
    "marketplace_observation": _LEDGER,
    "marketplace_transaction": _LEDGER,
    "marketplace_feedback": _LEDGER,
    "marketplace_metricevent": _local("of one product's page alone, and at most a year of it"),
    "notifications_destination": _SMALL,
    "notifications_digest": _SMALL,
    "notifications_digestissue": _SMALL,
    "notifications_watch": _SMALL,
    "notifications_subscription": _SMALL,
    "notifications_outboxmessage": _OUTBOX,
    "notifications_delivery": _OUTBOX,
    "outcomes_storedbacktest": _SMALL,
    "outcomes_chancelook": _SMALL,
    "outcomes_chancemodel": _SMALL,
    "outcomes_storedforecast": _SMALL,
    "trends_dayfigures": _SMALL,
    "trends_storedchanges": _SMALL,
    "trends_storedcohorts": _SMALL,
    "trends_segmentroster": _SMALL,
    "destinations_recorddestination": _SMALL,
    "destinations_recordrun": _SMALL,
    "destinations_recordlink": _local("of one destination, and read by its own keys alone"),
    "exports_scheduledexport": _SMALL,
    "exports_exportrun": _SMALL,
    "exports_exportfile": _SMALL,
    "auth_group": _DJANGO,
    "auth_group_permissions": _DJANGO,
    "auth_permission": _DJANGO,
    "auth_user": _DJANGO,
    "auth_user_groups": _DJANGO,
    "auth_user_user_permissions": _DJANGO,
    "django_admin_log": _DJANGO,
    "django_celery_beat_clockedschedule": _DJANGO,
    "django_celery_beat_crontabschedule": _DJANGO,
    "django_celery_beat_intervalschedule": _DJANGO,
    "django_celery_beat_periodictask": _DJANGO,
    "django_celery_beat_periodictasks": _DJANGO,
    "django_celery_beat_solarschedule": _DJANGO,
    "django_content_type": _DJANGO,
    "django_session": _DJANGO,
}
_FIRST = next(iter(TABLES))

_HAS_EXTENSION: LiteralString = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')"
_PLACED: LiteralString = "SELECT logicalrelid::text FROM pg_dist_partition"
_BYTES: LiteralString = """
    SELECT COALESCE(sum(pg_total_relation_size(relid)), pg_total_relation_size(%s::regclass))
    FROM pg_partition_tree(%s::regclass)
"""


class Step(NamedTuple):
    """A table that is not yet where it belongs, and its size."""

    table: str
    placement: Placement
    bytes: int


def has_extension() -> bool:
    """Whether the database has the extension Citus."""
    return bool(_fetch(_HAS_EXTENSION)[0][0])


def remaining_steps() -> list[Step]:
    """The tables that are not yet where they belong, in the order of their turns."""
    placed = {name for (name,) in _fetch(_PLACED)}
    return [
        Step(table, placement, int(_fetch(_BYTES, [table, table])[0][0]))
        for table, placement in TABLES.items()
        if placement.kind is not Kind.LOCAL and table not in placed
    ]


def distribute(
    steps: list[Step], before: Callable[[Step], None], after: Callable[[Step, float], None]
) -> None:
    """Place the tables one by one, each in a transaction of its own: after an interruption,
    ``remaining_steps`` has the others. Meanwhile readers that fail learn the reason."""
    _fetch("SELECT pg_advisory_lock(%s, 0)::text", [distribution.DISTRIBUTING])
    try:
        _place(steps, before, after)
    finally:
        _fetch("SELECT pg_advisory_unlock(%s, 0)", [distribution.DISTRIBUTING])
    distribution.look_again()


def _place(
    steps: list[Step], before: Callable[[Step], None], after: Callable[[Step, float], None]
) -> None:
    for step in steps:
        before(step)
        started = time.monotonic()
        with transaction.atomic(durable=True):
            _drop_foreign_keys(step.table)
            if step.placement.kind is Kind.DISTRIBUTED:
                _add_product_to_keys(step.table)
                _execute_placing("create_distributed_table", step.table)
            else:
                _execute_placing("create_reference_table", step.table)
        after(step, time.monotonic() - started)


# Statements of one product run on one node. Citus checks a foreign key only between tables that are
# placed alike, and the service deletes in the order of the references itself.
_FOREIGN_KEYS: LiteralString = """
    SELECT conname, conrelid::regclass::text FROM pg_constraint
    WHERE contype = 'f' AND conparentid = 0 AND %s::regclass IN (conrelid, confrelid)
"""


def _drop_foreign_keys(table: str) -> None:
    for constraint, owner in _fetch(_FOREIGN_KEYS, [table]):
        _execute(
            compose.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(
                compose.Identifier(owner), compose.Identifier(constraint)
            )
        )


# The keys without the product. Ids come from one sequence, so they stay unique.
_KEYS_WITHOUT_PRODUCT: LiteralString = """
    SELECT c.conname FROM pg_constraint c
    WHERE c.conrelid = %s::regclass AND c.contype = 'p' AND NOT EXISTS (
        SELECT FROM pg_attribute a
        WHERE a.attrelid = c.conrelid AND a.attname = 'product_id' AND a.attnum = ANY (c.conkey))
"""


def _add_product_to_keys(table: str) -> None:
    for (constraint,) in _fetch(_KEYS_WITHOUT_PRODUCT, [table]):
        _execute(
            compose.SQL(
                "ALTER TABLE {} DROP CONSTRAINT {}, ADD PRIMARY KEY (product_id, id)"
            ).format(compose.Identifier(table), compose.Identifier(constraint))
        )


def _execute_placing(function: LiteralString, table: str) -> None:
    if function == "create_reference_table":
        _fetch("SELECT create_reference_table(%s)", [table])
    elif table == _FIRST:
        _fetch("SELECT create_distributed_table(%s, 'product_id')", [table])
    else:
        _fetch(
            "SELECT create_distributed_table(%s, 'product_id', colocate_with => %s)",
            [table, _FIRST],
        )


def _execute(statement: compose.Composed) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def _fetch(
    statement: LiteralString, parameters: Sequence[str | int] | None = None
) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())


def describe(steps: list[Step]) -> Iterator[str]:
    """What distributing will do, a line for each table."""
    for step in steps:
        size = f"{step.bytes / 1_000_000:,.1f} MB"
        yield f"{step.table}: {step.placement.kind} ({step.placement.reason}); {size}"
