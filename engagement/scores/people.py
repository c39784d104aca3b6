"""The most active, new, and lapsed users of an account over one period.

Points are those that a user adds to this account, so they add up to the account's raw score. Each
statement reads the account's daily counts of a bounded time, once.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal, LiteralString, NamedTuple, TypeAlias

from engagement.models import ScoreSet
from engagement.scopes import ACCOUNTS
from engagement.scores.formula import shown_points
from engagement.scores.history import (
    COUNTS,
    WHERE_SCORED,
    EventPoints,
    event_points,
    fetch_counts,
    last_scored_day,
    shown_of_days,
    sort_by_points,
)

Group: TypeAlias = Literal["active", "came", "quiet"]


class PersonPoints(NamedTuple):
    """The points of a user in the account, as those of an event name (``EventPoints``)."""

    user_id: int
    points: int
    yesterday_points: int
    before_points: int


@dataclass(frozen=True)
class People:
    """Users of one group, most points first, and the number of users in each group.

    ``active`` are those with events in the window. ``before`` is the number of users who were
    active in the period before the one that ended yesterday: ``quiet`` of them were not since, and
    ``came`` are active and were not.
    """

    rows: list[PersonPoints]
    points: int = 0
    active: int = 0
    came: int = 0
    quiet: int = 0
    before: int = 0


@dataclass(frozen=True)
class Activity:
    """The account's raw score by event name, as ``score_breakdown`` gives it, and its people."""

    events: list[EventPoints]
    people: People


_CONDITIONS: dict[Group, LiteralString] = {
    "active": "count > 0",
    "came": "count > 0 AND before_count = 0",
    "quiet": "count = 0 AND yesterday_count = 0 AND before_count > 0",
}
# Daily counts are added up first: a user has many of an event, and each costs a join otherwise.
_ACTIVITY: LiteralString = f"""
    WITH pair AS MATERIALIZED (
        SELECT d.product_id, d.user_id, d.event_name_id, {COUNTS}
        FROM engagement_dailycount d
        WHERE d.product_id = %(product)s AND d.{{id_column}} = %(subject)s
            AND d.day BETWEEN {{before_from}} AND %(today)s
        GROUP BY d.product_id, d.user_id, d.event_name_id
    ),
    scored AS MATERIALIZED (
        SELECT d.user_id, d.event_name_id, d.count, d.yesterday_count, d.before_count, d.now,
            d.yesterday, d.before, COALESCE(w.weight, %(default_weight)s) AS weight
        FROM pair d {{join_users}}
        {WHERE_SCORED}
    ),
    person AS MATERIALIZED (
        SELECT user_id, sum(now * weight) AS points, sum(yesterday * weight) AS yesterday_points,
            sum(before * weight) AS before_points, sum(count) AS count,
            sum(yesterday_count) AS yesterday_count, sum(before_count) AS before_count
        FROM scored GROUP BY user_id
    ),
    listed AS (
        SELECT * FROM person WHERE <condition>
        ORDER BY points DESC, yesterday_points DESC, before_points DESC, user_id
        LIMIT %(limit)s
    )
    SELECT 'total', NULL, COALESCE(sum(points), 0),
        count(*) FILTER (WHERE {_CONDITIONS["active"]}),
        count(*) FILTER (WHERE {_CONDITIONS["came"]}),
        count(*) FILTER (WHERE {_CONDITIONS["quiet"]}),
        count(*) FILTER (WHERE before_count > 0), NULL::numeric, NULL::numeric
    FROM person
    UNION ALL
    SELECT 'person', NULL, user_id, points, yesterday_points, before_points, NULL, NULL, NULL
    FROM listed
    UNION ALL
    SELECT 'event', n.name, s.weight, sum(s.count), sum(s.yesterday_count), sum(s.before_count),
        sum(s.now), sum(s.yesterday), sum(s.before)
    FROM scored s
    JOIN engagement_eventname n ON n.product_id = %(product)s AND n.id = s.event_name_id
    GROUP BY n.id, n.name, s.weight
"""
# A user counts as active from a day with an event until one lookback later.
_ACTIVE_BY_DAY: LiteralString = f"""
    WITH active_day AS (
        SELECT d.user_id, d.day
        FROM engagement_dailycount d {{join_users}}
        {WHERE_SCORED} AND d.{{id_column}} = %(subject)s
            AND d.day BETWEEN %(days_from)s AND %(today)s
        GROUP BY d.user_id, d.day
    ),
    span AS (
        SELECT day, LEAST(day + %(lookback)s, lead(day) OVER (PARTITION BY user_id ORDER BY day))
            AS until
        FROM active_day
    )
    SELECT day, sum(change) FROM (
        SELECT day, 1 AS change FROM span UNION ALL SELECT until, -1 FROM span
    ) changes
    GROUP BY day
"""


def account_activity(
    score_set: ScoreSet, account_id: int, group: Group = "active", limit: int = 0
) -> Activity:
    """The account's events, the size of each group of its people, and the first *limit* of one."""
    statement = _ACTIVITY.replace("<condition>", _CONDITIONS[group])
    events, people, points, sizes = [], [], 0, [0, 0, 0, 0]
    for kind, name, *numbers in fetch_counts(
        statement, score_set, ACCOUNTS, account_id, limit=limit
    ):
        if kind == "total":
            points, *sizes = map(int, numbers[:5])
        elif kind == "person":
            user_id, *raws = map(int, numbers[:4])
            people.append(PersonPoints(user_id, *shown_of_days(score_set, *raws)))
        else:
            events.append(event_points(score_set, name, *numbers))
    # A union has no order.
    people.sort(
        key=lambda person: (
            -person.points,
            -person.yesterday_points,
            -person.before_points,
            person.user_id,
        )
    )
    total = shown_points(score_set, points, last_scored_day(score_set))
    return Activity(sort_by_points(events), People(people, total, *sizes))


def active_users_by_day(score_set: ScoreSet, account_id: int, days: list[date]) -> list[int]:
    """The number of users who were active in the window that ends with each of the *days*.

    *days* are consecutive.
    """
    lookback = score_set.lookback_days
    days_from = days[0] - timedelta(days=lookback - 1)
    rows = fetch_counts(
        _ACTIVE_BY_DAY, score_set, ACCOUNTS, account_id, days_from=days_from, lookback=lookback
    )
    changes = {day: int(change) for day, change in rows}
    active, numbers = 0, []
    for number in range((last_scored_day(score_set) - days_from).days + 1):
        active += changes.get(days_from + timedelta(days=number), 0)
        numbers.append(active)
    return numbers[-len(days) :]
