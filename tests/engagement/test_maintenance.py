"""Memberships that are a week old are thinned once a day."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.database import sql
from core.models import Job
from engagement.models import (
    ForgottenSubject,
    Membership,
    Product,
    ReattributionRequest,
    User,
)
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import maintenance
from engagement.removal.forgetting import forget
from engagement.removal.jobs import THIN_MEMBERSHIPS
from engagement.removal.maintenance import maintain
from tests.cases import examples, leaves_no_rows
from tests.engagement.history import NOON, identify, state, tell, track
from tests.jobs import run_job

pytestmark = pytest.mark.django_db

DAY = 24


def stored_memberships(product: Product) -> list[tuple[float, str]]:
    """Hours and account of each stored membership, in order of time."""
    rows = Membership.objects.filter(product=product).order_by("occurred_at", "arrival")
    return [
        ((row.occurred_at - NOON) / timedelta(hours=1), row.account.external_id)
        for row in rows.select_related("account")
    ]


def thin(now: datetime) -> int:
    """Run the job; return the number of memberships that it deletes."""
    before = Membership.objects.count()
    run_job(THIN_MEMBERSHIPS, now)
    return before - Membership.objects.count()


def test_old_memberships_that_repeat_the_one_before_are_thinned(acme: Product) -> None:
    for days in range(-20, 1):
        tell(acme, identify("ann", days * DAY, group="initech" if days < -10 else "hooli"))
    thin(NOON)
    rest = [(hours / DAY, account) for hours, account in stored_memberships(acme)]
    assert rest[:2] == [(-20, "initech"), (-10, "hooli")]
    # All of the last seven days are kept: a membership may still be sorted in between.
    assert [days for days, _ in rest[2:]] == [-7, -6, -5, -4, -3, -2, -1, 0]


def test_each_users_memberships_are_thinned_separately(acme: Product, globex: Product) -> None:
    for product in (acme, globex):
        tell(product, identify("ann", -20 * DAY, group="initech"))
        tell(product, identify("bob", -19 * DAY, group="initech"))
    assert thin(NOON) == 0


# --- Users with very many memberships ---------------------------------------------------------


@pytest.fixture
def few_memberships(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with more than ten old memberships has very many."""
    monkeypatch.setattr(maintenance, "MAX_OLD_MEMBERSHIPS", 10)


def alternate(product: Product, user: str, hours: range) -> None:
    """The user changes between two accounts every hour."""
    tell(product, *(identify(user, hour, group="ab"[hour % 2]) for hour in hours))


@pytest.mark.usefixtures("few_memberships")
def test_of_very_many_old_memberships_the_last_of_each_day_is_kept(acme: Product) -> None:
    days = range(-20 * DAY, -18 * DAY)
    alternate(acme, "ann", days)
    tell(acme, track("ann", hours=-20 * DAY + 5.5), identify("ann", 0, group="c"))
    before = state(acme)

    assert thin(NOON) == len(days) - 4

    # NOON is the twelfth hour, so the 48 hours touch three days. The very first membership stays.
    rest = [hours for hours, _ in stored_memberships(acme)]
    assert rest == [-480, -469, -445, -433, 0]
    after = state(acme)
    assert {**after, "memberships": None} == {**before, "memberships": None}
    assert thin(NOON) == 2, "those that now repeat the one before"
    assert thin(NOON) == 0


@pytest.mark.usefixtures("few_memberships")
def test_all_memberships_of_the_last_seven_days_are_kept(acme: Product) -> None:
    alternate(acme, "ann", range(-6 * DAY, 0))
    assert thin(NOON) == 0


@pytest.mark.usefixtures("few_memberships")
def test_a_user_with_fewer_keeps_each_change(acme: Product) -> None:
    alternate(acme, "ann", range(-20 * DAY, -20 * DAY + 10))
    assert thin(NOON) == 0


@pytest.mark.usefixtures("few_memberships")
def test_memberships_are_kept_while_events_are_still_to_be_moved(acme: Product) -> None:
    alternate(acme, "ann", range(-20 * DAY, -19 * DAY))
    ann = User.objects.get()
    request = ReattributionRequest.objects.create(product=acme, user_id=ann.pk)
    assert thin(NOON) == 0
    request.delete()
    assert thin(NOON) > 0


@given(st.lists(st.tuples(st.integers(-20, 0), st.sampled_from("abc")), max_size=10))
@examples(4)
@leaves_no_rows
def test_thinning_changes_no_attribution(db: None, memberships: list[tuple[int, str]]) -> None:
    product, thinned = Product.create_with_workspace("a"), Product.create_with_workspace("b")
    for target in (product, thinned):
        tell(target, *(identify("ann", days * DAY, group=account) for days, account in memberships))
    thin(NOON)
    moments = [track("ann", hours=day * DAY + 1) for day in range(-22, 2)]
    for target in (product, thinned):
        tell(target, *moments)
    before, after = state(product)["events"], state(thinned)["events"]
    assert [event[1:] for event in after] == [event[1:] for event in before]


def test_thinning_reaches_all_users_in_any_number_of_statements(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "USERS_PER_STATEMENT", 1)
    for name in ("ann", "bob", "cat"):
        tell(acme, *(identify(name, days * DAY, group="initech") for days in (-20, -19)))
    assert thin(NOON) == 3


def test_a_worker_that_dies_leaves_the_other_users_to_the_next(
    acme: Product, globex: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "USERS_PER_STATEMENT", 1)
    for product in (acme, globex):
        for name in ("ann", "bob"):
            tell(product, *(identify(name, days * DAY, group="initech") for days in (-20, -19)))
    execute, calls = sql.execute, iter(range(5))

    def die(statement: Any, *arguments: Any) -> int:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return execute(statement, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(sql, "execute", die)
        run_job(THIN_MEMBERSHIPS, NOON)
    # Of two statements each: the third user's second one is undone, with its first.
    assert Membership.objects.count() == 6
    assert thin(NOON) == 2


def test_memberships_are_thinned_once_a_day(acme: Product) -> None:
    thin(NOON)
    due_at = Job.objects.get(kind=THIN_MEMBERSHIPS).due_at
    assert due_at is not None
    assert timedelta(0) <= due_at - NOON - timedelta(days=1) < timedelta(minutes=1)


def test_requests_to_forget_are_kept_until_no_earlier_message_can_arrive(acme: Product) -> None:
    for name in ("ann", "bob"):
        subject = SubjectRef(acme.pk, SubjectScope.USER, name)
        forget(subject, NOON, suppress=name == "bob")
    maintain(NOON + timedelta(days=29))
    assert ForgottenSubject.objects.count() == 2
    maintain(NOON + timedelta(days=31))
    # A suppressed id stays suppressed.
    assert ForgottenSubject.objects.get().is_suppressed
