"""How people work on the accounts of a product: the results of alarms, and who owns which."""

from datetime import date
from enum import StrEnum
from typing import Any

import msgspec

from engagement.models import Product


class Means(StrEnum):
    """What a result says of the alarm."""

    # The account was kept, or lost.
    GOOD = "good"
    BAD = "bad"
    # Nothing was wrong with the account.
    FALSE_ALARM = "false_alarm"
    # What becomes of the account is open.
    NOTHING = "nothing"


MEANINGS = {
    Means.GOOD: "the account was kept",
    Means.BAD: "the account was lost",
    Means.FALSE_ALARM: "nothing was wrong",
    Means.NOTHING: "it is open what becomes of the account",
}


class Result(msgspec.Struct, frozen=True):
    name: str
    means: Means


class OwnerRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """The members of the segment get the owner; without a segment, the login whose name or email
    address the trait has."""

    segment: int = 0
    owner: str = ""
    trait: str = ""


class WorkSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """Stored as JSON in ``Product.work``. ``results`` are those besides BUILT_IN. Of the ``rules``,
    the first that names an owner counts. Owners were chosen by them for the day *chosen_for*, and
    are to be chosen again if they changed since."""

    results: tuple[Result, ...] = ()
    rules: tuple[OwnerRule, ...] = ()
    is_changed: bool = False
    chosen_for: date | None = None


BUILT_IN = (
    Result("contacted", Means.NOTHING),
    Result("saved", Means.GOOD),
    Result("lost", Means.BAD),
    Result("false alarm", Means.FALSE_ALARM),
)


def load(product: Product) -> WorkSettings:
    return msgspec.convert(product.work, WorkSettings)


def to_json(settings: WorkSettings) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(settings)
    return values


def results_of(product: Product) -> dict[str, Means]:
    """What the results of alarms mean, by their names. One that was deleted means nothing."""
    return {each.name: each.means for each in (*BUILT_IN, *load(product).results)}
