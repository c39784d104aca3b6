"""What a chance is made of. It is stored as JSON, and pages, files, and the read API read it."""

from datetime import date
from enum import StrEnum

import msgspec

from outcomes.statistics.estimates import Estimate

# The least number of good and of bad outcomes to learn from.
LEAST_OF_EACH = 20


class Feature(StrEnum):
    """What is known of an account on a day, from its activity until then and from its license."""

    # Active user-days of the last 7 and 30 days.
    USER_DAYS_7 = "user_days_7"
    USER_DAYS_30 = "user_days_30"
    # Users active in the last 30 days, and event names used in them.
    USERS = "users"
    EVENT_NAMES = "event_names"
    # Days since the last scored event, and since the account was created.
    IDLE_DAYS = "idle_days"
    AGE_DAYS = "age_days"
    SEATS = "seats"
    # The share of the seats that these users are, 1 at most.
    LICENSE_UTILIZATION = "license_utilization"


class Fact(msgspec.Struct, frozen=True):
    """What moved a chance: the account's number, the median of the past cases, and by how much the
    chance differs (-1 to 1) from the one with that median."""

    feature: Feature
    value: float
    usual: float
    effect: float


class PastCase(msgspec.Struct, frozen=True):
    """A past case that was similar at the same age, and what became of it."""

    account: int
    day: date
    result: str
    is_good: bool


class Evidence(msgspec.Struct, frozen=True):
    """Why a chance is what it is: the three facts that moved it most, those first, and the five
    most similar past cases."""

    facts: list[Fact] = []
    similar: list[PastCase] = []


class Bin(msgspec.Struct, frozen=True):
    """Of past predictions with similar chances: the mean chance, and the share that was good."""

    expected: float
    observed: Estimate


class Proof(msgspec.Struct, frozen=True):
    """How a model predicted outcomes that it had not seen, by walk-forward.

    ``brier`` is the mean squared error of its chances, ``brier_of_share`` that of the share of good
    outcomes known before, and ``gain`` their difference with its 95% interval.
    """

    outcomes: int
    brier: float
    brier_of_share: float
    gain: Estimate
    bins: list[Bin]


class Totals(msgspec.Struct, frozen=True):
    """What the chances of one kind add up to, as of a look.

    Of ``running`` cases, ``learned`` have a chance of their own, and the others the share of all
    good outcomes. ``expected`` is how many are to end well, with a 95% interval. Not among them are
    those that the customer has ``answered``, those that are ``too_young``, and those
    ``without_data`` of an account.
    """

    running: int = 0
    learned: int = 0
    expected: float = 0.0
    low: float = 0.0
    high: float = 0.0
    answered: int = 0
    too_young: int = 0
    without_data: int = 0
