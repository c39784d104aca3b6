"""What `up` does with its database once the apps are loaded."""

from django.utils import timezone

from config.local import demo_connection
from config.local.supervisor import Console, Supervisor
from config.setup import preflight


def prepare_tables(console: Console) -> None:
    """Create or update the tables. Raise CommandError if the database cannot be used."""
    preflight.check_database()
    if preflight.migrate():
        console.say("The database's tables are up to date.")
    preflight.check_secrets()


def prepare_demo(supervisor: Supervisor, console: Console) -> dict[str, str]:
    """Start the simulated marketplace, create the demo's data, and return the roles' settings."""
    # Only here does the product know the harness: no other start needs it.
    from harness.demo import start

    return start.prepare_demo(supervisor, console)


def leave_demo(supervisor: Supervisor, console: Console) -> dict[str, str]:
    """Disconnect the demo's product, which the real marketplace does not know."""
    demo_connection.disconnect(timezone.now())
    return {}
