"""The job that counts the use of a product's events after a day is over.

It counts late accounts again, adds the day to the uses of accounts, counts the figures of days that
have none yet, and sums up 28 days. The first night of a product reads all of its daily counts, some
accounts a step.
"""

from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from typing import LiteralString

from core.database import locks, nodes, sql
from core.jobs import kinds, run
from core.jobs.kinds import Blocked, Done, Later, More, Outcome
from core.models import Job
from engagement import changes
from engagement.models import Account, Product, ScoreSet, UsageState
from engagement.models.activity import NO_ACCOUNT
from engagement.models.features import USED_WITHIN
from engagement.scores import account_uses
from outcomes.reading import QUEUE
from trends.models import UsageDay
from trends.usage.days import KEPT, count_days, first_day, sum_up

JOB = "count the use of events"
DAY = timedelta(days=1)
# What senders, the inbox, and the rescore queue still have of a day arrives after it.
FIRST_TIME = time_of_day(1, tzinfo=UTC)
ACCOUNTS_PER_STEP = 2_000
STATEMENT_TIMEOUT_SECONDS = 300.0
# Longer than the statements of a step may take.
LEASE = timedelta(minutes=20)

_DUE: LiteralString = f"""
    SELECT s.product_id
    FROM engagement_scoreset s
    JOIN engagement_product p ON p.id = s.product_id AND p.deletion_requested_at IS NULL
    LEFT JOIN engagement_usagestate u ON u.product_id = s.product_id
    WHERE s.state = 'current' AND s.scored_day IS NOT NULL AND {nodes.among_reachable("s")}
    GROUP BY s.product_id
    HAVING max(u.counted_on) IS DISTINCT FROM max(s.scored_day)
    ORDER BY s.product_id
"""


def register() -> None:
    """Register the kind of job."""
    kinds.register(
        JOB,
        "Counts who did which events on a day that is over, and who started or stopped.",
        queue=QUEUE,
        step=take_step,
        keys=due_products,
        lease=LEASE,
        title=_name_of,
    )


def due_products() -> list[int]:
    """The keys of the job: the products whose last complete day is not counted."""
    return [id for (id,) in sql.fetch(_DUE, {"reachable": nodes.reachable_products()})]


def _name_of(product_id: int) -> str:
    return str(Product.objects.filter(pk=product_id).first() or product_id)


def take_step(job: Job, now: datetime) -> Outcome:
    """A step of the job: some accounts, a day, or the sums at the end of the night."""
    product_id = int(job.key)
    current = ScoreSet.objects.filter(product=product_id, state=ScoreSet.State.CURRENT)
    days = [day for day in current.values_list("scored_day", flat=True) if day]
    if not days or product_id in nodes.missing_products():
        return Blocked() if days else Done()
    today, begins_at = max(days), datetime.combine(max(days), FIRST_TIME)
    state, _ = UsageState.objects.get_or_create(product_id=product_id)
    if now < begins_at:
        # Until then, the last night that is due is the one before.
        today -= DAY
        if state.counted_on is not None and state.counted_on >= today:
            return Later(begins_at, job.cursor)
    with run.holding(job), sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
        return _count(job, state, today)


def _count(job: Job, state: UsageState, today: date) -> Outcome:
    if state.uses_until is None:
        return _count_all_accounts(job, state, today)
    if late := account_uses.take_late(state.product_id, ACCOUNTS_PER_STEP):
        _count_again(state, late)
    elif state.uses_until < today:
        account_uses.add_day(state.product_id, state.uses_until)
        _set(state, uses_until=state.uses_until + DAY)
    elif (day := _next_day(state, today)) < today:
        _set(state, figures_until=count_days(state.product_id, day, today))
    elif state.counted_on == today:
        return Done()
    elif not locks.try_lock_scoring(state.product_id):
        return Blocked()
    else:
        _end(state, today)
    return More()


def _count_all_accounts(job: Job, state: UsageState, today: date) -> Outcome:
    """The first night: count the uses of the next accounts."""
    product_id = state.product_id
    # The day stays that of the first step: what came later was noted, because there is a state.
    cursor = job.cursor or {"after": 0, "until": today.isoformat()}
    rows = Account.objects.filter(product=product_id, pk__gt=cursor["after"]).order_by("pk")
    ids = list(rows.values_list("pk", flat=True)[:ACCOUNTS_PER_STEP])
    until = date.fromisoformat(cursor["until"])
    if not ids:
        _set(state, uses_until=until)
        return More()
    account_uses.count_accounts(product_id, ids, until)
    return More({**cursor, "after": ids[-1]}, progress=job.progress + len(ids))


def _count_again(state: UsageState, late: dict[int, date]) -> None:
    """Count the uses of late accounts again, and figures from their first day on."""
    day = late.pop(NO_ACCOUNT, None)
    if day and state.figures_until and day < state.figures_until:
        _set(state, figures_until=day)
    if late:
        assert state.uses_until is not None
        account_uses.count_accounts(state.product_id, late, state.uses_until)


def _next_day(state: UsageState, today: date) -> date:
    """The first day without figures, of those that are kept."""
    kept_from = today - KEPT
    if state.figures_until is None:
        return max(first_day(state.product_id) or today, kept_from)
    return max(state.figures_until, kept_from)


def _end(state: UsageState, today: date) -> None:
    """Sum up, delete old days, and have readers see accounts that use a feature no longer."""
    product_id, yesterday = state.product_id, today - DAY
    sum_up(product_id, yesterday)
    UsageDay.objects.filter(product=product_id, day__lt=today - KEPT).delete()
    stopped = account_uses.last_used_on(product_id, today - USED_WITHIN * DAY)
    changes.stamp(product_id, {"account": stopped})
    _set(state, counted_on=today)


def _set(state: UsageState, **days: date | None) -> None:
    for name, day in days.items():
        setattr(state, name, day)
    state.save(update_fields=list(days))


def count_again(product_id: int) -> None:
    """Have all figures of the product counted again: features have changed."""
    UsageState.objects.filter(pk=product_id).update(figures_until=None, counted_on=None)
