"""Subscriptions that customers pause: outcomes whose dependence on activity is planted.

A subscription is a trait of an account. In each calendar quarter it is paused with some chance, on
a random day, and runs again when the quarter ends. The truth of a product says whether that chance
depends on what the account did before.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import accumulate
from random import Random
from typing import Final

from engagement.models import Account, Product, TraitChange
from harness.demo.population import Customer
from outcomes.settings import OutcomeSettings, to_json

TRAIT: Final = "subscription"
RUNNING, PAUSED = "running", "paused"
# What an account did on this number of days before the day decides.
DECIDING_DAYS = 90
DAY = timedelta(days=1)


@dataclass(frozen=True)
class SubscriptionTruth:
    """The chance that a subscription is paused in a quarter.

    It is *chance* at *points* points a day, and falls with more of them: the odds are divided by
    (points / *points*) ** *slope*. With a *slope* of 0, activity tells nothing. Only the first
    *customers* have a subscription.
    """

    chance: float
    slope: float = 0.0
    points: float = 1.0
    customers: int = 1_000_000

    def chance_at(self, points: float) -> float:
        """The chance for an account with these points a day."""
        odds = self.chance / (1 - self.chance)
        odds *= math.pow((points + 0.1) / self.points, -self.slope)
        return odds / (1 + odds)


@dataclass
class Subscriptions:
    """The subscriptions of a product's customers, from the day *since* until *today*. *weights* are
    the points of events."""

    truth: SubscriptionTruth
    weights: Mapping[str, int]
    since: date
    today: date
    seed: int
    # By customer: when it was paused, and when it ran again.
    pauses: dict[str, list[tuple[date, date]]] = field(default_factory=dict)

    def plant(self, customers: Iterable[Customer]) -> Iterator[Customer]:
        """The customers with the trait. Its chance is apart from that of their activity."""
        for number, customer in enumerate(customers):
            if number < self.truth.customers:
                chance = Random(f"subscription {self.seed}/{number}")
                customer.traits[TRAIT] = RUNNING
                self.pauses[customer.external_id] = list(self._pauses(customer, chance))
            yield customer

    def _pauses(self, customer: Customer, chance: Random) -> Iterator[tuple[date, date]]:
        points = self._points_until(customer)
        for first, last in quarters(self.since + DAY, self.today):
            day = first + DAY * chance.randrange((last - first).days)
            dice = chance.random()
            until = (day - self.since).days
            begin = max(0, until - DECIDING_DAYS)
            mean = (points[until] - points[begin]) / max(1, until - begin)
            if customer.seen_at.date() < first and dice < self.truth.chance_at(mean):
                yield day, last

    def _points_until(self, customer: Customer) -> Sequence[float]:
        """The sum of all points before each day."""
        by_day = [0.0] * ((self.today - self.since).days + 2)
        for person in customer.people:
            for use in person.event_uses:
                day = (use.last_at.date() - self.since).days
                by_day[max(0, day)] += use.event_count * self.weights.get(use.event, 0)
        return [0.0, *accumulate(by_day)]

    def store(self, product: Product) -> None:
        """Store the changes, and have the product's workspaces look at them."""
        accounts = Account.objects.filter(product=product, external_id__in=self.pauses)
        TraitChange.objects.bulk_create(
            change
            for account in accounts.only("external_id")
            for change in self._changes(product, account)
        )
        product.history_traits = {TRAIT: self.since.isoformat()}
        product.save(update_fields=["history_traits"])
        settings = to_json(OutcomeSettings(trait=TRAIT, values=(PAUSED,)))
        product.workspaces.update(outcomes=settings)

    def _changes(self, product: Product, account: Account) -> Iterator[TraitChange]:
        for pause in self.pauses[account.external_id]:
            for day, value in zip(pause, (PAUSED, RUNNING), strict=True):
                yield TraitChange(
                    product=product,
                    account_id=account.pk,
                    name=TRAIT,
                    day=day,
                    value=value,
                    at=datetime.combine(day, time(12), UTC),
                    previous=RUNNING if value == PAUSED else PAUSED,
                )


def quarters(since: date, until: date) -> Iterator[tuple[date, date]]:
    """The first and the last days of the calendar quarters from *since* that end before *until*."""
    first = since
    while True:
        month = (first.month - 1) // 3 * 3 + 3
        last = (first.replace(month=month, day=28) + 4 * DAY).replace(day=1) - DAY
        if last >= until:
            return
        yield first, last
        first = last + DAY
