"""``python manage.py import_messages FILE…``: record messages from files of any size."""

import secrets
import sys
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from access.management.product_argument import get_product
from core import credentials
from core.progress import ProgressReporter
from engagement.models import Product
from ingestion.bulk import files, formats, importing
from ingestion.bulk.files import LineReader, UnreadableFile
from ingestion.models import ImportedFile, IngestionKey

STANDARD_INPUT = "-"
SCORES_FOLLOW_NOTE = (
    "A worker updates the scores in the background. The admin's Workspaces page shows the progress."
)


class Command(BaseCommand):
    help = (
        "Record messages from files, one JSON object per line: the fields of version 2 and a type "
        "(identify, group or track). Also reads files of export_product, and what Segment and "
        "PostHog export. Run the same command again to resume an interrupted import."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="FILE", help="plain or gzip; - for stdin")
        product = parser.add_mutually_exclusive_group(required=True)
        product.add_argument("--product", help="the product's id or name")
        product.add_argument("--key", help="one of the product's ingestion keys")
        parser.add_argument(
            "--format",
            choices=formats.FORMATS,
            default=formats.OWN,
            help="who wrote the files: this service (own), Segment, or PostHog",
        )
        parser.add_argument(
            "--group-type",
            metavar="TYPE",
            help="which of PostHog's groups are accounts, for example company",
        )
        parser.add_argument(
            "--problems",
            type=Path,
            metavar="FILE",
            help="a file for the numbers and problems of invalid lines; by default "
            "NAME.problems.txt beside each file, or in the current folder for -",
        )
        parser.add_argument(
            "--again",
            action="store_true",
            help="import from the first line, and count again what was imported before",
        )

    def handle(
        self,
        *args: Any,
        files: list[str],
        product: str | None,
        key: str | None,
        problems: Path | None,
        again: bool,
        format: str,
        group_type: str | None,
        **options: Any,
    ) -> None:
        self.parse = formats.parser(format, group_type)
        target = get_product(product) if product is not None else _product_of(key or "")
        has_imported = [self._import(name, target, problems, again) for name in files]
        if any(has_imported):
            self.stdout.write(SCORES_FOLLOW_NOTE)

    def _import(self, name: str, product: Product, problems_path: Path | None, again: bool) -> bool:
        """Import the file. Returns whether there was anything to do."""
        imported = _start_or_resume(name, product, again)
        problems = problems_path or Path(name).with_name(f"{imported.name}.problems.txt")
        if imported.finished_at is not None:
            self.stdout.write(
                f"{name} was already imported on {imported.finished_at:%Y-%m-%d %H:%M} UTC. "
                "Use --again to import it once more; everything in it then counts again."
            )
            return False
        if imported.position:
            self.stdout.write(f"{name}: resuming after line {imported.lines:,}.")
        elif problems_path is None:
            problems.unlink(missing_ok=True)
        try:
            self._run(name, imported, problems)
        except KeyboardInterrupt:
            raise _stop_error(name, imported, "The import was interrupted", 130) from None
        except (UnreadableFile, importing.ImportStopped) as error:
            raise _stop_error(name, imported, str(error)) from None
        self.stdout.write(_summary(name, imported, problems))
        return True

    def _run(self, name: str, imported: ImportedFile, problems: Path) -> None:
        with ExitStack() as stack:
            raw = _open(name, stack)
            size = None if name == STANDARD_INPUT else Path(name).stat().st_size
            progress = ProgressReporter(sys.stderr, size)
            stack.callback(progress.finish)
            source = LineReader(raw, imported.position, imported.lines)
            started, lines_before = time.monotonic(), imported.lines

            def show_progress() -> None:
                rate = (imported.lines - lines_before) / (time.monotonic() - started)
                bytes_read = source.bytes_read if size is not None else 0
                progress.show(bytes_read, f"{imported.lines:,} lines, {rate:,.0f} a second")

            report = _problem_writer(name, problems)
            importing.run_import(imported, source, report, timezone.now, show_progress, self.parse)


def _problem_writer(name: str, path: Path) -> importing.ProblemReporter:
    """A function that appends problems to the file. It creates no file without problems."""

    def write(problems: Sequence[importing.Problem]) -> None:
        if not problems:
            return
        lines = (f"{name}:{number}: {reason}\n" for number, reason in problems)
        try:
            with path.open("a", encoding="utf-8", errors="replace") as file:
                file.writelines(lines)
        except OSError as error:
            message = (
                f"{path} cannot be written: {error.strerror}. Name another file by --problems."
            )
            raise importing.ImportStopped(message) from None

    return write


def _product_of(key: str) -> Product:
    live = IngestionKey.live(timezone.now())
    keys = IngestionKey.objects.filter(live, digest=credentials.digest(key))
    ingestion_key = keys.select_related("product").defer("secret").first()
    if ingestion_key is None:
        raise CommandError("no product has this ingestion key, or it is revoked or has expired.")
    return ingestion_key.product


def _start_or_resume(name: str, product: Product, again: bool) -> ImportedFile:
    now = timezone.now()
    if name == STANDARD_INPUT:
        # Standard input has no identity. Message ids detect duplicates.
        return importing.start_or_resume(
            product.pk, secrets.token_bytes(32), "stdin", now, again=False
        )
    try:
        digest = files.file_digest(Path(name))
    except OSError as error:
        raise CommandError(f"{name} cannot be read ({error.strerror}).") from None
    return importing.start_or_resume(product.pk, digest, Path(name).name, now, again=again)


def _open(name: str, stack: ExitStack) -> BinaryIO:
    if name == STANDARD_INPUT:
        return sys.stdin.buffer
    return stack.enter_context(Path(name).open("rb"))


def _stop_error(
    name: str, imported: ImportedFile, reason: str, returncode: int = 1
) -> CommandError:
    advice = "Run the same command again to resume after them."
    if name == STANDARD_INPUT:
        advice = "An import from standard input cannot resume, so send only the rest."
    return CommandError(
        f"{name}: {reason.rstrip('.')}. {imported.lines:,} lines are done. {advice}",
        returncode=returncode,
    )


def _summary(name: str, imported: ImportedFile, problems: Path) -> str:
    parts = [f"{imported.recorded:,} recorded"]
    if imported.duplicates:
        parts.append(f"{imported.duplicates:,} duplicate message ids without effect")
    if imported.forgotten:
        parts.append(f"{imported.forgotten:,} about users or accounts deleted on request")
    if imported.left_out:
        parts.append(f"{imported.left_out:,} left out, which are no user's")
    if imported.invalid:
        parts.append(f"{imported.invalid:,} invalid, listed in {problems}")
    elif problems.exists():
        parts.append(f"some traits did not fit, listed in {problems}")
    return f"{name}: {imported.lines:,} lines: {'; '.join(parts)}."
