"""How often the users of a workspace did each event in the last days."""

from datetime import date, timedelta
from typing import LiteralString, NamedTuple

from core.database import sql
from engagement.models import ScoreSet
from engagement.scores import sampling
from engagement.segments import counts

# Days that count, including today.
RECENT_DAYS = 30
# A workspace with more users is estimated from a sample.
COUNT_ALL_UP_TO, SAMPLE_SIZE = 5_000, 2_000

_COUNT: LiteralString = """
    SELECT d.event_name_id, sum(d.count)::bigint
    FROM unnest(%(users)b::bigint[]) sample(user_id)
    CROSS JOIN LATERAL (
        SELECT event_name_id, count FROM engagement_dailycount
        WHERE product_id = %(product)s AND user_id = sample.user_id
          AND day BETWEEN %(first_day)s AND %(today)s) d
    GROUP BY d.event_name_id
"""


class EventCounts(NamedTuple):
    """Counts by the event name's id, and the number of ``users`` whose events were counted.

    Estimates come from a sample of the users, and may lack rare events.
    """

    counts: dict[int, int]
    users: int
    is_estimate: bool


def count_recent_events(score_set: ScoreSet, today: date) -> EventCounts:
    """The events of the set's users in the last ``RECENT_DAYS`` days."""
    total = counts.subject_totals([score_set])[score_set.pk].users
    sample_size = total if total <= COUNT_ALL_UP_TO else SAMPLE_SIZE
    sample = sampling.sample_subjects(score_set, "user", total, sample_size)
    rows = sql.fetch(
        _COUNT,
        {
            "product": score_set.product_id,
            "users": sample.ids,
            "first_day": today - timedelta(days=RECENT_DAYS - 1),
            "today": today,
        },
    )
    by_name = {event_name_id: round(count * sample.scale) for event_name_id, count in rows}
    return EventCounts(by_name, len(sample.ids), sample.scale > 1)
