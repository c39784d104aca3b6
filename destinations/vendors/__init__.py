"""CRMs: what the service asks of each, and a client for each vendor."""

from destinations.models import RecordDestination, Vendor
from destinations.vendors.base import Client, Count, Kind
from destinations.vendors.hubspot import HubSpot

_CLIENTS: dict[str, type[Client]] = {Vendor.HUBSPOT: HubSpot}


def open_client(destination: RecordDestination, count: Count) -> Client:
    """A client for the destination, which has its key loaded. It calls *count* before each
    request."""
    kind: Kind = "account" if destination.scope == "account" else "user"
    return _CLIENTS[destination.vendor](destination.key, kind, count)
