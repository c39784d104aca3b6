"""An account's license in one line, from the traits that the marketplace gives the account."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from engagement.scores.metrics import licensed_seats
from engagement.tenure import parse_time

_TEXT_LENGTH = 60


@dataclass(frozen=True)
class LicenseCard:
    """The facts of a license, most important first. ``is_bad`` marks a license that is not active.

    ``notes`` are sentences of other apps.
    """

    facts: list[str]
    is_bad: bool
    notes: list[str]


def license_card(
    traits: Mapping[str, Any], active_users: int | None, today: date, notes: list[str]
) -> LicenseCard | None:
    """The card of an account with these traits. None if it has no license.

    ``active_users`` is None if the page's workspace does not count all users.
    """
    facts = list(_facts(traits, active_users, today))
    status = _text(traits, "am.status").lower()
    return LicenseCard(facts, status not in ("", "active"), notes) if facts else None


def _facts(traits: Mapping[str, Any], active_users: int | None, today: date) -> Iterator[str]:
    seats = licensed_seats(traits)
    license_type = _text(traits, "am.licenseType")
    yield from filter(None, (license_type.capitalize(), _text(traits, "am.status")))
    if seats is not None:
        yield f"{seats:,.0f} users"
    elif (tier := _text(traits, "am.tier")).lower() not in ("", license_type.lower()):
        yield tier
    if edition := _text(traits, "am.appEdition"):
        yield edition
    if end := _end(traits, today):
        yield end
    if seats is not None and active_users is not None:
        yield f"{active_users:,} of {seats:,.0f} seats active"


def _end(traits: Mapping[str, Any], today: date) -> str:
    """When the license renews or ends, if it says so."""
    is_evaluation = _text(traits, "am.licenseType").lower() == "evaluation"
    names = ["am.maintenanceEndDate"]
    if is_evaluation:
        names.insert(0, "am.evaluationEndDate")
    end = next((time.date() for name in names if (time := parse_time(traits.get(name)))), None)
    if end is None:
        return ""
    days, day = (end - today).days, f"{end.day} {end:%b %Y}"
    if days < 0:
        return f"ended {day} ({_days(-days)} ago)"
    renews = not is_evaluation and _text(traits, "am.status").lower() in ("", "active")
    when = "today" if days == 0 else f"in {_days(days)}"
    return f"{'renews' if renews else 'ends'} {day} ({when})"


def _days(number: int) -> str:
    return "1 day" if number == 1 else f"{number:,} days"


def _text(traits: Mapping[str, Any], name: str) -> str:
    value = traits.get(name)
    return value.strip()[:_TEXT_LENGTH] if isinstance(value, str) else ""
