"""What the jobs have in common that move stored rows to another user or account.

Each kind has one job for each product with requests. A step processes a part of one request.
"""

from collections.abc import Callable
from datetime import datetime
from typing import LiteralString

from core.database import distribution, locks, nodes, pace, products, sql
from core.jobs.kinds import Blocked, Done, More, Outcome
from core.models import Job
from engagement.models import Product

steps = pace.Steps()


def products_with(table: LiteralString) -> list[int]:
    """The products with requests in the table, without those that are being deleted."""
    ids = products.with_rows(table)
    open_products = Product.objects.filter(pk__in=ids, deletion_requested_at=None)
    return list(open_products.order_by("pk").values_list("pk", flat=True)) if ids else []


def take_step(
    next_request: LiteralString, process: Callable[..., None], job: Job, now: datetime
) -> Outcome:
    """Call *process* with the row that *next_request* finds in the job's product, if there is one.

    One worker at a time does so, for all products: recording needs the rest of the machine.
    """
    product_id = int(job.key)
    if product_id in nodes.missing_products() or not locks.try_lock_reattribution():
        return Blocked()
    if not locks.share_lock_products([product_id]):
        return Done()
    with distribution.on_node_of(product_id), steps.timed():
        rows = sql.fetch(next_request, {"product": product_id})
        for row in rows:
            process(*row)
    return More() if rows else Done()
