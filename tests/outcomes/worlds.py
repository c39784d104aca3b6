"""Small products with daily counts of a test's choosing, and the same in plain Python."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple

from engagement.models import Account, DailyCount, EventName, EventWeight, Product, ScoreSet, User
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from engagement.rescoring.what_if import ScoringDefinition
from engagement.scores.formula import rounded_score
from outcomes.kinds import Kind
from outcomes.sources import licenses
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


class Fate(NamedTuple):
    """What became of an account, as its license tells. Days are those before today."""

    account: str
    kind: Kind
    days_ago: int
    is_good: bool
    known_later: int = 0
    answered_before: int | None = None
    began_before: int = 365

    @property
    def day(self) -> date:
        return TODAY - self.days_ago * DAY

    @property
    def known_on(self) -> date:
        return self.day + self.known_later * DAY

    @property
    def answered_on(self) -> date | None:
        return None if self.answered_before is None else self.day - self.answered_before * DAY

    @property
    def began_on(self) -> date:
        return self.day - self.began_before * DAY


@dataclass
class World:
    """The counts of a product, what became of its accounts, and its ids by name."""

    product: Product
    counts: Sequence[Count]
    accounts: dict[str, int] = field(default_factory=dict)
    created: Mapping[str, date] = field(default_factory=dict)
    fates: Sequence[Fate] = ()


_RESULTS = {
    (Kind.RENEWAL, True): "renewed",
    (Kind.MONTHLY_STAY, True): "stayed",
    (Kind.EVALUATION, True): "bought",
}


def decide(world: World, fates: Iterable[Fate], revision: int = 1) -> None:
    """Store what became of the accounts, each as a license of its own."""
    world.fates = [*world.fates, *fates]
    rows = [
        licenses.OutcomeRow(
            license=f"license {number}",
            kind=fate.kind,
            day=fate.day,
            cloud_id=fate.account,
            began_on=fate.began_on,
            known_on=fate.known_on,
            answered_on=fate.answered_on,
            decided_on=fate.day,
            result=_RESULTS.get((fate.kind, fate.is_good), "churned"),
            exclusion="",
            seats=None,
            cents=None,
        )
        for number, fate in enumerate(world.fates)
    ]
    licenses.replace(world.product.pk, [row.license for row in rows], rows)
    licenses.follow(world.product.pk, revision)


def score_as(product: Product, own: ScoringDefinition) -> None:
    """Have the product's workspace score so, and wait for its scores."""
    workspace = product.workspaces.get()
    workspace.lookback_days, workspace.default_weight = own.lookback_days, own.default_weight
    workspace.half_life_days = own.half_life_days
    workspace.save()
    for name, weight in own.weights.items():
        event, _ = EventName.objects.get_or_create(product=product, name=name)
        EventWeight.objects.update_or_create(
            workspace=workspace, event_name=event, defaults={"weight": weight}
        )
    sets.request_score_set(workspace.pk)
    rescore(NOON)


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
    return ScoringDefinition(lookback, default_weight, {}, weights, half_life)


# --- In plain Python --------------------------------------------------------------------------


def weight_of(own: ScoringDefinition, event: str) -> int:
    return own.weights.get(event, own.default_weight)


def raw(world: World, own: ScoringDefinition, account: str, day: date) -> float:
    """The raw score of an account at the end of the day."""
    today_ago = (TODAY - day).days
    idle = idle_days(world, own, account, day)
    if own.half_life_days and idle is not None and idle > 20 * own.half_life_days:
        return 0.0
    return sum(
        count.times * weight_of(own, count.event) * age_factor(own, count.days_ago - today_ago)
        for count in world.counts
        if count.account == account and count.days_ago >= today_ago
    )


def age_factor(own: ScoringDefinition, age: int) -> float:
    if own.half_life_days is None:
        return age < own.lookback_days
    return float(0.5 ** (age / own.half_life_days))


def benchmark_of(world: World, own: ScoringDefinition, day: date) -> float | None:
    """With a half-life, that of the accounts with a scored event in the window."""
    raws = [
        raw(world, own, account, day)
        for account in world.accounts
        if (idle := idle_days(world, own, account, day)) is not None and idle < own.lookback_days
    ]
    return benchmark(raws)


def score(world: World, own: ScoringDefinition, account: str, day: date) -> float:
    return rounded_score(raw(world, own, account, day), benchmark_of(world, own, day))


def idle_days(world: World, own: ScoringDefinition, account: str, day: date) -> int | None:
    days = [
        (day - count.day).days
        for count in world.counts
        if count.account == account and count.day <= day and weight_of(own, count.event)
    ]
    return min(days, default=None)
