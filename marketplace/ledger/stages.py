"""A license's life as stages: trials, paid terms, and times in which it was free or internal."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from marketplace.ledger.inputs import Kind, LedgerSettings, LicenseInputs, Observation, days

# How much earlier than the end of a trial the next one of the license may begin.
_OVERLAP = days(5)
# Days of a monthly period at most, and of an annual one at least.
_MONTHLY, _ANNUAL = 45, 300


@dataclass(frozen=True)
class Stage:
    """Consecutive states of one kind: one trial, or one paid term."""

    kind: Kind
    rows: tuple[Observation, ...]

    @property
    def first(self) -> Observation:
        return self.rows[0]

    @property
    def last(self) -> Observation:
        return self.rows[-1]

    @property
    def last_seen(self) -> date:
        return max(row.last_seen for row in self.rows)

    @cached_property
    def end(self) -> date | None:
        """The end, by its latest state that says so."""
        return next((row.end for row in reversed(self.rows) if row.end), None)

    @cached_property
    def start(self) -> date:
        """The start of a trial or of a term.

        ``maintenanceStartDate`` may be that of a first term or of a trial, and a later one is
        right. Source: the ledger's examples 1 to 3.
        """
        row = self.first
        if self.kind is Kind.EVALUATION:
            own = (row.day("latestEvaluationStartDate") for row in self.rows)
            return next(filter(None, own), row.trial_start)
        return row.period_start or row.as_of

    @property
    def anchor(self) -> str:
        """What names a trial: the start in its first state."""
        return (self.first.day("maintenanceStartDate") or self.start).isoformat()

    @cached_property
    def inactive_from(self) -> Observation | None:
        """The first of the inactive states with which the stage ends, if it does."""
        first = None
        for row in reversed(self.rows):
            if row.status != "inactive":
                break
            first = row
        return first

    @property
    def billing_period(self) -> str:
        """How a term is paid for, if its days are clearly those of a month or of years."""
        row = self.last
        start = row.day("latestMaintenanceStartDate")
        if self.kind is not Kind.PAID or start is None or row.end is None:
            return ""
        length = (row.end - start).days
        return "monthly" if length <= _MONTHLY else "annual" if length >= _ANNUAL else ""

    @property
    def left_on(self) -> date | None:
        """The day on which a term ended: before its end, if it was inactive by then."""
        row = self.inactive_from
        return min(row.as_of, self.end) if row and self.end else self.end


@dataclass(frozen=True)
class Life:
    """A license's inputs and its stages."""

    inputs: LicenseInputs
    stages: tuple[Stage, ...]

    @property
    def license(self) -> str:
        return self.inputs.license

    @property
    def first(self) -> Stage:
        return self.stages[0]

    @property
    def last(self) -> Stage:
        return self.stages[-1]

    @cached_property
    def rows(self) -> tuple[Observation, ...]:
        return tuple(row for stage in self.stages for row in stage.rows)

    @property
    def is_origin_known(self) -> bool:
        """Whether the first state is how the license began: the marketplace's history has it, or a
        sync met it soon after its start and long after the first import."""
        row = self.first.first
        began = (
            row.period_start if self.first.kind is Kind.PAID else row.day("maintenanceStartDate")
        )
        is_soon = began is not None and (row.first_seen - began).days <= _SOON
        return row.is_history or (self.inputs.is_new and is_soon)


# Days after its start within which a sync meets a new license: one term of the shortest kind.
_SOON = 31


def life_of(inputs: LicenseInputs, looked_on: date, settings: LedgerSettings) -> Life:
    """The life of a license that has observations.

    A license that is listed was seen in its latest state until the last look.
    """
    rows = list(inputs.rows)
    if inputs.is_listed:
        rows[-1] = rows[-1].seen_again(looked_on)
    return Life(inputs, tuple(_stages(rows, settings)))


def _stages(rows: list[Observation], settings: LedgerSettings) -> Iterator[Stage]:
    current: list[Observation] = []
    for row in rows:
        if current and _begins(current, row, settings):
            yield Stage(current[0].kind, tuple(current))
            current = []
        current.append(row)
    yield Stage(current[0].kind, tuple(current))


def _begins(current: list[Observation], row: Observation, settings: LedgerSettings) -> bool:
    """Whether the state begins another stage.

    Another trial has a later start, and begins when the one before ends. Another term ends later by
    more than an adjustment. Source: C3, evaluation_started and renewed.
    """
    if row.kind is not current[0].kind:
        return True
    end = next((other.end for other in reversed(current) if other.end), None)
    if end is None or row.end is None:
        return False
    if row.kind is Kind.EVALUATION:
        started = max(other.trial_start for other in current)
        return row.trial_start > started and row.trial_start >= end - _OVERLAP
    return row.kind is Kind.PAID and row.end - end >= days(settings.step)
