"""Who did what on which day, in plain Python, from the messages alone. The figures must agree."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from engagement.messages import Alias, Group, Identify, Message, Track

DAY = timedelta(days=1)
# The whole product among events and features.
ANYTHING = ""


class Use(NamedTuple):
    user: str
    account: str | None
    event: str
    day: date


class Sums(NamedTuple):
    used: int
    started: int
    stopped: int


def uses(messages: Sequence[Message]) -> set[Use]:
    """What identified users did, each event in the account that its user was in at the time: that
    of the latest membership until then, or else of the first one. Of two at one time, the later
    arrival counts."""
    people = {each.previous_id: each.user_id for each in messages if isinstance(each, Alias)}
    identified = {each.user_id for each in messages if isinstance(each, Identify)}
    memberships = defaultdict(list)
    for arrival, each in enumerate(messages):
        if isinstance(each, Identify | Group) and each.group_id and each.user_id:
            person = people.get(each.user_id, each.user_id)
            memberships[person].append((each.timestamp, arrival, each.group_id))
    all_uses = set()
    for each in messages:
        if not isinstance(each, Track):
            continue
        person = people.get(each.user_id, each.user_id)
        if person not in identified:
            continue
        own = sorted(memberships[person])
        until = max([each.timestamp, *(at for at, _, _ in own[:1])])
        account = next((group for at, _, group in reversed(own) if at <= until), None)
        all_uses.add(Use(person, account, each.event, each.timestamp.date()))
    return all_uses


def things(use: Use, features: Mapping[str, Collection[str]]) -> Iterable[str]:
    """What the use counts for: its event, the event's feature, and the whole product."""
    yield use.event
    yield from (f"feature {name}" for name, events in features.items() if use.event in events)
    yield ANYTHING


def figures(
    all_uses: Iterable[Use], features: Mapping[str, Collection[str]], until: date
) -> dict[tuple[str, date], tuple[int, int]]:
    """The users and the accounts of each event and feature, by day, before the day *until*."""
    users: dict[tuple[str, date], set[str]] = defaultdict(set)
    accounts: dict[tuple[str, date], set[str | None]] = defaultdict(set)
    for use in all_uses:
        if use.day < until:
            for thing in things(use, features):
                users[thing, use.day].add(use.user)
                accounts[thing, use.day] |= {use.account} - {None}
    return {key: (len(users[key]), len(accounts[key])) for key in users}


def sums(
    all_uses: Iterable[Use], features: Mapping[str, Collection[str]], until: date
) -> dict[str, Sums]:
    """By event and feature: the accounts of the last 28 days before *until* that used it, of which
    some had never before, and those that stopped in these days."""
    days: dict[tuple[str, str], set[date]] = defaultdict(set)
    for use in all_uses:
        if use.account and use.day < until:
            for thing in things(use, features):
                days[thing, use.account].add(use.day)
    summed: dict[str, Sums] = {}
    for (thing, _), own in days.items():
        number, started, stopped = summed.get(thing, Sums(0, 0, 0))
        since_last, since_first = (until - max(own)).days, (until - min(own)).days
        summed[thing] = Sums(
            number + (since_last <= 28),
            started + (since_first <= 28),
            stopped + (28 < since_last <= 56),
        )
    return summed
