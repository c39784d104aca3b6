"""Small products with daily counts of a test's choosing, and the same in plain Python."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple

from engagement.models import Account, DailyCount, EventName, Product, ScoreSet, User
from engagement.rescoring.what_if import ScoringDefinition
from engagement.scores.formula import rounded_score
from tests.engagement.history import NOON
from tests.engagement.plain import benchmark

DAY = timedelta(days=1)
TODAY = NOON.date()


class Count(NamedTuple):
    """A user of an account did an event so often, so many days ago. Each account has its users."""

    account: str
    user: int
    event: str
    days_ago: int
    times: int = 1

    @property
    def day(self) -> date:
        return TODAY - self.days_ago * DAY


@dataclass
class World:
    """The counts of a product, and its ids by name."""

    product: Product
    counts: Sequence[Count]
    accounts: dict[str, int] = field(default_factory=dict)
    created: Mapping[str, date] = field(default_factory=dict)


def make_world(
    product: Product,
    counts: Iterable[Count],
    created: Mapping[str, date],
    unidentified: Iterable[tuple[str, int]] = (),
) -> World:
    """Store the counts. *created* names all accounts, with the days of their first messages."""
    world = World(product, list(counts), created=created)
    for name, day in created.items():
        account = Account.objects.create(
            product=product, external_id=name, is_identified=True, **_lifetime(day)
        )
        world.accounts[name] = account.pk
    keys = sorted({(count.account, count.user) for count in world.counts})
    users = {
        (account, number): User.objects.create(
            product=product,
            external_id=f"{account} {number}",
            account_id=world.accounts[account],
            is_identified=(account, number) not in set(unidentified),
            **_lifetime(created[account]),
        )
        for account, number in keys
    }
    names = {
        name: EventName.objects.create(product=product, name=name)
        for name in sorted({count.event for count in world.counts})
    }
    DailyCount.objects.bulk_create(
        DailyCount(
            product=product,
            user=users[count.account, count.user],
            account_id=world.accounts[count.account],
            event_name=names[count.event],
            day=count.day,
            count=count.times,
            last_at=noon_of(count.day),
        )
        for count in world.counts
    )
    world.counts = [
        count for count in world.counts if (count.account, count.user) not in set(unidentified)
    ]
    return world


def noon_of(day: date) -> datetime:
    return datetime.combine(day, time(12), UTC)


def _lifetime(day: date) -> dict[str, datetime]:
    return {"first_seen_at": noon_of(day), "last_seen_at": NOON}


def current_set(world: World) -> ScoreSet:
    scores = world.product.workspaces.get().scores
    assert scores is not None
    return scores


def definition(
    lookback: int = 7, default_weight: int = 1, half_life: int | None = None, **weights: int
) -> ScoringDefinition:
    return ScoringDefinition(lookback, default_weight, {}, weights)


# --- In plain Python --------------------------------------------------------------------------


def weight_of(own: ScoringDefinition, event: str) -> int:
    return own.weights.get(event, own.default_weight)


def raw(world: World, own: ScoringDefinition, account: str, day: date) -> float:
    """The raw score of an account at the end of the day."""
    return sum(
        count.times * weight_of(own, count.event)
        for count in world.counts
        if count.account == account and 0 <= (day - count.day).days < own.lookback_days
    )


def benchmark_of(world: World, own: ScoringDefinition, day: date) -> float | None:
    return benchmark([raw(world, own, account, day) for account in world.accounts])  # type: ignore[misc]


def score(world: World, own: ScoringDefinition, account: str, day: date) -> float:
    return rounded_score(raw(world, own, account, day), benchmark_of(world, own, day))


def idle_days(world: World, own: ScoringDefinition, account: str, day: date) -> int | None:
    days = [
        (day - count.day).days
        for count in world.counts
        if count.account == account and count.day <= day and weight_of(own, count.event)
    ]
    return min(days, default=None)
