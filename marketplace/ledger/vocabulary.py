"""The types of license events, and an event."""

import datetime
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any


class EventType(StrEnum):
    """What can happen to a license. docs/licenses.md defines each."""

    FIRST_SEEN = "first_seen"
    EVALUATION_STARTED = "evaluation_started"
    EVALUATION_EXTENDED = "evaluation_extended"
    EVALUATION_BOUGHT = "evaluation_bought"
    EVALUATION_EXPIRED = "evaluation_expired"
    PURCHASED = "purchased"
    FREE_STARTED = "free_started"
    RENEWED = "renewed"
    CHURNED = "churned"
    WON_BACK = "won_back"
    CANCELLED = "cancelled"
    RESUMED = "resumed"
    ENDED_EARLY = "ended_early"
    REFUNDED = "refunded"
    REINSTATED = "reinstated"
    SEATS_UP = "seats_up"
    SEATS_DOWN = "seats_down"
    EDITION_UP = "edition_up"
    EDITION_DOWN = "edition_down"
    EDITION_TRIAL_STARTED = "edition_trial_started"
    BILLING_CHANGED = "billing_changed"
    PAYMENT_FAILED = "payment_failed"
    PAYMENT_RECOVERED = "payment_recovered"
    BECAME_FREE = "became_free"
    MOVED_SITE = "moved_site"
    UNLISTED = "unlisted"
    RELISTED = "relisted"
    FEEDBACK = "feedback"


@dataclass(frozen=True)
class Event:
    """What happened on a ``date``, and on which day it could first be known.

    The ``anchor`` tells it from others of its type: a fact that corrections do not move. The
    ``details`` are JSON.
    """

    type: EventType
    date: datetime.date
    known_on: datetime.date
    anchor: str = ""
    cloud_id: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    sources: frozenset[str] = frozenset()

    def adding(self, source: str = "", /, **details: Any) -> "Event":
        """The event with further details, and with another source."""
        sources = self.sources | {source} if source else self.sources
        return replace(self, details={**self.details, **details}, sources=sources)
