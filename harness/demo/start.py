"""What ``up --demo`` does before the service starts."""

import signal
from functools import partial

from django.conf import settings
from django.utils import timezone

from config.local.supervisor import Child, Console, Supervisor, spawn
from harness.demo import products


def prepare_demo(supervisor: Supervisor, console: Console) -> dict[str, str]:
    """Start the simulated marketplace, create the demo's data, and return the roles' settings."""
    products.require_no_real_connections()
    marketplace = products.DemoMarketplace()
    start = partial(spawn, marketplace.command, settings.BASE_DIR)
    child = Child("market", start, signal.SIGTERM, stops_last=True)
    supervisor.start(child)
    assert child.process is not None
    marketplace.wait_until_ready(child.process)
    product = products.connect_product(marketplace.url, timezone.now())
    console.say(f"{product} is connected to a simulated marketplace at {marketplace.url}.")
    if products.is_empty(product):
        console.say("Generating 300 accounts, 2,000 users, and 51 weeks; this takes some seconds.")
        products.generate_demo_data(
            product, timezone.now, console.output(), lambda: supervisor.stopping
        )
    # This process reads reports as workers do.
    settings.MARKETPLACE_API_URL = marketplace.url
    products.import_licenses(product, marketplace.url, timezone.now, lambda: supervisor.stopping)
    products.look_back(product, timezone.now, lambda: supervisor.stopping)
    return {"MARKETPLACE_API_URL": marketplace.url}
