"""A late membership leaves many events to the background, with the same result."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import wakeups
from engagement import tasks
from engagement.messages import Message, ReceivedMessage
from engagement.models import (
    Account,
    DailyCount,
    Event,
    Membership,
    Product,
    ReattributionRequest,
    RescoreRequest,
    User,
)
from engagement.recording import reattribution
from engagement.recording.jobs import REATTRIBUTE
from engagement.recording.record import record
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal.deletion import request_deletion
from engagement.removal.forgetting import forget
from engagement.removal.jobs import DELETE_PRODUCT, ERASE_FORGOTTEN
from engagement.rescoring.rescore import rescore
from tests.cases import examples, leaves_no_rows
from tests.engagement.history import NOON, at, identify, state, tell, track
from tests.engagement.test_order_does_not_matter import scores, two_tellings
from tests.jobs import run_job, step_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch moves three events; a background step examines two."""
    monkeypatch.setattr(reattribution, "MAX_EVENTS_PER_BATCH", 3)
    monkeypatch.setattr(reattribution, "EVENTS_PER_STEP", 2)


def events(first: int, last: int, **more: Any) -> list[Message]:
    return [track("ann", hours=hour, **more) for hour in range(first, last)]


def by_account() -> dict[str | None, int]:
    totals: dict[str | None, int] = {}
    for name in Event.objects.values_list("account__external_id", flat=True):
        totals[name] = totals.get(name, 0) + 1
    return totals


def counts_by_account(product: Product) -> dict[str, int]:
    names = dict(Account.objects.filter(product=product).values_list("pk", "external_id"))
    totals: dict[str, int] = {}
    for account_id, count in DailyCount.objects.values_list("account_id", "count"):
        name = names.get(account_id, "")
        totals[name] = totals.get(name, 0) + count
    return totals


def test_a_batch_moves_a_bounded_number_of_events_itself(acme: Product) -> None:
    tell(acme, identify("ann", -1000, group="initech"))
    tell(acme, *(track("ann", hours=number / 60) for number in range(1200)))

    tell(acme, identify("ann", -1, group="hooli"))

    assert by_account() == {"initech": 1200}
    assert ReattributionRequest.objects.count() == 1
    run_job(REATTRIBUTE, NOON)
    assert by_account() == counts_by_account(acme) == {"hooli": 1200}
    assert not ReattributionRequest.objects.exists()


def test_few_events_are_moved_at_once(acme: Product) -> None:
    tell(acme, identify("ann", -1000, group="initech"), *events(0, 5))
    tell(acme, identify("ann", -1, group="hooli"))
    assert by_account() == {"hooli": 5}
    assert not ReattributionRequest.objects.exists()


@pytest.mark.usefixtures("few_at_once")
def test_other_users_of_the_batch_do_not_wait(acme: Product) -> None:
    tell(acme, identify("ann", -1000, group="initech"), *events(0, 9))
    tell(acme, identify("bob", -1000, group="initech"), track("bob"))
    tell(acme, identify("ann", -1, group="hooli"), identify("bob", -1, group="hooli"))
    assert by_account() == {"initech": 9, "hooli": 1}


@pytest.mark.usefixtures("few_at_once")
def test_subjects_with_changed_counts_are_rescored(acme: Product) -> None:
    tell(acme, identify("ann", -1000, group="initech"), *events(0, 9))
    tell(acme, identify("ann", -1, group="hooli"))
    RescoreRequest.objects.all().delete()

    run_job(REATTRIBUTE, NOON)

    accounts = Account.objects.filter(pk__in=RescoreRequest.objects.values("account_id"))
    assert set(accounts.values_list("external_id", flat=True)) == {"initech", "hooli"}
    assert RescoreRequest.objects.filter(user_id=User.objects.get().pk).exists()


@pytest.mark.usefixtures("few_at_once")
def test_events_of_the_same_moment_are_moved_in_steps_too(acme: Product) -> None:
    tell(acme, identify("ann", -1000, group="initech"), *(track("ann") for _ in range(9)))
    tell(acme, identify("ann", -1, group="hooli"))

    assert step_job(REATTRIBUTE, NOON)
    assert by_account() == {"initech": 7, "hooli": 2}
    assert counts_by_account(acme) == by_account()
    run_job(REATTRIBUTE, NOON)
    assert by_account() == counts_by_account(acme) == {"hooli": 9}


@pytest.mark.usefixtures("few_at_once")
def test_after_each_step_the_counts_match_the_events(acme: Product) -> None:
    tell(acme, identify("ann", -1000, group="initech"), *events(-5, 9))
    tell(acme, identify("ann", 1.5, group="hooli"), identify("ann", 5.5, group="umbrella"))
    while step_job(REATTRIBUTE, NOON):
        assert counts_by_account(acme) == by_account()
        for row in DailyCount.objects.all():
            day = Event.objects.filter(account_id=row.account_id, occurred_at__date=row.day)
            assert row.last_at == day.latest("occurred_at").occurred_at
    assert by_account() == {"initech": 7, "hooli": 4, "umbrella": 3}


@pytest.mark.usefixtures("few_at_once")
def test_memberships_and_events_that_arrive_between_steps_count(acme: Product) -> None:
    tell(acme, identify("ann", -1000, group="initech"), *events(0, 9))
    tell(acme, identify("ann", -1, group="hooli"))
    step_job(REATTRIBUTE, NOON)
    tell(acme, identify("ann", 4.5, group="umbrella"), *events(0, 9))
    step_job(REATTRIBUTE, NOON)
    tell(acme, identify("ann", -2, group="initech"), identify("ann", 7.5, group="initech"))

    run_job(REATTRIBUTE, NOON)

    assert by_account() == counts_by_account(acme) == {"hooli": 10, "umbrella": 6, "initech": 2}


@pytest.mark.usefixtures("few_at_once")
def test_users_take_turns(acme: Product) -> None:
    for name in ("ann", "bob"):
        tell(acme, identify(name, -1000, group="initech"))
        tell(acme, *(track(name, hours=hour) for hour in range(9)))
        tell(acme, identify(name, -1, group="hooli"))
    step_job(REATTRIBUTE, NOON)
    step_job(REATTRIBUTE, NOON)
    moved = Event.objects.filter(account__external_id="hooli")
    assert sorted(moved.values_list("user__external_id", flat=True)) == ["ann", "ann", "bob", "bob"]


def test_many_spans_of_a_user_make_one_request(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reattribution, "MAX_EVENTS_PER_BATCH", -1000)
    monkeypatch.setattr(reattribution, "MAX_SPANS_PER_USER", 2)
    tell(acme, *(identify("ann", hour, group="initech") for hour in range(0, 40, 4)))
    tell(acme, *events(0, 40))
    tell(acme, *(identify("ann", hour, group="hooli") for hour in (2, 10, 20)))
    request = ReattributionRequest.objects.get()
    assert (request.start_at, request.end_at) == (at(2), at(24))
    run_job(REATTRIBUTE, NOON)
    assert by_account() == counts_by_account(acme) == {"initech": 32, "hooli": 8}


@given(two_tellings(), st.data())
@examples(4)
@leaves_no_rows
def test_the_result_is_the_same_as_moving_all_events_at_once(
    db: None, tellings: tuple[list[Message], list[list[int]]], data: st.DataObject
) -> None:
    messages, batches = tellings
    once, split = Product.create_with_workspace("once"), Product.create_with_workspace("split")
    record(
        [ReceivedMessage(once.pk, place, NOON, message) for place, message in enumerate(messages)]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reattribution, "MAX_EVENTS_PER_BATCH", -100)
        patch.setattr(reattribution, "EVENTS_PER_STEP", 1)
        for batch in batches:
            record([ReceivedMessage(split.pk, place, NOON, messages[place]) for place in batch])
            for _ in range(data.draw(st.integers(0, 3))):
                step_job(REATTRIBUTE, NOON)
            rescore(NOON)
        run_job(REATTRIBUTE, NOON)
    rescore(NOON)

    assert state(split) == state(once)
    assert scores(split) == scores(once)


# --- Deletions at the same time ---------------------------------------------------------------


@pytest.mark.usefixtures("few_at_once")
def test_an_account_is_forgotten_with_the_events_that_were_to_move_there(acme: Product) -> None:
    tell(acme, identify("ann", -1000, group="initech"), *events(0, 12))
    tell(acme, identify("ann", 3.5, group="hooli"), identify("ann", 7.5, group="umbrella"))
    assert ReattributionRequest.objects.exists()

    forget(SubjectRef(acme.pk, SubjectScope.ACCOUNT, "hooli"), NOON + timedelta(days=9))
    run_job(ERASE_FORGOTTEN, NOON)
    run_job(REATTRIBUTE, NOON)

    assert by_account() == counts_by_account(acme) == {"initech": 4, "umbrella": 4}


@pytest.mark.usefixtures("few_at_once")
def test_an_account_is_forgotten_without_the_events_that_were_to_move_away(acme: Product) -> None:
    tell(acme, identify("ann", -1000, group="initech"), *events(0, 12))
    tell(acme, identify("ann", 3.5, group="hooli"))

    forget(SubjectRef(acme.pk, SubjectScope.ACCOUNT, "initech"), NOON + timedelta(days=9))
    run_job(ERASE_FORGOTTEN, NOON)
    run_job(REATTRIBUTE, NOON)

    assert by_account() == counts_by_account(acme) == {"hooli": 8}
    user = User.objects.get()
    assert (user.account and user.account.external_id, user.account_since) == ("hooli", None)


@pytest.mark.usefixtures("few_at_once")
def test_a_forgotten_user_leaves_no_request(acme: Product) -> None:
    tell(acme, identify("ann", -1000, group="initech"), *events(0, 12))
    tell(acme, identify("ann", 3.5, group="hooli"))
    step_job(REATTRIBUTE, NOON)

    forget(SubjectRef(acme.pk, SubjectScope.USER, "ann"), NOON + timedelta(days=9))
    step_job(REATTRIBUTE, NOON)
    run_job(ERASE_FORGOTTEN, NOON)

    for model in (ReattributionRequest, Event, DailyCount, Membership, User):
        assert not model.objects.exists(), model


@pytest.mark.usefixtures("few_at_once")
def test_a_product_that_is_being_deleted_does_not_hold_up_others(
    acme: Product, globex: Product
) -> None:
    for product in (acme, globex):
        tell(product, identify("ann", -1000, group="initech"), *events(0, 12))
        tell(product, identify("ann", -1, group="hooli"))
    request_deletion(acme.pk, NOON)

    run_job(REATTRIBUTE, NOON)

    assert list(ReattributionRequest.objects.values_list("product", flat=True)) == [acme.pk]
    assert counts_by_account(globex)["hooli"] == 12
    run_job(DELETE_PRODUCT, NOON)
    assert not ReattributionRequest.objects.exists()


# --- Tasks ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("few_at_once")
def test_the_rescoring_after_a_batch_requests_the_reattribution(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[Any] = []
    monkeypatch.setattr(wakeups, "enqueue", lambda task, **_: requested.append(task))
    tell(acme, identify("ann", -1000, group="initech"), *events(0, 12))
    tasks.rescore()
    assert requested == []
    tell(acme, identify("ann", -1, group="hooli"))
    tasks.rescore()
    assert requested == [tasks.reattribute]

    tasks.reattribute()

    assert by_account() == {"hooli": 12}


@pytest.mark.usefixtures("few_at_once")
def test_others_wait_while_a_product_without_moves_has_no_scores(
    acme: Product, globex: Product
) -> None:
    tell(acme, identify("ann", -1000, group="initech"), *events(0, 12))
    tell(acme, identify("ann", -1, group="hooli"))
    assert RescoreRequest.objects.exists()
    assert not tasks._others_wait()
    tell(globex, track("gil"))
    assert tasks._others_wait()
    rescore(NOON)
    assert not tasks._others_wait()
