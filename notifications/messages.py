"""What the messages to destinations say: a type for each kind of message.

The payloads of webhooks are built from these types, and the API description lists them.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from notifications.triggers import CHANCES, LICENSE_EVENTS, TRIGGERS, Trigger

Score: TypeAlias = Annotated[float, Meta(ge=0, le=100, description="From 0 to 100.")]
ScoreChange: TypeAlias = Annotated[
    float, Meta(ge=-100, le=100, description="The score minus the score one lookback ago.")
]
Day: TypeAlias = Annotated[
    str, Meta(description="A UTC day.", extra_json_schema={"format": "date"})
]
Url: TypeAlias = Annotated[
    str, Meta(description="A page of the admin.", extra_json_schema={"format": "uri"})
]
Text: TypeAlias = Annotated[str, Meta(description="The message as a sentence, for people.")]
Percent: TypeAlias = Annotated[float, Meta(ge=0, le=100)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]


class _Part(Struct, frozen=True, kw_only=True):
    """A part of a message. A field that is UNSET is not in it."""


class NamedThing(_Part, frozen=True, kw_only=True):
    """A product, a workspace, or a segment."""

    id: int
    name: str


class NotifiedSubject(_Part, frozen=True, kw_only=True):
    """The user or the account that the message is about."""

    id: Annotated[int, Meta(description="The service's own ID, as in the read API.")]
    tracking_id: Annotated[
        str, Meta(description="The ID that the sender uses: `userId` or `groupId`.")
    ]
    external_id: Annotated[
        str, Meta(description="`tracking_id` by its old name. It goes with the next release.")
    ]
    name: str
    link: Url
    traits: (
        Annotated[
            dict[str, Any],
            Meta(
                description="The traits that the subscription has chosen. One that the user or "
                "account does not have is null. Missing if none are chosen."
            ),
        ]
        | UnsetType
    ) = UNSET


# --- Users and accounts ---------------------------------------------------------------------


class ScoreBefore(_Part, frozen=True, kw_only=True):
    """Without a score if the user or account is in no scores any more."""

    score_last_period: Score | UnsetType = UNSET


class ScoreAfter(_Part, frozen=True, kw_only=True):
    """Without a score if the user or account is in no scores any more."""

    score: Score | UnsetType = UNSET
    score_change: ScoreChange | UnsetType = UNSET


class SegmentBefore(ScoreBefore, frozen=True, kw_only=True):
    in_segment: bool


class SegmentAfter(ScoreAfter, frozen=True, kw_only=True):
    in_segment: bool


class InsightBefore(ScoreBefore, frozen=True, kw_only=True):
    has_insight: bool


class InsightAfter(ScoreAfter, frozen=True, kw_only=True):
    has_insight: bool
    outcome: (
        Annotated[
            Literal["recovered", "settled", "replaced"],
            Meta(
                description="How an alarm ended: back to usual; settled, so that the new level is "
                "the usual one now; or replaced, because data that came later decided otherwise. "
                "Missing if the insight tells of no alarm, or if its alarm goes on as another "
                "insight."
            ),
        ]
        | UnsetType
    ) = UNSET


class SubjectMessage(_Part, frozen=True, kw_only=True):
    """What all messages about users and accounts say."""

    text: Text
    subscription_id: int
    product: NamedThing
    workspace: NamedThing


class SegmentMessage(SubjectMessage, frozen=True, kw_only=True):
    segment: NamedThing


class SegmentChanged(SegmentMessage, frozen=True, kw_only=True):
    """A user or an account entered or left a segment: `user` or `account` is there."""

    user: NotifiedSubject | UnsetType = UNSET
    account: NotifiedSubject | UnsetType = UNSET
    before: SegmentBefore
    after: SegmentAfter


class SegmentSummary(SegmentMessage, frozen=True, kw_only=True):
    """Many entered or left a segment at once: how many, and the first of them."""

    count: Count
    first: list[NotifiedSubject]


class ScoreMessage(SubjectMessage, frozen=True, kw_only=True):
    threshold: Annotated[
        float, Meta(description="The score, or the points, that the subscription names.")
    ]
    direction: Literal["up", "down"]


class ScoreChanged(ScoreMessage, frozen=True, kw_only=True):
    """The score of a user or an account changed: `user` or `account` is there."""

    user: NotifiedSubject | UnsetType = UNSET
    account: NotifiedSubject | UnsetType = UNSET
    before: ScoreBefore
    after: ScoreAfter


class ScoreSummary(ScoreMessage, frozen=True, kw_only=True):
    """Many scores changed at once: how many, and the first users or accounts."""

    count: Count
    first: list[NotifiedSubject]


class InsightMessage(SubjectMessage, frozen=True, kw_only=True):
    insight: Annotated[str, Meta(description="The kind of the insight, as in the read API.")]


class InsightChanged(InsightMessage, frozen=True, kw_only=True):
    """An account got or lost an insight."""

    account: NotifiedSubject
    before: InsightBefore
    after: InsightAfter


class InsightSummary(InsightMessage, frozen=True, kw_only=True):
    """Many accounts got or lost an insight at once: how many, and the first of them."""

    count: Count
    first: list[NotifiedSubject]


class ChanceMessage(SubjectMessage, frozen=True, kw_only=True):
    threshold: Annotated[
        float, Meta(ge=1, le=100, description="The percentage that the subscription names.")
    ]


class ChanceLow(ChanceMessage, frozen=True, kw_only=True):
    """The chance of an account fell below a value, or was below it when it was first told."""

    account: NotifiedSubject
    chance: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=100,
                description="In percent, with its 95% interval from `low` to `high`. Missing if "
                "there is none any more.",
            ),
        ]
        | UnsetType
    ) = UNSET
    low: Percent | UnsetType = UNSET
    high: Percent | UnsetType = UNSET
    before: ScoreBefore
    after: ScoreAfter


class ChanceSummary(ChanceMessage, frozen=True, kw_only=True):
    """The chances of many accounts fell below a value at once: how many, and the first of them."""

    count: Count
    first: list[NotifiedSubject]


class ActivationChanged(SubjectMessage, frozen=True, kw_only=True):
    """A user or an account is activated, or got stuck at a step: `user` or `account` is there."""

    user: NotifiedSubject | UnsetType = UNSET
    account: NotifiedSubject | UnsetType = UNSET
    before: ScoreBefore
    after: ScoreAfter


class ActivationSummary(SubjectMessage, frozen=True, kw_only=True):
    """Many are activated, or got stuck, at once: how many, and the first of them."""

    count: Count
    first: list[NotifiedSubject]


class FirstEvent(SubjectMessage, frozen=True, kw_only=True):
    """A new account had its first event."""

    account: NotifiedSubject
    before: ScoreBefore
    after: ScoreAfter


class FirstEventSummary(SubjectMessage, frozen=True, kw_only=True):
    """Many new accounts had a first event: how many, and the first of them."""

    count: Count
    first: list[NotifiedSubject]


# --- The product ----------------------------------------------------------------------------


class ProductMessage(_Part, frozen=True, kw_only=True):
    """What all messages about a product say. Other fields are there while `holds` is true."""

    text: Text
    subscription_id: int
    product: NamedThing
    link: Url
    holds: Annotated[
        bool, Meta(description="Whether the condition holds. False in the message that it ended.")
    ]


class CredentialsNeeded(ProductMessage, frozen=True, kw_only=True):
    """The marketplace connection needs new credentials, or no longer does."""

    reason: Annotated[str, Meta(description="What is wrong.")] | UnsetType = UNSET


class TokenExpiring(ProductMessage, frozen=True, kw_only=True):
    """The API token of the marketplace connection expires soon."""

    expires_on: Day | UnsetType = UNSET


class CredentialExpiring(ProductMessage, frozen=True, kw_only=True):
    """An ingestion key or a read token expires soon."""

    kind: Literal["ingestion key", "read token"] | UnsetType = UNSET
    name: str | UnsetType = UNSET
    expires_on: Day | UnsetType = UNSET


class SyncFailed(ProductMessage, frozen=True, kw_only=True):
    """The last license sync failed, or one has succeeded again."""

    error: str | UnsetType = UNSET


class MessagesQuarantined(ProductMessage, frozen=True, kw_only=True):
    """Messages are in quarantine, or no longer."""

    messages: Count | UnsetType = UNSET


class MessagesDropped(ProductMessage, frozen=True, kw_only=True):
    """Many messages of this hour and the one before were dropped, or no longer."""

    dropped: Count | UnsetType = UNSET
    messages: Count | UnsetType = UNSET
    percent: Percent | UnsetType = UNSET


class RequestsRefused(ProductMessage, frozen=True, kw_only=True):
    """Many requests of this hour and the one before were refused, or no longer."""

    refused: Count | UnsetType = UNSET
    percent: Percent | UnsetType = UNSET


class CrmFailing(ProductMessage, frozen=True, kw_only=True):
    """A CRM is paused, its last run failed, or it rejected many rows; or no longer."""

    crm: Annotated[str, Meta(description="What its page is called.")] | UnsetType = UNSET


class InboxOld(ProductMessage, frozen=True, kw_only=True):
    """Messages wait in the inbox, or no longer."""

    minutes: (
        Annotated[int, Meta(ge=0, description="The wait of the oldest message.")] | UnsetType
    ) = UNSET


class ProductFalling(ProductMessage, frozen=True, kw_only=True):
    """The accounts of the product together do less than a year ago, or no longer."""

    day: Annotated[Day, Meta(description="The last of the 28 days.")] | UnsetType = UNSET
    observed: Annotated[int, Meta(ge=0, description="Active user-days in 28 days.")] | UnsetType = (
        UNSET
    )
    expected: (
        Annotated[float, Meta(ge=0, description="Those expected from a year ago.")] | UnsetType
    ) = UNSET


class ForecastFalling(ProductMessage, frozen=True, kw_only=True):
    """Less is expected to renew in the next three months than when this month began, or no
    longer."""

    measure: Annotated[str, Meta(description="seats, or cents.")] | UnsetType = UNSET
    expected: Annotated[float, Meta(ge=0, description="What is expected now.")] | UnsetType = UNSET
    expected_before: (
        Annotated[float, Meta(ge=0, description="When the month began.")] | UnsetType
    ) = UNSET


class SenderSilent(ProductMessage, frozen=True, kw_only=True):
    """Hardly anybody was active on a day, so the sender may send nothing; or it sends again."""

    day: Day | UnsetType = UNSET
    observed: Annotated[int, Meta(ge=0, description="Active user-days of the day.")] | UnsetType = (
        UNSET
    )
    usual: (
        Annotated[float, Meta(ge=0, description="The median of the same weekday of 8 weeks.")]
        | UnsetType
    ) = UNSET


class LicenseHappening(ProductMessage, frozen=True, kw_only=True):
    """Something happened to a license, or an event that was told follows no more. Without
    `license`, it is about many events at once."""

    event: Annotated[str, Meta(description="The type, as in `/v2/license-events`.")] | UnsetType = (
        UNSET
    )
    license: str | UnsetType = UNSET
    date: Day | UnsetType = UNSET
    account: (
        Annotated[NotifiedSubject, Meta(description="Missing if no account has the license.")]
        | UnsetType
    ) = UNSET
    count: Count | UnsetType = UNSET


class DestinationTest(_Part, frozen=True, kw_only=True):
    """A test of the destination, which tells of no change."""

    text: Text
    product: NamedThing


# --- Kinds ----------------------------------------------------------------------------------

TEST_TYPE = "destination.test"
CHANGES: dict[Trigger, type[SubjectMessage]] = {
    Trigger.SEGMENT_ENTERED: SegmentChanged,
    Trigger.SEGMENT_LEFT: SegmentChanged,
    Trigger.SCORE_CROSSED: ScoreChanged,
    Trigger.SCORE_MOVED: ScoreChanged,
    Trigger.INSIGHT_STARTED: InsightChanged,
    Trigger.INSIGHT_ENDED: InsightChanged,
    **dict.fromkeys(CHANCES, ChanceLow),
    Trigger.ACTIVATED: ActivationChanged,
    Trigger.ACTIVATION_STUCK: ActivationChanged,
    Trigger.ACCOUNT_FIRST_EVENT: FirstEvent,
}
SUMMARIES: dict[Trigger, type[SubjectMessage]] = {
    Trigger.SEGMENT_ENTERED: SegmentSummary,
    Trigger.SEGMENT_LEFT: SegmentSummary,
    Trigger.SCORE_CROSSED: ScoreSummary,
    Trigger.SCORE_MOVED: ScoreSummary,
    Trigger.INSIGHT_STARTED: InsightSummary,
    Trigger.INSIGHT_ENDED: InsightSummary,
    **dict.fromkeys(CHANCES, ChanceSummary),
    Trigger.ACTIVATED: ActivationSummary,
    Trigger.ACTIVATION_STUCK: ActivationSummary,
    Trigger.ACCOUNT_FIRST_EVENT: FirstEventSummary,
}
CONDITIONS: dict[Trigger, type[ProductMessage]] = {
    Trigger.CONNECTION_NEEDS_AUTHENTICATION: CredentialsNeeded,
    Trigger.CRM_FAILING: CrmFailing,
    Trigger.TOKEN_EXPIRING: TokenExpiring,
    Trigger.CREDENTIAL_EXPIRING: CredentialExpiring,
    Trigger.SYNC_FAILED: SyncFailed,
    Trigger.QUARANTINE: MessagesQuarantined,
    Trigger.DROPS_RATE: MessagesDropped,
    Trigger.REFUSED_RATE: RequestsRefused,
    Trigger.INBOX_OLD: InboxOld,
    Trigger.PRODUCT_FALLING: ProductFalling,
    Trigger.SENDER_SILENT: SenderSilent,
    Trigger.FORECAST_FALLING: ForecastFalling,
    **dict.fromkeys((*LICENSE_EVENTS, Trigger.LICENSE_EVENT_WITHDRAWN), LicenseHappening),
}


def types_by_name() -> dict[str, type[Struct]]:
    """The type of the data of each message, by the name that its ``type`` says."""
    return {
        **{TRIGGERS[trigger].type: data for trigger, data in CHANGES.items()},
        **{f"{TRIGGERS[trigger].type}.summary": data for trigger, data in SUMMARIES.items()},
        **{TRIGGERS[trigger].type: data for trigger, data in CONDITIONS.items()},
        TEST_TYPE: DestinationTest,
    }


def payload(type: str, now: datetime, data: Struct) -> dict[str, Any]:
    """The body of a webhook, as Standard Webhooks recommends it."""
    timestamp = now.isoformat().replace("+00:00", "Z")
    return {"type": type, "timestamp": timestamp, "data": msgspec.to_builtins(data)}
