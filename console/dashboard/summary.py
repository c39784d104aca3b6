"""What the card of a product is made from, and the links that it has."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.urls import reverse
from django.utils.http import urlencode

from destinations.models import RecordDestination
from engagement.activity.product import ProductActivity, SilentSender
from engagement.limits.limits import UsedLimit
from engagement.models import Credential, Product, Workspace
from engagement.segments.attention import NO_ATTENTION, Attention
from engagement.segments.counts import SubjectTotals
from exports.models import ExportRun
from ingestion.log.last_24h import Last24Hours
from ingestion.models import IngestionKey
from marketplace.licenses.matching import MatchReport
from marketplace.models import Connection
from marketplace.runs.timetable import Timetable
from marketplace.status.health import LastRuns
from notifications.models import Destination
from outcomes.forecasts.results import Forecast
from trends.changes.results import Changes
from trends.curves import Spark


@dataclass(frozen=True)
class ProductSummary:
    """The data of a product's card. ``totals`` and ``attention`` are from the first of
    ``workspaces``. ``totals`` is None if that has no scores yet."""

    product: Product
    has_users: bool
    workspaces: Sequence[Workspace]
    totals: SubjectTotals | None
    last_24h: Last24Hours
    keys: Sequence[IngestionKey]
    connection: Connection | None
    last_syncs: LastRuns
    timetable: Timetable
    attention: Attention = NO_ATTENTION
    # Of the last week. None beside other cards, and before there are scores.
    changes: Changes | None = None
    trends: Sequence[Spark] = ()
    # Live keys and tokens that expire soon, or have just expired.
    expiring: Sequence[Credential] = ()
    # The limits that are near or reached.
    near_limits: Sequence[UsedLimit] = ()
    # The paused destinations of notifications.
    destinations: Sequence[Destination] = ()
    # The last runs of exports that have failed.
    failed_exports: Sequence[ExportRun] = ()
    # Of the most engaged accounts, on the overview of a connected product.
    matches: MatchReport | None = None
    # Each with a sentence why.
    failing_crms: Sequence[tuple[RecordDestination, str]] = ()
    # None if nobody can tell; the sender is None unless it was silent.
    activity: ProductActivity | None = None
    silent_sender: SilentSender | None = None
    # The node of a cluster that has its data and cannot be reached; "" if it can be.
    missing_node: str = ""
    # Of the first workspace: that of annual terms, or else of monthly licenses.
    forecast: Forecast | None = None
    # Whether it is the only card of the page. Beside others, it has the weekly active accounts of
    # the last weeks, a number a day; None where none is known.
    is_alone: bool = True
    weekly_accounts: Sequence[int | None] = ()

    @property
    def is_new(self) -> bool:
        """Whether no message has ever arrived."""
        waiting = self.last_24h.waiting
        is_empty = waiting is not None and not waiting.messages
        is_unused = all(key.last_used_at is None for key in self.keys)
        return is_empty and is_unused and not self.has_users and not self.last_24h.accepted


class Link(NamedTuple):
    label: str
    url: str


@dataclass(frozen=True)
class Notice:
    """A text with a level (good, warning, bad, or quiet) and a link to a page about it."""

    level: str
    text: str
    link: Link | None = None


def admin_url(name: str, *args: object) -> str:
    return reverse(f"admin:{name}", args=args)


def add_url(model: str, product: Product) -> str:
    return f"{admin_url(f'{model}_add')}?{urlencode({'product': product.pk})}"


def ranking_url(scope: str, workspace: Workspace) -> str:
    return f"{admin_url(f'engagement_{scope}_changelist')}?{urlencode({'workspace': workspace.pk})}"


def matching_url(product: Product) -> str:
    return f"{admin_url('licenses_matching')}?{urlencode({'product': product.pk})}"


def log_url(product: Product, **filters: str) -> str:
    query = f"?{urlencode(filters)}" if filters else ""
    return admin_url("ingestion_ingestionlog_change", product.pk) + query
