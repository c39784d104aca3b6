"""Some days of a product with alarms, lived by any release since 0.4.0.

Its text is run in the release's folder (``python -c``), because older releases lack it, and so it
imports nothing but what they have, too. ``begin PRODUCT DAY`` plants months of history before the
day, and a receiver. ``live PRODUCT DAY`` adds what happened on the day and, early on the next one,
scores, decides, and notifies.
"""

import os
import random
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

# The apps must be loaded first.
from django.db import connection  # noqa: E402

from engagement.models import Account, DailyCount, EventName, User, Workspace  # noqa: E402
from engagement.rescoring.rescore import rescore  # noqa: E402
from notifications.models import Destination, Subscription  # noqa: E402
from notifications.watching.sweep import sweep  # noqa: E402
from notifications.watching.watches import assign_watch  # noqa: E402

DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
HISTORY_DAYS = 120
# Accounts that go on as usual, and those that stop, one a day.
USUAL, STOPPING, USERS = 40, 16, 6
ACTIVE_SHARE = 0.5
INSIGHTS = ("activity_stopped", "trend_down")
# A sweep waits for scores of a new day, at most a quarter of an hour.
ROUNDS, PAUSE = 4, 20 * MINUTE


def begin(product: int, first: date) -> None:
    identity = {
        "product_id": product,
        "first_seen_at": datetime.combine(first - 400 * DAY, time(), UTC),
        "last_seen_at": datetime.combine(first, time(), UTC),
        "is_identified": True,
    }
    accounts = Account.objects.bulk_create(
        Account(external_id=f"account {number}", **identity) for number in range(USUAL + STOPPING)
    )
    User.objects.bulk_create(
        User(external_id=f"{account.external_id}, user {number}", account=account, **identity)
        for account in accounts
        for number in range(USERS)
    )
    EventName.objects.create(product_id=product, name="opened")
    for ago in range(HISTORY_DAYS, 0, -1):
        add_day(product, first - ago * DAY, first)
    destination = Destination.objects.create(
        product_id=product,
        kind=Destination.Kind.WEBHOOK,
        name="Receiver",
        address="http://127.0.0.1:9/hook",
        state=Destination.State.ACTIVE,
    )
    for insight in INSIGHTS:
        subscription = Subscription.objects.create(
            product_id=product,
            workspace=Workspace.objects.get(product_id=product),
            destination=destination,
            trigger="insight_started",
            insight=insight,
            quiet_hours=0,
        )
        assign_watch(subscription)


def add_day(product: int, day: date, first: date) -> None:
    """Store the counts of the day. The last of the accounts that stop does so after *first*."""
    name = EventName.objects.get(product_id=product)
    chance = random.Random(day.toordinal())
    DailyCount.objects.bulk_create(
        DailyCount(
            product_id=product,
            user=user,
            account_id=user.account_id or 0,
            event_name=name,
            day=day,
            count=1,
            last_at=datetime.combine(day, time(9), UTC),
        )
        for place, user in enumerate(User.objects.filter(product_id=product).order_by("pk"))
        if chance.random() < ACTIVE_SHARE and not has_stopped(place // USERS, day, first)
    )


def has_stopped(account: int, day: date, first: date) -> bool:
    return account >= USUAL and day > first + (USUAL - account) * DAY


def live(product: int, day: date, first: date) -> None:
    if not DailyCount.objects.filter(product_id=product, day=day).exists():
        add_day(product, day, first)
    now = datetime.combine(day + DAY, time(2), UTC)
    with connection.cursor() as cursor:
        for subject in ("user", "account"):
            cursor.execute(
                f"INSERT INTO engagement_stalemark (product_id, {subject}_id) "
                f"SELECT product_id, id FROM engagement_{subject} WHERE product_id = %s",
                [product],
            )
    for number in range(ROUNDS):
        rescore(now + number * PAUSE)
        sweep(now + number * PAUSE + MINUTE)


if __name__ == "__main__":
    step, own_product, *days = sys.argv[1:]
    steps: dict[str, Callable[..., None]] = {"begin": begin, "live": live}
    steps[step](int(own_product), *map(date.fromisoformat, days))
