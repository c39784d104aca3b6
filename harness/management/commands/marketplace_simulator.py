"""``python manage.py marketplace_simulator``: try the connection without an account."""

from argparse import ArgumentParser
from contextlib import closing, suppress
from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from harness.demo.licenses import showcase_licenses, showcase_reports
from harness.marketplace.feed import Feed
from harness.marketplace.server import Simulator
from harness.marketplace.vendor import create_vendor

INSTRUCTIONS = """
A simulated marketplace with {licenses} licenses is running at {url}. Press Ctrl-C to stop it.
Start the service with its URL:

  MARKETPLACE_API_URL={url} python manage.py up

and connect a product in the admin, under Marketplace, with these values:

  User name   {user_name}
  API token   {token}
  Vendor ID   {vendor_id}
  Product ID  {product_id}

To let the token expire, get one with scopes, delay the reports, simulate a fault, and remove all
faults:

  curl -X POST {url}/simulator/replace-token
  curl -X POST {url}/simulator/scoped-token
  curl -X POST {url}/simulator/delay-reports
  curl {url}/simulator/misbehave -d '{{"fault": "status", "status": 503, "on": "licenses"}}'
  curl -X POST {url}/simulator/behave
"""


class Command(BaseCommand):
    help = "Run a simulated marketplace on this machine and print the values to connect to it."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--licenses", type=int, default=500, help="number of licenses")
        parser.add_argument(
            "--port", type=int, default=8010, help="port to listen on (0 for any free port)"
        )
        parser.add_argument("--seed", type=int, default=1, help="each seed gives another vendor")
        parser.add_argument(
            "--showcase",
            action="store_true",
            help="include running evaluations and a customer with a license for several sites",
        )

    def handle(
        self,
        *args: Any,
        licenses: int,
        port: int,
        seed: int,
        showcase: bool,
        verbosity: int,
        **options: Any,
    ) -> None:
        today = timezone.now().date()
        try:
            simulator = (
                _showcase(licenses, today, seed, port)
                if showcase
                else Simulator.with_licenses(licenses, today=today, seed=seed, port=port)
            )
        except (OSError, OverflowError) as error:
            raise CommandError(
                f"Cannot listen on port {port} ({error}). Choose another one with --port."
            ) from None
        with closing(simulator), suppress(KeyboardInterrupt):
            if verbosity:
                self.stdout.write(instructions(simulator))
                self.stdout.flush()
            simulator.serve_forever()


def _showcase(licenses: int, today: date, seed: int, port: int) -> Simulator:
    vendor = create_vendor(seed)
    records = showcase_licenses(vendor, seed, licenses, today)
    simulator = Simulator(Feed(records), vendor, port=port)
    simulator.other_reports.reports = showcase_reports(vendor, seed, licenses, today)
    return simulator


def instructions(simulator: Simulator) -> str:
    """The values to connect to the simulator, and commands that change it."""
    vendor = simulator.vendor
    return INSTRUCTIONS.format(
        licenses=len(simulator.feed),
        url=simulator.url,
        user_name=vendor.user_name,
        token=vendor.token,
        vendor_id=vendor.vendor_id,
        product_id=vendor.app.product_id,
    )
