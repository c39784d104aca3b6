"""What days of a product's own zone would change: ``python -m proofs.zones``.

The population of the demo works office hours, or evenings, by the clock of a zone. Its events are
counted twice: by UTC day, as the service does, and by the day of the zone. The figures say how many
user-days fall on another day, and what scores and alarms make of it.
"""

import argparse
import os
from datetime import UTC, datetime, time, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import django
import numpy as np
import numpy.typing as npt

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

# The apps must be loaded first.
from engagement.scores.formula import compute_score  # noqa: E402
from harness.demo import population, vocabulary  # noqa: E402
from harness.demo.population import Size  # noqa: E402
from harness.demo.truths import UNCHANGED, Truth  # noqa: E402
from proofs import alarm_worlds, alarms  # noqa: E402
from proofs.alarm_worlds import FOLLOWED_DAYS, HISTORY_DAYS, World  # noqa: E402
from proofs.alarms import FALL, RISE  # noqa: E402

Array = npt.NDArray[Any]

DAYS = 500
NOW = datetime(2026, 9, 24, 23, 59, tzinfo=UTC)
DAY, HOUR = 86_400, 3_600
ZONES = (
    *("Europe/Berlin", "America/Denver", "America/Los_Angeles", "Asia/Kolkata"),
    *("Asia/Tokyo", "Australia/Sydney", "Pacific/Auckland"),
)
# By the clock of the zone: the hour at which the day begins, and how many hours it has.
HOURS = {"office, 8 to 17": (8, 9), "evening, 18 to 23": (18, 5)}
LOOKBACKS = (1, 7, 30)
SCORED_DAYS = 90
# The level that a workspace begins with: one false alarm per 20 accounts and quarter.
LEVEL = 2


class Events(NamedTuple):
    """All events: who did them, the day by the clock of the zone, and the share of the working
    time that had passed."""

    account: Array
    user: Array
    day: Array
    at: Array


def live(size: Size, seed: int) -> tuple[Events, list[Truth]]:
    first = datetime.combine(NOW.date() - timedelta(days=size.days - 1), time(), UTC)
    columns: list[list[float]] = [[], [], [], []]
    user, truths = 0, []
    for number, customer in enumerate(
        population.generate(
            vocabulary.NOTES, size, NOW, seed, lambda n: replace_hours(vocabulary.company(n))
        )
    ):
        truths.append(customer.truth)
        for person in customer.people:
            user += 1
            for use in person.event_uses:
                for moment in use.times:
                    day, second = divmod((moment - first).total_seconds(), DAY)
                    at = (second - 8 * HOUR) / population.WORKDAY_SECONDS
                    for column, value in zip(columns, (number, user, day, at), strict=True):
                        column.append(value)
    ats = np.array(columns[3])
    # The last day began at midnight for everybody.
    keep = np.array(columns[2]) < size.days - 1
    accounts, users, days = (np.array(column, np.int64)[keep] for column in columns[:3])
    return Events(accounts, users, days, ats[keep].clip(0, 0.999)), truths


def replace_hours(company: vocabulary.Company) -> vocabulary.Company:
    """The company with a clock that shows UTC: offices open at eight."""
    return company._replace(hours=0)


def utc_days(events: Events, zone: str, hours: tuple[int, int], days: int) -> Array:
    """The UTC day of each event, if people work these hours by the clock of the zone."""
    first = NOW.date() - timedelta(days=days - 1)
    noons = (
        datetime.combine(first + timedelta(days=n), time(12), ZoneInfo(zone)) for n in range(days)
    )
    offsets = np.array([(noon.utcoffset() or timedelta()).total_seconds() for noon in noons])
    opens, length = hours
    seconds = (opens + events.at * length) * HOUR - offsets[events.day]
    shifted: Array = events.day + np.floor(seconds / DAY).astype(np.int64)
    return shifted


def by_account(events: Events, day: Array, accounts: int, days: int) -> tuple[Array, Array]:
    """Active users, and events, of each account (rows) by day (columns)."""
    users = np.zeros((accounts, days), np.uint16)
    points = np.zeros((accounts, days))
    inside = (day >= 0) & (day < days)
    triples = np.stack([events.account, events.user, day])[:, inside]
    pairs = np.unique(triples, axis=1)
    np.add.at(users, (pairs[0], pairs[2]), 1)
    np.add.at(points, (triples[0], triples[2]), 1)
    return users, points


# --- Figures --------------------------------------------------------------------------------


def on_another_day(events: Events, day: Array, days: int) -> tuple[float, float, float]:
    """Shares of the zone's user-days: on another UTC day, on two UTC days; and how many more
    user-days there are by UTC."""
    own = events.user * days + events.day
    keys, place = np.unique(own, return_inverse=True)
    same = np.zeros(len(keys), bool)
    other = np.zeros(len(keys), bool)
    same[place[day == events.day]] = True
    other[place[day != events.day]] = True
    by_utc = len(np.unique(events.user * days + day))
    return float((~same).mean()), float((same & other).mean()), by_utc / len(keys) - 1


def score_differences(own: Array, utc: Array, lookback: int) -> tuple[float, float, float]:
    """The mean difference of the scores of complete days, and the shares of scores that differ by
    at least 1 and 5 points."""
    differences = np.concatenate(
        [
            np.abs(_scores(own, lookback, day) - _scores(utc, lookback, day))
            for day in range(own.shape[1] - SCORED_DAYS, own.shape[1])
        ]
    )
    return (
        float(differences.mean()),
        float((differences >= 1).mean()),
        float((differences >= 5).mean()),
    )


def _scores(points: Array, lookback: int, day: int) -> Array:
    raw = points[:, day - lookback + 1 : day + 1].sum(axis=1)
    above = raw[raw > 0]
    benchmark = float(np.percentile(above, 90)) if len(above) else None
    return np.array([compute_score(float(each), benchmark) for each in raw])


def alarm_days(users: Array) -> dict[tuple[int, int], list[int]]:
    """The days on which alarms began, by account and direction."""
    accounts, days = users.shape
    kind = alarm_worlds.Kind(
        "zones", accounts, judged_days=days - HISTORY_DAYS - alarm_worlds.MEASURED_DAYS
    )
    none = np.zeros(accounts, np.int64)
    world = World(kind, users, none, none, none, none, none - 1, none + days, -1)
    began: dict[tuple[int, int], list[int]] = {}
    for direction, spans in enumerate(alarms.live(world).spans):
        for span in spans[spans["level"] == LEVEL]:
            began.setdefault((int(span["row"]), direction), []).append(int(span["since"]))
    return began


def judge(began: dict[tuple[int, int], list[int]], truths: list[Truth], days: int) -> str:
    """How many of the changed accounts were found within 13 weeks and when, and false alarms."""
    delays, changes, false_alarms, steady = [], 0, 0, 0
    for account, truth in enumerate(truths):
        steady += truth.change == UNCHANGED
        if truth.change == UNCHANGED:
            false_alarms += sum(
                len(began.get((account, direction), ())) for direction in (FALL, RISE)
            )
        direction = (
            FALL if truth.factor < 1 or truth.leaving else RISE if truth.factor > 1 else None
        )
        if direction is None or truth.day is None or truth.day > days - FOLLOWED_DAYS:
            continue
        changes += 1
        later = [day - truth.day for day in began.get((account, direction), ()) if day >= truth.day]
        delays += [min(later)] if later and min(later) <= FOLLOWED_DAYS else []
    quarters = (days - HISTORY_DAYS) / 91
    return (
        f"{len(delays)} of {changes} changes found, after {np.median(delays or [0]):.0f} days "
        f"(median); {20 * false_alarms / max(steady, 1) / quarters:.2f} false alarms per 20 "
        "unchanged accounts and quarter"
    )


def shared(
    first: dict[tuple[int, int], list[int]], second: dict[tuple[int, int], list[int]]
) -> str:
    """How many alarms begin on the same day or within a week by both."""
    same = near = 0
    for key, days in first.items():
        others = second.get(key, [])
        same += sum(day in others for day in days)
        near += sum(
            any(abs(day - other) <= 7 for other in others) for day in days if day not in others
        )
    total, by_utc = (sum(map(len, began.values())) for began in (first, second))
    return f"{total} alarms by the zone, {by_utc} by UTC, {same} on the same day, {near} in a week"


def figures(events: Events, truths: list[Truth], size: Size, zones: tuple[str, ...]) -> None:
    days = size.days - 1
    own_users, own_points = by_account(events, events.day, size.accounts, days)
    own_alarms = alarm_days(own_users)
    print(f"By the zone: {judge(own_alarms, truths, days)}")
    for name, hours in HOURS.items():
        for zone in zones:
            day = utc_days(events, zone, hours, size.days)
            users, points = by_account(events, day, size.accounts, days)
            other, two, more = on_another_day(events, day, size.days)
            print(f"{zone}, {name}: {other:.1%} of user-days on another UTC day, {two:.1%} on two")
            print(f"  user-days by UTC: {more:+.1%}")
            for lookback in LOOKBACKS:
                mean, by_one, by_five = score_differences(own_points, points, lookback)
                print(
                    f"  scores, lookback {lookback}: differ by {mean:.2f} on average, "
                    f"{by_one:.1%} by 1 or more, {by_five:.1%} by 5 or more"
                )
            utc_alarms = alarm_days(users)
            print(f"  by UTC: {judge(utc_alarms, truths, days)}")
            print(f"  {shared(own_alarms, utc_alarms)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accounts", type=int, default=1_000)
    parser.add_argument("--users", type=int, default=8_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--zone", action="append", help="by default seven of them")
    options = parser.parse_args()
    size = Size(options.accounts, options.users, DAYS, event_days=DAYS)
    events, truths = live(size, options.seed)
    print(
        f"{len(events.user):,} events of {options.users:,} users in {options.accounts:,} accounts"
    )
    figures(events, truths, size, tuple(options.zone or ZONES))


if __name__ == "__main__":
    main()
