"""The triggers of subscriptions: what each is about, and which parameters it has."""

from dataclasses import dataclass
from typing import TypeAlias

from django.db import models

from engagement.rules.rules import ActivationState, ChanceName

Parameter: TypeAlias = str


class Trigger(models.TextChoices):
    SEGMENT_ENTERED = "segment_entered", "Enters a segment"
    SEGMENT_LEFT = "segment_left", "Leaves a segment"
    SCORE_CROSSED = "score_crossed", "Score crosses a value"
    SCORE_MOVED = "score_moved", "Score moves by a number of points"
    INSIGHT_STARTED = "insight_started", "Insight appears"
    INSIGHT_ENDED = "insight_ended", "Insight ends"
    CHANCE_TO_BUY_LOW = "chance_to_buy_low", "Chance of an evaluation falls below a value"
    CHANCE_TO_RENEW_LOW = "chance_to_renew_low", "Chance of a renewal falls below a value"
    ACTIVATED = "activated", "Is activated"
    ACTIVATION_STUCK = "activation_stuck", "Gets stuck at a step of activation"
    ACCOUNT_FIRST_EVENT = "account_first_event", "First event of a new account"
    CONNECTION_NEEDS_AUTHENTICATION = (
        "connection_needs_authentication",
        "Marketplace connection needs new credentials",
    )
    CRM_FAILING = "crm_failing", "CRM is paused, fails, or rejects rows"
    TOKEN_EXPIRING = "token_expiring", "Marketplace token expires soon"
    CREDENTIAL_EXPIRING = "credential_expiring", "Ingestion key or read token expires soon"
    SYNC_FAILED = "sync_failed", "License sync fails"
    QUARANTINE = "quarantine", "Messages are in quarantine"
    DROPS_RATE = "drops_rate", "Many messages are dropped"
    REFUSED_RATE = "refused_rate", "Many requests are refused"
    INBOX_OLD = "inbox_old", "Messages wait in the inbox"
    PRODUCT_FALLING = "product_falling", "The whole product is used less"
    SENDER_SILENT = "sender_silent", "The sender is silent"
    FORECAST_FALLING = "forecast_falling", "The forecast of renewals falls"
    EVALUATION_STARTED = "evaluation_started", "Evaluation starts"
    EVALUATION_BOUGHT = "evaluation_bought", "Evaluation is bought"
    EVALUATION_EXTENDED = "evaluation_extended", "Evaluation is extended"
    LICENSE_CANCELLED = "license_cancelled", "Subscription is cancelled"
    LICENSE_CHURNED = "license_churned", "Customer churns"
    LICENSE_RENEWED = "license_renewed", "License is renewed"
    LICENSE_WON_BACK = "license_won_back", "Customer is won back"
    LICENSE_EVENT_WITHDRAWN = "license_event_withdrawn", "A license event is withdrawn"


@dataclass(frozen=True)
class TriggerInfo:
    """``parameters`` are the subscription's fields that the trigger uses. ``type`` is the type of
    its messages. ``default`` is the usual threshold, and ``bounds`` limits it. ``ends`` says that
    the end of a condition is told, too. With ``is_news``, what already held when the subscription
    began is not told. With ``is_whole``, the threshold is a whole number."""

    type: str
    parameters: tuple[Parameter, ...] = ()
    default: float | None = None
    bounds: tuple[float, float] = (0, 1_000_000)
    ends: bool = False
    is_news: bool = False
    is_whole: bool = False

    @property
    def is_about_accounts(self) -> bool:
        """Whether it is about accounts, whatever the subscription says."""
        return not self.is_about_product and not {"scope", "segment"} & set(self.parameters)

    @property
    def is_about_product(self) -> bool:
        """Whether it is about the product and not about users or accounts."""
        return "workspace" not in self.parameters


_SUBJECTS = ("workspace", "filter_segment", "tells_changed_rules", "traits")


def _chance(type: str, default: float) -> TriggerInfo:
    return TriggerInfo(
        type,
        ("threshold", *_SUBJECTS),
        default=default,
        bounds=(1, 100),
        is_whole=True,
    )


TRIGGERS: dict[Trigger, TriggerInfo] = {
    Trigger.SEGMENT_ENTERED: TriggerInfo("segment.entered", ("segment", *_SUBJECTS)),
    Trigger.SEGMENT_LEFT: TriggerInfo("segment.left", ("segment", *_SUBJECTS)),
    Trigger.SCORE_CROSSED: TriggerInfo(
        "score.crossed",
        ("scope", "direction", "threshold", *_SUBJECTS),
        default=50,
        bounds=(0.1, 100),
    ),
    Trigger.SCORE_MOVED: TriggerInfo(
        "score.moved",
        ("scope", "direction", "threshold", *_SUBJECTS),
        default=20,
        bounds=(0.1, 100),
    ),
    Trigger.INSIGHT_STARTED: TriggerInfo("insight.started", ("insight", *_SUBJECTS)),
    Trigger.INSIGHT_ENDED: TriggerInfo("insight.ended", ("insight", *_SUBJECTS)),
    Trigger.CHANCE_TO_BUY_LOW: _chance("chance_to_buy.low", 30),
    Trigger.CHANCE_TO_RENEW_LOW: _chance("chance_to_renew.low", 50),
    Trigger.ACTIVATED: TriggerInfo("activation.done", ("scope", *_SUBJECTS)),
    Trigger.ACTIVATION_STUCK: TriggerInfo("activation.stuck", ("scope", *_SUBJECTS)),
    Trigger.ACCOUNT_FIRST_EVENT: TriggerInfo("account.first_event", _SUBJECTS),
    Trigger.CONNECTION_NEEDS_AUTHENTICATION: TriggerInfo(
        "connection.needs_authentication", ends=True
    ),
    Trigger.CRM_FAILING: TriggerInfo("destination.failing", ends=True),
    Trigger.TOKEN_EXPIRING: TriggerInfo(
        "connection.token_expiring",
        ("threshold",),
        default=30,
        bounds=(1, 365),
    ),
    Trigger.CREDENTIAL_EXPIRING: TriggerInfo(
        "credential.expiring",
        ("threshold",),
        default=30,
        bounds=(1, 365),
    ),
    Trigger.SYNC_FAILED: TriggerInfo("connection.sync_failed", ends=True),
    Trigger.QUARANTINE: TriggerInfo("ingestion.quarantine", ("threshold",), 1, (1, 1e9), ends=True),
    Trigger.DROPS_RATE: TriggerInfo(
        "ingestion.drops",
        ("threshold",),
        5,
        (0.1, 100),
        ends=True,
    ),
    Trigger.REFUSED_RATE: TriggerInfo(
        "ingestion.refused",
        ("threshold",),
        5,
        (0.1, 100),
        ends=True,
    ),
    Trigger.INBOX_OLD: TriggerInfo(
        "ingestion.inbox_old",
        ("threshold",),
        5,
        (1, 10_000),
        ends=True,
    ),
    Trigger.PRODUCT_FALLING: TriggerInfo("product.falling", ends=True),
    Trigger.SENDER_SILENT: TriggerInfo("product.sender_silent", ends=True),
    Trigger.FORECAST_FALLING: TriggerInfo(
        "product.forecast_falling",
        ("threshold",),
        10,
        (1, 100),
        ends=True,
    ),
}
CHANCES: dict[Trigger, ChanceName] = {
    Trigger.CHANCE_TO_BUY_LOW: "buy",
    Trigger.CHANCE_TO_RENEW_LOW: "renew",
}
ACTIVATION: dict[Trigger, ActivationState] = {
    Trigger.ACTIVATED: "activated",
    Trigger.ACTIVATION_STUCK: "stuck",
}
# What happened to licenses, by the type of the event. Withdrawals are of any of these.
LICENSE_EVENTS: dict[Trigger, str] = {
    Trigger.EVALUATION_STARTED: "evaluation_started",
    Trigger.EVALUATION_BOUGHT: "evaluation_bought",
    Trigger.EVALUATION_EXTENDED: "evaluation_extended",
    Trigger.LICENSE_CANCELLED: "cancelled",
    Trigger.LICENSE_CHURNED: "churned",
    Trigger.LICENSE_RENEWED: "renewed",
    Trigger.LICENSE_WON_BACK: "won_back",
}
TRIGGERS |= {
    trigger: TriggerInfo(f"license.{type}", is_news=True)
    for trigger, type in (
        *LICENSE_EVENTS.items(),
        (Trigger.LICENSE_EVENT_WITHDRAWN, "event_withdrawn"),
    )
}
