"""``python manage.py rotate_encryption_keys``: all stored secrets under the first key."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from engagement.core import encryption
from engagement.core.encryption import Rotation


class Command(BaseCommand):
    help = (
        "Encrypt all stored secrets with the first of EDS_ENCRYPTION_KEYS. Afterwards the other "
        "keys may go. May run beside the service, and again after it was interrupted."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--discard-unreadable",
            action="store_true",
            help="discard secrets whose key is lost: keys and tokens go on working but cannot be "
            "shown again, marketplace connections need their details again",
        )

    def handle(self, *args: Any, discard_unreadable: bool, **options: Any) -> None:
        def progress(rotation: Rotation) -> None:
            self.stdout.write(f"{rotation.column}: {rotation.seen:,} looked at")

        rotations = encryption.reencrypt(discard_unreadable, progress)
        for one in rotations:
            self.stdout.write(_result(one))
        if lost := sum(one.unreadable for one in rotations):
            raise CommandError(
                f"{lost:,} secrets cannot be decrypted with any key in EDS_ENCRYPTION_KEYS. Add "
                "the key that encrypted them, or discard them with --discard-unreadable."
            )
        self.stdout.write("All secrets have the first key; the other keys may go.")


def _result(rotation: Rotation) -> str:
    said = f"{rotation.reencrypted:,} encrypted anew, {rotation.up_to_date:,} up to date"
    if rotation.unreadable:
        said += f", {rotation.unreadable:,} unreadable"
    if rotation.discarded:
        said += f", {rotation.discarded:,} discarded"
    return f"{rotation.column}: {said}."
