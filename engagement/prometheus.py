"""The operational metrics of scoring."""

from collections.abc import Iterator
from datetime import datetime
from typing import LiteralString

from prometheus_client.core import GaugeMetricFamily, Metric, SummaryMetricFamily

from engagement import telemetry
from engagement.database import sql
from engagement.models import ScoreSet

# The name of the operation counter.
RESCORE = "rescore"

# Bounded, because counting more takes long and tells no more.
_COUNT_REQUESTS: LiteralString = """
    SELECT count(*) FROM (SELECT 1 FROM engagement_stalemark LIMIT 1000000) AS requests
"""


def collect_metrics(now: datetime) -> Iterator[Metric]:
    rescored = telemetry.get_counters(RESCORE).get(RESCORE)
    yield SummaryMetricFamily(
        "eds_rescore_seconds",
        "Time spent computing scores",
        count_value=rescored.runs if rescored else 0,
        sum_value=rescored.seconds if rescored else 0.0,
    )
    ((requests,),) = sql.fetch(_COUNT_REQUESTS)
    yield GaugeMetricFamily(
        "eds_stale_marks", "Entries in the rescore queue, counted up to 1,000,000", requests
    )
    yield GaugeMetricFamily(
        "eds_score_sets_building",
        "Workspaces for which a new score set is being built",
        ScoreSet.objects.filter(state=ScoreSet.State.BUILDING).count(),
    )
