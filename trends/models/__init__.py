"""The tables of trends: figures of days, and who entered and left segments."""

from trends.models.figures import BAND_COUNT, FIGURES, KEPT_WEEKS, SEATS, WHOLE, DayFigures
from trends.models.moves import SegmentMove, SegmentRoster

__all__ = [
    "BAND_COUNT",
    "FIGURES",
    "KEPT_WEEKS",
    "SEATS",
    "WHOLE",
    "DayFigures",
    "SegmentMove",
    "SegmentRoster",
]
