"""``python manage.py rotate_encryption_keys``: encrypts all stored secrets with the first key."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from core import encryption
from core.encryption import Rotation


class Command(BaseCommand):
    help = (
        "Encrypt all stored secrets with the first of EDS_ENCRYPTION_KEYS. Afterwards you can "
        "remove the other keys. It may run beside the service, and again after an interruption."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--discard-unreadable",
            action="store_true",
            help="discard secrets whose key is lost: keys and tokens still work but cannot be "
            "shown again, and marketplace connections need their details again",
        )

    def handle(self, *args: Any, discard_unreadable: bool, **options: Any) -> None:
        def progress(rotation: Rotation) -> None:
            self.stdout.write(f"{rotation.column}: {rotation.total:,} checked")

        rotations = encryption.reencrypt(discard_unreadable, progress)
        for rotation in rotations:
            self.stdout.write(_result(rotation))
        if unreadable := sum(rotation.unreadable for rotation in rotations):
            raise CommandError(
                f"{unreadable:,} secrets cannot be decrypted with any key in EDS_ENCRYPTION_KEYS. "
                "Add the key that encrypted them, or discard them with --discard-unreadable."
            )
        self.stdout.write("All secrets have the first key. You can remove the other keys.")


def _result(rotation: Rotation) -> str:
    counts = f"{rotation.reencrypted:,} encrypted again, {rotation.up_to_date:,} up to date"
    if rotation.unreadable:
        counts += f", {rotation.unreadable:,} unreadable"
    if rotation.discarded:
        counts += f", {rotation.discarded:,} discarded"
    return f"{rotation.column}: {counts}."
