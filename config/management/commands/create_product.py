"""``python manage.py create_product NAME``: another product, ready to use."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from config.provisioning import create_product


class Command(BaseCommand):
    help = "Create a product with a workspace, an ingestion key and a read token; print them."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the product's name")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, name: str, json: bool, **options: Any) -> None:
        made = create_product(name).as_dict()
        self.stdout.write(_as_json(made) if json else _as_text(name, made))


def _as_json(made: dict[str, int | str]) -> str:
    return json.dumps(made)


def _as_text(name: str, made: dict[str, int | str]) -> str:
    labels = {
        "product_id": "product id",
        "workspace_id": "workspace id",
        "ingestion_key": "ingestion key",
        "api_token": "read token",
    }
    lines = [f"  {labels[key] + ':':<15}{value}" for key, value in made.items()]
    return "\n".join([f"Created the product {name}.", *lines])
