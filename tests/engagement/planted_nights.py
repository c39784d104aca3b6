"""The user-days of complete days, as nights note them."""

from collections.abc import Sequence
from datetime import date, timedelta

from engagement.models import AlarmNight, Workspace


def add_nights(workspace: Workspace, user_days: Sequence[int], last: date) -> None:
    """One night for each of the days until the last one."""
    AlarmNight.objects.bulk_create(
        AlarmNight(workspace=workspace, day=last - timedelta(days=age), user_days=count)
        for age, count in enumerate(reversed(user_days))
    )


def a_fall(days_ago: int) -> list[int]:
    """The user-days of a year and a half until the end, which fell by 40% so many days ago."""
    usual = [1_000, 1_010, 990, 1_005, 995, 200, 210] * 80
    return usual[:-days_ago] + [round(0.6 * count) for count in usual[-days_ago:]]


SILENT = [400] * 60 + [3]
