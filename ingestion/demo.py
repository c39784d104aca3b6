"""Makes the demo's products look as if their messages had come through the inbox: counts the events
of the last 24 hours, and lists a few messages as dropped."""

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import LiteralString

from engagement.database import sql
from engagement.database.arrivals import NEXT_ARRIVAL
from engagement.messages import Track
from ingestion.log import drops, hours
from ingestion.log.drops import Drop
from ingestion.log.last_24h import HOURS
from ingestion.models import DropReason
from ingestion.payloads import UnusableMessage

# As shares of all messages.
DUPLICATE_SHARE, ANONYMOUS_SHARE = 0.03, 0.01

_COUNT_EVENTS: LiteralString = """
    INSERT INTO ingestion_hourcount (product_id, hour, reason, count)
    SELECT product_id, date_trunc('hour', received_at, 'UTC'), '', count(*)
    FROM engagement_event
    WHERE product_id = %(product)s AND received_at >= %(since)s AND received_at <= %(now)s
    GROUP BY 1, 2
"""
_RECENT_EVENTS: LiteralString = f"""
    SELECT {NEXT_ARRIVAL}, u.external_id, n.name, e.received_at
    FROM engagement_event e
    JOIN engagement_user u ON u.id = e.user_id AND u.product_id = e.product_id
    JOIN engagement_eventname n ON n.id = e.event_name_id
    WHERE e.product_id = %(product)s AND e.received_at >= %(since)s AND e.received_at <= %(now)s
    ORDER BY e.received_at, e.arrival
    LIMIT 10000
"""


def fill_last_24h(product_id: int, now: datetime, seed: int) -> None:
    """Count the product's events of the last 24 hours, and add drops of duplicate and anonymous
    messages."""
    since = hours.start_of_hour(now) - timedelta(hours=HOURS - 1)
    parameters = {"product": product_id, "since": since, "now": now}
    sql.execute(_COUNT_EVENTS, parameters)
    dropped = list(_make_drops(product_id, parameters, random.Random(seed)))
    drops.save_drops(dropped, now)
    hours.add_counts([hours.count_by_hour([], [], dropped)])


def _make_drops(
    product_id: int, parameters: dict[str, object], generator: random.Random
) -> Iterator[Drop]:
    for arrival, user, event, at in sql.fetch(_RECENT_EVENTS, parameters):
        number = generator.random()
        if number < DUPLICATE_SHARE:
            duplicate = Track(user, event, at, message_id=f"{user}-{arrival}")
            yield Drop(arrival, product_id, DropReason.DUPLICATE, "", duplicate, at)
        elif number < DUPLICATE_SHARE + ANONYMOUS_SHARE:
            anonymous = UnusableMessage(DropReason.ANONYMOUS, "track", "", event)
            yield Drop(arrival, product_id, DropReason.ANONYMOUS, "", anonymous, at)
