"""When an export runs, in UTC."""

from datetime import UTC, datetime, timedelta

from exports.models import ScheduledExport

Schedule = ScheduledExport.Schedule
_DAYS = {Schedule.DAILY: 1, Schedule.WEEKLY: 7}


def next_run_at(export: ScheduledExport, now: datetime) -> datetime | None:
    """The next time after *now*; None if it runs by hand only, or not at all."""
    days = _DAYS.get(Schedule(export.schedule))
    if days is None or not export.is_enabled or export.verified_at is None:
        return None
    at = now.astimezone(UTC).replace(hour=export.hour, minute=0, second=0, microsecond=0)
    if export.schedule == Schedule.WEEKLY:
        at += timedelta(days=(export.weekday - at.weekday()) % 7)
    return at if at > now else at + timedelta(days=days)


def describe(export: ScheduledExport) -> str:
    at = f"{export.hour:02}:00 UTC"
    match export.schedule:
        case Schedule.DAILY:
            text = f"Every day at {at}"
        case Schedule.WEEKLY:
            text = f"Every {export.get_weekday_display()} at {at}"
        case _:
            return "By hand"
    return text if export.is_enabled else f"{text}, disabled"
