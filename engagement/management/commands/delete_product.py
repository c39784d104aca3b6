"""``python manage.py delete_product ID``: delete a product with everything that belongs to it."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from engagement.core.progress import ProgressReporter
from engagement.management.product_argument import get_product
from engagement.models import Product
from engagement.removal import deletion


class Command(BaseCommand):
    help = (
        "Delete a product: its users, accounts, events, scores, workspaces, keys, tokens and "
        "connection. This cannot be undone. It can be interrupted, and goes on where it stopped."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("product", metavar="ID", help="the product's id or name")
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def handle(self, *args: Any, product: str, yes: bool, **options: Any) -> None:
        found = get_product(product)
        if not yes:
            _ask(found)
        deletion.request_deletion(found.pk, timezone.now())
        deleted = self._delete(found)
        if Product.objects.filter(pk=found.pk).exists():
            self.stdout.write("A worker is deleting the product already; it is gone soon.")
        else:
            self.stdout.write(f"Deleted the product {found.name} with {deleted:,} rows.")

    def _delete(self, product: Product) -> int:
        progress, deleted = ProgressReporter(sys.stderr), product.deleted_rows

        def note(rows: int) -> None:
            nonlocal deleted
            deleted += rows
            progress.show(deleted, f"{deleted:,} rows deleted")

        try:
            deletion.resume_deletion(product.pk, after_piece=note)
        finally:
            progress.finish()
        return deleted


def _ask(product: Product) -> None:
    print(f"This deletes {product.name} with everything that was ever recorded for it.")
    try:
        answer = input("Type the product's name to go on: ")
    except EOFError:
        raise CommandError("nobody is there to be asked; --yes deletes without asking.") from None
    if answer.strip() != product.name.strip():
        raise CommandError("that is not its name; nothing was deleted.")
