"""Lives of licenses: what happened to a customer, from which every report is printed.

A life is told with verbs (``evaluate``, ``buy``, ``renew``, ``lapse``, …). Each one notes the
states that reports show, the lines of invoices, what the customer answered, and the truth: the
events that a ledger has to find, whatever the marketplace is like (``Switches``).
"""

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from itertools import count
from random import Random
from typing import NamedTuple

from harness.marketplace.records import Site, create_site
from harness.marketplace.switches import USUAL, Switches

YEARS = 5
# One in this many customers bought a license of its own after the trial, whatever the switches say.
TWO_LICENSES_EVERY = 8
_SIZES = [10, 15, 25, 50, 75, 100, 200, 300, 500, 800, 1000, 2000, 5000, 15000]
_REASONS = ["bugs", "not-meeting-needs", "project-based", "cost", "usefulness", "other"]
EVALUATION, PAID, FREE = "EVALUATION", "COMMERCIAL", "LEGACY_FREE"
SEAT_PRICE = 2


class Snapshot(NamedTuple):
    """What a license is from the day *on*. *start* is that of its cycle, *trial* that of its last
    evaluation, *since* the one of its first paid term, and *sold* when its evaluation was bought.
    *license* says which of the customer's licenses it is."""

    on: date
    type: str
    start: date
    end: date
    seats: int
    license: int = 0
    status: str = "active"
    edition: str = "Standard"
    place: int = 0
    trial: date | None = None
    trial_end: date | None = None
    since: date | None = None
    sold: date | None = None
    trial_license: int | None = None
    tries_since: date | None = None
    is_overdue: bool = False


class Line(NamedTuple):
    """A line of an invoice. Its period is half-open, and its price in USD."""

    on: date
    sale_type: str | None
    start: date
    end: date
    seats: int
    price: int
    license: int = 0
    place: int = 0
    old_seats: int | None = None
    reason: str = ""
    months: int = 12
    is_prorated: bool = False


class Answer(NamedTuple):
    """What a customer said who left. *reason* is a key."""

    on: date
    type: str
    reason: str
    license: int = 0
    place: int = 0


class Truth(NamedTuple):
    """An event that a ledger has to find, by the day that it is true for."""

    on: date
    event: str


@dataclass
class Life:
    """A customer and its licenses. *number* tells customers apart; terms are *months* long."""

    number: int
    sites: tuple[Site, ...]
    months: int = 12
    seats: int = 50
    is_sandbox: bool = False
    switches: Switches = USUAL
    snapshots: list[Snapshot] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    truth: list[Truth] = field(default_factory=list)

    @property
    def now(self) -> Snapshot:
        return self.snapshots[-1]

    @property
    def end(self) -> date:
        return self.now.end

    # --- Evaluations --------------------------------------------------------------------------

    def evaluate(self, on: date, days: int = 30) -> None:
        end = on + timedelta(days=days)
        self._add(Snapshot(on, EVALUATION, on, end, self.seats, trial=on, trial_end=end))
        self._tell(on, "evaluation_started")

    def extend(self, on: date, days: int) -> None:
        end = self.end + timedelta(days=days)
        self._change(on, end=end, trial_end=end)
        self._tell(on, "evaluation_extended")

    def expire(self) -> None:
        self._change(self.end, status="inactive")
        self._tell(self.end, "evaluation_expired")

    def evaluate_again(self, on: date, days: int = 30) -> None:
        """The same license, with another evaluation."""
        end = on + timedelta(days=days)
        self._change(on, status="active", start=on, end=end, trial=on, trial_end=end)
        self._tell(on, "evaluation_started")

    def buy(self) -> None:
        """Buy at the end of the evaluation: on its license, or on another one."""
        on, trial = self.end, self.now
        values = {"type": PAID, "start": on, "end": self._later(on), "since": on, "sold": on}
        if self.switches.buys_another_license:
            self._change(on, status="inactive")
            values |= {"status": "active", "license": trial.license + 1}
            values |= {"trial_license": trial.license}
        self._change(on, **values)
        self._sell(on, "New")
        self._tell(on, "evaluation_bought")

    # --- Paid terms ---------------------------------------------------------------------------

    def purchase(self, on: date) -> None:
        """Buy without an evaluation."""
        self._add(Snapshot(on, PAID, on, self._later(on), self.seats, since=on))
        self._sell(on, "New")
        self._tell(on, "purchased")

    def renew(self, *, seats: int | None = None, late: int = 0) -> None:
        """Renew at the end of the term. A customer who pays *late* days later is overdue first,
        unless there is nothing to pay."""
        late = 0 if self.switches.costs_nothing else late
        on, paid_on = self.end, self.end + timedelta(days=late)
        if late:
            self._change(on + timedelta(days=1), is_overdue=True)
            self._tell(on + timedelta(days=1), "payment_failed")
        old = self.now.seats
        self._change(
            *(paid_on,),
            start=on,
            end=self._later(on),
            status="active",
            is_overdue=False,
            seats=seats or old,
        )
        self._sell(on, "Renewal", old_seats=old, sold_on=paid_on)
        self._tell(on, "renewed")
        if late:
            self._tell(paid_on, "payment_recovered")
        self._tell_seats(on, old)

    def resize(self, on: date, seats: int) -> None:
        """Change the number of seats in the middle of a term: money back, and another line."""
        old, term = self.now.seats, self.now
        self._change(on, seats=seats)
        back = self._line(on, "Refund", old, on, term.end)
        sale_type = "Upgrade" if seats > old else self.switches.downgrade
        self.lines += [
            back._replace(price=-back.price),
            self._line(on, sale_type, seats, on, term.end)._replace(old_seats=old),
        ]
        self._tell_seats(on, old)

    def add_users(self, on: date, seats: int) -> None:
        """A line for users of the running month, which is no period of its own."""
        line = self._line(on, "Renewal", seats, on, self.end)
        self.lines.append(line._replace(is_prorated=True, price=seats * SEAT_PRICE))

    def cancel(self, on: date, reason: str = "") -> None:
        self._change(on, status="cancelled")
        self._tell(on, "cancelled")
        if reason:
            self._answer(on, "unsubscribe", reason)

    def resume(self, on: date) -> None:
        self._change(on, status="active")
        self._tell(on, "resumed")

    def lapse(self) -> None:
        """Let the term end. How soon the report shows it depends on the marketplace, unless it was
        cancelled before."""
        wait = 1 if self.now.status == "cancelled" else self.switches.days_until_inactive
        end = self.end
        self._change(end + timedelta(days=wait), status="inactive")
        self._tell(end, "churned")

    def return_money(self, on: date, reason: str = "CANCELLED") -> None:
        """Get the rest of the term back, which ends with it."""
        back = self._line(on, "Refund", self.now.seats, self.now.start, self.end)
        self.lines.append(back._replace(price=-back.price, reason=reason))
        self._change(on, status="inactive")
        for event in ("ended_early", "refunded", "churned"):
            self._tell(on, event)

    def come_back(self, on: date) -> None:
        """Pay again after the end: for the same license, or for another one."""
        license = self.now.license + self.switches.returns_with_another_license
        values = {"start": on, "end": self._later(on), "status": "active", "license": license}
        if self.switches.returns_with_another_license:
            values |= {"since": on, "trial": None, "trial_end": None, "sold": None}
            values |= {"trial_license": None}
        self._change(on, **values)
        self._sell(on, "New")
        self._tell(on, "won_back")

    # --- Other changes ------------------------------------------------------------------------

    def try_edition(self, on: date) -> None:
        self._change(on, tries_since=on)
        self._tell(on, "edition_trial_started")

    def upgrade_edition(self, on: date) -> None:
        self._change(on, edition="Advanced")
        self._tell(on, "edition_up")

    def pay_by_year(self) -> None:
        """Renew for a year instead of a month."""
        self.months = 12
        on = self.end
        self.renew()
        self._tell(on, "billing_changed")

    def become_free(self, on: date) -> None:
        self._change(on, type=FREE)
        self._tell(on, "became_free")

    def move(self, on: date) -> None:
        """Move to the other site: with the license, or with a twin, which replaces it."""
        if not self.switches.moves_with_a_twin:
            self._change(on, place=1)
        else:
            term = self.now
            self._change(on, type=FREE)
            self._tell(on, "became_free")
            twin = term._replace(on=on, license=term.license + 1, place=1)
            self._add(twin._replace(start=on, since=on, trial=None, trial_end=None))
            if not self.switches.shares_account:
                # Nobody can tell before a person decides.
                self._tell(on, "purchased")
                return
            # Of the license that left, and of the one that came.
            self._tell(on, "moved_site")
        self._tell(on, "moved_site")

    def jitter(self, on: date, seats: int) -> None:
        """A sandbox counts its users. That is no event."""
        self._change(on, seats=seats)

    # --- Notes --------------------------------------------------------------------------------

    def _add(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)

    def _change(self, on: date, **values: object) -> None:
        self._add(self.now._replace(on=on, **values))  # type: ignore[arg-type]

    def _tell(self, on: date, event: str) -> None:
        self.truth.append(Truth(on, event))

    def _tell_seats(self, on: date, old: int) -> None:
        if self.now.seats != old and not self.is_sandbox:
            self._tell(on, "seats_up" if self.now.seats > old else "seats_down")

    def _later(self, on: date) -> date:
        return add_months(on, self.months)

    def _sell(
        self, on: date, sale_type: str, *, old_seats: int | None = None, sold_on: date | None = None
    ) -> None:
        line = self._line(sold_on or on, sale_type, self.now.seats, on, self.end)
        self.lines.append(line._replace(old_seats=old_seats))

    def _line(self, on: date, sale_type: str | None, seats: int, start: date, end: date) -> Line:
        price = 0 if self.switches.costs_nothing else seats * SEAT_PRICE * self.months
        now = self.now
        return Line(
            on, sale_type, start, end, seats, price, now.license, now.place, months=self.months
        )

    def _answer(self, on: date, type: str, reason: str) -> None:
        self.answers.append(Answer(on, type, reason, self.now.license, self.now.place))


def add_months(day: date, months: int) -> date:
    """The same day of the month, or the last one if the month is shorter."""
    month = day.month - 1 + months
    year, month = day.year + month // 12, month % 12 + 1
    return date(year, month, min(day.day, monthrange(year, month)[1]))


# --- Random lives ---------------------------------------------------------------------------


def generate_lives(seed: int, today: date, switches: Switches = USUAL) -> Iterator[Life]:
    """The lives of customers up to a day, the same for the same seed and day."""
    for number in count():
        own = switches
        if number % TWO_LICENSES_EVERY == TWO_LICENSES_EVERY - 1:
            own = replace(switches, buys_another_license=True)
        yield random_life(seed, number, today, own)


def random_life(seed: int, number: int, today: date, switches: Switches = USUAL) -> Life:
    """A life that began in the last five years, and goes on until *today* or the customer left."""
    chance = Random(f"life {seed}/{number}")
    sites = (create_site(seed, number), create_site(seed, number + 1_000_000))
    life = Life(
        number,
        sites,
        months=chance.choice([1, 12, 12]),
        seats=chance.choice(_SIZES),
        is_sandbox=chance.random() < 0.03,
        switches=switches,
    )
    begin = today - timedelta(days=chance.randrange(5, YEARS * 365))
    if chance.random() < 0.75:
        life.evaluate(begin)
        if not _decide(life, chance, today):
            return life
    else:
        life.purchase(begin)
    while life.end <= today and _go_on(life, chance):
        pass
    if life.end > today and life.now.status == "active" and life.now.type == PAID:
        _change_today(life, chance, today)
    return life


def _decide(life: Life, chance: Random, today: date) -> bool:
    """Have the evaluation end. Returns whether the customer pays."""
    if chance.random() < 0.1:
        life.extend(life.end - timedelta(days=3), 30)
    if life.end > today:
        return False
    if chance.random() < 0.3:
        life.expire()
        if chance.random() > 0.15 or life.end + timedelta(days=90) > today:
            return False
        life.evaluate_again(life.end + timedelta(days=60))
        if life.end > today:
            return False
    life.buy()
    return True


def _go_on(life: Life, chance: Random) -> bool:
    """Take the life to the end of its next term. Returns whether it goes on."""
    share = life.months / 12
    before = life.end - timedelta(days=chance.randrange(4, 20))
    dice = chance.random()
    if dice < 0.14 * share:
        _leave(life, chance, before)
        if chance.random() < 0.7:
            return False
        life.come_back(life.end + timedelta(days=chance.randrange(70, 200)))
    elif dice < 0.2 * share:
        life.renew(late=chance.randrange(3, 13))
    elif dice < 0.3 * share:
        life.renew(seats=chance.choice(_SIZES))
    elif dice < 0.34 * share and life.now.tries_since is None:
        life.try_edition(before - timedelta(days=3))
        life.renew()
    elif dice < 0.45 * share and life.is_sandbox:
        life.jitter(before, chance.randrange(5, 20))
        life.renew()
    else:
        life.renew()
    return True


def _leave(life: Life, chance: Random, before: date) -> None:
    if chance.random() < 0.7:
        life.cancel(before, chance.choice(_REASONS) if chance.random() < 0.6 else "")
    life.lapse()


def _change_today(life: Life, chance: Random, today: date) -> None:
    """Change something in the running term."""
    on = life.now.on + timedelta(days=2)
    latest = min(today, life.end - timedelta(days=2))
    if on < latest and chance.random() < 0.15:
        on += timedelta(days=chance.randrange((latest - on).days))
        if chance.random() < 0.5 and not life.is_sandbox:
            life.resize(on, chance.choice([size for size in _SIZES if size != life.now.seats]))
        else:
            life.cancel(on, chance.choice(_REASONS))
