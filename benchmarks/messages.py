"""Believable messages. The same seed makes the same messages."""

import random
from collections.abc import Iterator
from datetime import datetime, timedelta

from engagement.messages import Group, Identify, Message, Track

USERS, ACCOUNTS, EVENT_NAMES = 5000, 300, 20
TRACKS, IDENTIFIES = 0.85, 0.10
SPACING = timedelta(microseconds=50)


def generate(count: int, now: datetime, seed: int) -> Iterator[Message]:
    """85 % tracks, 10 % identifies, 5 % groups, in the order of their timestamps up to *now*."""
    chance = random.Random(seed)
    start = now - SPACING * count
    for place in range(count):
        at = start + SPACING * place
        user, kind = chance.randrange(USERS), chance.random()
        if kind < TRACKS:
            yield Track(f"user-{user}", _event(chance), at)
        elif kind < TRACKS + IDENTIFIES:
            yield _identify(chance, user, at)
        else:
            yield _group(chance, user % ACCOUNTS, at)


def _event(chance: random.Random) -> str:
    # The lower of two draws: the first names are about forty times as frequent as the last.
    return f"event {min(chance.randrange(EVENT_NAMES), chance.randrange(EVENT_NAMES))}"


def _identify(chance: random.Random, user: int, at: datetime) -> Identify:
    traits = {
        "name": f"User {user}",
        "email": f"user{user}@example.com",
        "plan": chance.choice(["free", "pro"]),
        "seats": chance.randrange(9),
    }
    return Identify(f"user-{user}", at, traits, f"account-{user % ACCOUNTS}")


def _group(chance: random.Random, account: int, at: datetime) -> Group:
    traits = {
        "name": f"Account {account}",
        "domain": f"a{account}.example.com",
        "size": chance.randrange(100),
    }
    return Group(f"account-{account}", at, traits)
