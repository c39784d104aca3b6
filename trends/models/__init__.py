"""The tables of trends: figures of days, who moved between segments, the use of events, cohorts,
and what changed."""

from trends.models.changes import StoredChanges
from trends.models.cohorts import ANY_EVENT, StoredCohorts
from trends.models.figures import BAND_COUNT, FIGURES, KEPT_WEEKS, SEATS, WHOLE, DayFigures
from trends.models.moves import SegmentMove, SegmentRoster
from trends.models.usage import NONE, UsageDay

__all__ = [
    "ANY_EVENT",
    "BAND_COUNT",
    "FIGURES",
    "KEPT_WEEKS",
    "NONE",
    "SEATS",
    "WHOLE",
    "DayFigures",
    "SegmentMove",
    "SegmentRoster",
    "StoredChanges",
    "StoredCohorts",
    "UsageDay",
]
