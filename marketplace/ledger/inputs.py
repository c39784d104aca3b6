"""What the events of a license follow from: its states, and what reports say of it.

Days are UTC, and ends are exclusive: a license that ends on a day is no longer paid on it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any

from marketplace.licenses.conversion import parent_key, tier_number


@dataclass(frozen=True)
class LedgerSettings:
    """How long is long enough, in days."""

    # 15 days to pay and 15 suspended, before a license is deactivated.
    grace: int = 30
    # A trial may wait for its payment, which may come as a license of its own.
    evaluation_grace: int = 45
    # An end that moves less is an adjustment: the shortest real step is 28.
    step: int = 20
    # A trial's end that moves less is aligned to the day of billing.
    extension: int = 7
    # How far apart the end of a license and the start of the one on another site may be.
    move_window: int = 60
    # A reason counts if it was given so long before and after what it explains.
    feedback_before: int = 60
    feedback_after: int = 30
    # Reports are up to a day late, and in any order.
    report_lag: int = 2


DEFAULTS = LedgerSettings()
# The fact of a license that people added.
MOVES = "moves"


class Kind(StrEnum):
    """What a license is, by its type."""

    EVALUATION = "evaluation"
    FREE = "free"
    INTERNAL = "internal"
    PAID = "paid"


_FREE = {"FREE", "LEGACY_FREE", "FOUNDATION_FREE", "STARTER", "OPEN_SOURCE"}
_INTERNAL = {"DEMONSTRATION", "INTERNAL_USE"}
# The customer of a paid license tries another edition of it.
_EDITION_TRIAL = "UPGRADE_EVALUATION"


def kind_of(license_type: str) -> Kind:
    """The kind of the type; unknown types count as paid."""
    name = license_type.strip().upper().replace(" ", "_")
    if name != _EDITION_TRIAL and (name == "EVALUATION" or name.endswith("_EVALUATION")):
        return Kind.EVALUATION
    if name in _FREE:
        return Kind.FREE
    return Kind.INTERNAL if name in _INTERNAL else Kind.PAID


@dataclass(frozen=True)
class Observation:
    """A state that was true ``as_of`` a day, and was seen between two days."""

    as_of: date
    first_seen: date
    last_seen: date
    digest: str
    fields: Mapping[str, Any]
    is_history: bool = False

    @cached_property
    def kind(self) -> Kind:
        return kind_of(self._text("licenseType"))

    @cached_property
    def status(self) -> str:
        return self._text("status").lower()

    @cached_property
    def end(self) -> date | None:
        return self.day("maintenanceEndDate")

    @cached_property
    def period_start(self) -> date | None:
        """The start of the period; ``maintenanceStartDate`` may be that of the first one or of the
        trial."""
        starts = (self.day("latestMaintenanceStartDate"), self.day("maintenanceStartDate"))
        return max(filter(None, starts), default=None)

    @cached_property
    def trial_start(self) -> date:
        return (
            self.day("latestEvaluationStartDate") or self.day("maintenanceStartDate") or self.as_of
        )

    @cached_property
    def seats(self) -> int | None:
        return tier_number(self.fields.get("tier"))

    @cached_property
    def edition(self) -> str:
        return self._text("appEdition")

    @cached_property
    def cloud_id(self) -> str:
        return self._text("cloudId")

    @cached_property
    def edition_trial_start(self) -> date | None:
        """The day on which the customer of a paid license began to try another edition."""
        start = self.day("upgradeEvaluationStartDate")
        if start is None and self._text("licenseType").upper() == _EDITION_TRIAL:
            return self.day("latestEvaluationStartDate") or self.as_of
        return start

    @property
    def is_legacy_free(self) -> bool:
        """Whether it is what remains of a license that moved to another site, or ended."""
        return self._text("licenseType").upper() == "LEGACY_FREE"

    @property
    def is_overdue(self) -> bool:
        return self._text("inGracePeriod").lower() == "yes"

    @property
    def has_uncollected_invoice(self) -> bool:
        return bool(self._text("invoiceDunningReason"))

    @property
    def belongs_to_several_sites(self) -> bool:
        return bool(parent_key(dict(self.fields)))

    def seen_again(self, on: date) -> "Observation":
        return replace(self, last_seen=max(self.last_seen, on))

    @property
    def source(self) -> str:
        return "history" if self.is_history else "sync"

    def day(self, name: str) -> date | None:
        return read_day(self.fields.get(name))

    def _text(self, name: str) -> str:
        value = self.fields.get(name)
        return value.strip() if isinstance(value, str) else ""


@dataclass(frozen=True)
class TransactionLine:
    """A line of an order. Amounts are US dollars, and negative for money back."""

    transaction_id: str
    line_item_id: str
    sale_date: date | None
    fields: Mapping[str, Any]

    @property
    def sale_type(self) -> str:
        return str(self.fields.get("saleType") or "").lower()

    @property
    def billing_period(self) -> str:
        return str(self.fields.get("billingPeriod") or "").lower()

    @property
    def tier(self) -> str:
        return str(self.fields.get("tier") or "")

    @property
    def start(self) -> date | None:
        return read_day(self.fields.get("maintenanceStartDate"))

    @property
    def end(self) -> date | None:
        return read_day(self.fields.get("maintenanceEndDate"))

    @property
    def amount(self) -> float:
        value = self.fields.get("purchasePrice")
        return float(value) if isinstance(value, int | float) else 0.0

    @property
    def is_refund(self) -> bool:
        return self.sale_type == "refund"

    @property
    def is_period(self) -> bool:
        """Whether the line is for a period: not money back, not users who were added in one, and
        not a renewal of no days."""
        is_prorated = bool(self.fields.get("proratedDetails"))
        return not (self.is_refund or is_prorated) and self.start != self.end

    @property
    def sort_key(self) -> tuple[date, date, str, str]:
        first = self.start or self.sale_date or date.min
        return first, self.sale_date or date.min, self.transaction_id, self.line_item_id


@dataclass(frozen=True)
class FeedbackEntry:
    """Why a customer left, as the customer chose from a list."""

    date: date
    type: str
    reason_key: str = ""
    reason: str = ""


@dataclass(frozen=True)
class LicenseInputs:
    """All that is known of one license.

    ``facts`` are the fields that only some rows have. ``links`` are what it shares with others.
    ``listings`` say on which days it left the reports (False) and returned (True).
    """

    license: str
    observations: tuple[Observation, ...] = ()
    transactions: tuple[TransactionLine, ...] = ()
    feedback: tuple[FeedbackEntry, ...] = ()
    names: frozenset[str] = frozenset()
    facts: Mapping[str, Any] | None = None
    links: frozenset[str] = frozenset()
    listings: tuple[tuple[date, bool], ...] = ()
    is_new: bool = False
    has_history: bool = False

    @cached_property
    def rows(self) -> tuple[Observation, ...]:
        return collapse(self.observations)

    @cached_property
    def lines(self) -> list[TransactionLine]:
        """The transactions, each line once, by the start of their periods."""
        once = {(line.transaction_id, line.line_item_id): line for line in self.transactions}
        return sorted(once.values(), key=lambda line: line.sort_key)

    @property
    def is_listed(self) -> bool:
        """Whether the reports had the license at the last look."""
        return not self.listings or max(self.listings)[1]

    def fact(self, name: str) -> str:
        value = (self.facts or {}).get(name)
        return value.strip() if isinstance(value, str) else ""

    @property
    def decided_moves(self) -> Mapping[str, bool]:
        """Whether the license moved to others that perhaps continue it, as people decided."""
        moves: dict[str, bool] = (self.facts or {}).get(MOVES, {})
        return moves

    @property
    def sale_date(self) -> date | None:
        """The day on which a trial was bought."""
        return read_day(self.fact("evaluationSaleDate"))

    @property
    def seats_asked(self) -> int | None:
        """The seats that the customer of a trial may need."""
        number = self.fact("evaluationOpportunitySize")
        return int(number) if re.fullmatch("[0-9]{1,9}", number) else None

    @property
    def is_sandbox(self) -> bool:
        return self.fact("installedOnSandbox").lower() == "yes"


def collapse(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """The states in their order, equal neighbors as one.

    ``lastUpdated`` moves without a change and stays when data is backfilled, so the day on which a
    state was first seen decides between two of one day.
    """
    rows: list[Observation] = []
    for row in sorted(observations, key=_order):
        if rows and rows[-1].digest == row.digest:
            rows[-1] = _join(rows[-1], row)
        else:
            rows.append(row)
    return tuple(rows)


def _order(row: Observation) -> tuple[date, date, date, str]:
    return row.as_of, row.first_seen, row.end or date.min, row.digest


def _join(first: Observation, second: Observation) -> Observation:
    return replace(
        first,
        first_seen=min(first.first_seen, second.first_seen),
        last_seen=max(first.last_seen, second.last_seen),
        is_history=first.is_history or second.is_history,
    )


def read_day(value: Any) -> date | None:
    """The day of a date or an instant; None if it is neither."""
    if not isinstance(value, str):
        return None
    try:
        return date.fromisoformat(value.strip()[:10])
    except ValueError:
        return None


def days(number: int) -> timedelta:
    return timedelta(days=number)
