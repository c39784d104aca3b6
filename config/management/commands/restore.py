"""``python manage.py restore``: the embedded database as it was at a moment."""

import shutil
import tempfile
from argparse import ArgumentParser, ArgumentTypeError
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from config.local import backups, data_folder
from config.local.bucket import SCHEME, Bucket
from config.management.commands.backup import add_folder, backup_folder, embedded_postgres
from core import durable_files


class Command(BaseCommand):
    help = (
        "Restore the embedded PostgreSQL from a base backup and the WAL after it. The service must "
        "be stopped. The present database is kept beside the restored one."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help="the base backup; by default the last one")
        add_folder(parser, "--from")
        parser.add_argument(
            "--at", type=_moment, metavar="TIME", help="such as 2026-11-22T17:05:00Z"
        )

    def handle(
        self, *args: Any, name: str | None, folder: str, at: datetime | None, **options: Any
    ) -> None:
        if not folder.startswith(SCHEME):
            self._restore(backup_folder(folder), name, at)
            return
        settings.DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="restore-", dir=settings.DATA_DIR) as copies:
            root, bucket = Path(copies), Bucket(folder)
            bucket.download_summaries(root)
            bucket.download(root, backups.choose(root, name, at))
            self._restore(root, name, at)

    def _restore(self, root: Path, name: str | None, at: datetime | None) -> None:
        postgres, backup = embedded_postgres(), backups.choose(root, name, at)
        with data_folder.lock_data_dir(settings.DATA_DIR):
            postgres.wait_until_free()
            new = postgres.beside("restored")
            shutil.rmtree(new.folder, ignore_errors=True)
            try:
                recovered = backups.restore(new, root, backup, at)
            except CommandError:
                shutil.rmtree(new.folder, ignore_errors=True)
                raise
            now = timezone.now().strftime(backups.NAME_FORMAT)
            with postgres.being_replaced():
                old_folder = _move_aside(postgres.folder, now)
                new.folder.rename(postgres.folder)
                if backup.has_secrets:
                    _restore_secrets(backup.folder(root) / backups.SECRETS, settings.DATA_DIR, now)
                durable_files.sync_folder(settings.DATA_DIR)
        last = f" and its last change of {recovered.isoformat()}" if recovered else ""
        self.stdout.write(f"Restored {backup.name}{last}.")
        if old_folder:
            self.stdout.write(
                f"The database from before is in {old_folder}. Delete it when you wish."
            )
        if not backup.has_secrets:
            self.stdout.write(
                "The backup has no secrets: the service needs the encryption key with which it was "
                f"made, in {settings.DATA_DIR / backups.SECRETS} or EDS_ENCRYPTION_KEYS."
            )
        self.stdout.write("Start the service, and then back it up once.")


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ArgumentTypeError(
            "it must be a date and a time with a zone, such as 2026-11-22T17:05:00Z"
        )
    return moment


def _move_aside(folder: Path, now: str) -> Path | None:
    if not folder.exists():
        return None
    old_folder = folder.with_name(f"{folder.name}.before-{now}")
    folder.rename(old_folder)
    return old_folder


def _restore_secrets(source: Path, data_dir: Path, now: str) -> None:
    """Replace the secrets, unless they are the same. Keep those from before."""
    target = data_dir / backups.SECRETS
    if target.exists() and target.read_bytes() != source.read_bytes():
        target.rename(target.with_name(f"{backups.SECRETS}.before-{now}"))
    durable_files.replace(target, source.read_text())
