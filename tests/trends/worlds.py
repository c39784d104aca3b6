"""A product whose accounts were active on days of a test's choosing."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from engagement.models import Product, Segment, Workspace
from engagement.rescoring.rescore import rescore
from engagement.scores.active_days import DAY
from tests.engagement.history import NOON, identify, tell, track
from tests.jobs import run_job
from trends.figures import jobs
from trends.models import WHOLE, DayFigures

TODAY = NOON.date()
YESTERDAY = TODAY - DAY


def be_active(product: Product, account: str, days_ago: Iterable[int], *, users: int = 1) -> None:
    """Each of the users of the account opens the product once on each of the days."""
    for number in range(users):
        user = f"{account}-{number}"
        tell(product, identify(user, -24 * 150, account))
        tell(product, *(track(user, hours=-24 * days) for days in days_ago))


def make(
    product: Product, accounts: Mapping[str, Iterable[int]], now: datetime = NOON
) -> Workspace:
    for account, days_ago in accounts.items():
        be_active(product, account, days_ago)
    return score(product, now)


def score(product: Product, now: datetime = NOON) -> Workspace:
    rescore(now)
    return Workspace.objects.select_related("scores", "product").get(product=product)


def work(now: datetime = NOON) -> int:
    return run_job(jobs.JOB, now)


def next_day(number: int = 1) -> datetime:
    """Noon so many days later, when everything is scored."""
    now = NOON + timedelta(days=number)
    rescore(now)
    return now


def figures(workspace: Workspace, days_ago: int = 1, segment: Segment | None = None) -> DayFigures:
    return DayFigures.objects.get(
        workspace=workspace,
        segment_id=segment.pk if segment else WHOLE,
        day=TODAY - days_ago * DAY,
    )


def segment_of(workspace: Workspace, scope: str = "account", least: int = 1) -> Segment:
    """The segment of those who were active on at least so many days of the lookback."""
    condition = {
        "kind": "metric", "metric": "frequency", "operator": "at_least", "value": least,
    }  # fmt: skip
    return Segment.objects.create(
        workspace=workspace, scope=scope, name=f"busy {scope}s", conditions=[condition]
    )
