"""Gives the jobs that read reports a worker's turn."""

from collections.abc import Sequence
from datetime import datetime

from core.jobs import kinds, run
from core.models import Job
from marketplace.models import Connection, ReportReading
from marketplace.runs.report_sources import CHECK_KIND, KINDS
from tests.marketplace.connections import NOON

Report = ReportReading.Report


def read(report: Report, now: datetime = NOON) -> ReportReading | None:
    """Give the jobs of the report a worker's turn."""
    _run([KINDS[report]], now)
    return ReportReading.objects.filter(report=report).first()


def check(now: datetime = NOON) -> None:
    _run([CHECK_KIND], now)


def _run(names: Sequence[str], now: datetime) -> None:
    own_kinds = [kind for name in names if (kind := kinds.get(name))]
    assert own_kinds
    run.run_kinds(own_kinds, lambda: now, lambda: False)


def job_of(report: Report) -> Job | None:
    return Job.objects.filter(kind=KINDS[report]).first()


def reading_of(connection: Connection, report: Report) -> ReportReading:
    return ReportReading.objects.get(connection=connection, report=report)
