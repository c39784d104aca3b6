"""What became of the accounts whose alarms people closed: kept, or lost.

Only closed alarms count, and people choose which they close. The day is the one on which somebody
closed it.
"""

from datetime import date, timedelta

from access.work import settings
from access.work.settings import Means
from engagement.models import AlarmWork, Workspace
from outcomes.kinds import Exclusion, Kind, Outcome, OutcomeSet

SPAN = timedelta(days=3 * 365)
DAY = timedelta(days=1)
_EXCLUSIONS = {
    Means.FALSE_ALARM: Exclusion.FALSE_ALARM,
    Means.NOTHING: Exclusion.OPEN,
}


def has_any(product_id: int) -> bool:
    return AlarmWork.objects.filter(product=product_id, closed_at__isnull=False).exists()


def read(workspace: Workspace, today: date, limit: int) -> OutcomeSet:
    """The outcomes of three years, or an even sample of them."""
    rows = AlarmWork.objects.filter(
        product=workspace.product_id,
        workspace=workspace.pk,
        closed_at__date__gte=today - SPAN,
        closed_at__date__lte=today,
    )
    meanings = settings.results_of(workspace.product)
    outcomes, excluded = list[Outcome](), dict[Exclusion, int]()
    for row in rows.order_by("closed_at", "account_id", "signal"):
        means = meanings.get(row.result, Means.NOTHING)
        if reason := _EXCLUSIONS.get(means):
            excluded[reason] = excluded.get(reason, 0) + 1
            continue
        assert row.closed_at is not None, "The filter has left others out."
        day, is_good = row.closed_at.date(), means is Means.GOOD
        outcomes.append(
            Outcome(row.account_id, day, is_good, row.result, day + DAY, None, row.since)
        )
    step = -(-len(outcomes) // limit) or 1
    sampled_of = len(outcomes) if step > 1 else None
    return OutcomeSet(Kind.ALARM, outcomes[::step], excluded, None, sampled_of)
