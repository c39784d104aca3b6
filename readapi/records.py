"""The records that the read API answers with: what each field holds, in which unit.

The serializers make them, and the OpenAPI description is made from them.
"""

from typing import Annotated, Any, Generic, NotRequired, TypeAlias, TypedDict, TypeVar

from msgspec import Meta

from engagement.metric_names import Scope
from engagement.rules.rules import Condition, Match
from engagement.scores.formula import Trend
from engagement.scores.insights import Severity

Id: TypeAlias = Annotated[int, Meta(ge=1, description="The service's own id, for addresses.")]
TrackingId: TypeAlias = Annotated[
    str, Meta(description="The id that the customer sent: `userId` or `groupId`.")
]
Time: TypeAlias = Annotated[
    str, Meta(description="ISO 8601, in UTC.", extra_json_schema={"format": "date-time"})
]
Day: TypeAlias = Annotated[
    str, Meta(description="A UTC day.", extra_json_schema={"format": "date"})
]
Address: TypeAlias = Annotated[
    str, Meta(description="Absolute; follow it as it is.", extra_json_schema={"format": "uri"})
]
Score: TypeAlias = Annotated[float, Meta(ge=0, le=100, description="0 to 100, one decimal.")]
Change: TypeAlias = Annotated[
    float, Meta(ge=-100, le=100, description="The score less that of one lookback ago.")
]
Share: TypeAlias = Annotated[float, Meta(ge=0, description="1 is all.")]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
MemberCount: TypeAlias = Annotated[
    int, Meta(ge=0, description="Of a large workspace as it was counted in the last minutes.")
]
LastActive: TypeAlias = Annotated[Time | None, Meta(description="Time of the last scored event.")]


# --- Workspaces -----------------------------------------------------------------------------


class ProductName(TypedDict):
    id: Id
    name: str


class Benchmarks(TypedDict):
    """The raw scores that score 90; null before the first scores."""

    users: float | None
    accounts: float | None


class WorkspaceLinks(TypedDict):
    self: Address
    users: Address
    accounts: Address
    segments: Address


class Stats(TypedDict):
    """How many the workspace shows; active are those with a scored event in its window. Of a large
    workspace they are as they were counted in the last minutes."""

    total_users: Count
    total_accounts: Count
    active_users: Count
    active_accounts: Count


class Workspace(TypedDict):
    """A scoring profile of a product."""

    id: Id
    name: str
    product: ProductName
    lookback_days: Annotated[int, Meta(description="The window of scores: 1, 7 or 30 days.")]
    benchmarks: Benchmarks
    updated_at: Time
    _links: WorkspaceLinks
    stats: NotRequired[Stats]


# --- Accounts and users ---------------------------------------------------------------------


class SelfLink(TypedDict):
    self: Address


class Account(TypedDict):
    id: Id
    tracking_id: TrackingId
    name: str | None
    score: Score
    score_change: Change
    active_users: Count
    last_active_at: LastActive
    _links: SelfLink


class AccountName(TypedDict):
    id: Id
    tracking_id: TrackingId
    name: str | None


class User(TypedDict):
    id: Id
    tracking_id: TrackingId
    email: str | None
    name: str | None
    score: Score
    score_change: Change
    last_active_at: LastActive
    account: Annotated[AccountName | None, Meta(description="The account that the user is in now.")]
    _links: SelfLink


class Metrics(TypedDict):
    """The window is today and the lookback's days before it; scores compare with one lookback ago.

    `adoption` is the share of the workspace's scored event names that were used in the window.
    """

    engagement_score: Score
    raw_score: Annotated[int, Meta(ge=0, description="Count times weight of each event, summed.")]
    percentile: Annotated[float, Meta(ge=0, le=100, description="Per cent with a lower raw score.")]
    score_yesterday: Score
    score_last_period: Score
    score_change: Change
    trend: Trend
    frequency: Annotated[int, Meta(ge=0, description="Days of the window with a scored event.")]
    adoption: Share | None
    adoption_all_time: Share | None
    recently_scored_events: Count
    overall_scored_events: Count
    last_active_at: LastActive


class AccountMetrics(Metrics):
    active_users: Annotated[int, Meta(ge=0, description="Users with a scored event in the window.")]
    total_users: Annotated[
        int,
        Meta(
            ge=0,
            description="Users whose current account this is, and users who are in another one now "
            "but have an event in this one in the last 90 days.",
        ),
    ]
    active_share: Share | None
    license_utilization: Annotated[
        Share | None, Meta(description="Active users per licensed seat; may exceed 1.")
    ]


class Insight(TypedDict):
    """Something worth knowing about an account."""

    kind: Annotated[str, Meta(description="For programs, such as `activity_stopped`.")]
    severity: Severity
    text: Annotated[str, Meta(description="For people: a sentence or two.")]
    numbers: Annotated[dict[str, Any], Meta(description="What the sentence was made from.")]


class SegmentName(TypedDict):
    id: Id
    name: str


class EventPoints(TypedDict):
    """What an event adds to the raw score: points are count times weight."""

    name: str
    count: Count
    weight: Count
    points: Count


class DayScore(TypedDict):
    """The score as it stood at the end of a day."""

    day: Day
    score: Score


Traits: TypeAlias = Annotated[dict[str, Any], Meta(description="Values of any JSON type.")]


class Expansions(TypedDict):
    traits: NotRequired[Traits]
    segments: NotRequired[list[SegmentName]]
    events: NotRequired[list[EventPoints]]
    history: NotRequired[list[DayScore]]


class Times(TypedDict):
    first_seen_at: Time
    created_at: Annotated[Time, Meta(description="As a trait says, else when it was first seen.")]
    tenure_days: Count
    updated_at: Time


class FullAccount(Account, Times):
    """An account with all that is known of it."""

    metrics: AccountMetrics


class ExpandedAccount(FullAccount, Expansions):
    """An account with all that is known of it."""

    insights: NotRequired[list[Insight]]


class FullUser(User, Times):
    """A user with all that is known of them."""

    metrics: Metrics


class ExpandedUser(FullUser, Expansions):
    """A user with all that is known of them."""


# --- Segments -------------------------------------------------------------------------------


class SegmentLinks(TypedDict):
    self: Address
    members: Address


class Segment(TypedDict):
    """A named rule; its members are whoever meets it now."""

    id: Id
    name: str
    scope: Scope
    is_default: Annotated[bool, Meta(description="Whether it came with the workspace.")]
    match: Match
    # As they are stored: JSON of these.
    conditions: list[Condition]
    _links: SegmentLinks
    member_count: NotRequired[MemberCount]


# --- Answers --------------------------------------------------------------------------------

Record = TypeVar("Record")


class Pagination(TypedDict):
    limit: Annotated[int, Meta(ge=1, le=100)]
    offset: Annotated[int, Meta(ge=0, description="How many records come before these.")]
    has_more: bool


class PageLinks(TypedDict):
    self: Address
    next: NotRequired[Address]
    prev: NotRequired[Address]


class Page(TypedDict, Generic[Record]):
    data: list[Record]
    pagination: Pagination
    _expansions: list[str]
    _links: PageLinks


class One(TypedDict, Generic[Record]):
    data: Record
    _expansions: list[str]


class LegacyMetrics(TypedDict):
    """As of version 2, but that scores are fractions: multiply by 100."""

    engagement_score: Annotated[float, Meta(ge=0, le=1)]
    raw_score: Count
    percentile: Annotated[float, Meta(ge=0, le=100)]
    score_yesterday: Annotated[float, Meta(ge=0, le=1)]
    score_last_period: Annotated[float, Meta(ge=0, le=1)]
    score_change: Annotated[float, Meta(ge=-1, le=1)]
    trend: Trend
    frequency: Count
    adoption: Share | None
    adoption_all_time: Share | None
    recently_scored_events: Count
    overall_scored_events: Count
    last_active_at: LastActive
    active_users: Count
    total_users: Count
    active_share: Share | None
    license_utilization: Share | None
    last_seen: Annotated[
        Time, Meta(description="Last named by a message, or of the last scored event.")
    ]


class LegacyAccount(TypedDict):
    id: Id
    tracking_id: TrackingId
    name: str | None
    metrics: LegacyMetrics


class LegacyAnswer(LegacyAccount):
    """One account, at the root of the answer."""

    _expansions: list[str]
    insights: NotRequired[list[Insight]]
    traits: NotRequired[Traits]
    segments: NotRequired[list[SegmentName]]


class Error(TypedDict):
    code: Annotated[str, Meta(description="For programs; it stays the same.")]
    message: Annotated[str, Meta(description="For people: what happened and what to do.")]
    field: NotRequired[Annotated[str, Meta(description="The parameter at fault.")]]


class Refusal(TypedDict):
    error: Error
