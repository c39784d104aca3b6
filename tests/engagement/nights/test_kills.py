"""Workers are killed in the middle of nights and replays: the alarms are those of a product whose
workers live, and each is told once."""

import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from itertools import count
from random import Random
from typing import Any

import pytest

from engagement.models import Account, AlarmNight, EventName, Product, ScoreSet, User
from engagement.nights import deciding, replays
from engagement.nights.jobs import DECIDE_ALARMS
from engagement.rescoring.rescore import rescore
from notifications.models import OutboxMessage, Subscription
from notifications.watching.sweep import sweep
from tests.engagement.history import NOON, tell, track
from tests.engagement.nights.kills import kill_at_each
from tests.engagement.nights.stock import DAY, TODAY, add_counts, alarms, doubles, fill, stops
from tests.engagement.nights.test_nights import activity
from tests.jobs import run_job
from tests.notifications.rows import Clock, a_destination, subscribe

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

INSIGHTS = ("trend_down", "activity_stopped", "trend_up")
CHANGED = {"quitter": stops(20), "late": stops(6), "grower": doubles(20)}
# A history, and the nights after its first ten weeks, by how many days ago their day was over.
DAYS, NIGHTS = 84, range(14, -1, -1)
# The statements that begin a replay and those that end it, in their order.
REPLAYING = (
    "AND level < 0",
    "outcome <> 'replaced'",
    "SET is_replayed",
    "DELETE FROM engagement_alarm l",
    "SET outcome = 'replaced'",
    "SET level = -1 - level",
    "engagement_subjectchange",
)


class Worker:
    """Works on the nights of products, while notifications go on."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.kills = 0

    def wait(self, time: timedelta = timedelta(minutes=1)) -> None:
        sweep(self.clock.step(time.total_seconds()))

    def decide(
        self, product: Product, days_ago: int, killed_at: Iterable[int | str | float] = ()
    ) -> None:
        """Decide what is due on that day; first by workers that are killed at these places."""
        today = TODAY - days_ago * DAY
        self.clock.now = max(self.clock.now, NOON - days_ago * DAY)
        ScoreSet.objects.filter(product=product).update(scored_day=today)
        self.kills += kill_at_each(DECIDE_ALARMS, killed_at, self.clock, self.wait)
        run_job(DECIDE_ALARMS, self.clock())
        self.wait()


@pytest.fixture
def worker() -> Worker:
    return Worker()


def prepare(name: str, days: int, worker: Worker) -> Product:
    """A product with a history of this many days, whose alarms are told."""
    product = Product.create_with_workspace(name)
    fill(product, days, **CHANGED)
    rescore(NOON)
    destination = a_destination(product)
    for insight in INSIGHTS:
        for trigger in ("insight_started", "insight_ended"):
            where = {"workspace": product.workspaces.get(), "scope": "account"}
            subscribe(destination, trigger, insight=insight, **where)
    for _ in range(2):
        worker.wait()
    assert not Subscription.objects.filter(product=product, started_at=None).exists()
    return product


def rounded(night: Mapping[str, Any]) -> Any:
    """The night with nine decimals: sums in another order of accounts differ in the last ones."""
    text = json.dumps(night, default=str)
    return json.loads(text, parse_float=lambda number: round(float(number), 9))


def outcome(product: Product) -> dict[str, Any]:
    """All that is stored of the nights, and what was told."""
    nights = AlarmNight.objects.filter(workspace__product=product).order_by("day")
    messages = OutboxMessage.objects.filter(product=product).order_by("pk")
    return {
        "alarms": alarms(product, signal__in=["fall", "rise"]),
        "activity": activity(product),
        "nights": [
            rounded(night)
            for night in nights.values("day", "user_days", "accounts", "parameters", "summary")
        ],
        "told": sorted(messages.values_list("title", flat=True)),
    }


def test_a_night_whose_workers_are_killed_anywhere(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Several transactions write a night.
    monkeypatch.setattr(deciding, "SHOWN_PER_TRANSACTION", 10)
    acme = prepare("Acme", DAYS, worker)
    for place, days_ago in enumerate(NIGHTS, 1):
        # The first kill of each night is at another statement. Together they are at all.
        worker.decide(acme, days_ago, count(place, len(NIGHTS)))
    assert worker.kills > 2 * len(NIGHTS)
    globex = prepare("Globex", DAYS, worker)
    for days_ago in NIGHTS:
        worker.decide(globex, days_ago)
    killed = outcome(acme)
    assert killed == outcome(globex)
    titles: list[str] = killed["told"]
    assert "quitter has the insight “Activity stopped”." in titles
    assert len(titles) == len(set(titles)) > 2


def test_a_replay_of_half_a_year_whose_workers_are_killed_anywhere(worker: Worker) -> None:
    days, chance = replays.NIGHTS + 75, Random(3)
    acme = prepare("Acme", days, worker)
    # Many die while the server is at their statement.
    worker.decide(acme, 0, (chance.uniform(1, 600) for _ in count()))
    assert worker.kills >= 5
    globex = prepare("Globex", days, worker)
    worker.decide(globex, 0)
    killed = outcome(acme)
    assert killed == outcome(globex)
    assert sum(night["accounts"] is not None for night in killed["nights"]) == replays.NIGHTS


def test_a_replay_after_an_import_whose_workers_are_killed_as_it_begins_and_ends(
    worker: Worker,
) -> None:
    outcomes = []
    for name, places in (("Acme", REPLAYING), ("Globex", ())):
        product = prepare(name, DAYS, worker)
        for days_ago in NIGHTS:
            worker.decide(product, days_ago)
        import_late_counts(product)
        worker.decide(product, -1, places)
        outcomes.append(outcome(product))
    assert worker.kills == len(REPLAYING)
    assert outcomes[0] == outcomes[1]
    assert "replaced" in {outcome for *_, outcome in (row[:6] for row in outcomes[0]["alarms"])}
    titles: list[str] = outcomes[0]["told"]
    assert len(titles) == len(set(titles)) > 2


def import_late_counts(product: Product) -> None:
    """What the quitter did meanwhile comes late, and so does something of many others."""
    quitter = Account.objects.get(product=product, external_id="quitter")
    users = User.objects.filter(account_id=quitter.pk, product=product)
    days = [TODAY - n * DAY for n in range(20, 0, -1)]
    name = EventName.objects.get(product=product)
    add_counts(name, [(user, day) for user in users for day in days])
    late = User.objects.filter(product=product, external_id__endswith="user 1")
    tell(product, *(track(user.external_id, hours=-24 * 12) for user in late.order_by("pk")))
    rescore(NOON + timedelta(hours=1))
