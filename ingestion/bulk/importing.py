"""Records files of messages, straight through the write path and not through the inbox.

One batch of lines is one transaction, in which the file's position moves. An interrupted import
goes on from there: nothing is lost and nothing counts twice.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple, TypeAlias

from django.db import transaction
from django.db.models import F

from engagement.database import locks, retries
from engagement.database.arrivals import take_arrivals
from engagement.messages import ReceivedMessage
from engagement.recording.record import record
from ingestion.bulk.files import MAX_LINE_BYTES, LineReader
from ingestion.doors import lines
from ingestion.doors.lines import ParsedLine
from ingestion.drain import message_ids
from ingestion.drain.batches import pause_gc, process_or_split
from ingestion.errors import IngestionError
from ingestion.log import texts
from ingestion.models import DropReason, ImportedFile

# The number of a line, and why it cannot be used.
Problem: TypeAlias = tuple[int, str]
ProblemReporter: TypeAlias = Callable[[Sequence[Problem]], None]


class ImportStopped(Exception):
    """The import cannot go on; the message is a sentence that says why and what to do."""


class LineOutcomes:
    """What became of the lines of a batch."""

    def __init__(self) -> None:
        self.recorded = self.repeated = self.forgotten = 0
        self.problems: list[Problem] = []
        # Of lines that were recorded, but for some of their traits.
        self.notes: list[Problem] = []


class NumberedMessage(NamedTuple):
    """A line that says something, with its number in the file."""

    number: int
    received: ReceivedMessage


def start_or_resume(
    product_id: int, digest: bytes, name: str, now: datetime, *, again: bool
) -> ImportedFile:
    """The file's import, begun now or gone on with; with *again* from its first line on."""
    imported, _ = ImportedFile.objects.get_or_create(
        product_id=product_id,
        digest=digest,
        defaults={"name": name[-255:], "started_at": now},
    )
    if again:
        imported.delete()
        return start_or_resume(product_id, digest, name, now, again=False)
    return imported


def run_import(
    imported: ImportedFile,
    source: LineReader,
    report: ProblemReporter,
    clock: Callable[[], datetime],
    after_batch: Callable[[], None] = lambda: None,
) -> None:
    """Record the lines from where *source* stands to its end; *imported* keeps the figures.

    Lines that cannot be used, or not with all of their traits, are handed to *report*, with their
    numbers and the reason.
    Raises Unreadable and Stopped, and what the database raises where that is no line's fault;
    what was recorded until then stays recorded.
    """
    while batch := source.batch():
        first = source.number - len(batch) + 1
        with pause_gc():
            settle = partial(_record_lines, imported, batch, first, source.position, clock())
            retries.retry_on_conflict(partial(settle, report))
        imported.refresh_from_db()
        after_batch()
    ImportedFile.objects.filter(pk=imported.pk).update(finished_at=clock())
    imported.refresh_from_db()


def _record_lines(
    imported: ImportedFile,
    batch: Sequence[bytes | None],
    first: int,
    position: int,
    now: datetime,
    report: ProblemReporter,
) -> None:
    tally = LineOutcomes()
    said = [(number, _read(line, now, number, tally)) for number, line in enumerate(batch, first)]
    with transaction.atomic(durable=True):
        if not locks.share_lock_products([imported.product_id]):
            raise ImportStopped("The product was deleted, so nothing more is recorded.")
        if usable := _received(imported.product_id, said, now):
            process_or_split(
                usable,
                lambda some: _settle(some, tally),
                lambda one, error: tally.problems.append((one.number, _reason(error))),
            )
        _move_on(imported, len(batch), position, tally)
        # Before the commit: after a crash in between a problem is listed twice, but never not.
        report(sorted([*tally.problems, *tally.notes]))


def _read(line: bytes | None, now: datetime, number: int, tally: LineOutcomes) -> ParsedLine | None:
    """What the line says; None for an empty line, and for a bad one, which the tally notes."""
    if line is None:
        tally.problems.append((number, f"The line is longer than {MAX_LINE_BYTES:,} bytes."))
        return None
    try:
        text = line.decode()
        return lines.parse(text, now) if text and not text.isspace() else None
    except UnicodeDecodeError:
        tally.problems.append((number, "The line is not valid UTF-8."))
    except IngestionError as refused:
        # What was written for requests speaks of their bodies.
        tally.problems.append((number, refused.message.replace("The body", "The line", 1)))
    return None


def _received(
    product_id: int, said: Sequence[tuple[int, ParsedLine | None]], now: datetime
) -> list[NumberedMessage]:
    """Each line that says something, with a place of its own in the order of arrival."""
    told = [(number, one) for number, one in said if one is not None]
    arrivals = take_arrivals(len(told))
    return [
        NumberedMessage(
            number, ReceivedMessage(product_id, arrival, now, one.statement, one.source)
        )
        for (number, one), arrival in zip(told, arrivals, strict=True)
    ]


def _settle(usable: Sequence[NumberedMessage], tally: LineOutcomes) -> None:
    kept, repeated = message_ids.split_duplicates([one.received for one in usable])
    refused, crowded_out = record(kept)
    tally.recorded += len(kept) - len(refused)
    tally.repeated += len(repeated)
    tally.forgotten += len(refused)
    for one in usable if crowded_out else ():
        if names := crowded_out.get(one.received.arrival):
            told = texts.short_reason(
                DropReason.TOO_MANY_TRAITS, texts.describe_dropped_traits(names)
            )
            tally.notes.append((one.number, f"{told}. The rest of the line was recorded."))


def _reason(error: Exception) -> str:
    return f"It cannot be recorded ({type(error).__name__}: {' '.join(str(error).split())})."


def _move_on(imported: ImportedFile, lines_read: int, position: int, tally: LineOutcomes) -> None:
    """Move the file's position, unless somebody else has."""
    at_ours = ImportedFile.objects.filter(pk=imported.pk, position=imported.position)
    moved = at_ours.update(
        position=position,
        lines=F("lines") + lines_read,
        recorded=F("recorded") + tally.recorded,
        repeated=F("repeated") + tally.repeated,
        forgotten=F("forgotten") + tally.forgotten,
        bad=F("bad") + len(tally.problems),
    )
    if not moved:
        raise ImportStopped("Another import of the same file is running; let that one finish.")
