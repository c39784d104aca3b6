"""The jobs that delete: what people asked to delete, a job for a product, and what says nothing."""

from datetime import timedelta

from core.jobs import kinds
from engagement.models import Product
from engagement.removal import deletion, forgetting, maintenance

QUEUE = "removal"

ERASE_FORGOTTEN = "erase what is forgotten"
DELETE_PRODUCT = "delete a product"
THIN_MEMBERSHIPS = "thin memberships"


def register() -> None:
    """Register the kinds of jobs."""
    kinds.register(
        ERASE_FORGOTTEN,
        "Deletes what is left of forgotten users and accounts.",
        queue=QUEUE,
        step=forgetting.erase_some,
        keys=forgetting.products_to_erase,
        title=Product.name_of,
    )
    kinds.register(
        DELETE_PRODUCT,
        "Deletes all rows of a deleted product, and counts them.",
        queue=QUEUE,
        step=deletion.delete_some,
        keys=deletion.products_to_delete,
        title=Product.name_of,
    )
    kinds.register(
        THIN_MEMBERSHIPS,
        "Deletes old memberships of users that repeat the one before.",
        queue=QUEUE,
        step=maintenance.thin_memberships,
        every=timedelta(days=1),
    )
    kinds.register(
        maintenance.PACK_EVENTS,
        "Packs the events of weeks that are over, so that they take less room.",
        queue=QUEUE,
        step=maintenance.pack_events,
        every=timedelta(hours=1),
        pause_share=1.0,
    )
