"""Subscriptions in words."""

from engagement.rules.texts import CHANCE_LABELS
from notifications.models import Subscription
from notifications.triggers import CHANCES, Trigger
from notifications.watching.insights import insight_label
from notifications.watching.watches import tells_entered

# What a form's sentence says of triggers that have directions, the most wanted one first.
SCORE_PHRASES: dict[Trigger, tuple[tuple[str, str], ...]] = {
    Trigger.SCORE_CROSSED: (("down", "fall below a score of"), ("up", "rise to a score of")),
    Trigger.SCORE_MOVED: (("down", "fall by (points)"), ("up", "rise by (points)")),
}
_PHRASES = {
    Trigger.SEGMENT_ENTERED: "enter the segment",
    Trigger.SEGMENT_LEFT: "leave the segment",
    Trigger.INSIGHT_STARTED: "get the insight",
    Trigger.INSIGHT_ENDED: "lose the insight",
    Trigger.CHANCE_TO_BUY_LOW: "have a chance to buy below (%)",
    Trigger.CHANCE_TO_RENEW_LOW: "have a chance to renew below (%)",
    Trigger.ACTIVATED: "are activated",
    Trigger.ACTIVATION_STUCK: "get stuck at a step of activation",
    Trigger.ACCOUNT_FIRST_EVENT: "have their first event",
    Trigger.CRM_FAILING: "a CRM is paused, fails, or rejects rows",
    Trigger.TOKEN_EXPIRING: "the marketplace token expires within (days)",
    Trigger.CREDENTIAL_EXPIRING: "a key or a read token expires within (days)",
    Trigger.QUARANTINE: "messages in quarantine are at least",
    Trigger.DROPS_RATE: "of an hour’s messages, dropped are at least (%)",
    Trigger.REFUSED_RATE: "of an hour’s requests, refused are at least (%)",
    Trigger.INBOX_OLD: "messages wait in the inbox for (minutes)",
    Trigger.FORECAST_FALLING: "the forecast of renewals falls by (%)",
}


def phrase(trigger: Trigger) -> str:
    """What the form's sentence says after "When" or after who it is about."""
    text = str(trigger.label)
    return _PHRASES.get(trigger, f"{text[:1].lower()}{text[1:]}")


def describe_subscription(subscription: Subscription) -> str:
    """What the subscription notifies of, for example “Accounts enter Ice Cold”."""
    subjects = _subjects(subscription)
    threshold = f"{subscription.threshold or 0:g}"
    match subscription.trigger:
        case Trigger.SEGMENT_ENTERED:
            text = f"{subjects} enter {subscription.segment}"
        case Trigger.SEGMENT_LEFT:
            text = f"{subjects} leave {subscription.segment}"
        case Trigger.SCORE_CROSSED if tells_entered(subscription):
            text = f"Scores of {subjects.lower()} rise to {threshold} or more"
        case Trigger.SCORE_CROSSED:
            text = f"Scores of {subjects.lower()} fall below {threshold}"
        case Trigger.SCORE_MOVED:
            verb = "rise" if subscription.direction == "up" else "fall"
            text = f"Scores of {subjects.lower()} {verb} by {threshold} points or more"
        case Trigger.INSIGHT_STARTED:
            text = f"Accounts get the insight “{insight_label(subscription.insight)}”"
        case Trigger.INSIGHT_ENDED:
            text = f"Accounts lose the insight “{insight_label(subscription.insight)}”"
        case trigger if trigger in CHANCES:
            text = (
                f"{CHANCE_LABELS[CHANCES[Trigger(trigger)]]} of accounts falls below {threshold}%"
            )
        case Trigger.ACTIVATED | Trigger.ACTIVATION_STUCK:
            text = f"{subjects} {phrase(Trigger(subscription.trigger))}"
        case Trigger.ACCOUNT_FIRST_EVENT:
            text = "New accounts have a first event"
        case Trigger.TOKEN_EXPIRING:
            text = f"The marketplace token expires within {threshold} days"
        case Trigger.CREDENTIAL_EXPIRING:
            text = f"A key or a read token expires within {threshold} days"
        case Trigger.QUARANTINE:
            text = f"Quarantine holds {threshold} or more messages"
        case Trigger.DROPS_RATE:
            text = f"{threshold}% or more of the messages of an hour are dropped"
        case Trigger.REFUSED_RATE:
            text = f"{threshold}% or more of the requests of an hour are refused"
        case Trigger.INBOX_OLD:
            text = f"A message waits for {threshold} minutes or more"
        case Trigger.FORECAST_FALLING:
            text = f"The forecast of renewals falls by {threshold}% or more"
        case _:
            text = str(subscription.get_trigger_display())
    if subscription.filter_segment is not None:
        text += f", if in {subscription.filter_segment}"
    return text


def _subjects(subscription: Subscription) -> str:
    scope = subscription.segment.scope if subscription.segment else subscription.scope
    return "Users" if scope == "user" else "Accounts"
