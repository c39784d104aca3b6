"""``python manage.py version``: which release this is."""

from typing import Any

from django.core.management.base import BaseCommand

from core.version import VERSION


class Command(BaseCommand):
    help = "Print the service's release number. Needs no settings."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"Engagement Data Service {VERSION}")
