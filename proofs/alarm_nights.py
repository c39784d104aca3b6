"""Has the service's own job decide the nights of a planted world: its daily counts are stored as
recording leaves them, and what comes out are the alarms in the tables.

``python -m proofs.alarm_nights WORLD SEED ACCOUNTS WAY``, in the environment of a service, prints
what both ways of deciding found.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, LiteralString

import django
import numpy as np

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

# The apps must be loaded first.
from core.database import sql  # noqa: E402
from core.jobs import kinds, run  # noqa: E402
from core.models import Job  # noqa: E402
from engagement.models import (  # noqa: E402
    Account,
    Alarm,
    AlarmNight,
    EventName,
    Product,
    ScoreSet,
    User,
)
from engagement.nights.jobs import DECIDE_ALARMS  # noqa: E402
from engagement.nights.replays import LEAST_DAYS, NIGHTS  # noqa: E402
from engagement.rescoring import sets  # noqa: E402
from engagement.rescoring.rescore import rescore  # noqa: E402
from harness.processes import Failed  # noqa: E402
from proofs import alarm_worlds, alarms  # noqa: E402
from proofs.alarm_worlds import World  # noqa: E402

DAY = timedelta(days=1)
# UTC hours of events before, within, and after the middle of the day, by region.
HOURS = (6, 15, 21)
# Account, signal, level, first day, and the day that ended it or None.
Span = tuple[int, str, int, str, str | None]


@dataclass(frozen=True)
class Found:
    """What was decided: the alarms, and of each night the number of decidable accounts."""

    alarms: list[Span]
    decidable: dict[str, int | None]


def a_world(name: str, seed: int, accounts: int) -> World:
    """A world of one of the kinds of the proof, with two months that are judged. Nobody delivers
    late: how late is learnt by the service alone."""
    kind = next(kind for kind in alarms.KINDS if kind.name == name)
    world = alarm_worlds.build(replace(kind, accounts=accounts, judged_days=60), seed)
    return replace(world, late=np.zeros_like(world.late))


# --- By pure functions ----------------------------------------------------------------------


def on_arrays(world: World, nights_from: int) -> Found:
    """As the proof decides it."""
    history = alarms.live(world, nights_from)
    rows: list[Span] = []
    for signal, spans in zip(("fall", "rise"), history.spans, strict=True):
        for row, level, since, end, _ in spans.tolist():
            ended = None if end == world.kind.days else world.day(end).isoformat()
            rows.append((row, signal, level, world.day(since).isoformat(), ended))
    decidable = history.decidable.items()
    return Found(sorted(rows, key=str), {world.day(night).isoformat(): n for night, n in decidable})


# --- By the service -------------------------------------------------------------------------

_COPY: LiteralString = """
    COPY engagement_dailycount
        (product_id, user_id, day, event_name_id, account_id, count, last_at)
    FROM STDIN (FORMAT BINARY)
"""
_TYPES = ("int8", "int8", "date", "int8", "int8", "int4", "timestamptz")


class StoredWorld:
    """A product with the accounts and users of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.product = Product.create_with_workspace(world.kind.name)
        self._name = EventName.objects.create(product=self.product, name="opened")
        begins = datetime.combine(world.day(0), time(), UTC)
        identity = {"first_seen_at": begins, "last_seen_at": begins, "is_identified": True}
        self.accounts = Account.objects.bulk_create(
            Account(product=self.product, external_id=f"account {row}", **identity)
            for row in range(len(world.users))
        )
        users = User.objects.bulk_create(
            User(
                product=self.product,
                external_id=f"{account.external_id}, user {place}",
                account=account,
                **identity,
            )
            for account, most in zip(self.accounts, world.users.max(axis=1), strict=True)
            for place in range(most)
        )
        self._users: dict[int, list[int]] = {account.pk: [] for account in self.accounts}
        for user in users:
            self._users[user.account_id or 0].append(user.pk)
        # Nobody told of these rows.
        sets.request_score_set(self.product.workspaces.get().pk)
        rescore(begins)

    def record(self, columns: range) -> None:
        """Store the counts of these days. Who of the users is active does not matter."""
        sql.copy(_COPY, _TYPES, self._counts(columns))

    def _counts(self, columns: range) -> Iterator[sql.Row]:
        for column in columns:
            day = self.world.day(column)
            for row in np.flatnonzero(self.world.users[:, column]).tolist():
                account, region = self.accounts[row].pk, int(self.world.regions[row])
                at = datetime.combine(day, time(HOURS[region]), UTC)
                for user in self._users[account][: int(self.world.users[row, column])]:
                    yield self.product.pk, user, day, self._name.pk, account, 1, at

    def decide(self, column: int) -> None:
        """Have the job decide what is due when the day of the column is over."""
        today = self.world.day(column) + DAY
        now = datetime.combine(today, time(2), UTC)
        ScoreSet.objects.filter(product=self.product).update(scored_day=today)
        kind = kinds.get(DECIDE_ALARMS)
        assert kind is not None
        run.run_kinds([kind], lambda: now, lambda: False)
        for error in Job.objects.filter(kind=DECIDE_ALARMS).values_list("error", flat=True):
            raise Failed(f"The night after {self.world.day(column)} is not decided. {error}")

    def alarms_and_nights(self) -> Found:
        places = {account.pk: row for row, account in enumerate(self.accounts)}
        stored = Alarm.objects.filter(product=self.product, signal__in=("fall", "rise"))
        spans: list[Span] = [
            (
                places[account],
                signal,
                level,
                since.isoformat(),
                ended.isoformat() if ended else None,
            )
            for account, signal, level, since, ended in stored.values_list(
                "account_id", "signal", "level", "since", "ended_on"
            )
        ]
        nights = AlarmNight.objects.filter(
            workspace__product=self.product, decided_at__isnull=False
        )
        decidable: dict[date, int | None] = dict(nights.values_list("day", "accounts"))
        return Found(
            sorted(spans, key=str), {day.isoformat(): n for day, n in sorted(decidable.items())}
        )


def day_by_day(world: World) -> tuple[Found, Found]:
    """Each night follows its day, as in a service that runs all the time."""
    stored, first = StoredWorld(world), LEAST_DAYS - 10
    stored.record(range(first))
    for column in range(first, world.kind.days):
        stored.record(range(column, column + 1))
        stored.decide(column)
    return stored.alarms_and_nights(), on_arrays(world, first)


def by_replay(world: World) -> tuple[Found, Found]:
    """All days are there at once, as after an import."""
    stored = StoredWorld(world)
    stored.record(range(world.kind.days))
    stored.decide(world.kind.days - 1)
    return stored.alarms_and_nights(), on_arrays(world, world.kind.days - NIGHTS)


WAYS: dict[str, Callable[[World], tuple[Found, Found]]] = {
    "day by day": day_by_day,
    "by one replay": by_replay,
}


def main(name: str, seed: str, accounts: str, way: str) -> dict[str, Any]:
    stored, expected = WAYS[way](a_world(name, int(seed), int(accounts)))
    differing = set(stored.alarms) ^ set(expected.alarms)
    nights = stored.decidable.keys() | expected.decidable.keys()
    return {
        "alarms": len(stored.alarms),
        "nights": len(stored.decidable),
        "differing alarms": len(differing),
        "differing nights": sum(
            stored.decidable.get(night) != expected.decidable.get(night) for night in nights
        ),
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
