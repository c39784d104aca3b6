"""The tables of trends: figures of days, who entered and left segments, and the use of events."""

from trends.models.figures import BAND_COUNT, FIGURES, KEPT_WEEKS, SEATS, WHOLE, DayFigures
from trends.models.moves import SegmentMove, SegmentRoster
from trends.models.usage import NONE, UsageDay

__all__ = [
    "BAND_COUNT",
    "FIGURES",
    "KEPT_WEEKS",
    "NONE",
    "SEATS",
    "WHOLE",
    "DayFigures",
    "SegmentMove",
    "SegmentRoster",
    "UsageDay",
]
