"""``python manage.py install``: prepares the database for the roles, also on a first start."""

import time
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import OperationalError, connection

from config.local import first_start
from config.setup import preflight

RETRY_DELAY = 0.5


class Command(BaseCommand):
    help = (
        "Create or update the tables, and on a first start an admin login and a product. Waits for "
        "the database. Can be repeated."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--wait", type=float, default=60.0, metavar="SECONDS", help="for the database"
        )
        parser.add_argument(
            "--address", default="http://127.0.0.1:8000", help="where people will find the service"
        )
        parser.add_argument(
            "--show-credentials",
            action="store_true",
            help="print the new password, key, and token, also where they may be kept in a log",
        )

    def handle(
        self,
        *args: Any,
        wait: float,
        address: str,
        show_credentials: bool,
        **options: Any,
    ) -> None:
        _wait_for_database(wait)
        preflight.check_database()
        is_new = preflight.migrate()
        self.stdout.write(f"The database's tables {'are now' if is_new else 'were'} up to date.")
        preflight.check_secrets()
        if created := first_start.create_first_start(settings.DATA_DIR):
            show = show_credentials or self.stdout.isatty()
            lines = created.announcement(settings.DATA_DIR, address, with_secrets=show)
            self.stdout.write("\n".join(lines))


def _wait_for_database(seconds: float) -> None:
    """Return when the database can be reached, or after that time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            connection.ensure_connection()
        except OperationalError:
            time.sleep(RETRY_DELAY)
        else:
            return
