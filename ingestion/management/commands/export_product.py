"""``python manage.py export_product ID``: write a product to a file for ``import_messages``."""

import gzip
import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from django.core.management.base import BaseCommand, CommandError

from access.management.product_argument import get_product
from access.trail import entries
from core.progress import ProgressReporter
from engagement import export
from ingestion.bulk import exporting

STANDARD_OUTPUT = "-"


class Command(BaseCommand):
    help = (
        "Write a snapshot of a product's users, accounts, memberships, events and counts to a "
        "file, one JSON object per line. import_messages restores the same state from it."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("product", metavar="ID", help="the product's id or name")
        parser.add_argument(
            "--output",
            required=True,
            metavar="FILE",
            help="the file to write, with gzip if it ends with .gz; - for stdout",
        )
        parser.add_argument("--force", action="store_true", help="replace FILE if it exists")

    def handle(self, *args: Any, product: str, output: str, force: bool, **options: Any) -> None:
        exported = get_product(product)
        note = "All events, users, and accounts of the product."
        entries.record_command(entries.Action.EXPORTED, "export", exported.pk, note=note)
        try:
            with _open(output, force) as file:
                lines = _write(exported.pk, file)
        except OSError as error:
            raise CommandError(f"{output} cannot be written ({error.strerror}).") from None
        except KeyboardInterrupt:
            raise CommandError("interrupted; nothing was kept.", returncode=130) from None
        print(f"{exported.name}: wrote {lines:,} lines to {output}.", file=sys.stderr)


def _write(product_id: int, file: BinaryIO) -> int:
    progress = ProgressReporter(sys.stderr, export.estimate_statements(product_id))
    lines = 0
    try:
        for line in exporting.export_lines(product_id):
            file.write(line)
            lines += 1
            if lines % 1000 == 0:
                progress.show(lines, f"{lines:,} lines")
    finally:
        progress.finish()
    return lines


@contextmanager
def _open(output: str, force: bool) -> Iterator[BinaryIO]:
    """Open a file that gets its name once it is complete. Only its owner may read it."""
    if output == STANDARD_OUTPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(output)
    if path.exists() and not force:
        raise CommandError(f"{output} exists. Use --force to replace it.")
    part = path.with_name(f"{path.name}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as raw:
            if path.suffix == ".gz":
                with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=5, mtime=0) as gzip_file:
                    yield cast(BinaryIO, gzip_file)
            else:
                yield raw
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
