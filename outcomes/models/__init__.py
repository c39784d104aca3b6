"""The tables of outcomes, and of what was concluded from them."""

from outcomes.models.backtests import StoredBacktest
from outcomes.models.foresight import ChanceLook, ChanceModel, StoredForecast
from outcomes.models.licenses import LicenseOutcome, LicenseRevision

__all__ = [
    "ChanceLook",
    "ChanceModel",
    "LicenseOutcome",
    "LicenseRevision",
    "StoredBacktest",
    "StoredForecast",
]
