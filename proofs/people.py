"""What people do while clients send: they have an export written and licenses synced, again and
again. It runs beside the service, in a process of its own, with the service's settings:
``python -m proofs.people begin``, ``ask`` until it is killed, and ``check``.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

# The apps must be loaded first.
from django.conf import settings  # noqa: E402
from django.db import connection as database  # noqa: E402
from django.utils import timezone  # noqa: E402

from engagement.models import Product, Workspace  # noqa: E402
from exports import manifest, runs  # noqa: E402
from exports.models import ExportRun, ScheduledExport, Table  # noqa: E402
from harness.marketplace.vendor import create_vendor  # noqa: E402
from harness.processes import until  # noqa: E402
from ingestion.models import ForgetKey  # noqa: E402
from marketplace import connecting  # noqa: E402
from marketplace.models import Connection, SyncRun  # noqa: E402
from marketplace.runs import scheduling  # noqa: E402
from marketplace.source import client  # noqa: E402
from proofs.simulated.licenses import LISTED, TRAITS, rows_of  # noqa: E402

# Seconds within which an export or a sync must end, and between two of these.
PATIENCE, PAUSE = 120.0, 0.2
FOLDER = "everything"
# No product has it.
NOBODY = 0


def begin() -> dict[str, Any]:
    """Create an export and a key that forgets, and connect the product."""
    product = Product.objects.get()
    ScheduledExport.objects.create(
        product=product,
        workspace=Workspace.objects.get(product=product),
        name="Everything",
        tables=[Table.ACCOUNTS, Table.USERS],
        schedule=ScheduledExport.Schedule.MANUAL,
        store_kind=ScheduledExport.StoreKind.FOLDER,
        folder=FOLDER,
        verified_at=timezone.now(),
    )
    connect(product)
    return {"forget key": ForgetKey.create(product, "Leavers").secret}


def connect(product: Product) -> Connection:
    vendor = create_vendor(1)
    details = connecting.ConnectionDetails(
        vendor.user_name, vendor.token, vendor.vendor_id, vendor.app.product_id
    )
    verified = connecting.verify_details(details, client.create_client)
    return connecting.save_connection(product, verified, timezone.now())


def ask() -> dict[str, Any]:
    while True:
        request(ScheduledExport.objects.get(), Connection.objects.get())
        time.sleep(PAUSE)


def request(export: ScheduledExport, connection: Connection) -> None:
    """Have both done, and wait for them."""
    now = timezone.now()
    runs.request_run(export, now)
    scheduling.request_sync(connection, SyncRun.Kind.FULL, now)
    until(lambda: not is_busy(), "an export and a sync to end", PATIENCE)


def is_busy() -> bool:
    return any(
        run.objects.filter(state__in=run.UNFINISHED).exists() for run in (ExportRun, SyncRun)
    )


def check() -> dict[str, int]:
    """How many of what has been exported and synced there are, and how many are not right."""
    export, connection = ScheduledExport.objects.get(), Connection.objects.get()
    until(lambda: not is_busy(), "exports and syncs to end", PATIENCE)
    request(export, connection)
    calm = Product.create_with_workspace("Calm")
    connect(calm)
    until(lambda: not is_busy(), "the calm sync to end", PATIENCE)
    complete = ExportRun.objects.filter(export=export, state=ExportRun.State.DONE)
    return {
        "exports written": complete.count(),
        "exports that are damaged": sum(is_damaged(run) for run in complete),
        "syncs that succeeded": SyncRun.objects.filter(
            connection=connection, state=SyncRun.State.SUCCEEDED
        ).count(),
        "licenses": len(differing(LISTED, calm.pk, NOBODY)),
        "licenses that differ": len(differing(LISTED, connection.product_id, calm.pk)),
        "traits of licenses that differ": len(differing(TRAITS, connection.product_id, calm.pk)),
    }


def is_damaged(run: ExportRun) -> bool:
    """Whether a file of the run, which says that it is done, is not as it was written."""
    folder = Path(settings.EXPORT_FOLDER, f"product-{run.product_id}", FOLDER, run.folder)
    try:
        json.loads((folder / manifest.NAME).read_text())
        return any(
            hashlib.sha256((folder / file.name).read_bytes()).hexdigest() != file.sha256
            for file in run.files.all()
        )
    except (OSError, ValueError):
        return True


def differing(statement: Any, first: int, second: int) -> set[tuple[Any, ...]]:
    """The rows that only one of two products has."""
    database.ensure_connection()
    rows, others = (rows_of(database.connection, statement, id) for id in (first, second))
    return rows ^ others


if __name__ == "__main__":
    steps: dict[str, Callable[[], dict[str, Any]]] = {"begin": begin, "ask": ask, "check": check}
    print(json.dumps(steps[sys.argv[1]]()))
