"""What a connection's page says of the reports that are read beside the licenses."""

from dataclasses import dataclass
from datetime import datetime

import msgspec

from core.models import Job
from marketplace import texts
from marketplace.models import Connection, ReportReading
from marketplace.runs.report_positions import Door, Position
from marketplace.runs.report_sources import KINDS

Report = ReportReading.Report


@dataclass(frozen=True)
class ReportStatus:
    """How reading a report goes, in a sentence. *share* is a percentage; None if it is not being
    read, or nobody knows how much there is."""

    report: str
    label: str
    sentence: str
    level: str
    read_at: datetime | None
    share: int | None = None


def report_statuses(connection: Connection) -> list[ReportStatus]:
    """All reports of the connection, with two queries."""
    stored = ReportReading.objects.filter(connection=connection)
    readings = {reading.report: reading for reading in stored}
    jobs = {
        job.kind: job for job in Job.objects.filter(kind__in=KINDS.values(), key=str(connection.pk))
    }
    return [
        _status(report, readings.get(report) or ReportReading(report=report), jobs.get(kind))
        for report, kind in KINDS.items()
    ]


def _status(report: Report, reading: ReportReading, job: Job | None) -> ReportStatus:
    progress = _progress(job)
    if reading.problem:
        sentence, level = texts.join_sentences(reading.problem, texts.LICENSES_UNAFFECTED), "bad"
    elif progress:
        sentence, level = progress, "quiet"
    elif reading.read_at is not None:
        sentence = texts.join_sentences(texts.REPORT_READ.format(reading.rows), reading.note)
        level = "good"
    else:
        sentence, level = _unread(report, reading), "quiet"
    return ReportStatus(
        report.value, str(report.label), sentence, level, reading.read_at, _share(job)
    )


def _unread(report: Report, reading: ReportReading) -> str:
    if report == Report.HISTORY:
        return texts.HISTORY_REQUESTED if reading.requested_at else texts.HISTORY_OFFERED
    return texts.REPORT_UNLISTED if reading.is_listed is False else texts.REPORT_PENDING


def _position(job: Job | None) -> Position | None:
    return msgspec.convert(job.cursor, Position) if job and job.cursor else None


def _progress(job: Job | None) -> str:
    """How far the reading is that is going on; "" if none is."""
    if (position := _position(job)) is None:
        return ""
    if position.door == Door.TEXT:
        return texts.LICENSES_READ.format(position.licenses, position.rows)
    return texts.REPORT_PROGRESS.format(position.rows)


def _share(job: Job | None) -> int | None:
    if job is None or job.cursor is None or not job.total:
        return None
    return min(100 * job.progress // job.total, 99)
