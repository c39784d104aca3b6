"""Each complete day is decided once, whatever happens to the worker, the clock, and the data."""

import functools
from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest
from django.db import Error, connection

from core.database import nodes
from core.jobs import kinds
from core.jobs.kinds import Blocked
from core.models import Job
from engagement import changes
from engagement.alarms import levels
from engagement.models import (
    Account,
    AccountEngagement,
    ActiveDay,
    Alarm,
    AlarmNight,
    EventName,
    LateDay,
    Product,
    ScoreSet,
    User,
)
from engagement.nights import deciding, replays, schedule, stored_alarms
from engagement.nights.jobs import DECIDE_ALARMS
from engagement.nights.loading import load
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from engagement.rescoring.rescore import rescore
from engagement.scores import active_days
from tests.engagement.alarms.rows import figures, night
from tests.engagement.history import NOON, tell, track
from tests.engagement.nights.stock import (
    DAY,
    TODAY,
    add_counts,
    alarms,
    current,
    decide,
    doubles,
    fill,
    score,
    stops,
)
from tests.engagement.nights.test_active_days import weigh
from tests.engagement.test_killed_scoring import kill_after
from tests.jobs import run_job, step_job

pytestmark = pytest.mark.django_db

YESTERDAY = TODAY - DAY
HOUR = timedelta(hours=1)
# A history, and as many nights after its first ten weeks.
DAYS, NIGHTS = 84, 15


def decided(product: Product) -> list[date]:
    nights = AlarmNight.objects.filter(workspace__product=product, decided_at__isnull=False)
    return sorted(nights.values_list("day", flat=True))


def open_alarms(product: Product, level: int = 2) -> dict[str, str]:
    rows = Alarm.objects.filter(product=product, ended_on=None, level=level)
    return {
        account: f"{signal}{' stopped' * is_stopped}"
        for account, signal, is_stopped in rows.values_list(
            "account__external_id", "signal", "is_stopped"
        )
    }


def activity(product: Product) -> dict[int | None, int]:
    rows = AccountEngagement.objects.filter(score_set=current(product))
    states = list(rows.values_list("activity", flat=True))
    return {state: states.count(state) for state in set(states)}


def test_the_first_night_of_a_history_decides_its_last_half_year(acme: Product) -> None:
    fill(acme, DAYS, quitter=stops(20), grower=doubles(20))
    score(acme)
    assert {"quitter": "fall stopped", "grower": "rise"}.items() <= open_alarms(acme).items()
    assert decided(acme) == [TODAY - n * DAY for n in range(NIGHTS, 0, -1)]
    night = AlarmNight.objects.get(day=YESTERDAY)
    assert night.summary is not None
    assert night.is_replayed and night.accounts == 24 and night.score_set_id == current(acme).pk
    assert night.summary["accounts"] == 24 and night.summary["sizes"]["2-4"]["accounts"] == 24
    assert activity(acme) == {AccountEngagement.Activity.DECIDABLE: 24}
    alarm = Alarm.objects.get(account__external_id="quitter", level=2, signal="fall")
    assert alarm.since <= TODAY - 10 * DAY and alarm.is_replayed
    assert alarm.baseline_to == alarm.since - alarm.window_days * DAY
    assert alarm.latest["day"] == YESTERDAY.isoformat() and alarm.latest["expected"] > 9


def test_a_replay_after_midnight_decides_all_but_the_last_night(acme: Product) -> None:
    midnight = NOON - 12 * HOUR
    fill(acme, DAYS, quitter=stops(20))
    score(acme, midnight + HOUR / 2)
    assert decided(acme) == [TODAY - n * DAY for n in range(NIGHTS, 1, -1)]
    assert open_alarms(acme)["quitter"] == "fall stopped"
    assert activity(acme) == {AccountEngagement.Activity.DECIDABLE: 23}
    # Nothing is left to do until one.
    assert run_job(DECIDE_ALARMS, midnight + HOUR - timedelta(seconds=1)) == 0
    assert AlarmNight.objects.get(day=YESTERDAY - DAY).score_set_id is not None
    run_job(DECIDE_ALARMS, midnight + HOUR)
    assert decided(acme)[-1] == YESTERDAY
    # The clock is put back by some minutes.
    before = alarms(acme)
    run_job(DECIDE_ALARMS, midnight + HOUR - timedelta(minutes=5))
    assert alarms(acme) == before and decided(acme)[-1] == YESTERDAY


def test_a_product_without_history_has_one_night(acme: Product) -> None:
    fill(acme, 30)
    score(acme)
    assert decided(acme) == [YESTERDAY]
    assert activity(acme) == {AccountEngagement.Activity.TOO_NEW: 22}
    assert not AlarmNight.objects.get(day=YESTERDAY).is_replayed


def test_a_night_happens_once(acme: Product) -> None:
    fill(acme, DAYS, quitter=stops(20))
    score(acme)
    before, nights = alarms(acme), list(AlarmNight.objects.order_by("day").values())
    assert before
    for hours in (0, 1, 11):
        rescore(NOON + hours * HOUR)
        run_job(DECIDE_ALARMS, NOON + hours * HOUR)
    assert alarms(acme) == before
    assert list(AlarmNight.objects.order_by("day").values()) == nights


def test_a_replay_equals_nights_that_are_decided_one_by_one(acme: Product, globex: Product) -> None:
    special = {"quitter": stops(30), "late": stops(5), "grower": doubles(25)}
    for product in (acme, globex):
        fill(product, DAYS, **special)
    rescore(NOON)
    for days_ago in range(14, -1, -1):
        decide(acme, NOON - days_ago * DAY)
    decide(globex, NOON)
    assert decided(acme) == decided(globex) != []
    assert alarms(acme) == alarms(globex) != []
    one_by_one = AlarmNight.objects.filter(workspace__product=acme).order_by("day")
    replayed = AlarmNight.objects.filter(workspace__product=globex).order_by("day")
    columns = ("day", "user_days", "accounts", "parameters")
    assert list(one_by_one.values(*columns)) == list(replayed.values(*columns))
    assert one_by_one.filter(is_replayed=True).count() == 0 < replayed.count()


def test_nobody_sees_a_replay_that_is_under_way(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(acme, DAYS, quitter=stops(20))
    for _ in range(2):
        rescore(NOON - 40 * DAY)
    ScoreSet.objects.filter(product=acme).update(scored_day=TODAY)
    AlarmNight.objects.all().delete()
    monkeypatch.setattr(schedule, "STEP_SECONDS", 0.0)
    monkeypatch.setattr(replays, "NIGHTS", 5)
    while step_job(DECIDE_ALARMS, NOON) and not decided(acme):
        assert not Alarm.objects.filter(level__gte=0).exists()
    assert open_alarms(acme)["quitter"] == "fall stopped"
    assert not Alarm.objects.filter(level__lt=0).exists()


def test_missed_days_are_decided_one_by_one(acme: Product) -> None:
    fill(acme, DAYS, quitter=stops(2))
    score(acme, NOON - 4 * DAY)
    before = len(decided(acme))
    score(acme)
    assert decided(acme)[before:] == [TODAY - n * DAY for n in range(4, 0, -1)]
    last = AlarmNight.objects.filter(day__in=decided(acme)[before:])
    assert not any(last.values_list("is_replayed", flat=True))


def test_after_a_long_pause_the_last_nights_are_decided(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert replays.NIGHTS == 182
    monkeypatch.setattr(replays, "NIGHTS", 4)
    fill(acme, 30)
    score(acme)
    later = NOON + 300 * DAY
    score(acme, later)
    assert decided(acme) == [YESTERDAY, *(later.date() - n * DAY for n in range(4, 0, -1))]


def test_a_clock_that_was_ahead_leaves_nothing(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(acme, DAYS, quitter=stops(20))
    score(acme)
    before, stored_activity = alarms(acme, level__gte=0), activity(acme)
    monkeypatch.setattr(replays, "NIGHTS", 4)
    score(acme, NOON + 400 * DAY)
    assert alarms(acme) != before
    score(acme, NOON + HOUR)
    assert decided(acme)[-1] == YESTERDAY
    after = alarms(acme)
    keys = [row[:6] for row in before]
    assert [row[:6] for row in after] == keys
    assert activity(acme) == stored_activity
    assert current(acme).active_days_until == TODAY


def test_an_alarm_goes_on_with_new_weights(acme: Product) -> None:
    fill(acme, DAYS, quitter=stops(20))
    score(acme)
    since = Alarm.objects.get(account__external_id="quitter", level=2).since
    weigh(acme, "opened", 3)
    score(acme, NOON + HOUR)
    assert AlarmNight.objects.get(day=YESTERDAY).score_set_id == current(acme).pk
    assert activity(acme) == {AccountEngagement.Activity.DECIDABLE: 23}
    score(acme, NOON + DAY)
    alarm = Alarm.objects.get(account__external_id="quitter", level=2)
    assert (alarm.since, alarm.ended_on) == (since, None)
    assert alarm.latest["day"] == TODAY.isoformat()


def test_an_import_replays_and_says_which_alarms_it_replaced(acme: Product) -> None:
    fill(acme, DAYS, quitter=stops(20))
    score(acme)
    assert "quitter" in open_alarms(acme)
    # What the quitter did meanwhile comes late, and so does something of many others.
    name = EventName.objects.get(product=acme)
    quitter = Account.objects.get(external_id="quitter")
    users = User.objects.filter(account=quitter)
    add_counts(name, [(user, TODAY - n * DAY) for user in users for n in range(20, 0, -1)])
    late = {user.external_id for user in User.objects.filter(external_id__endswith="user 1")}
    tell(acme, *(track(user, hours=-24 * 12) for user in sorted(late)))
    rescore(NOON + HOUR)
    assert LateDay.objects.count() > 4
    score(acme, NOON + DAY)
    assert "fall stopped" not in open_alarms(acme).values()
    replaced = Alarm.objects.filter(account=quitter, outcome=Alarm.Outcome.REPLACED)
    assert replaced.exists() and not replaced.filter(ended_on=None).exists()
    assert AlarmNight.objects.get(day=YESTERDAY).is_replayed
    assert decided(acme)[-1] == TODAY


def test_late_data_is_in_the_usual_rate_of_an_open_alarm(acme: Product) -> None:
    fill(acme, DAYS, quitter=stops(20))
    score(acme)
    alarm = Alarm.objects.get(account__external_id="quitter", level=2)
    rate = alarm.weekly_rate
    assert alarm.baseline_from is not None and rate is not None
    hours = -24 * (TODAY - alarm.baseline_from).days
    tell(acme, *(track(f"quitter, user {n}", "late", hours) for n in range(3)))
    score(acme, NOON + DAY)
    alarm.refresh_from_db()
    assert alarm.weekly_rate is not None and alarm.weekly_rate > rate


def test_readers_learn_whose_alarms_changed(acme: Product) -> None:
    fill(acme, DAYS + 16, quitter=stops(16))
    score(acme, NOON - 16 * DAY)
    since = changes.latest_stamp(acme.pk)
    marks = {"cached_counts_stale": False, "watches_stale": False}
    ScoreSet.objects.filter(pk=current(acme).pk).update(**marks)
    for days_ago in range(15, -1, -1):
        decide(acme, NOON - days_ago * DAY)
    assert open_alarms(acme)["quitter"] == "fall stopped"
    account = Account.objects.get(external_id="quitter")
    assert account.pk in changes.changed_ids(acme.pk, "account", since, 0, 100)
    score_set = current(acme)
    assert score_set.cached_counts_stale and score_set.watches_stale


def test_a_forgotten_account_takes_its_alarms_along(acme: Product) -> None:
    fill(acme, DAYS, quitter=stops(20))
    score(acme)
    forgetting.forget(SubjectRef(acme.pk, SubjectScope.ACCOUNT, "quitter"), NOON)
    assert not any(row[0] == "quitter" for row in alarms(acme))
    score(acme, NOON + DAY)
    assert "quitter" not in open_alarms(acme)


def test_a_product_on_a_missing_node_waits(acme: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(acme, 10)
    for _ in range(2):
        rescore(NOON)
    ScoreSet.objects.update(scored_day=TODAY + DAY)
    job = Job(kind=DECIDE_ALARMS, key=str(acme.workspaces.get().pk))
    kind = kinds.get(DECIDE_ALARMS)
    assert kind is not None and kind.keys is not None
    assert list(kind.keys()) == [acme.workspaces.get().pk]
    monkeypatch.setattr(nodes, "missing_products", lambda: {acme.pk: "node"})
    assert kind.step(job, NOON + DAY) == Blocked()


def test_each_level_is_measured_by_alarms_near_its_threshold(acme: Product) -> None:
    fill(acme, DAYS)
    score(acme)
    (workspace,) = acme.workspaces.all()
    _, last = levels.measured_span(YESTERDAY)
    account = Account.objects.filter(product=acme)[0]
    own: dict[str, Any] = {"product_id": acme.pk, "workspace_id": workspace.pk}
    own |= {"account_id": account.pk, "outcome": Alarm.Outcome.RECOVERED}
    for level, number in {0: 40, 2: 99, 3: 75}.items():
        for days in range(number):
            since = last - days * DAY
            numbers: dict[str, Any] = {"since": since, "ended_on": since + 10 * DAY}
            figures(**own, **numbers, level=level).save(force_insert=True)
    p_on = [[0.0025, 0, 0, 0.005, 0.01]] * 2
    night(workspace, last, accounts=91_000, parameters={"p_on": p_on})
    falls, rises = deciding.decide(current(acme), YESTERDAY, stored_alarms.Levels()).kappas
    assert falls == pytest.approx([45 / 2.75] * 3 + [80 / 5.25, levels.LEAST_KAPPA])
    assert rises == [levels.LEAST_KAPPA] * 5


def test_the_weeks_of_a_late_sender_end_as_many_days_earlier(acme: Product) -> None:
    fill(acme, DAYS)
    score(acme)
    rows = ActiveDay.objects.filter(account__external_id="usual 1")
    rows.update(late=2)
    # Less than half of the days of another account came late.
    others = ActiveDay.objects.filter(account__external_id="usual 2")
    others.filter(day__gte=TODAY - 9 * DAY).update(late=2)
    loaded = load(current(acme), YESTERDAY, np.zeros(0, np.int64))
    row = int(np.searchsorted(loaded.ids, rows[0].account_id))
    assert loaded.delays.tolist() == [2 * (place == row) for place in range(len(loaded.ids))]
    weekly = [0] * 24
    for day, users in rows.filter(day__lt=TODAY - 2 * DAY).values_list("day", "users"):
        weekly[(TODAY - 3 * DAY - day).days // 7] += users
    assert loaded.accounts.weeks[row].tolist() == weekly
    assert loaded.accounts.ages[row] == (DAYS - 2) // 7
    assert loaded.totals.sum() == sum(ActiveDay.objects.values_list("users", flat=True))


def test_each_read_of_accounts_is_one_of_several(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(acme, DAYS, quitter=stops(20))
    score(acme)
    monkeypatch.setattr("engagement.nights.loading.ACCOUNTS_PER_READ", 7)
    monkeypatch.setattr(deciding, "SHOWN_PER_TRANSACTION", 5)
    monkeypatch.setattr(stored_alarms, "ROWS_PER_STATEMENT", 2)
    globex = Product.create_with_workspace("Globex")
    fill(globex, DAYS, quitter=stops(20))
    score(globex)
    assert alarms(acme) == alarms(globex) != []
    assert activity(acme) == activity(globex)


KILLED: list[tuple[Any, str, int]] = [
    (stored_alarms, "insert", 1),
    (stored_alarms, "update", 6),
    (deciding, "_show", 1),
    (replays, "begin", 1),
    (replays, "finish", 1),
    (active_days, "count_days", 1),
    (active_days, "_count_part", 5),
]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("module", "name", "calls"), KILLED)
def test_a_killed_worker_leaves_nothing_half(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, calls: int
) -> None:
    """It dies with its connection; when its lease has ended, another one goes on."""
    if name == "_count_part":
        # Each day is counted in four parts.
        monkeypatch.setattr(active_days, "ACCOUNTS_PER_COUNT", 7)
    acme = Product.create_with_workspace("Acme")
    fill(acme, DAYS, quitter=stops(20))
    rescore(NOON)
    with monkeypatch.context() as patch:
        kill_after(patch, module, name, calls)
        with pytest.raises(Error):
            for _ in range(2):
                rescore(NOON)
    connection.close()
    for minutes in (11, 22, 33):
        rescore(NOON + minutes * HOUR / 60)
    assert decided(acme)[-1] == YESTERDAY
    monkeypatch.undo()
    assert (alarms(acme), activity(acme)) == undisturbed()


@functools.cache
def undisturbed() -> tuple[Any, Any]:
    """The alarms and the activity of the same product whose workers live."""
    globex = Product.create_with_workspace("Globex")
    fill(globex, DAYS, quitter=stops(20))
    for _ in range(3):
        rescore(NOON)
    assert alarms(globex)
    return alarms(globex), activity(globex)
