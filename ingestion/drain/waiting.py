"""The keys whose messages wait in the inbox, because the node of their product is missing."""

from core.database import nodes
from ingestion.models import IngestionKey


def waiting_keys() -> list[bytes]:
    """The digests of the keys. Empty, and asks nothing, unless a node is missing."""
    products = nodes.missing_products()
    if not products:
        return []
    keys = IngestionKey.objects.filter(product_id__in=products).order_by("pk")
    return [bytes(digest) for digest in keys.values_list("digest", flat=True)]
