"""An account's license in one line, from the traits that the marketplace gives the account."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from engagement.license_traits import (
    EDITION_TRAIT,
    EVALUATION_END_TRAIT,
    LICENSE_STATUS_TRAIT,
    LICENSE_TYPE_TRAIT,
    MAINTENANCE_END_TRAIT,
    TIER_TRAIT,
)
from engagement.scores.metrics import licensed_seats
from engagement.trait_days import parse_trait_day

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
    traits: Mapping[str, Any],
    active_users: int | None,
    today: date,
    notes: list[str],
    *,
    compares_seats: bool,
) -> LicenseCard | None:
    """The card of an account with these traits. None if it has no license.

    ``active_users`` is None if they are no share of the seats. *compares_seats* says that the seats
    are for users of the app.
    """
    facts = list(_facts(traits, active_users, today, compares_seats))
    status = _text(traits, LICENSE_STATUS_TRAIT).lower()
    return LicenseCard(facts, status not in ("", "active"), notes) if facts else None


def _facts(
    traits: Mapping[str, Any], active_users: int | None, today: date, compares_seats: bool
) -> Iterator[str]:
    seats = licensed_seats(traits)
    license_type = _text(traits, LICENSE_TYPE_TRAIT)
    yield from filter(None, (license_type.capitalize(), _text(traits, LICENSE_STATUS_TRAIT)))
    if seats is not None:
        yield f"{seats:,.0f} users"
    elif (tier := _text(traits, TIER_TRAIT)).lower() not in ("", license_type.lower()):
        yield tier
    if edition := _text(traits, EDITION_TRAIT):
        yield edition
    if end := _end(traits, today):
        yield end
    if seats is not None and active_users is not None:
        whose = "seats" if compares_seats else "users of the host product"
        yield f"{active_users:,} of {seats:,.0f} {whose} active"


def _end(traits: Mapping[str, Any], today: date) -> str:
    """When the license renews or ends, if it says so."""
    is_evaluation = _text(traits, LICENSE_TYPE_TRAIT).lower() == "evaluation"
    names = [MAINTENANCE_END_TRAIT]
    if is_evaluation:
        names.insert(0, EVALUATION_END_TRAIT)
    end = next(filter(None, (parse_trait_day(traits.get(name)) for name in names)), None)
    if end is None:
        return ""
    days, day = (end - today).days, f"{end.day} {end:%b %Y}"
    if days < 0:
        return f"ended {day} ({_days(-days)} ago)"
    renews = not is_evaluation and _text(traits, LICENSE_STATUS_TRAIT).lower() in ("", "active")
    when = "today" if days == 0 else f"in {_days(days)}"
    return f"{'renews' if renews else 'ends'} {day} ({when})"


def _days(number: int) -> str:
    return "1 day" if number == 1 else f"{number:,} days"


def _text(traits: Mapping[str, Any], name: str) -> str:
    value = traits.get(name)
    return value.strip()[:_TEXT_LENGTH] if isinstance(value, str) else ""
