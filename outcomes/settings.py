"""Which outcomes a workspace looks at, and which values of a trait are bad."""

from collections.abc import Mapping
from typing import Any

import msgspec

from engagement.models import Product, Workspace
from outcomes.kinds import Kind
from outcomes.sources import alarms, licenses


class OutcomeSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """Stored as JSON in ``Workspace.outcomes``. ``off`` are the kinds that people turned
    off: all others are on where there is data for them.

    A value of the *trait* is bad if it is among *values*, whatever its case, or a number less than
    *below*.
    """

    off: frozenset[Kind] = frozenset()
    trait: str = ""
    values: tuple[str, ...] = ()
    below: float | None = None


def load_settings(workspace: Workspace) -> OutcomeSettings:
    return msgspec.convert(workspace.outcomes, OutcomeSettings)


def to_json(settings: OutcomeSettings) -> dict[str, Any]:
    """The settings as they are stored: only what differs from the usual ones, in one order."""
    values: dict[str, Any] = msgspec.to_builtins(settings, order="sorted")
    return values


def kinds_with_data(product: Product) -> list[Kind]:
    """The kinds that there may be outcomes of: of licenses with a ledger, of traits with a
    history, of alarms that somebody closed."""
    traits = [Kind.TRAIT] if product.history_traits else []
    closed = [Kind.ALARM] if alarms.has_any(product.pk) else []
    return [*licenses.kinds_of(product.pk), *traits, Kind.DORMANCY, *closed]


def kinds_on(workspace: Workspace) -> list[Kind]:
    """The kinds that the workspace looks at and has data for."""
    settings = load_settings(workspace)
    product = workspace.product
    kinds = [kind for kind in kinds_with_data(product) if kind not in settings.off]
    if settings.trait not in product.history_traits and Kind.TRAIT in kinds:
        kinds.remove(Kind.TRAIT)
    return kinds


def describe(settings: OutcomeSettings, traits: Mapping[str, str]) -> str:
    """Which values are bad, as a sentence; empty without a trait that has a history."""
    if settings.trait not in traits:
        return ""
    bad = [f'"{value}"' for value in settings.values]
    bad += [] if settings.below is None else [f"below {settings.below:g}"]
    return f"{settings.trait} becomes {' or '.join(bad)}, recorded since {traits[settings.trait]}."
