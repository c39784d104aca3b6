"""How many alarms of a workspace came to nothing, beside how many it allows."""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import NamedTuple

from django.db.models import Count, F, Q, Sum

from engagement.activity.reading import DIRECTIONS
from engagement.alarms.levels import ALLOWED_RATES, NOTHING_DAYS, QUARTER_DAYS, measured_span
from engagement.models import Alarm, AlarmNight, Workspace


class FalseAlarms(NamedTuple):
    """How many of the alarms of one direction came to nothing: ended, because activity was back to
    usual. *allowed* and *measured* are per account and quarter; *measured* is None without a
    night that counts."""

    allowed: float
    measured: float | None
    came_to_nothing: int
    alarms: int


def false_alarms(workspace: Workspace, today: date) -> Mapping[tuple[int, str], FalseAlarms]:
    """By level and signal, those that began in the half year until two months ago. Later ones may
    still end."""
    span = measured_span(today - timedelta(days=1))
    alarms = Alarm.objects.filter(
        product=workspace.product_id,
        workspace_id=workspace.pk,
        signal__in=DIRECTIONS,
        level__in=ALLOWED_RATES,
        since__range=span,
    ).exclude(outcome=Alarm.Outcome.REPLACED)
    to_nothing = Q(
        outcome=Alarm.Outcome.RECOVERED, ended_on__lte=F("since") + timedelta(days=NOTHING_DAYS)
    )
    rows = alarms.values_list("level", "signal").annotate(
        number=Count("since"), nothing=Count("since", filter=to_nothing)
    )
    counts = {(level, signal): numbers for level, signal, *numbers in rows}
    quarters, rates = account_quarters(workspace, *span), {}
    for level, allowed in ALLOWED_RATES.items():
        for signal in DIRECTIONS:
            number, nothing = counts.get((level, signal), (0, 0))
            rate = nothing / quarters if quarters else None
            rates[level, str(signal)] = FalseAlarms(allowed, rate, nothing, number)
    return rates


def account_quarters(workspace: Workspace, first: date, last: date) -> float:
    """How many quarters the workspace's accounts were watched for in these days, in all."""
    nights = AlarmNight.objects.filter(workspace=workspace, day__range=(first, last))
    return (nights.aggregate(total=Sum("accounts"))["total"] or 0) / QUARTER_DAYS
