"""Records files of messages, directly and not through the inbox.

One batch of lines is one transaction, which also moves the file's position. An interrupted import
resumes there: nothing is lost and nothing counts twice.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple, TypeAlias

from django.db import transaction
from django.db.models import F

from core.database import locks, retries
from core.database.arrivals import take_arrivals
from core.garbage import pause_gc
from engagement.messages import ReceivedMessage, Rejection, RejectionReason
from engagement.recording.record import record
from ingestion.bulk import formats
from ingestion.bulk.files import MAX_LINE_BYTES, LineReader
from ingestion.bulk.formats import Parser
from ingestion.doors.lines import ParsedLine
from ingestion.drain import message_ids
from ingestion.drain.batches import process_or_split
from ingestion.errors import IngestionError
from ingestion.log import texts
from ingestion.models import ImportedFile

# The number of a line, and what is wrong with it.
Problem: TypeAlias = tuple[int, str]
ProblemReporter: TypeAlias = Callable[[Sequence[Problem]], None]
OWN_FORMAT = formats.parser(formats.OWN)


class ImportStopped(Exception):
    """The import cannot continue. The message tells why and what to do."""


class LineOutcomes:
    """The outcomes of a batch of lines."""

    def __init__(self) -> None:
        self.recorded = self.duplicates = self.forgotten = self.left_out = 0
        self.problems: list[Problem] = []
        # Lines that were recorded without some of their traits.
        self.partial: list[Problem] = []


class NumberedMessage(NamedTuple):
    """The message of a line, with the line's number in the file."""

    number: int
    received: ReceivedMessage


def start_or_resume(
    product_id: int, digest: bytes, name: str, now: datetime, *, again: bool
) -> ImportedFile:
    """Start or resume the file's import. With *again*, restart it from the first line."""
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
    parse: Parser = OWN_FORMAT,
) -> None:
    """Record the remaining lines of *source*. *imported* keeps the counts.

    Calls *report* with the invalid lines and with those that lost some of their traits. Raises
    UnreadableFile and ImportStopped, and database errors that are no line's fault. Batches that are
    recorded by then stay recorded.
    """
    while batch := source.read_batch():
        first = source.number - len(batch) + 1
        with pause_gc():
            work = partial(
                _record_lines, imported, batch, first, source.position, clock(), report, parse
            )
            retries.retry_on_conflict(work)
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
    parse: Parser,
) -> None:
    outcomes = LineOutcomes()
    parsed = [
        (number, line)
        for number, content in enumerate(batch, first)
        for line in _parse(content, now, number, outcomes, parse)
    ]
    with transaction.atomic(durable=True):
        if not locks.share_lock_products([imported.product_id]):
            raise ImportStopped("The product was deleted, so nothing more is recorded.")
        if messages := _received(imported.product_id, parsed, now):
            process_or_split(
                messages,
                lambda part: _record(part, outcomes),
                lambda message, error: outcomes.problems.append((message.number, _reason(error))),
            )
        _advance(imported, len(batch), position, outcomes)
        # Before the commit: a crash in between lists a problem twice, but never loses one.
        report(sorted([*outcomes.problems, *outcomes.partial]))


def _parse(
    line: bytes | None, now: datetime, number: int, outcomes: LineOutcomes, parse: Parser
) -> Sequence[ParsedLine]:
    """What the line says: nothing if it is empty or invalid. Adds the problem of an invalid one."""
    if line is None:
        outcomes.problems.append((number, f"The line is longer than {MAX_LINE_BYTES:,} bytes."))
        return []
    try:
        text = line.decode()
        if not text or text.isspace():
            return []
        parsed = parse(text, now)
        outcomes.left_out += not parsed
        return parsed
    except UnicodeDecodeError:
        outcomes.problems.append((number, "The line is not valid UTF-8."))
    except IngestionError as error:
        # Doors' messages are about request bodies.
        outcomes.problems.append((number, error.message.replace("The body", "The line", 1)))
    return []


def _received(
    product_id: int, parsed: Sequence[tuple[int, ParsedLine]], now: datetime
) -> list[NumberedMessage]:
    """The lines as messages, each with its own place in the order of arrival."""
    arrivals = take_arrivals(len(parsed))
    return [
        NumberedMessage(
            number, ReceivedMessage(product_id, arrival, now, line.statement, line.source)
        )
        for (number, line), arrival in zip(parsed, arrivals, strict=True)
    ]


def _record(messages: Sequence[NumberedMessage], outcomes: LineOutcomes) -> None:
    unique, duplicates = message_ids.split_duplicates([message.received for message in messages])
    outcomes.recorded += len(unique)
    outcomes.duplicates += len(duplicates)
    rejections = record(unique)
    numbers = {each.received.arrival: each.number for each in messages} if rejections else {}
    for rejection in rejections:
        problem = numbers[rejection.message.arrival], _describe(rejection)
        if rejection.is_partial:
            outcomes.partial.append(problem)
            continue
        outcomes.recorded -= 1
        if rejection.reason is RejectionReason.FORGOTTEN:
            outcomes.forgotten += 1
        else:
            outcomes.problems.append(problem)


def _describe(rejection: Rejection) -> str:
    reason = texts.DROP_REASONS[rejection.reason]
    if rejection.reason is RejectionReason.PLACEHOLDER:
        return f"{reason.label}."
    text = f"{texts.short_reason(reason, rejection.detail)}."
    is_about_traits = rejection.reason is RejectionReason.TRAITS
    return f"{text} The rest of the line was recorded." if is_about_traits else text


def _reason(error: Exception) -> str:
    return f"It cannot be recorded ({type(error).__name__}: {' '.join(str(error).split())})."


def _advance(
    imported: ImportedFile, lines_read: int, position: int, outcomes: LineOutcomes
) -> None:
    """Move the file's position and add up its counts, unless another import has moved it."""
    unmoved = ImportedFile.objects.filter(pk=imported.pk, position=imported.position)
    is_moved = unmoved.update(
        position=position,
        lines=F("lines") + lines_read,
        recorded=F("recorded") + outcomes.recorded,
        duplicates=F("duplicates") + outcomes.duplicates,
        forgotten=F("forgotten") + outcomes.forgotten,
        invalid=F("invalid") + len(outcomes.problems),
        left_out=F("left_out") + outcomes.left_out,
    )
    if not is_moved:
        raise ImportStopped("Another import of the same file is running. Let it finish first.")
