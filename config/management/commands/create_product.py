"""``python manage.py create_product NAME``: another product, ready to use."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from config.setup.provisioning import create_product


class Command(BaseCommand):
    help = "Create a product with a workspace, an ingestion key, and a read token, and print them."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the product's name")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, name: str, json: bool, **options: Any) -> None:
        product = create_product(name)
        self.stdout.write(
            product.as_json() if json else f"Created the product {name}.\n{product.as_text()}"
        )
