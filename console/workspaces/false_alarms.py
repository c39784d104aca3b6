"""The setting *False alarms* of a workspace: what each choice would have meant until now."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from access.admin.products import ProductAdmin, Section
from engagement.activity import false_alarms as alarm_rates
from engagement.activity.false_alarms import FalseAlarms
from engagement.activity.reading import DIRECTIONS
from engagement.alarms.levels import ALLOWED_RATES, measured_span
from engagement.models import Alarm, AlarmNight, Product, Workspace
from engagement.scores.insight_texts import format_day, format_percent
from outcomes.statistics.rates import wilson

Signal = Alarm.Signal
# As people read them, by the name in ``AlarmNight.summary``.
SIZES = {"1": "1 user", "2-4": "2–4 users", "5-9": "5–9 users", "10+": "10 users and more"}
_ACTIVITY = {str(Signal.FALL): "falling", str(Signal.RISE): "rising"}
_ABOVE = "That is more than you allow, even without those that nobody closed: allow fewer."
NO_NIGHT = "No alarm has been decided yet. The first night decides half a year at once."


class ChoiceRow(NamedTuple):
    """A choice, and its alarms of the last half year."""

    label: str
    is_chosen: bool
    falling: FalseAlarms
    rising: FalseAlarms


class SizeRow(NamedTuple):
    """The accounts of a size, and the shares of them in which each choice notices a change."""

    label: str
    accounts: int
    stops: Sequence[str]
    halvings: Sequence[str]


def false_alarms(workspace: Workspace, today: date) -> dict[str, Any]:
    """What the page of the workspace shows of its alarms."""
    night = AlarmNight.latest_of(workspace).first()
    if night is None:
        return {"sentences": [NO_NIGHT]}
    rates = alarm_rates.false_alarms(workspace, today)
    # The last day on which an alarm may have begun that counts.
    until = format_day(measured_span(today - timedelta(days=1))[1])
    choices = [
        ChoiceRow(
            choice.label,
            choice == workspace.alarm_level,
            *(rates[choice, each] for each in DIRECTIONS),
        )
        for choice in Workspace.FalseAlarms
    ]
    return {
        "sentences": [
            text
            for choice in choices
            if choice.is_chosen
            for text in (
                _sentence(choice.falling, "falling", until),
                _sentence(choice.rising, "rising", until),
            )
        ],
        "until": until,
        "choices": choices,
        "sizes": list(_size_rows(night.summary or {})),
    }


def _sentence(counts: FalseAlarms, direction: str, until: str) -> str:
    """How the alarms of a direction did."""
    if counts.measured is None:
        return f"No alarm about {direction} activity is old enough to say whether it was right."
    if not counts.alarms:
        return f"In the half year until {until}, no alarm about {direction} activity began."
    return (
        f"In the half year until {until}, {counts.came_to_nothing:,} of {counts.alarms:,} alarms "
        f"about {direction} activity came to nothing: {rate_text(counts.measured)} per account and "
        f"quarter; you allow {rate_text(counts.allowed)}."
    )


def closed_sentence(workspace: Workspace, signal: str, false: int, quarters: float) -> str:
    """How many alarms of the direction people closed as false in these quarters of accounts, more
    than 0, beside how many the workspace allows."""
    rate = wilson(false, max(false, quarters))
    assert rate is not None
    allowed = ALLOWED_RATES[workspace.alarm_level]
    text = (
        f"About {_ACTIVITY[signal]} activity, people closed {false:,} as false: {rate.number} "
        f"({rate.number_range}) per account and quarter; you allow {rate_text(allowed)}."
    )
    return f"{text} {_ABOVE}" if rate.low > allowed else text


def rate_text(rate: float) -> str:
    """The rate with two digits, or with three if two would hide what it is."""
    return f"{rate:.2f}" if rate >= 0.1 or round(rate, 3) == round(rate, 2) else f"{rate:.3f}"


def _size_rows(summary: Mapping[str, Any]) -> Iterator[SizeRow]:
    for name, label in SIZES.items():
        counts = summary.get("sizes", {}).get(name)
        if counts and (accounts := counts["accounts"]):
            stops, halvings = (
                [format_percent(number / accounts) for number in counts[change]]
                for change in ("stops", "halvings")
            )
            yield SizeRow(label, accounts, stops, halvings)


def measured_section(request: HttpRequest, product: Product) -> Section:
    """How the alarms of the product's workspaces did, for the page of the product."""
    today = timezone.now().date()
    rows = [
        (
            workspace.name,
            reverse("admin:engagement_workspace_change", args=[workspace.pk]),
            false_alarms(workspace, today)["sentences"],
        )
        for workspace in product.workspaces.order_by("id")
    ]
    return Section("admin/engagement/measured_alarms.html", {"rows": rows})


ProductAdmin.add_section(measured_section)
