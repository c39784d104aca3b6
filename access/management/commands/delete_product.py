"""``python manage.py delete_product ID``: delete a product and all its data."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from access.management.product_argument import get_product
from access.trail import entries
from core.jobs import run
from core.jobs.kinds import More
from core.progress import ProgressReporter
from engagement.models import Product
from engagement.removal import deletion
from engagement.removal.jobs import DELETE_PRODUCT


class Command(BaseCommand):
    help = (
        "Delete a product: its users, accounts, events, scores, workspaces, keys, tokens, and "
        "connection. This cannot be undone. After an interruption it resumes where it stopped."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("product", metavar="ID", help="the product's id or name")
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    def handle(self, *args: Any, product: str, yes: bool, **options: Any) -> None:
        target = get_product(product)
        if not yes:
            _confirm(target)
        if deletion.request_deletion(target.pk, timezone.now()):
            entries.record_command(entries.Action.DELETED, "product", target.pk, name=target.name)
        row_count = self._delete(target)
        if Product.objects.filter(pk=target.pk).exists():
            self.stdout.write("A worker is already deleting the product; it will be gone soon.")
        else:
            self.stdout.write(f"Deleted the product {target.name} and {row_count:,} rows.")

    def _delete(self, product: Product) -> int:
        progress, row_count = ProgressReporter(sys.stderr), product.deleted_rows

        def report(more: More) -> None:
            nonlocal row_count
            row_count = more.progress
            progress.show(row_count, f"{row_count:,} rows deleted")

        try:
            run.finish(DELETE_PRODUCT, product.pk, timezone.now, report)
        finally:
            progress.finish()
        return row_count


def _confirm(product: Product) -> None:
    print(f"This deletes {product.name} and all its data.")
    try:
        answer = input("Enter the product's name to continue: ")
    except EOFError:
        raise CommandError("no terminal to ask for confirmation; use --yes.") from None
    if answer.strip() != product.name.strip():
        raise CommandError("the name does not match; nothing was deleted.")
