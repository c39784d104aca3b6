"""The jobs that delete what people asked to delete, one of each kind for a product."""

from core.jobs import kinds
from engagement.models import Product
from engagement.removal import deletion, forgetting

QUEUE = "removal"

ERASE_FORGOTTEN = "erase what is forgotten"
DELETE_PRODUCT = "delete a product"


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
