"""The domain's tables. Every large one carries ``product_id`` in its key, so that it can be
distributed by product."""

from engagement.models.activity import DailyCount, Event, EventName
from engagement.models.chores import Chore
from engagement.models.credentials import Credential
from engagement.models.forgotten import ForgottenSubject
from engagement.models.logins import LoginAttempts
from engagement.models.measures import Measure
from engagement.models.products import EventWeight, Product, ProductMember, Workspace
from engagement.models.scores import (
    AccountEngagement,
    DailyBenchmark,
    ScoredEvent,
    ScoreSet,
    StaleMark,
    Tally,
    UserEngagement,
)
from engagement.models.segments import Segment
from engagement.models.subjects import Account, Membership, ReattributionRequest, User

__all__ = [
    "Account",
    "AccountEngagement",
    "Chore",
    "Credential",
    "DailyBenchmark",
    "DailyCount",
    "Event",
    "EventName",
    "EventWeight",
    "ForgottenSubject",
    "LoginAttempts",
    "Measure",
    "Membership",
    "Product",
    "ProductMember",
    "ReattributionRequest",
    "ScoreSet",
    "ScoredEvent",
    "Segment",
    "StaleMark",
    "Tally",
    "User",
    "UserEngagement",
    "Workspace",
]
