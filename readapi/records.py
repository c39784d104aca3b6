"""The records in the read API's responses: what each field holds, and in which unit.

The serializers build them, and the OpenAPI description is derived from them. A record that shares
its name with a model ends in ``Record``; the public name of its schema does not.
"""

from typing import Annotated, Any, Generic, Literal, NotRequired, TypeAlias, TypedDict, TypeVar

from msgspec import Meta

from access.trail.scoring_changes import ScoringPart
from access.work.settings import Means
from engagement.insight_kinds import ActivityState, InsightKind, Severity, UnknownReason
from engagement.metric_names import Scope
from engagement.rules.rules import ActivationState, Condition, Match
from engagement.scores.formula import Trend
from engagement.segments.features import FeatureState
from outcomes.backtests.results import Horizon
from outcomes.chances.results import Feature
from outcomes.forecasts.results import ForecastMonth, Measure, PastMonth, Sums
from outcomes.kinds import Kind
from outcomes.statistics.estimates import Estimate
from trends.changes.results import Changes
from trends.timeline.entries import EntryKind

Id: TypeAlias = Annotated[int, Meta(ge=1, description="The service's own ID, used in URLs.")]
TrackingId: TypeAlias = Annotated[
    str, Meta(description="The ID that the sender uses: `userId` or `groupId`.")
]
Time: TypeAlias = Annotated[
    str, Meta(description="ISO 8601, in UTC.", extra_json_schema={"format": "date-time"})
]
Day: TypeAlias = Annotated[
    str, Meta(description="A UTC day.", extra_json_schema={"format": "date"})
]
Url: TypeAlias = Annotated[
    str, Meta(description="An absolute URL. Follow it as is.", extra_json_schema={"format": "uri"})
]
Score: TypeAlias = Annotated[
    float, Meta(ge=0, le=100, description="From 0 to 100, with one decimal.")
]
Change: TypeAlias = Annotated[
    float,
    Meta(
        ge=-100,
        le=100,
        description="The score minus the score one lookback ago. The score includes today, which "
        "is not over: in the morning (UTC), most scores have fallen a little.",
    ),
]
_COMPLETE_DAYS = (
    "The score as it stood yesterday minus the score one lookback before yesterday: all days are "
    "complete, so the hour makes no difference. Null while the service computes it after an "
    "upgrade."
)
CompleteChange: TypeAlias = Annotated[
    Annotated[float, Meta(ge=-100, le=100)] | None, Meta(description=_COMPLETE_DAYS)
]
Fraction: TypeAlias = Annotated[float, Meta(ge=0, le=1, description="A score as a fraction.")]
Share: TypeAlias = Annotated[float, Meta(ge=0, description="A fraction: 1 means all.")]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
MemberCount: TypeAlias = Annotated[
    int, Meta(ge=0, description="In a large workspace, a count from the last few minutes.")
]
LastActive: TypeAlias = Annotated[Time | None, Meta(description="Time of the last scored event.")]


# --- Workspaces -----------------------------------------------------------------------------


class ProductName(TypedDict):
    id: Id
    name: str


class Benchmarks(TypedDict):
    """The raw scores that give a score of 90; null until scores exist. With a half-life, only users
    and accounts that were active in the last 30 days count for them."""

    users: float | None
    accounts: float | None


class WorkspaceLinks(TypedDict):
    self: Url
    users: Url
    accounts: Url
    segments: Url


class Stats(TypedDict):
    """How many users and accounts the workspace shows. Active ones have a scored event in the
    window. In a large workspace, the counts are from the last few minutes."""

    total_users: Count
    total_accounts: Count
    active_users: Count
    active_accounts: Count


class AlarmsOfDirection(TypedDict):
    """The alarms that began in the half year until two months ago, and how many of them came to
    nothing: the account was back to usual within twelve weeks."""

    measured: Annotated[
        float | None,
        Meta(description="How many came to nothing, per account and quarter; null without any."),
    ]
    came_to_nothing: Count
    alarms: Count


class FalseAlarmsRecord(AlarmsOfDirection):
    """Alarms about falling and stopped activity; `rising` has those about rising activity."""

    allowed: Annotated[
        float,
        Meta(ge=0, description="How many may come to nothing, per account, quarter, direction."),
    ]
    rising: AlarmsOfDirection


class ProductActivity(TypedDict):
    """The activity of all accounts together. A fall of all shows here, because each account is
    compared with the others."""

    state: Annotated[
        Literal["steady", "falling", "lower"],
        Meta(
            description="`falling`: clearly less than a year ago. `lower`: less than in the weeks "
            "before, and there is no year to compare with."
        ),
    ]
    decided_for: Annotated[Day, Meta(description="The last of the 28 days, a complete UTC day.")]
    observed: Annotated[int, Meta(ge=0, description="Active user-days in 28 days.")]
    expected: Annotated[float, Meta(ge=0, description="Those that were to be expected.")]
    p: Annotated[float, Meta(ge=0, le=1, description="The chance of so few.")]


class WorkspaceRecord(TypedDict):
    """A scoring profile of a product."""

    id: Id
    name: str
    product: ProductName
    lookback_days: Annotated[
        int,
        Meta(
            description="The window of the scores: 1, 7, or 30 days. With a half-life it is 30, "
            "and says who is active and how long a period is."
        ),
    ]
    half_life_days: Annotated[
        int | None,
        Meta(
            description="All events count, each half as much after this number of days; null if "
            "those of the window count alike."
        ),
    ]
    benchmarks: Benchmarks
    updated_at: Time
    _links: WorkspaceLinks
    stats: NotRequired[Stats]
    product_activity: NotRequired[ProductActivity | None]


class ExpandedWorkspace(WorkspaceRecord):
    """A workspace with what was expanded."""

    false_alarms: NotRequired[FalseAlarmsRecord]


# --- Metrics --------------------------------------------------------------------------------


class UnscaledMetrics(TypedDict):
    """The metrics that are the same in both versions."""

    raw_score: Annotated[
        int,
        Meta(
            ge=0,
            description="The sum of count times weight over all events. With a half-life, those of "
            "old events have shrunk until today, and the sum is rounded.",
        ),
    ]
    percentile: Annotated[
        float, Meta(ge=0, le=100, description="The percentage of subjects with a lower raw score.")
    ]
    trend: Trend
    frequency: Annotated[
        int, Meta(ge=0, description="Number of days in the window with a scored event.")
    ]
    adoption: Share | None
    adoption_all_time: Share | None
    recently_scored_events: Count
    overall_scored_events: Count
    last_active_at: LastActive


class UserCounts(TypedDict):
    """The metrics that only accounts have."""

    active_users: Annotated[int, Meta(ge=0, description="Users with a scored event in the window.")]
    total_users: Annotated[
        int,
        Meta(
            ge=0,
            description="Users whose current account this is, and users who have moved to another "
            "account but have an event in this one in the last 90 days.",
        ),
    ]
    active_share: Share | None
    license_utilization: Annotated[
        Share | None, Meta(description="Active users per licensed seat; may exceed 1.")
    ]


class MetricsRecord(UnscaledMetrics):
    """The window is the lookback's days, including today. Changes compare with one lookback ago.

    `adoption` is the share of the workspace's scored event names that were used in the window.
    """

    engagement_score: Score
    score_yesterday: Score
    score_last_period: Score
    score_change: Change
    score_change_complete_days: CompleteChange


class AccountMetricsRecord(MetricsRecord, UserCounts):
    pass


# --- Accounts and users ---------------------------------------------------------------------


Traits: TypeAlias = Annotated[dict[str, Any], Meta(description="Values of any JSON type.")]


class SelfLink(TypedDict):
    self: Url


class AccountName(TypedDict):
    id: Id
    tracking_id: TrackingId
    name: str | None


class ActivityRecord(TypedDict):
    """Whether the account does what is usual for it. `settled_lower` and `settled_higher`: it kept
    a new level, and its alarm ended less than half a year ago."""

    state: ActivityState
    reason: Annotated[
        UnknownReason | None,
        Meta(
            description="Why the state is `unknown`: so little activity that silence would be "
            "nothing unusual, too short a history, or no night has decided yet. Otherwise null."
        ),
    ]
    since: Annotated[
        Day | None, Meta(description="The day that decided the change; null for `steady`.")
    ]
    decided_for: Annotated[
        Day | None, Meta(description="The last complete day that was decided; null before any.")
    ]


class AccountSummary(AccountName):
    owner: Annotated[
        str | None, Meta(description="The login of the person who looks after the account.")
    ]
    tags: Annotated[list[str], Meta(description="What people tagged it with.")]
    activity: ActivityRecord
    score: Score
    score_change: Change
    score_change_complete_days: CompleteChange
    active_users: Count
    last_active_at: LastActive
    _links: SelfLink


class LowestChance(TypedDict):
    """A chance with its 95% interval, in hundredths. All are null if past outcomes are too few to
    tell."""

    chance: Share | None
    low: Share | None
    high: Share | None


class FeatureUseRecord(TypedDict):
    """A feature of the product, and whether the subject uses it."""

    id: Id
    name: str
    state: Annotated[
        FeatureState, Meta(description="Used in the last 28 days, before them only, or never.")
    ]
    last_used_on: Day | None


class LowestChances(TypedDict):
    """The lowest of the account's chances; null if nothing is being decided."""

    chance_to_buy: LowestChance | None
    chance_to_renew: LowestChance | None
    chance_to_stay: LowestChance | None


class AccountRecord(AccountSummary):
    """An account as lists show it, with what was expanded."""

    chances: NotRequired[LowestChances]
    closed_alarms: NotRequired["ClosedAlarms"]
    metrics: NotRequired[AccountMetricsRecord]
    traits: NotRequired[Traits]


class UserSummary(TypedDict):
    id: Id
    tracking_id: TrackingId
    email: str | None
    name: str | None
    score: Score
    score_change: Change
    score_change_complete_days: CompleteChange
    last_active_at: LastActive
    account: Annotated[AccountName | None, Meta(description="The user's current account.")]
    _links: SelfLink


class UserRecord(UserSummary):
    """A user as lists show it, with what was expanded."""

    metrics: NotRequired[MetricsRecord]
    traits: NotRequired[Traits]


class InsightRecord(TypedDict):
    """Something worth knowing about an account."""

    kind: Annotated[str, Meta(description="For programs, such as `activity_stopped`.")]
    severity: Severity
    text: Annotated[str, Meta(description="For people: a sentence or two.")]
    numbers: Annotated[
        dict[str, Any],
        Meta(
            description="The numbers behind the text. Those of falling, stopped, and rising "
            "activity have `window_days`, `observed`, `expected`, `expected_low`, "
            "`expected_high`, `common_change`, `once_in_days`, `p`, `since`, `baseline`, and "
            "`users`."
        ),
    ]


class SegmentName(TypedDict):
    id: Id
    name: str


class EventPointsRecord(TypedDict):
    """What an event adds to the raw score: points are count times weight. With a half-life, they
    have shrunk until today, and events before the last 30 days add to them, too."""

    name: str
    count: Count
    weight: Count
    points: Count


class DayScoreRecord(TypedDict):
    """The score at the end of a day."""

    day: Day
    score: Score


class ScoringChangeRecord(TypedDict):
    """Somebody changed how the workspace scores. The scores of the history are all by the latest
    definition, also those before this day."""

    day: Day
    changed: list[ScoringPart]
    is_suggestion: Annotated[
        bool, Meta(description="Whether the weights were suggested by outcomes.")
    ]


class Expansions(TypedDict):
    traits: NotRequired[Traits]
    segments: NotRequired[list[SegmentName]]
    events: NotRequired[
        Annotated[
            list[EventPointsRecord],
            Meta(description="The 1,000 that add most points. `events_total` says how many exist."),
        ]
    ]
    events_total: NotRequired[Count]
    history: NotRequired[list[DayScoreRecord]]
    scoring_changes: NotRequired[
        Annotated[
            list[ScoringChangeRecord],
            Meta(description="With `history`: the latest 20 of its days, oldest first."),
        ]
    ]


class Times(TypedDict):
    first_seen_at: Time
    created_at: Annotated[Time, Meta(description="From a trait, or else `first_seen_at`.")]
    tenure_days: Count
    updated_at: Time


class NoteRecord(TypedDict):
    """What somebody wrote about the account."""

    id: Id
    author: Annotated[str, Meta(description="The name of the login then.")]
    text: str
    written_at: Time


class ClosedAlarmRecord(TypedDict):
    """An alarm that somebody closed."""

    kind: Annotated[InsightKind, Meta(description="The kind of its insight.")]
    since: Annotated[Day, Meta(description="The day that decided it.")]
    result: Annotated[
        str, Meta(description="`contacted`, `saved`, `lost`, `false alarm`, or an own one.")
    ]
    means: Annotated[
        Means, Meta(description="Whether the account was kept or lost, or nothing was wrong.")
    ]
    closed_at: Time


ClosedAlarms: TypeAlias = Annotated[
    list[ClosedAlarmRecord], Meta(description="The latest 20, the last one first.")
]


class FullAccount(AccountSummary, Times):
    metrics: AccountMetricsRecord


class LicenseEventRecord(TypedDict):
    """What happened to a license."""

    id: Annotated[str, Meta(description="Of the event; corrections do not change it.")]
    license: Annotated[str, Meta(description="The license's number, by which it was first met.")]
    type: Annotated[str, Meta(description="New types may be added.")]
    date: Annotated[Day, Meta(description="The day on which it was true.")]
    known_on: Annotated[Day, Meta(description="The first day on which there was evidence.")]
    text: Annotated[str, Meta(description="The event as a sentence, for people.")]
    details: Annotated[dict[str, Any], Meta(description="What the type says more about.")]
    sources: Annotated[
        list[str], Meta(description="Where the evidence is from: sync, history, and so on.")
    ]
    account: Annotated[
        AccountName | None, Meta(description="Null if no account has the license's Cloud ID.")
    ]
    recorded_at: Time
    changed_at: Time
    withdrawn_at: Annotated[
        Time | None, Meta(description="Since when the event no longer follows from what is known.")
    ]


class TimelineEntry(TypedDict):
    """What happened to an account on a UTC day."""

    day: Day
    kind: Annotated[EntryKind, Meta(description="What it is about.")]
    type: Annotated[
        str,
        Meta(
            description="For alarms the signal with `_began` or `_ended`, such as `fall_began`; "
            "for license events and outcomes their type; else `rose`, `fell`, `entered`, `left`, "
            "`came`, `last_seen`, `changed`, or `scoring_changed`. New types may be added."
        ),
    ]
    text: Annotated[str, Meta(description="The entry as a sentence, for people.")]


class CohortWeek(TypedDict):
    """Who of a cohort was active in a week."""

    active: int
    share: Annotated[
        Estimate | None, Meta(description="Null if nobody was first seen in the cohort's week.")
    ]
    is_complete: Annotated[bool, Meta(description="False while the week is not over.")]


class CohortRecord(TypedDict):
    """Those that were first seen in a week, and who of them was active in each week after."""

    week: Annotated[Day, Meta(description="The Monday of the week, in UTC.")]
    group: Annotated[str, Meta(description="The value of the trait, or what the others are.")]
    value: Annotated[
        str | None, Meta(description="Null for all, for rarer values, and without a value.")
    ]
    first_seen: int
    weeks: Annotated[
        list[CohortWeek], Meta(description="The week itself, the week after it, and so on.")
    ]
    through: Annotated[Day, Meta(description="The last day that is counted.")]


Quartiles: TypeAlias = Annotated[
    list[int],
    Meta(description="The quartiles of the days since the first one; empty without any."),
]
ActivationShare: TypeAlias = Annotated[Estimate | None, Meta(description="Null of nobody.")]


class ActivationStep(TypedDict):
    """A step, and who is at it."""

    name: str
    text: Annotated[str, Meta(description="What has to be done, as a sentence.")]
    reached: Annotated[int, Meta(description="Did this step and all before it.")]
    share: ActivationShare
    on_the_way: Annotated[int, Meta(description="Are at this step, and can do it in time.")]
    stuck: Annotated[int, Meta(description="Are at this step, for which it is too late.")]
    days: Quartiles


class ActivationWeek(TypedDict):
    """Who was first seen in a week, and did the first step, the first two, and so on."""

    week: Annotated[Day, Meta(description="The Monday of the week, in UTC.")]
    first_seen: int
    reached: list[int]
    share: Annotated[ActivationShare, Meta(description="The share that is activated.")]
    is_over: Annotated[bool, Meta(description="False while somebody can do a step in time.")]


class ActivationRecord(TypedDict):
    """How many accounts or users are activated, and what the others still have to do."""

    subjects: Scope
    day: Annotated[Day | None, Meta(description="Null if the workspace has no steps.")]
    total: int
    activated: int
    share: ActivationShare
    days: Quartiles
    steps: list[ActivationStep]
    weeks: list[ActivationWeek]


class StepDoneRecord(TypedDict):
    """A step, and when it was done."""

    name: str
    is_done: bool
    done_on: Annotated[Day | None, Meta(description="Null of a trait, which has no day.")]


class SubjectActivation(TypedDict):
    """How far a user or an account has come; null if the workspace has no steps."""

    state: ActivationState
    next_step: str | None
    activated_on: Day | None
    steps: list[StepDoneRecord]


class ExpandedAccount(FullAccount, Expansions):
    """An account with all its metrics, and what was expanded."""

    insights: NotRequired[list[InsightRecord]]
    features: NotRequired[list[FeatureUseRecord]]
    activation: NotRequired[SubjectActivation | None]
    chances: NotRequired[LowestChances]
    license_events: NotRequired[
        Annotated[
            list[LicenseEventRecord],
            Meta(description="The latest 100, latest first, without withdrawn ones."),
        ]
    ]
    closed_alarms: NotRequired[ClosedAlarms]
    notes: NotRequired[Annotated[list[NoteRecord], Meta(description="The latest 100.")]]


class FullUser(UserSummary, Times):
    metrics: MetricsRecord


class ExpandedUser(FullUser, Expansions):
    """A user with all their metrics, and what was expanded."""

    features: NotRequired[list[FeatureUseRecord]]
    activation: NotRequired[SubjectActivation | None]


# --- Segments -------------------------------------------------------------------------------


class SegmentLinks(TypedDict):
    self: Url
    members: Url


class SegmentRecord(TypedDict):
    """A named rule. Its members are the users or accounts that match it now."""

    id: Id
    name: str
    scope: Scope
    is_default: Annotated[bool, Meta(description="Whether every workspace comes with it.")]
    match: Match
    # The database stores them as JSON of this type.
    conditions: list[Condition]
    _links: SegmentLinks
    member_count: NotRequired[MemberCount]


# --- Features ---------------------------------------------------------------------------------

Accounts: TypeAlias = Annotated[int, Meta(ge=0)] | None


class ProductFeatureRecord(TypedDict):
    """A named group of events, and the accounts that use it."""

    id: Id
    name: str
    events: list[str]
    through: Annotated[Day | None, Meta(description="The last day of the 28 days that count.")]
    used_accounts: Annotated[Accounts, Meta(description="Accounts that used it in these days.")]
    active_accounts: Annotated[Accounts, Meta(description="Accounts that did anything in them.")]
    started_accounts: Annotated[Accounts, Meta(description="Used it for the first time in them.")]
    stopped_accounts: Annotated[
        Accounts, Meta(description="Last used it 28 days before one of these days.")
    ]


# --- Backtests ------------------------------------------------------------------------------


class BacktestRecord(TypedDict):
    """Whether the workspace's score predicted one kind of outcome."""

    kind: Kind
    segment_id: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="The segment whose accounts alone count; null: all accounts."),
    ]
    texts: Annotated[list[str], Meta(description="For each horizon its verdict and its figures.")]
    horizons: list[Horizon]
    excluded: Annotated[
        dict[str, int], Meta(description="How many were no outcomes to judge by, by the reason.")
    ]
    first_day: Annotated[Day | None, Meta(description="The day of the first outcome.")]
    last_day: Annotated[Day | None, Meta(description="The day of the last outcome.")]
    revision: Annotated[
        int | None, Meta(description="That of the license ledger; null if it was not used.")
    ]
    sampled_of: Annotated[
        int | None,
        Meta(description="The number of outcomes of which an even sample counts; null: all do."),
    ]
    computed_at: Time


# --- Chances --------------------------------------------------------------------------------


class FactRecord(TypedDict):
    """What moved a chance."""

    feature: Feature
    value: Annotated[float, Meta(description="The account's number.")]
    usual: Annotated[float, Meta(description="The median of the past cases.")]
    effect: Annotated[
        float,
        Meta(ge=-1, le=1, description="The chance minus the one with the median of past cases."),
    ]
    text: Annotated[str, Meta(description="The fact as a sentence, for people.")]


class SimilarCase(TypedDict):
    """A past case that was similar at the same age, and what became of it."""

    account: AccountName
    day: Annotated[Day, Meta(description="The day of the decision.")]
    result: Annotated[str, Meta(description="Such as `bought`. New results may be added.")]
    is_good: Annotated[bool, Meta(description="Whether it was bought, renewed, and so on.")]


class ChanceRecord(TypedDict):
    """How likely what is being decided about an account is to end well."""

    account: AccountName
    kind: Kind
    license: Annotated[str | None, Meta(description="Null if no license is decided about.")]
    began_on: Annotated[Day, Meta(description="The first day of the evaluation or the term.")]
    day: Annotated[Day, Meta(description="The day of the decision.")]
    chance: Annotated[
        Estimate,
        Meta(
            description="The chance that it is bought, renewed, kept, or stays active: with its "
            "95% interval, and the number of past outcomes that it was learned from."
        ),
    ]
    is_share: Annotated[
        bool,
        Meta(
            description="There were too few past outcomes. The chance is the share of good ones, "
            "and says nothing of this account."
        ),
    ]
    seats: Annotated[int | None, Meta(description="Of the license; null if unknown.")]
    cents: Annotated[
        int | None, Meta(description="What its sales add up to, of US dollars; null if unknown.")
    ]
    facts: Annotated[list[FactRecord], Meta(description="Those that moved the chance most first.")]
    similar: Annotated[
        list[SimilarCase],
        Meta(description="The most similar past cases first; none without licenses."),
    ]
    version: Annotated[int | None, Meta(description="Of the model.")]
    looked_on: Annotated[Day, Meta(description="The day of the look at what was known.")]


# --- Trends ---------------------------------------------------------------------------------

_Count: TypeAlias = int | None
_Score: TypeAlias = float | None
_Bands: TypeAlias = Annotated[
    list[int] | None,
    Meta(description="How many have a score from 0 to below 10, from 10 to below 20, and so on."),
]


class TrendPoint(TypedDict):
    """The figures of a workspace or a segment in an interval. Those of new, returned, and stopped
    accounts, entered, and left are sums, all others those of the last day; null if unknown."""

    first_day: Day
    last_day: Day
    accounts: _Count
    daily_accounts: _Count
    weekly_accounts: _Count
    new_accounts: _Count
    returned_accounts: _Count
    stopped_accounts: _Count
    account_mean: _Score
    account_median: _Score
    account_bands: _Bands
    users: _Count
    daily_users: _Count
    weekly_users: _Count
    user_mean: _Score
    user_median: _Score
    user_bands: _Bands
    seats: Annotated[_Count, Meta(description="Licensed seats, of accounts with licenses.")]
    active_seats: Annotated[
        _Count, Meta(description="Their weekly active users, at most the seats of each account.")
    ]
    entered: Annotated[_Count, Meta(description="Who became a member of the segment.")]
    left: _Count


# --- Forecasts ------------------------------------------------------------------------------


class ForecastRecord(TypedDict):
    """What is expected to renew in the present month and in those after it. Amounts are due,
    expected, and the ends of an 80% interval: of seats, and of US cents where sales are known."""

    kind: Kind
    made_on: Day
    texts: Annotated[
        dict[Measure, str], Meta(description="What is expected, and how past forecasts were.")
    ]
    outcomes: Annotated[int, Meta(description="How many past outcomes the chances come from.")]
    is_share: Annotated[
        bool, Meta(description="Whether these were too few to tell accounts apart.")
    ]
    learned_months: Annotated[
        int, Meta(description="How many past months say by how much months differ.")
    ]
    months: list[ForecastMonth]
    total: Annotated[
        dict[Measure, Sums],
        Meta(description="Of all months. Monthly licenses are in each, and have none."),
    ]
    quarter: Annotated[
        dict[Measure, Sums],
        Meta(description="Of the first three months. Monthly licenses have none."),
    ]
    past: Annotated[
        list[PastMonth],
        Meta(description="What forecasts had said when past months began, and what happened."),
    ]
    past_quarters: Annotated[
        list[PastMonth],
        Meta(description="The same of past calendar quarters whose first month had a forecast."),
    ]
    coverage: Annotated[
        dict[Measure, Estimate],
        Meta(description="The share of past months within their interval; none without any."),
    ]
    unknown: Annotated[
        int,
        Meta(description="Terms of which nothing can be said; the months do not have them."),
    ]
    revision: Annotated[int | None, Meta(description="That of the license ledger.")]
    versions: Annotated[
        list[int], Meta(description="The versions of the models that it was made with.")
    ]
    computed_at: Time


# --- Changes --------------------------------------------------------------------------------


class ChangesRecord(Changes, frozen=True, kw_only=True):
    """What changed in the period. A count is null if counting takes too long, and a number if a day
    of the period has no figures. *lookback_days* is the span over which scores moved."""

    text: Annotated[str, Meta(description="The period in one sentence.")]


# --- Responses ------------------------------------------------------------------------------

Record = TypeVar("Record")


class Pagination(TypedDict):
    limit: Annotated[int, Meta(ge=1, le=500)]
    offset: Annotated[int, Meta(ge=0, description="The number of records before this page.")]
    has_more: bool
    total: NotRequired[
        Annotated[
            Annotated[int, Meta(ge=0)] | None,
            Meta(
                description="With `total=true`: the number of records on all pages. Null if "
                "counting takes too long."
            ),
        ]
    ]
    total_counted_at: NotRequired[
        Annotated[
            Time | None,
            Meta(description="When the total was counted; null if it was counted just now."),
        ]
    ]
    sorted_at: NotRequired[
        Annotated[
            Time | None,
            Meta(
                description="With a `sort` other than by score: when the order was computed; null "
                "if it was just now."
            ),
        ]
    ]


class PageLinks(TypedDict):
    self: Url
    next: NotRequired[Url]
    prev: NotRequired[Url]
    changes: NotRequired[
        Annotated[
            Url, Meta(description="What changed from now on: at the end of a `changed_since` walk.")
        ]
    ]


class Page(TypedDict, Generic[Record]):
    data: list[Record]
    deleted: NotRequired[
        Annotated[
            list[Id],
            Meta(
                description="With `changed_since`: IDs that are no longer in the list. You may "
                "never have read some of them."
            ),
        ]
    ]
    pagination: Pagination
    _expansions: list[str]
    _links: PageLinks


class One(TypedDict, Generic[Record]):
    data: Record
    _expansions: list[str]


class LegacyMetrics(UnscaledMetrics, UserCounts):
    """The metrics of version 2, with scores as fractions: multiply them by 100."""

    engagement_score: Fraction
    score_yesterday: Fraction
    score_last_period: Fraction
    score_change: Annotated[
        float, Meta(ge=-1, le=1, description="The score minus the score one lookback ago.")
    ]
    score_change_complete_days: Annotated[
        Annotated[float, Meta(ge=-1, le=1)] | None, Meta(description=_COMPLETE_DAYS)
    ]
    last_seen: Annotated[
        Time,
        Meta(
            description="Time of the last message that names the account or of its last scored "
            "event, whichever is later."
        ),
    ]


class LegacySummary(AccountName):
    metrics: LegacyMetrics


class LegacyAccount(LegacySummary):
    """One account, at the root of the response."""

    _expansions: list[str]
    insights: NotRequired[list[InsightRecord]]
    traits: NotRequired[Traits]
    segments: NotRequired[list[SegmentName]]


class ApiError(TypedDict):
    code: Annotated[str, Meta(description="For programs. It does not change.")]
    message: Annotated[str, Meta(description="For people: what is wrong and what to do.")]
    field: NotRequired[Annotated[str, Meta(description="The parameter or field at fault.")]]


class ErrorResponse(TypedDict):
    error: ApiError
