"""The figures of a day in plain Python, from what happened. ``trends.figures`` must agree."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from engagement.scores.formula import rounded_score
from tests.engagement.plain import Definition, Did, benchmark_on, by_subject, raw

DAY = timedelta(days=1)


@dataclass(frozen=True)
class World:
    """The events of the users that count, and the days on which subjects were first seen."""

    events: Sequence[Did]
    definition: Definition
    users: Mapping[str, date]
    accounts: Mapping[str, date]

    @property
    def scored(self) -> list[Did]:
        return [did for did in self.events if self.definition.weight(did.event)]


def figures(world: World, scope: str, day: date) -> dict[str, Any]:
    """The figures of users or accounts of the whole workspace on the day."""
    first_days = world.users if scope == "user" else world.accounts
    number = sum(first <= day for first in first_days.values())
    return of_subjects(world, scope, set(first_days), day, number)


def of_subjects(
    world: World, scope: str, names: set[str], day: date, number: int
) -> dict[str, Any]:
    """The figures of these users or accounts on the day, on which so many of them were known.

    The events of a user belong to the account also if a message named it only later.
    """
    plural = f"{scope}s"
    by_name = scores_on(world, scope, day)
    scores = sorted(score for name in names if (score := by_name.get(name, 0.0)))
    scores = [0.0] * (number - len(scores)) + scores
    days = {name: active_days(world, scope, name, day) for name in names}
    bands = [0] * 10
    for score in scores:
        bands[min(9, int(score // 10))] += 1
    own: dict[str, Any] = {
        plural: number,
        f"daily_{plural}": sum(day in own for own in days.values()),
        f"weekly_{plural}": sum(bool(own) and day - own[-1] < 7 * DAY for own in days.values()),
        f"{scope}_mean": sum(scores) / len(scores) if scores else None,
        f"{scope}_median": median(scores),
        f"{scope}_bands": bands,
    }
    if scope == "account":
        own["new_accounts"] = sum(own == [day] for own in days.values())
        own["stopped_accounts"] = sum(own[-1:] == [day - 28 * DAY] for own in days.values())
        own["returned_accounts"] = sum(
            own[-1:] == [day] and len(own) > 1 and day - own[-2] > 28 * DAY for own in days.values()
        )
    return own


def scores_on(world: World, scope: str, day: date) -> dict[str, float]:
    grouped = by_subject(world.scored, "user" if scope == "user" else "account")
    benchmark = benchmark_on(grouped, world.definition, day)
    return {
        name: rounded_score(raw(own, world.definition, day), benchmark)
        for name, own in grouped.items()
    }


def active_days(world: World, scope: str, name: str, until: date) -> list[date]:
    """The days with a scored event of the subject, up to that one."""
    days = {did.at.date() for did in world.scored if getattr(did, scope) == name}
    return sorted(day for day in days if day <= until)


def active_users(world: World, account: str, day: date, days: int) -> int:
    """How many users did a scored event in the account on the last days."""
    return len({
        did.user
        for did in world.scored
        if did.account == account and day - days * DAY < did.at.date() <= day
    })  # fmt: skip


def median(values: Sequence[float]) -> float | None:
    if not values:
        return None
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
