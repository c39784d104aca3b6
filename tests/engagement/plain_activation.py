"""Which steps users and accounts have done, in plain Python, from the messages alone. The rows must
agree with them, in whatever order messages arrive."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

from engagement.messages import Alias, Group, Identify, Message, Track
from engagement.rules.steps import Step


class Reached(NamedTuple):
    first_day: date
    # The days after the first one until each step was done, None for those that are not.
    days: tuple[int | None, ...]


def reached(messages: Sequence[Message], scope: str, steps: Sequence[Step]) -> dict[str, Reached]:
    """Of each identified user, or of each account of one."""
    people = _People(messages)
    times, traits, did = people.users if scope == "user" else people.accounts
    return {
        name: Reached(
            min(times[name]).date(),
            tuple(_days(step, min(times[name]).date(), traits[name], did[name]) for step in steps),
        )
        for name in times
    }


def _days(
    step: Step, first_day: date, traits: dict[str, Any], did: list[tuple[str, date]]
) -> int | None:
    if step.kind == "trait":
        value = traits.get(step.of)
        if step.operator == "at_least":
            least = step.value
            assert isinstance(least, int | float)
            holds = isinstance(value, int | float) and value >= least
        elif step.operator == "is_set":
            holds = value is not None
        else:
            holds = str(value).lower() == str(step.value).lower()
        return 0 if holds else None
    days = sorted(day for event, day in did if event == step.of)
    if step.unit == "days":
        days = sorted(set(days))
    if len(days) < step.at_least:
        return None
    after = (days[step.at_least - 1] - first_day).days
    return max(0, after) if after < step.within_days else None


class _People:
    """When users and accounts were seen first, their traits, and what was done on which day."""

    def __init__(self, messages: Sequence[Message]) -> None:
        aliases = {each.previous_id: each.user_id for each in messages if isinstance(each, Alias)}

        def person(id: str) -> str:
            return aliases.get(id, id)

        in_order = [(each.timestamp, arrival, each) for arrival, each in enumerate(messages)]
        in_order.sort(key=lambda each: each[:2])
        memberships: dict[str, list[tuple[datetime, str]]] = defaultdict(list)
        self.users, self.accounts = _empty(), _empty()
        for at, _, each in in_order:
            id = getattr(each, "user_id", None)
            if id:
                self.users[0][person(id)].append(at)
            if isinstance(each, Alias):
                self.users[0][person(each.previous_id)].append(at)
            account = getattr(each, "group_id", None)
            if account:
                self.accounts[0][account].append(at)
            if isinstance(each, Identify):
                self.users[1][person(each.user_id)].update(each.traits)
                if account:
                    memberships[person(each.user_id)].append((at, account))
            if isinstance(each, Group):
                self.accounts[1][each.group_id].update(each.traits)
        identified = {person(each.user_id) for each in messages if isinstance(each, Identify)}
        for at, _, each in in_order:
            if isinstance(each, Track) and (name := person(each.user_id)) in identified:
                self.users[2][name].append((each.event, at.date()))
                own = memberships[name]
                before = [account for since, account in own if since <= at]
                account = before[-1] if before else own[0][1] if own else None
                if account:
                    self.accounts[2][account].append((each.event, at.date()))
        for name in set(self.users[0]) - identified:
            del self.users[0][name]


def _empty() -> tuple[Any, Any, Any]:
    return defaultdict(list), defaultdict(dict), defaultdict(list)
