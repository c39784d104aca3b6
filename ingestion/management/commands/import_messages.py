"""``python manage.py import_messages FILE…``: record files of messages, years of them."""

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

from engagement.core import credentials
from engagement.core.progress import ProgressReporter
from engagement.management.product_argument import get_product
from engagement.models import Product
from ingestion.bulk import files, importing
from ingestion.bulk.files import LineReader, UnreadableFile
from ingestion.models import ImportedFile, IngestionKey

STANDARD_INPUT = "-"
SCORES_FOLLOW_NOTE = (
    "Scores follow in the background while a worker runs; the Workspaces page of the admin says "
    "how far they are."
)


class Command(BaseCommand):
    help = (
        "Record messages from files, one JSON object a line: the fields of version 2 and a type, "
        "which is identify, group or track; also what export_product wrote. An interrupted import "
        "goes on where it stopped when the same command is run again."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="FILE", help="plain or gzip; - for stdin")
        whose = parser.add_mutually_exclusive_group(required=True)
        whose.add_argument("--product", help="the product's id or name")
        whose.add_argument("--key", help="one of the product's ingestion keys")
        parser.add_argument(
            "--problems",
            type=Path,
            metavar="FILE",
            help="where lines that cannot be used are listed with their numbers and the reason; "
            "without it NAME.problems.txt in the current folder for each file",
        )
        parser.add_argument(
            "--again",
            action="store_true",
            help="import from the first line on, also what was imported before: it counts again",
        )

    def handle(
        self,
        *args: Any,
        files: list[str],
        product: str | None,
        key: str | None,
        problems: Path | None,
        again: bool,
        **options: Any,
    ) -> None:
        found = get_product(product) if product is not None else _product_of(key or "")
        imported = [self._import(name, found, problems, again) for name in files]
        if any(imported):
            self.stdout.write(SCORES_FOLLOW_NOTE)

    def _import(self, name: str, product: Product, given: Path | None, again: bool) -> bool:
        """Import the file; whether there was anything to do."""
        imported = _begin(name, product, again)
        problems = given or Path(f"{imported.name}.problems.txt")
        if imported.finished_at is not None:
            self.stdout.write(
                f"{name} was imported on {imported.finished_at:%Y-%m-%d %H:%M} UTC already; "
                "nothing to do. --again imports it once more, and everything in it counts again."
            )
            return False
        if imported.position:
            self.stdout.write(f"{name}: going on after line {imported.lines:,}.")
        elif given is None:
            problems.unlink(missing_ok=True)
        try:
            self._run(name, imported, problems)
        except KeyboardInterrupt:
            raise _stopped(name, imported, "The import was interrupted", returncode=130) from None
        except (UnreadableFile, importing.ImportStopped) as error:
            raise _stopped(name, imported, str(error)) from None
        self.stdout.write(_summary(name, imported, problems))
        return True

    def _run(self, name: str, imported: ImportedFile, problems: Path) -> None:
        with ExitStack() as stack:
            raw = _open(name, stack)
            size = None if name == STANDARD_INPUT else Path(name).stat().st_size
            progress = ProgressReporter(sys.stderr, size)
            stack.callback(progress.finish)
            source = LineReader(raw, imported.position, imported.lines)
            started, begun_with = time.monotonic(), imported.lines

            def note() -> None:
                rate = (imported.lines - begun_with) / (time.monotonic() - started)
                done = source.bytes_read if size is not None else 0
                progress.show(done, f"{imported.lines:,} lines, {rate:,.0f} a second")

            importing.run_import(imported, source, _listing(name, problems), timezone.now, note)


def _listing(name: str, path: Path) -> importing.ProblemReporter:
    """Writes problems to the end of the file, which is there only if there are any."""

    def write(problems: Sequence[importing.Problem]) -> None:
        if problems:
            with path.open("a", encoding="utf-8", errors="replace") as file:
                file.writelines(f"{name}:{number}: {reason}\n" for number, reason in problems)

    return write


def _product_of(key: str) -> Product:
    live = IngestionKey.objects.filter(digest=credentials.digest(key), revoked_at=None)
    found = live.select_related("product").defer("secret").first()
    if found is None:
        raise CommandError("no product has this ingestion key, or it is revoked.")
    return found.product


def _begin(name: str, product: Product, again: bool) -> ImportedFile:
    now = timezone.now()
    if name == STANDARD_INPUT:
        # What comes by standard input has no identity; message ids tell repeats apart.
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


def _stopped(name: str, imported: ImportedFile, why: str, returncode: int = 1) -> CommandError:
    where = f"{imported.lines:,} lines of {name} are settled"
    how = "run the same command again to go on after them"
    if name == STANDARD_INPUT:
        how = "standard input cannot be gone on with, so send the rest only"
    return CommandError(f"{name}: {why.rstrip('.')}. {where}; {how}.", returncode=returncode)


def _summary(name: str, imported: ImportedFile, problems: Path) -> str:
    parts = [f"{imported.recorded:,} recorded"]
    if imported.repeated:
        parts.append(f"{imported.repeated:,} repeated a message id and took no effect")
    if imported.forgotten:
        parts.append(f"{imported.forgotten:,} name somebody who was forgotten on request")
    if imported.bad:
        parts.append(f"{imported.bad:,} could not be used and are listed in {problems}")
    elif problems.exists():
        parts.append(f"traits that found no room are listed in {problems}")
    return f"{name}: {imported.lines:,} lines: {'; '.join(parts)}."
