"""The demo of ``up --demo``: a product to look at, with invented data and nothing to set up.

Its licenses come from a simulated marketplace that runs beside the service. Everything here may be
done again on each start.
"""

import socket
import subprocess
import sys
import time
from datetime import datetime
from functools import partial

from django.db import transaction
from django.db.models import QuerySet

from config.failures import StartFailed
from engagement.models import Product
from marketplace import connecting
from marketplace.client import BRIEF, Client, Credentials, new_session
from marketplace.models import Connection
from marketplace.simulator.server import LOOPBACK
from marketplace.simulator.vendor import vendor

PRODUCT_NAME = "Board Lens (demo)"
LICENSES = 300
# A vendor that nobody meets who starts a simulator by hand.
SEED = 2026
VENDOR = vendor(SEED)
# Seconds that the simulated marketplace may take until it listens.
PATIENCE = 30.0


class SimulatedMarketplace:
    """Where the demo's marketplace listens, and the command that runs it."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind((LOOPBACK, 0))
            self.port: int = probe.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def command(self) -> list[str]:
        options = {"licenses": LICENSES, "seed": SEED, "port": self.port, "verbosity": 0}
        given = [f"--{name}={value}" for name, value in options.items()]
        return [sys.executable, "manage.py", "marketplace_simulator", *given]

    def wait_until_ready(self, process: "subprocess.Popen[bytes]") -> None:
        """Return once *process*, which runs the command, listens; StartFailed where it ended."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex((LOOPBACK, self.port)) == 0:
                    return
            time.sleep(0.05)
        raise StartFailed(
            "the demo's marketplace does not start; start the service without --demo."
        )


def refuse_beside_others() -> None:
    """StartFailed where a product is connected to another marketplace than the demo's.

    The demo would ask its own marketplace for that one's licenses, with that one's token.
    """
    live = Connection.objects.exclude(state=Connection.State.DISCONNECTED)
    others = live.exclude(pk__in=_ours().values("pk"))
    if others.exists():
        raise StartFailed(
            "the demo replaces the marketplace by a simulated one, and products of this service "
            "are connected to a real one; set EDS_DATA_DIR to another folder for the demo."
        )


def load(marketplace_url: str, now: datetime) -> Product:
    """Make the demo's data where there is none yet, and have its product connected."""
    connection = _ours().select_related("product").first()
    if connection is not None and connection.state == Connection.State.ACTIVE:
        return connection.product
    checked = connecting.check(_details(), partial(_client, marketplace_url))
    with transaction.atomic():
        product = connection.product if connection else Product.create_with_workspace(PRODUCT_NAME)
        connecting.save(product, checked, now)
    return product


def disconnect(now: datetime) -> None:
    """Have nothing of the demo ask the real marketplace, which knows nothing of it."""
    for connection in _ours().exclude(state=Connection.State.DISCONNECTED):
        connecting.disconnect(connection, now)


def _ours() -> QuerySet[Connection]:
    return Connection.objects.filter(user_name=VENDOR.user_name, vendor_id=VENDOR.vendor_id)


def _details() -> connecting.Details:
    app = VENDOR.app.product_id
    return connecting.Details(VENDOR.user_name, VENDOR.token, VENDOR.vendor_id, app)


def _client(url: str, credentials: Credentials) -> Client:
    return Client(new_session(), url, credentials, BRIEF)
