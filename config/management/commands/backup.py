"""``python manage.py backup``: a base backup of the embedded database, beside the service."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from config.local import backups
from config.local.bucket import Bucket
from config.local.postgres import EmbeddedPostgres

MEBIBYTE = 1024**2


class Command(BaseCommand):
    help = (
        "Write and verify a base backup of the embedded PostgreSQL, while the service runs, and "
        "delete old ones."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_folder(parser, "--to")
        parser.add_argument(
            "--keep",
            type=int,
            default=settings.BACKUP_KEEP,
            help="how many base backups to keep (EDS_BACKUP_KEEP)",
        )
        parser.add_argument(
            "--with-secrets",
            action="store_true",
            help="include secrets.json, which decrypts stored keys and tokens",
        )
        parser.add_argument(
            "--copy-to",
            metavar="S3://BUCKET/PREFIX",
            help="then copy what the folder has to a store; boto3 reads AWS_ENDPOINT_URL and so on",
        )
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--list", action="store_true", help="list the base backups and end")
        what.add_argument(
            "--copy-only", action="store_true", help="take no base backup, and copy the WAL since"
        )
        what.add_argument("--verify", action="store_true", help="verify them all and end")

    def handle(
        self,
        *args: Any,
        folder: str,
        keep: int,
        with_secrets: bool,
        copy_to: str | None,
        copy_only: bool,
        list: bool,
        verify: bool,
        **options: Any,
    ) -> None:
        postgres, root = embedded_postgres(), backup_folder(folder)
        bucket = Bucket(copy_to) if copy_to else None
        if keep < 1:
            raise CommandError("--keep must be at least 1.")
        if list or verify:
            for backup in backups.list_backups(root):
                if verify:
                    backups.verify(backup.folder(root))
                self.stdout.write(_line(backup) + (" verified" if verify else ""))
            return
        if not copy_only:
            self._take(postgres, root, keep, with_secrets=with_secrets)
        if bucket:
            self.stdout.write(f"Copied {bucket.upload(root):,} files to {copy_to}.")

    def _take(
        self, postgres: EmbeddedPostgres, root: Path, keep: int, *, with_secrets: bool
    ) -> None:
        secrets = settings.DATA_DIR / backups.SECRETS
        backup = backups.take(postgres, root, timezone.now(), secrets if with_secrets else None)
        self.stdout.write(f"{_line(backup)} verified")
        for old in backups.prune(root, keep, timezone.now()):
            self.stdout.write(f"Deleted {old.name}.")
        if not with_secrets:
            self.stdout.write(
                f"A restore also needs {secrets} (or EDS_ENCRYPTION_KEYS, where it is set). Keep a "
                "copy of it elsewhere."
            )


def add_folder(parser: ArgumentParser, name: str) -> None:
    parser.add_argument(
        name,
        dest="folder",
        metavar="FOLDER",
        default=settings.BACKUP_FOLDER,
        help="the folder of the backups (EDS_BACKUP_FOLDER)",
    )


def embedded_postgres() -> EmbeddedPostgres:
    if settings.EMBEDDED_POSTGRES is None:
        raise CommandError(
            "this service has a database of its own (DATABASE_URL), and only the embedded "
            "PostgreSQL is backed up here; docs/operating.md names the tools for others."
        )
    return settings.EMBEDDED_POSTGRES


def backup_folder(name: str) -> Path:
    if not name:
        raise CommandError("there is no folder for backups; set EDS_BACKUP_FOLDER.")
    return Path(name).expanduser().resolve()


def _line(backup: backups.BaseBackup) -> str:
    size = backup.bytes / MEBIBYTE
    secrets = "with secrets" if backup.has_secrets else "without secrets"
    return f"{backup.name}  {size:,.1f} MiB  release {backup.release}  {secrets}"
