"""What really happens to synthetic customers: the truth that alarms are measured against."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random
from typing import Final

from harness.demo.vocabulary import Feature

UNCHANGED, JOINED = "unchanged", "joined"
HALVED, STOPPED, DOUBLED = "halved", "stopped", "doubled"
USERS_LEFT, FEATURE_DROPPED = "users left", "feature dropped"
# Of 100 customers.
_WEIGHTS = {UNCHANGED: 67, JOINED: 8, HALVED: 8, STOPPED: 6, DOUBLED: 5, USERS_LEFT: 3} | {
    FEATURE_DROPPED: 3
}
_FACTORS = {HALVED: 0.5, STOPPED: 0.0, DOUBLED: 2.0}
# Of the people, where users leave, and the fewest people of whom that can be said.
LEAVING_SHARE, LEAVING_MIN_USERS = 0.4, 5
# The share of unchanged customers that never really start.
DABBLING, DABBLING_LEVEL = 0.1, 0.1
# A change is at least this old, or a sixth of the history: nobody could see a newer one.
NEWEST_CHANGE_DAYS = 10
# The ages in days of customers on the first day.
_AGES = range(200, 900)
# The largest age in days of a customer that joins within the history.
_JOINED_WITHIN = 70
# The traits that say the truth, so that people can compare it with what the service concludes.
TRUTH_TRAIT: Final = "demo.truth"
CHANGED_ON_TRAIT: Final = "demo.changedOn"


@dataclass(frozen=True)
class Truth:
    """*change* happens on *day*, counted from the first day of the history, or never.

    *start* is the customer's first day, negative before the history. *level* is its activity
    before the change, which multiplies it by *factor*; *leaving* is the share of people who leave,
    and *event* what is no longer used.
    """

    change: str
    start: int
    day: int | None = None
    level: float = 1.0
    factor: float = 1.0
    leaving: float = 0.0
    event: str = ""

    def traits(self, first: date) -> dict[str, str]:
        """What the account's traits say. *first* is the first day of the history."""
        if self.day is None:
            return {TRUTH_TRAIT: self.change}
        changed_on = first + timedelta(days=self.day)
        return {TRUTH_TRAIT: self.change, CHANGED_ON_TRAIT: changed_on.isoformat()}


def plant(days: int, users: int, features: Sequence[Feature], chance: Random) -> Truth:
    """The truth of a customer with *users* people and a history of *days*."""
    change = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
    if change == JOINED:
        start = days - 1 - chance.randrange(max(1, min(days // 4, _JOINED_WITHIN)))
        return Truth(change, start)
    start = -chance.choice(_AGES)
    if change == UNCHANGED:
        level = DABBLING_LEVEL if chance.random() < DABBLING else 1.0
        return Truth(change, start, level=level)
    newest = days - min(NEWEST_CHANGE_DAYS, days // 6)
    day = chance.randrange(days // 2, max(days // 2 + 1, newest))
    if change == USERS_LEFT and users < LEAVING_MIN_USERS:
        change = HALVED
    return Truth(
        change,
        start,
        day,
        level=0.6 if change == DOUBLED else 1.0,
        factor=_FACTORS.get(change, 1.0),
        leaving=LEAVING_SHARE if change == USERS_LEFT else 0.0,
        event=chance.choice(features[1:4]).event if change == FEATURE_DROPPED else "",
    )
