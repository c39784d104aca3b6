"""``python manage.py generate_key``: a new key for EDS_ENCRYPTION_KEYS."""

from typing import Any

from cryptography.fernet import Fernet
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Print a new key for EDS_ENCRYPTION_KEYS. Needs no settings and stores nothing."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(Fernet.generate_key().decode())
