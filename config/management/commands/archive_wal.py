"""``python manage.py archive_wal``: copies the embedded database's WAL. ``up`` runs it."""

import os
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from config.local import backups
from config.management.commands.backup import backup_folder, embedded_postgres


class Command(BaseCommand):
    help = "Copy the WAL of the embedded PostgreSQL to EDS_BACKUP_FOLDER as it is written."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        root = backup_folder(settings.BACKUP_FOLDER)
        program, *arguments = backups.archive_command(embedded_postgres(), root)
        os.execv(program, [program, *arguments])
