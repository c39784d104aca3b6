"""How long the outbox and the delivery log are kept."""

from datetime import datetime, timedelta
from typing import LiteralString

from core import retention
from core.database import clocks, distribution, sql
from core.retention import Retention, days
from notifications.models import Delivery, Destination, OutboxMessage, Watch
from notifications.watching.sweep import delete_members

ROWS_PER_STATEMENT = 20_000
# How far ahead a pause or a lease ends at most, and a weekly digest is sent.
LONGEST_PAUSE, LONGEST_WAIT = timedelta(hours=2), timedelta(days=8)

# Messages to a destination that was deleted.
_DELETE_ORPHANS: LiteralString = """
    DELETE FROM notifications_outboxmessage WHERE id = ANY(ARRAY(
        SELECT m.id FROM notifications_outboxmessage m
        WHERE NOT EXISTS (
            SELECT FROM notifications_destination d WHERE d.id = m.destination_id)
        LIMIT %(rows)s))
"""
# Walks the key from watch to watch.
_WATCHES: LiteralString = """
    WITH RECURSIVE watches AS (
        (SELECT product_id, watch_id FROM notifications_watchedmember
         ORDER BY product_id, watch_id LIMIT 1)
        UNION ALL
        SELECT following.product_id, following.watch_id
        FROM watches w
        CROSS JOIN LATERAL (
            SELECT m.product_id, m.watch_id FROM notifications_watchedmember m
            WHERE (m.product_id, m.watch_id) > (w.product_id, w.watch_id)
            ORDER BY m.product_id, m.watch_id LIMIT 1) AS following)
    SELECT product_id, watch_id FROM watches
"""
# The nodes look side by side, and no recursion leaves a node.
_WATCHES_ON_NODES: LiteralString = """
    SELECT DISTINCT product_id, watch_id FROM notifications_watchedmember
"""


def register() -> None:
    clocks.register(Watch, {"swept_at": clocks.NOW, "waiting_since": clocks.NOW})
    pauses = dict.fromkeys(("retry_at", "leased_until"), LONGEST_PAUSE)
    clocks.register(Destination, {"failing_since": clocks.NOW, **pauses})
    waiting = {"state": OutboxMessage.State.WAITING}
    clocks.register(OutboxMessage, {"next_attempt_at": LONGEST_WAIT}, waiting)
    lifetime = days("NOTIFICATION_RETENTION_DAYS")
    retention.register(
        "notifications",
        Retention(Delivery, "attempted_at", lifetime),
        Retention(OutboxMessage, "created_at", lifetime),
    )


def maintain(now: datetime) -> None:
    """Delete what is past its retention, and what deleted rows have left. Safe to repeat."""
    retention.delete_expired("notifications", now)
    while sql.execute(_DELETE_ORPHANS, {"rows": ROWS_PER_STATEMENT}) == ROWS_PER_STATEMENT:
        pass
    for product_id, watch_id in _orphaned_watches():
        while delete_members(product_id, watch_id):
            pass


def _orphaned_watches() -> list[tuple[int, int]]:
    """Product and watch of members whose watch was deleted."""
    statement = _WATCHES_ON_NODES if distribution.is_distributed() else _WATCHES
    with_members = [(product_id, watch_id) for product_id, watch_id in sql.fetch(statement)]
    # Read later: a watch is committed before its members.
    watches = set(Watch.objects.values_list("pk", flat=True))
    return [pair for pair in with_members if pair[1] not in watches]
