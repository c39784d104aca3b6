"""A product's connection to a marketplace, its syncs, its licenses, and their ledger."""

from marketplace.models.ledger import (
    Feedback,
    Ledger,
    LedgerLicense,
    LicenseAlias,
    LicenseEvent,
    MetricEvent,
    Observation,
    Transaction,
)
from marketplace.models.reports import ReportReading
from marketplace.models.syncs import (
    LICENSE_KEY_LENGTH,
    Connection,
    FailedRecord,
    License,
    PendingLicense,
    Report,
    SeenLicenses,
    SyncRun,
)

__all__ = [
    "LICENSE_KEY_LENGTH",
    "Connection",
    "FailedRecord",
    "Feedback",
    "Ledger",
    "LedgerLicense",
    "License",
    "LicenseAlias",
    "LicenseEvent",
    "MetricEvent",
    "Observation",
    "PendingLicense",
    "Report",
    "ReportReading",
    "SeenLicenses",
    "SyncRun",
    "Transaction",
]
