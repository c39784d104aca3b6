"""``python manage.py up``: the whole service on one machine."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from config.local.service import run


class Command(BaseCommand):
    help = "Run everything: PostgreSQL (without DATABASE_URL), web, workers, beat. Ctrl-C stops it."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
        parser.add_argument("--port", type=int, default=8000, help="port to listen on")
        parser.add_argument(
            "--demo", action="store_true", help="with generated data and a simulated marketplace"
        )

    def handle(self, *args: Any, host: str, port: int, demo: bool, **options: Any) -> None:
        run(host, port, sys.stdout, with_demo=demo)
