"""How often each event was done lately, by those whom a workspace is about."""

from datetime import date, timedelta
from typing import LiteralString, NamedTuple

from engagement.database import sql
from engagement.models import ScoreSet
from engagement.scores import sampling
from engagement.segments import counts as tallies

# Days that are counted, today included.
RECENT_DAYS = 30
# Events of so many users are counted one by one; of more, those of a sample.
COUNT_ALL_UP_TO, SAMPLE_SIZE = 5_000, 2_000

_COUNT: LiteralString = f"""
    SELECT d.event_name_id, sum(d.count)::bigint FROM unnest(%(users)b::bigint[]) one(user_id)
    CROSS JOIN LATERAL (
        SELECT event_name_id, count FROM engagement_dailycount
        WHERE product_id = {sql.PRODUCT} AND user_id = one.user_id
          AND day BETWEEN %(first_day)s AND %(today)s) d
    GROUP BY d.event_name_id
"""


class EventCounts(NamedTuple):
    """How often, by the event name's id. ``users`` is the number of users whose events were
    counted; where they were not all, the counts are estimates and rare events may be missing."""

    counts: dict[int, int]
    users: int
    is_estimate: bool


def count_recent_events(score_set: ScoreSet, today: date) -> EventCounts:
    """The counts of the last ``DAYS`` days of the set's users."""
    total = tallies.subject_totals([score_set])[score_set.pk].users
    wanted = total if total <= COUNT_ALL_UP_TO else SAMPLE_SIZE
    sample = sampling.sample_subjects(score_set, "user", total, wanted)
    rows = sql.fetch(
        _COUNT,
        {
            "product": score_set.product_id,
            "users": sample.ids,
            "first_day": today - timedelta(days=RECENT_DAYS - 1),
            "today": today,
        },
    )
    counts = {name_id: round(count * sample.scale) for name_id, count in rows}
    return EventCounts(counts, len(sample.ids), sample.scale > 1)
