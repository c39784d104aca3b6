"""CRMs: what the service asks of each, and a client for each vendor."""

from destinations.models import RecordDestination, Vendor
from destinations.vendors.base import Client, Count
from destinations.vendors.hubspot import HubSpot
from destinations.vendors.salesforce import Salesforce

CLIENTS: dict[str, type[Client]] = {Vendor.HUBSPOT: HubSpot, Vendor.SALESFORCE: Salesforce}


def open_client(destination: RecordDestination, count: Count) -> Client:
    """A client for the destination, which has its key loaded. It calls *count* before each
    request."""
    return CLIENTS[destination.vendor](destination, count)
