"""The users of an account: its members, and former members with recent events in it."""

from datetime import timedelta

import pytest

from engagement.models import (
    AccountEngagement,
    Product,
    RescoreRequest,
    ScoreSet,
    User,
    Workspace,
)
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from engagement.removal.jobs import ERASE_FORGOTTEN
from engagement.rescoring.rescore import rescore
from tests.engagement.history import NOON, group, identify, tell, track
from tests.engagement.test_audiences import PAYING, accounts, is_about
from tests.jobs import run_job

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_nights")]


def count(product: Product, days: int = 0) -> dict[str, int]:
    """The number of users of each account, once everything is scored."""
    rescore(NOON + timedelta(days=days))
    assert not RescoreRequest.objects.exists()
    return {name: total for name, (_, _, total) in accounts(product).items()}


def test_a_member_without_events_counts(acme: Product) -> None:
    tell(acme, identify("ann", -240, "initech"), identify("bob", -240, "initech"))
    assert count(acme) == {"initech": 2}
    # Somebody who comes later makes the account be counted again.
    tell(acme, identify("cyd", -1, "initech"))
    assert count(acme) == {"initech": 3}
    tell(acme, group("initech", -1, user="dan"))
    assert count(acme) == {"initech": 4}


def test_a_former_member_counts_until_their_events_are_ninety_days_old(acme: Product) -> None:
    tell(acme, identify("ann", -240, "initech"), identify("bob", -240, "initech"))
    tell(acme, track("ann", "opened", -1))
    tell(acme, identify("ann", 0, "hooli"), identify("bob", 0, "hooli"))
    # Bob did nothing in the account that he left.
    assert count(acme) == {"initech": 1, "hooli": 2}
    assert count(acme, days=89) == {"initech": 1, "hooli": 2}
    assert count(acme, days=90) == {"initech": 0, "hooli": 2}


def test_a_user_counts_from_the_identify_on(acme: Product) -> None:
    tell(acme, identify("ann", -240, "initech"), track("bob", "opened", -1, group="initech"))
    assert count(acme) == {"initech": 1}
    tell(acme, identify("bob", 0))
    assert count(acme) == {"initech": 2}


def test_a_repeated_membership_does_not_enqueue_the_account(acme: Product) -> None:
    tell(acme, identify("ann", -240, "initech"))
    count(acme)
    tell(acme, identify("ann", -1, "initech"))
    assert not RescoreRequest.objects.exclude(account_id=None).exists()


def test_an_audiences_account_has_the_users_of_the_audience(acme: Product) -> None:
    tell(acme, identify("ann", -240, "initech", plan="pro"), identify("bob", -240, "initech"))
    is_about(acme, PAYING)
    assert count(acme) == {"initech": 1}
    # Users without events count, too.
    tell(acme, identify("bob", 0, plan="pro"))
    assert count(acme) == {"initech": 2}
    tell(acme, identify("ann", 0, plan="free"))
    assert count(acme) == {"initech": 1}


def test_a_forgotten_user_no_longer_counts(acme: Product) -> None:
    tell(acme, identify("ann", -240, "initech"), identify("bob", -240, "initech"))
    assert count(acme) == {"initech": 2}
    forgetting.forget(SubjectRef(acme.pk, SubjectScope.USER, "ann"), NOON, suppress=False)
    run_job(ERASE_FORGOTTEN, NOON)
    assert count(acme) == {"initech": 1}


def test_the_users_of_a_forgotten_account_count_where_they_were_before(acme: Product) -> None:
    tell(acme, identify("ann", -240, "initech"), identify("ann", -1, "hooli"))
    assert count(acme) == {"initech": 0, "hooli": 1}
    forgetting.forget(SubjectRef(acme.pk, SubjectScope.ACCOUNT, "hooli"), NOON, suppress=False)
    run_job(ERASE_FORGOTTEN, NOON)
    assert User.objects.get().account is not None
    assert count(acme) == {"initech": 1}


def test_active_share_is_a_share_of_all_users(acme: Product) -> None:
    tell(acme, *(identify(name, -240, "initech") for name in ("ann", "bob", "cyd", "dan")))
    tell(acme, track("ann", "opened", -1))
    rescore(NOON)
    assert accounts(acme) == {"initech": (1, 1, 4)}


def test_sets_of_an_older_formula_are_rebuilt_once(acme: Product) -> None:
    tell(acme, identify("ann", -240, "initech"))
    rescore(NOON)
    old = Workspace.objects.get(product=acme).scores
    assert old is not None
    # What it left: no user without an event.
    ScoreSet.objects.update(formula_version=0)
    AccountEngagement.objects.update(total_users=0)
    assert count(acme) == {"initech": 1}
    new = Workspace.objects.get(product=acme).scores
    assert new is not None and new != old
    rescore(NOON)
    assert Workspace.objects.get(product=acme).scores == new
