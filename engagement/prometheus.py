"""How scoring is doing, in numbers for monitors."""

from collections.abc import Iterator
from datetime import datetime
from typing import LiteralString

from prometheus_client.core import GaugeMetricFamily, Metric, SummaryMetricFamily

from engagement import telemetry
from engagement.database import sql
from engagement.models import ScoreSet

# The name of a measure.
RESCORE = "rescore"

# Bounded: more of them mean the same to whoever looks.
_MARKS: LiteralString = """
    SELECT count(*) FROM (SELECT FROM engagement_stalemark LIMIT 1000000) AS marks
"""


def collect_metrics(now: datetime) -> Iterator[Metric]:
    rescored = telemetry.get_counters(RESCORE).get(RESCORE)
    yield SummaryMetricFamily(
        "eds_rescore_seconds",
        "Time spent computing scores",
        count_value=rescored.runs if rescored else 0,
        sum_value=rescored.seconds if rescored else 0.0,
    )
    ((marks,),) = sql.fetch(_MARKS)
    yield GaugeMetricFamily(
        "eds_stale_marks", "Marks of what is to be scored again, counted up to 1,000,000", marks
    )
    yield GaugeMetricFamily(
        "eds_score_sets_building",
        "Workspaces whose scores are being computed anew",
        ScoreSet.objects.filter(state=ScoreSet.State.BUILDING).count(),
    )
