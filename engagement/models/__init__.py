"""The domain's tables. The key of each large table has ``product_id``, so that the table can be
distributed by product."""

from engagement.models.activation import Activation, StepsDone
from engagement.models.activity import DailyCount, Event, EventName, last_seen
from engagement.models.alarms import ActiveDay, Alarm, AlarmNight, HabitPart, LateDay
from engagement.models.chances import AccountChance
from engagement.models.changes import (
    ChangeStamp,
    EditedRule,
    MovedThreshold,
    SubjectChange,
    TurnedDay,
)
from engagement.models.credentials import Credential
from engagement.models.daily_jobs import DailyJob
from engagement.models.features import AccountUse, Feature, LateUse, UsageState
from engagement.models.forgotten_subjects import ForgottenSubject
from engagement.models.kept_defaults import KeptDefault
from engagement.models.limits import ProductLimits, ProductUsage, TraitName
from engagement.models.orders import OrderChunk, StoredOrder
from engagement.models.products import EventWeight, Product, ProductMember, Seats, Workspace
from engagement.models.saved_views import SavedView
from engagement.models.scores import (
    AccountEngagement,
    CachedCounts,
    DailyBenchmark,
    RescoreRequest,
    ScoredEvent,
    ScoreSet,
    UserEngagement,
)
from engagement.models.search import SearchBacklog, SearchEntry
from engagement.models.segments import Segment
from engagement.models.subjects import (
    Account,
    Alias,
    JoinRequest,
    Membership,
    PartRequest,
    ReattributionRequest,
    User,
)
from engagement.models.traces import SubjectTrace
from engagement.models.trait_changes import TraitChange
from engagement.models.work import AccountNote, AccountWork, AlarmWork

__all__ = [
    "Account",
    "AccountChance",
    "AccountEngagement",
    "AccountNote",
    "AccountUse",
    "AccountWork",
    "Activation",
    "ActiveDay",
    "Alarm",
    "AlarmNight",
    "AlarmWork",
    "Alias",
    "CachedCounts",
    "ChangeStamp",
    "Credential",
    "DailyBenchmark",
    "DailyCount",
    "DailyJob",
    "EditedRule",
    "Event",
    "EventName",
    "EventWeight",
    "Feature",
    "ForgottenSubject",
    "HabitPart",
    "JoinRequest",
    "KeptDefault",
    "LateDay",
    "LateUse",
    "Membership",
    "MovedThreshold",
    "OrderChunk",
    "PartRequest",
    "Product",
    "ProductLimits",
    "ProductMember",
    "ProductUsage",
    "ReattributionRequest",
    "RescoreRequest",
    "SavedView",
    "ScoreSet",
    "ScoredEvent",
    "SearchBacklog",
    "SearchEntry",
    "Seats",
    "Segment",
    "StepsDone",
    "StoredOrder",
    "SubjectChange",
    "SubjectTrace",
    "TraitChange",
    "TraitName",
    "TurnedDay",
    "UsageState",
    "User",
    "UserEngagement",
    "Workspace",
    "last_seen",
]
