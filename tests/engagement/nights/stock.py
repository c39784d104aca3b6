"""A product with months of daily counts, as tests of nights need it."""

import random
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from engagement.models import (
    Account,
    Alarm,
    DailyCount,
    EventName,
    Product,
    ScoreSet,
    User,
)
from engagement.models.activity import NO_ACCOUNT
from engagement.nights.jobs import DECIDE_ALARMS
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from tests.engagement.history import NOON
from tests.jobs import run_job

DAY = timedelta(days=1)
TODAY = NOON.date()
USERS, USUAL_ACCOUNTS = 3, 22
# The share of users who are active on a day.
USUAL = 0.5

Share = Callable[[date], float]


def usual(day: date) -> float:
    return USUAL


def stops(days_ago: int) -> Share:
    return lambda day: USUAL if day < TODAY - days_ago * DAY else 0.0


def doubles(days_ago: int) -> Share:
    return lambda day: USUAL / 2 if day < TODAY - days_ago * DAY else 2 * USUAL


def fill(product: Product, days: int, **special: Share) -> None:
    """Give the product accounts of three users with counts of the *days* before today: those that
    go on as usual, and others by name. The same for each product."""
    shares: dict[str, Share] = {f"usual {number}": usual for number in range(USUAL_ACCOUNTS)}
    shares |= special
    name = EventName.objects.create(product=product, name="opened")
    identity = {"first_seen_at": NOON - 400 * DAY, "last_seen_at": NOON, "is_identified": True}
    accounts = Account.objects.bulk_create(
        Account(product=product, external_id=name, **identity) for name in shares
    )
    users = User.objects.bulk_create(
        User(
            product=product,
            external_id=f"{account.external_id}, user {number}",
            account=account,
            **identity,
        )
        for account in accounts
        for number in range(USERS)
    )
    chance = random.Random(5)
    all_days = [TODAY - n * DAY for n in range(days, 0, -1)]
    add_counts(
        name,
        [
            (user, day)
            for user in users
            for day in all_days
            if chance.random() < shares[user.external_id.partition(",")[0]](day)
        ],
    )
    # Nobody told of these rows.
    sets.request_score_set(product.workspaces.get().pk)


def add_counts(name: EventName, days: Iterable[tuple[User, date]]) -> None:
    """Have the users do something on these days."""
    DailyCount.objects.bulk_create(
        DailyCount(
            product_id=user.product_id,
            user=user,
            account_id=user.account_id or NO_ACCOUNT,
            event_name=name,
            day=day,
            count=1,
            last_at=datetime.combine(day, time(9), UTC),
        )
        for user, day in days
    )


def current(product: Product) -> ScoreSet:
    return ScoreSet.objects.get(product=product, state=ScoreSet.State.CURRENT)


def score(product: Product, now: datetime = NOON) -> None:
    """Score the product, and decide its nights until *now*. The first run publishes scores."""
    for _ in range(2):
        rescore(now)
    decide(product, now)


def decide(product: Product, now: datetime) -> None:
    """Decide the nights until *now*, without scoring anything again."""
    ScoreSet.objects.filter(product=product).update(scored_day=now.date())
    run_job(DECIDE_ALARMS, now)


def alarms(product: Product, **filters: Any) -> list[tuple[Any, ...]]:
    """All that is stored of the alarms, apart from who was told of them."""
    rows = Alarm.objects.filter(product=product, **filters)
    columns = ("account__external_id", "signal", "level", "since", "ended_on", "outcome")
    numbers = ("is_stopped", "window_days", "observed", "expected", "dispersion", "p")
    baseline = ("baseline_from", "baseline_to", "weekly_rate", "burstiness", "latest", "details")
    return sorted(rows.values_list(*columns, *numbers, *baseline), key=str)
