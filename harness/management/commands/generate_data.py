"""``python manage.py generate_data``: a product with generated users, accounts, and events."""

import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from config.setup.provisioning import create_product
from core.progress import ProgressReporter
from engagement.models import Product
from harness.demo import loading, vocabulary
from harness.demo.population import Size


def integer_between(least: int, most: int) -> Callable[[str], int]:
    """Return a parser of options that are whole numbers from *least* to *most*."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise ArgumentTypeError(f"give a whole number from {least:,} to {most:,}")
        return int(text)

    return read


class Command(BaseCommand):
    help = (
        "Create a product with generated accounts and users who behave plausibly, from a handful "
        "to millions, and score them. Prints the product's key and token at the end."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--name", default="Generated", help="the product's name")
        parser.add_argument("--accounts", type=integer_between(1, 10_000_000), default=300)
        parser.add_argument("--users", type=integer_between(0, 100_000_000), default=5000)
        parser.add_argument(
            "--days", type=integer_between(1, 400), default=90, help="days of data, up to today"
        )
        parser.add_argument(
            "--event-days",
            type=integer_between(0, 400),
            default=0,
            help="days with single events besides the daily counts",
        )
        parser.add_argument(
            "--activity",
            type=integer_between(1, 100),
            default=25,
            help="percentage of days on which an ordinary user is active",
        )
        parser.add_argument(
            "--seed", type=integer_between(0, 2**31), default=1, help="same seed, same data"
        )

        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, name: str, seed: int, json: bool, **options: Any) -> None:
        size = Size(
            options["accounts"],
            options["users"],
            options["days"],
            min(options["event_days"], options["days"]),
            options["activity"] / 100,
        )
        provisioned = create_product(name)
        try:
            _load(Product.objects.get(pk=provisioned.product_id), size, seed)
        except KeyboardInterrupt:
            raise CommandError(
                f"interrupted. `python manage.py delete_product {provisioned.product_id}` deletes "
                "what was created until then.",
                returncode=130,
            ) from None
        summary = f"{name} has {size.accounts:,} accounts and {size.users:,} users, and is scored."
        self.stdout.write(provisioned.as_json() if json else f"{summary}\n{provisioned.as_text()}")


def _load(product: Product, size: Size, seed: int) -> None:
    progress = ProgressReporter(sys.stderr, size.users)
    count = 0

    def scoring(how_far: str) -> bool:
        progress.show(count, how_far)
        return False

    try:
        for users in loading.populate(product, vocabulary.BOARDS, size, timezone.now(), seed=seed):
            count += users
            progress.show(count, f"{count:,} users")
        loading.score_products([product], timezone.now, scoring)
    finally:
        progress.finish()
