"""What an outcome is: an account, a day on which something was decided, and what was decided."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum


class Kind(StrEnum):
    """What was decided."""

    # An annual or longer paid term of a license ended.
    RENEWAL = "renewal"
    # A monthly license went on through a calendar quarter, or did not.
    MONTHLY_STAY = "monthly_stay"
    # An evaluation was bought, or ended.
    EVALUATION = "evaluation"
    # A trait took one of the values that the workspace's settings name.
    TRAIT = "trait"
    # An active account had an active day in the 30 days after, or had none.
    DORMANCY = "dormancy"
    # Somebody closed an alarm: the account was kept, or lost.
    ALARM = "alarm"


class Exclusion(StrEnum):
    """Why something that ended is no outcome to judge a score by."""

    SANDBOX = "sandbox"
    SITE_OF_A_LARGER_LICENSE = "site"
    MOVED = "moved"
    INTERNAL = "internal"
    FREE = "free"
    UNKNOWN = "unknown"
    FALSE_ALARM = "false_alarm"
    # Younger than its grace period, or not decided yet.
    OPEN = "open"
    # No account has the license's id, or it has no data before the day.
    NO_DATA = "no_data"


@dataclass(frozen=True)
class Outcome:
    """What became of an account on ``day``.

    ``is_good`` if it was what a high score should predict: renewed, stayed, bought, still active.
    ``result`` says it more exactly, such as *renewed_lower*. ``known_on`` is the first day with
    evidence of it. ``answered_on`` is the first day on which the customer had said it, by
    cancelling, unsubscribing, or renewing early; None before the day itself. ``began_on`` is the
    first day of what was decided, such as the term or the evaluation. ``seats`` are those of its
    last state, None if unknown, and ``earlier_seats`` those that it had before, each with the first
    day on which it had others.
    """

    account_id: int
    day: date
    is_good: bool
    result: str
    known_on: date
    answered_on: date | None
    began_on: date
    seats: int | None = None
    earlier_seats: tuple[tuple[date, int | None], ...] = ()

    def seats_on(self, day: date) -> int | None:
        """The seats that it had at the end of the day."""
        return next((seats for until, seats in self.earlier_seats if day < until), self.seats)

    def is_answered(self, day: date) -> bool:
        """Whether somebody could know on the day what becomes of it: a prediction of then is
        none."""
        return self.known_on <= day or (self.answered_on is not None and self.answered_on <= day)


@dataclass(frozen=True)
class OutcomeSet:
    """The outcomes of one kind, in the order of their days, and how many were left out and why.

    ``revision`` is that of the license ledger; None if the kind does not follow from it.
    ``sampled_of`` is the number of outcomes of which these are an even sample; None if these are
    all.
    """

    kind: Kind
    outcomes: Sequence[Outcome]
    excluded: Mapping[Exclusion, int]
    revision: int | None
    sampled_of: int | None = None
