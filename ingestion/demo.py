"""Has the demo's products look as if their messages had come through the inbox: what was recorded
in the last day is counted, and a few messages are listed as dropped."""

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

# The shares of the messages that were sent again, and that named nobody.
DUPLICATE_SHARE, ANONYMOUS_SHARE = 0.03, 0.01

_COUNT_EVENTS: LiteralString = """
    INSERT INTO ingestion_hourcount (product_id, hour, reason, count)
    SELECT product_id, date_trunc('hour', received_at, 'UTC'), '', count(*)
    FROM engagement_event
    WHERE product_id = %(product)s AND received_at >= %(since)s AND received_at <= %(now)s
    GROUP BY 1, 2
"""
# Lately, and of users who are known.
_SOME_EVENTS: LiteralString = f"""
    SELECT {NEXT_ARRIVAL}, u.external_id, n.name, e.received_at
    FROM engagement_event e
    JOIN engagement_user u ON u.id = e.user_id AND u.product_id = e.product_id
    JOIN engagement_eventname n ON n.id = e.event_name_id
    WHERE e.product_id = %(product)s AND e.received_at >= %(since)s AND e.received_at <= %(now)s
    ORDER BY e.received_at, e.arrival
    LIMIT 10000
"""


def fill_last_24h(product_id: int, now: datetime, seed: int) -> None:
    """Count the product's events of the last day, and drop some repeats and nameless ones."""
    since = hours.start_of_hour(now) - timedelta(hours=HOURS - 1)
    lately = {"product": product_id, "since": since, "now": now}
    sql.execute(_COUNT_EVENTS, lately)
    dropped = list(_dropped(product_id, lately, random.Random(seed)))
    drops.save_drops(dropped, now)
    hours.add_counts([hours.count_by_hour([], [], dropped)])


def _dropped(product_id: int, lately: dict[str, object], chance: random.Random) -> Iterator[Drop]:
    for arrival, user, event, at in sql.fetch(_SOME_EVENTS, lately):
        lot = chance.random()
        if lot < DUPLICATE_SHARE:
            again = Track(user, event, at, message_id=f"{user}-{arrival}")
            yield Drop(arrival, product_id, DropReason.DUPLICATE, "", again, at)
        elif lot < DUPLICATE_SHARE + ANONYMOUS_SHARE:
            told = UnusableMessage(DropReason.ANONYMOUS, "track", "", event)
            yield Drop(arrival, product_id, DropReason.ANONYMOUS, "", told, at)
