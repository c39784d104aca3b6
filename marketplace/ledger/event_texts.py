"""License events in words."""

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from marketplace.ledger.vocabulary import EventType

TITLES = {
    EventType.FIRST_SEEN: "First seen",
    EventType.EVALUATION_STARTED: "Evaluation started",
    EventType.EVALUATION_EXTENDED: "Evaluation extended",
    EventType.EVALUATION_BOUGHT: "Evaluation bought",
    EventType.EVALUATION_EXPIRED: "Evaluation expired",
    EventType.PURCHASED: "Purchased",
    EventType.FREE_STARTED: "Free license started",
    EventType.RENEWED: "Renewed",
    EventType.CHURNED: "Churned",
    EventType.WON_BACK: "Won back",
    EventType.CANCELLED: "Subscription cancelled",
    EventType.RESUMED: "Subscription resumed",
    EventType.ENDED_EARLY: "Ended early",
    EventType.REFUNDED: "Refunded",
    EventType.REINSTATED: "Reinstated",
    EventType.SEATS_UP: "Seats added",
    EventType.SEATS_DOWN: "Seats removed",
    EventType.EDITION_UP: "Edition upgraded",
    EventType.EDITION_DOWN: "Edition downgraded",
    EventType.EDITION_TRIAL_STARTED: "Edition trial started",
    EventType.BILLING_CHANGED: "Billing changed",
    EventType.PAYMENT_FAILED: "Payment failed",
    EventType.PAYMENT_RECOVERED: "Payment recovered",
    EventType.BECAME_FREE: "Became free",
    EventType.MOVED_SITE: "Moved to another site",
    EventType.UNLISTED: "No longer listed",
    EventType.RELISTED: "Listed again",
    EventType.FEEDBACK: "Feedback",
}
# What customers answer when they leave. The marketplace may add reasons.
_REASONS = {
    "not-meeting-needs": "does not meet the needs",
    "project-based": "the project ended",
    "merging": "sites were merged",
    "sandbox": "it was a sandbox",
    "refund": "money back",
}


def title(type: str) -> str:
    """The event's type in words. A type of a newer release is shown as it is stored."""
    return TITLES.get(type) or type.replace("_", " ").capitalize()  # type: ignore[call-overload]


def describe(type: str, details: Mapping[str, Any]) -> str:
    """The event as a sentence without its date, such as “Seats added: 25 → 40.”"""
    text = details_text(details)
    return f"{title(type)}: {text}." if text else f"{title(type)}."


def details_text(details: Mapping[str, Any]) -> str:
    """What is known of the event besides its type, or ""."""
    return ", ".join(_details(details))


def reason_text(key: str) -> str:
    """The reason that a customer gave, in words."""
    return _REASONS.get(key, key.replace("-", " ").strip())


def _details(details: Mapping[str, Any]) -> Iterator[str]:
    if {"from", "to"} <= details.keys():
        yield f"{_text(details['from'])} → {_text(details['to'])}"
    if seats := details.get("seats"):
        yield f"{_text(seats)} seats"
    if edition := details.get("edition"):
        yield _text(edition)
    if number := details.get("days"):
        yield f"{number:+} days"
    if until := details.get("until"):
        yield f"until {_day(until)}"
    if gap := details.get("gap_days"):
        yield f"after {_text(gap)} unpaid {'day' if gap == 1 else 'days'}"
    if details.get("unseen"):
        yield "no sync looked meanwhile"
    if license := details.get("license"):
        yield f"{_LICENSE.get(details.get('direction', ''), 'license')} {_text(license)}"
    for key, direction in (("perhaps_to", "to"), ("perhaps_from", "from")):
        if license := details.get(key):
            yield f"perhaps moved {direction} license {_text(license)}"
    if site := details.get("from_site"):
        yield f"from site {_text(site)}"
    if type := details.get("type"):
        yield _text(type)
    if reason := details.get("reason_text") or details.get("reason"):
        yield f"reason: {reason_text(_text(reason)).rstrip('.')}"


_LICENSE = {"to": "to license", "from": "from license"}


def _day(text: str) -> str:
    day = date.fromisoformat(text)
    return f"{day.day} {day:%b %Y}"


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
