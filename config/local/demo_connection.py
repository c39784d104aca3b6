"""The connection of ``up --demo`` to its simulated marketplace."""

from datetime import datetime

from django.db.models import QuerySet

from marketplace import connecting
from marketplace.models import Connection
from marketplace.user_names import mask

# The simulated vendor. Nobody else can have the address.
USER_NAME, VENDOR_ID = "reports@lumenworks.example", "1236592"


def demo_connections() -> QuerySet[Connection]:
    # Earlier releases stored the whole user name.
    return Connection.objects.filter(
        user_name__in=(mask(USER_NAME), USER_NAME), vendor_id=VENDOR_ID
    )


def disconnect(now: datetime) -> None:
    """Disconnect the demo's product, because the real marketplace does not know it."""
    for connection in demo_connections().exclude(state=Connection.State.DISCONNECTED):
        connecting.disconnect(connection, now)
