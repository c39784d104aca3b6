"""What `up` does with its database once the apps are loaded."""

import signal
from functools import partial

from django.conf import settings
from django.utils import timezone

from config.local.supervisor import Child, Console, Supervisor, spawn
from config.setup import demo, preflight


def prepare_tables(console: Console) -> None:
    """Create or update the tables. Raise CommandError if the database cannot be used."""
    preflight.check_database()
    if preflight.migrate():
        console.say("The database's tables are up to date.")
    preflight.check_secrets()


def prepare_demo(supervisor: Supervisor, console: Console) -> dict[str, str]:
    """Start the simulated marketplace, create the demo's data, and return the roles' settings."""
    demo.require_no_real_connections()
    marketplace = demo.DemoMarketplace()
    start = partial(spawn, marketplace.command, settings.BASE_DIR)
    child = Child("market", start, signal.SIGTERM, stops_last=True)
    supervisor.start(child)
    assert child.process is not None
    marketplace.wait_until_ready(child.process)
    product = demo.connect_product(marketplace.url, timezone.now())
    console.say(f"{product} is connected to a simulated marketplace at {marketplace.url}.")
    if demo.is_empty(product):
        console.say("Generating 300 accounts, 5,000 users, and 90 days; this takes some seconds.")
        demo.generate_demo_data(
            product, timezone.now, console.output(), lambda: supervisor.stopping
        )
    demo.import_licenses(product, marketplace.url, timezone.now, lambda: supervisor.stopping)
    return {"MARKETPLACE_API_URL": marketplace.url}


def leave_demo(supervisor: Supervisor, console: Console) -> dict[str, str]:
    """Disconnect the demo's product, which the real marketplace does not know."""
    demo.disconnect(timezone.now())
    return {}
