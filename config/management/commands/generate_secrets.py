"""``python manage.py generate_secrets FOLDER``: the secrets of a service in containers."""

import secrets
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet
from django.core.management.base import BaseCommand, CommandError

# The database's own container reads its password as another user. The folder is its protection.
FOR_ALL, FOR_US = 0o444, 0o400


class Command(BaseCommand):
    help = (
        "Write a database password and URL, EDS_SECRET_KEY, and EDS_ENCRYPTION_KEYS to files of a "
        "folder, for variables such as EDS_SECRET_KEY_FILE. Keeps files that exist. Needs no "
        "settings."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", metavar="FOLDER", type=Path)
        parser.add_argument(
            "--database",
            metavar="HOST/NAME",
            default="postgres/eds",
            help="the database that the URL names; its role is eds",
        )

    def handle(self, *args: Any, folder: Path, database: str, **options: Any) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            password = _keep(folder / "database_password", secrets.token_urlsafe(32), FOR_ALL)
            _keep(folder / "database_url", f"postgresql://eds:{password}@{database}", FOR_US)
            _keep(folder / "secret_key", secrets.token_urlsafe(50), FOR_US)
            _keep(folder / "encryption_keys", Fernet.generate_key().decode(), FOR_US)
        except OSError as error:
            raise CommandError(
                f"the secrets cannot be written to {folder} ({error.strerror}); name a folder that "
                "this user may write."
            ) from error


def _keep(path: Path, value: str, mode: int) -> str:
    """Return the file's text. Write *value* first if the file does not exist."""
    if not path.exists():
        new = path.with_name(f".{path.name}.new")
        new.unlink(missing_ok=True)
        new.touch(mode=0o600)
        new.write_text(value)
        new.chmod(mode)
        new.rename(path)
    return path.read_text()
