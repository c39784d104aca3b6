"""Random lives by the thousand: their events are right, and lost syncs make no false churn."""

from dataclasses import dataclass, field
from datetime import date, timedelta
from random import Random

from marketplace.ledger.events import license_events
from marketplace.ledger.inputs import LicenseInputs, Observation
from marketplace.ledger.vocabulary import Event, EventType
from tests.marketplace.ledger.examples import Row, row
from tests.marketplace.ledger.feeds import observation, shuffled

LIVES = 3_000
LIVES_WITH_LOST_SYNCS = 1_000
EMPTY = timedelta()


@dataclass
class TrueLife:
    """The rows that the marketplace shows of a license, and what truly happened to it."""

    rows: list[Row] = field(default_factory=list)
    renewed: list[date] = field(default_factory=list)
    churned: list[date] = field(default_factory=list)
    won_back: list[date] = field(default_factory=list)
    end: date = date.min


def next_end(start: date, is_annual: bool) -> date:
    """The same day of the next month or year, as far as there is one."""
    months = start.month - 1 + (12 if is_annual else 1)
    year, month = start.year + months // 12, months % 12 + 1
    for day in (start.day, 30, 29, 28):
        try:
            return date(year, month, day)
        except ValueError:
            continue
    raise AssertionError(start)


def create_life(random: Random) -> TrueLife:
    life, is_annual = TrueLife(), random.random() < 0.4
    has_period_starts, with_inactive = random.random() < 0.5, random.random() < 0.5
    start = date(2020, 1, 1) + timedelta(random.randrange(700))
    late = EMPTY
    for number in range(random.randrange(3, 7 if is_annual else 25)):
        end = next_end(start, is_annual)
        life.rows.append(a_row(start + late, start, end, has_period_starts))
        if number and life.end == start:
            life.renewed.append(start)
        life.end = end
        start, late = end, timedelta(random.choice([0, 0, 1, 3, 10, 25]))
        if random.random() < 0.12:
            life.churned.append(end)
            if with_inactive:
                noticed = end + timedelta(random.randrange(1, 25))
                fields = {**life.rows[-1].fields, "status": "inactive"}
                life.rows.append(Row(noticed, fields))
            if random.random() < 0.3:
                return life
            start, late = end + timedelta(random.randrange(45, 200)), EMPTY
            life.won_back.append(start)
    if life.won_back and life.won_back[-1] >= life.end:
        life.won_back.pop()
    return life


def a_row(on: date, start: date, end: date, has_period_starts: bool) -> Row:
    text = f"{on:%y-%m-%d} C a {start:%y-%m-%d}→{end:%y-%m-%d} 10"
    return row(text + (f" lms={start:%y-%m-%d}" if has_period_starts else ""))


def dates(events: list[Event], type: EventType) -> list[date]:
    return [event.date for event in events if event.type is type]


def seen_all(rows: list[Row], looked_on: date) -> list[Observation]:
    """What daily syncs see: each state until the day before the next one."""
    until = [row.seen - timedelta(1) for row in rows[1:]] + [looked_on]
    return [
        observation(row, is_history=False).seen_again(last)
        for row, last in zip(rows, until, strict=True)
    ]


def test_renewals_churn_and_returns_of_random_lives_are_right() -> None:
    random = Random(1)
    for number in range(LIVES):
        life = create_life(random)
        # Most lives end with churn after the last term; the others are looked at before.
        is_over = bool(life.churned and life.churned[-1] == life.end)
        looked_on = max(life.rows[-1].seen, life.end + timedelta(40 if is_over else 5))
        inputs = LicenseInputs("A", tuple(seen_all(life.rows, looked_on)))
        events = license_events(shuffled(inputs, random), [], looked_on)
        assert dates(events, EventType.RENEWED) == life.renewed, number
        assert dates(events, EventType.CHURNED) == life.churned, number
        assert dates(events, EventType.WON_BACK) == life.won_back, number


def some_syncs(life: TrueLife, random: Random) -> list[Observation]:
    """What a few syncs see: on each day the state of that day, and nothing in between."""
    first, last = life.rows[0].seen, life.end
    number = random.randrange(3, 20)
    days = sorted(random.choices(range((last - first).days + 1), k=number))
    days_of: dict[int, list[date]] = {}
    for on in (first + timedelta(day) for day in days):
        place = max(place for place, row in enumerate(life.rows) if row.seen <= on)
        days_of.setdefault(place, []).append(on)
    return [
        Observation(state.as_of, min(days), max(days), state.digest, state.fields)
        for place, days in days_of.items()
        for state in [observation(life.rows[place], is_history=False)]
    ]


def test_lost_syncs_make_no_false_churn() -> None:
    random = Random(2)
    unseen = 0
    for number in range(LIVES_WITH_LOST_SYNCS):
        life = create_life(random)
        observations = some_syncs(life, random)
        looked_on = max(observation.last_seen for observation in observations)
        inputs = LicenseInputs("A", tuple(observations))
        events = license_events(shuffled(inputs, random), [], looked_on)
        assert set(dates(events, EventType.CHURNED)) <= set(life.churned), number
        unseen += any(event.details.get("unseen") for event in events)
    assert unseen > LIVES_WITH_LOST_SYNCS / 4, "the syncs miss something in many of these lives"
