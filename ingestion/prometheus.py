"""Operational metrics of ingestion, for ``/metrics``."""

from collections.abc import Iterator
from datetime import datetime
from typing import LiteralString, NamedTuple

from django.db.models import Sum
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from core import telemetry
from core.database import sql
from ingestion.models import DropCount, DropReason, QuarantinedMessage

# Names of operation counters.
ACCEPT_COUNTER = "accept"
DRAIN_COUNTER = "drain"
# Messages without a valid key that were accepted and only counted.
UNKNOWN_KEY_COUNTER = "count"

_WAITING: LiteralString = """
    SELECT count(*), min(received_at) FROM ingestion_inboxmessage
"""


class InboxDepth(NamedTuple):
    """The number of messages in the inbox, and the age of the oldest in seconds."""

    messages: int
    seconds: float


def inbox_depth(now: datetime) -> InboxDepth:
    ((messages, oldest),) = sql.fetch(_WAITING)
    return InboxDepth(messages, max(0.0, (now - oldest).total_seconds()) if oldest else 0.0)


def collect_metrics(now: datetime) -> Iterator[Metric]:
    """Each accepted message is processed (recorded, dropped, quarantined) or waits in the inbox."""
    counters = telemetry.get_counters(ACCEPT_COUNTER, DRAIN_COUNTER, UNKNOWN_KEY_COUNTER)
    yield CounterMetricFamily(
        "eds_messages_accepted",
        "Messages that got a success response, counted seconds later",
        counters[ACCEPT_COUNTER].units if ACCEPT_COUNTER in counters else 0,
    )
    processed = sum(
        counters[name].units for name in (DRAIN_COUNTER, UNKNOWN_KEY_COUNTER) if name in counters
    )
    yield CounterMetricFamily(
        "eds_messages_processed",
        "Messages taken out of the inbox (recorded, dropped, quarantined or put back), and "
        "messages dropped before they reached it",
        processed,
    )
    # The old name, for one release.
    yield CounterMetricFamily(
        "eds_messages_settled", "Use eds_messages_processed_total instead", processed
    )
    yield _dropped()
    yield GaugeMetricFamily(
        "eds_messages_quarantined",
        "Messages in quarantine, which need attention",
        QuarantinedMessage.objects.count(),
    )
    inbox = inbox_depth(now)
    yield GaugeMetricFamily("eds_inbox_messages", "Messages in the inbox", inbox.messages)
    yield GaugeMetricFamily(
        "eds_inbox_oldest_seconds", "Age of the oldest message in the inbox", inbox.seconds
    )
    drains = counters.get(DRAIN_COUNTER)
    yield SummaryMetricFamily(
        "eds_drain_seconds",
        "Time spent draining the inbox",
        count_value=drains.runs if drains else 0,
        sum_value=drains.seconds if drains else 0.0,
    )


def _dropped() -> CounterMetricFamily:
    family = CounterMetricFamily(
        "eds_messages_dropped", "Messages that were dropped, by reason", labels=["reason"]
    )
    counts = dict(DropCount.objects.values_list("reason").annotate(Sum("count")))
    for reason in DropReason.values:
        family.add_metric([reason], counts.get(reason, 0))
    return family
