"""The rules of recording, one example each.

``test_order_does_not_matter`` shows over all kinds of messages that their order does not matter.
"""

from collections.abc import Callable
from datetime import date

import pytest
from django.db import DataError, IntegrityError, InternalError, transaction

from core.database import sql
from engagement.models import Account, DailyCount, Event, Membership, Product, User
from engagement.recording import resolve
from engagement.recording.record import record
from tests.engagement.history import at, group, identify, received, state, tell, track

pytestmark = pytest.mark.django_db


def accounts_of_events(product: Product) -> list[str]:
    """The account of each event, in order of arrival; "" for none."""
    return [account for _, _, _, _, account in state(product)["events"]]


# --- Who appears --------------------------------------------------------------------------


def test_identify_creates_a_user_and_a_later_one_updates_it(acme: Product) -> None:
    tell(acme, identify("ann", name="Ann", plan="free"))
    tell(acme, identify("ann", hours=1, plan="pro"))
    ann = User.objects.get(product=acme)
    assert (ann.external_id, ann.name, ann.traits["plan"]) == ("ann", "Ann", "pro")
    assert (ann.first_seen_at, ann.last_seen_at) == (at(0), at(1))


def test_identify_with_a_group_adds_the_user_to_the_account_and_creates_it(acme: Product) -> None:
    tell(acme, identify("ann", group="initech"))
    ann = User.objects.get(product=acme)
    assert ann.account is not None and ann.account.external_id == "initech"
    assert ann.account.is_identified


def test_group_with_a_user_creates_the_user_and_adds_them_to_the_account(acme: Product) -> None:
    tell(acme, group("initech", user="ann", name="Initech"))
    ann = User.objects.get(product=acme)
    assert ann.is_identified
    assert ann.account is not None and ann.account.name == "Initech"


def test_many_new_accounts_are_created_in_parts(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolve, "ACCOUNTS_AT_ONCE", 3)
    tell(acme, group("account 4", name="Old"))
    tell(acme, *(group(f"account {number}", hours=1, name=f"{number}") for number in range(8)))
    accounts = Account.objects.filter(product=acme, is_identified=True)
    names = {account.external_id: account.name for account in accounts}
    assert names == {f"account {number}": f"{number}" for number in range(8)}


def test_a_statement_that_fails_for_a_part_fails() -> None:
    parts = [{"number": number} for number in (1, 2, 0, 4)]
    with pytest.raises(DataError), transaction.atomic():
        sql.fetch_in_parts("SELECT 4 / %(number)s::int", parts)
    assert sql.fetch_in_parts("SELECT 4 / %(number)s::int", parts[:2]) == [(4,), (2,)]


def test_events_of_an_unidentified_user_are_kept_and_the_user_is_not_shown(acme: Product) -> None:
    tell(acme, track("ann", "opened"), track("ann", "opened"))
    assert not User.objects.get(product=acme).is_identified
    assert DailyCount.objects.get(product=acme).count == 2


def test_the_account_of_an_unidentified_user_is_not_shown_until_the_user_is_identified(
    acme: Product,
) -> None:
    tell(acme, track("ann", group="initech"))
    assert not Account.objects.get(product=acme).is_identified
    tell(acme, identify("ann", hours=1))
    assert Account.objects.get(product=acme).is_identified


def test_an_account_named_by_an_identified_users_event_is_shown(acme: Product) -> None:
    tell(acme, identify("ann"), track("ann", group="initech"))
    assert Account.objects.get(product=acme).is_identified


def test_the_same_ids_in_two_products_are_two_users(acme: Product, globex: Product) -> None:
    both = received(acme, [identify("ann", plan="a")]) + received(
        globex, [identify("ann", plan="g")]
    )
    record(both)
    assert User.objects.get(product=acme).traits == {"plan": "a"}
    assert User.objects.get(product=globex).traits == {"plan": "g"}


def test_ids_are_kept_verbatim(acme: Product) -> None:
    ids = ["ann", "Ann", " ann", "ann ", "\uff41nn", "a" * 512, "'; --", "{}", '"', "\\", "%s"]
    tell(acme, *(identify(id, group=id) for id in ids), *(track(id, id[:256]) for id in ids))
    assert set(User.objects.filter(product=acme).values_list("external_id", flat=True)) == set(ids)
    assert Account.objects.filter(product=acme).count() == len(ids)
    assert Event.objects.filter(product=acme).count() == len(ids)


# --- Which account an event belongs to ----------------------------------------------------


def test_an_event_belongs_to_the_account_its_user_was_in_at_the_time(acme: Product) -> None:
    tell(acme, identify("ann", 0, group="initech"), identify("ann", 2, group="hooli"))
    tell(acme, track("ann", hours=1), track("ann", hours=2), track("ann", hours=3))
    assert accounts_of_events(acme) == ["initech", "hooli", "hooli"]


def test_an_event_before_the_first_membership_belongs_to_the_first_account(acme: Product) -> None:
    tell(acme, identify("ann", 0, group="initech"), identify("ann", 2, group="hooli"))
    tell(acme, track("ann", hours=-5))
    assert accounts_of_events(acme) == ["initech"]


def test_an_event_of_a_user_in_no_account_belongs_to_none(acme: Product) -> None:
    tell(acme, identify("ann"), track("ann"))
    assert accounts_of_events(acme) == [""]


def test_the_first_membership_takes_the_events_that_came_before_it(acme: Product) -> None:
    tell(acme, identify("ann", -9), track("ann", hours=-3), track("ann", hours=1))
    tell(acme, group("initech", 0, user="ann"))
    assert accounts_of_events(acme) == ["initech", "initech"]
    counts = DailyCount.objects.get(product=acme)
    assert (counts.count, counts.last_at) == (2, at(1))
    assert counts.account_id == Account.objects.get(product=acme).pk


def test_a_late_membership_moves_the_events_after_it_and_no_others(acme: Product) -> None:
    tell(acme, identify("ann", -10, group="initech"), identify("ann", 10, group="hooli"))
    tell(acme, *(track("ann", hours=hours) for hours in (-11, -6, -4, 4, 11)))
    tell(acme, identify("ann", -5, group="globex"))
    assert accounts_of_events(acme) == ["initech", "initech", "globex", "globex", "hooli"]


def test_track_with_a_group_belongs_to_that_account(acme: Product) -> None:
    tell(acme, identify("ann", 0, group="initech"))
    tell(acme, track("ann", hours=1, group="hooli"), track("ann", hours=2))
    assert accounts_of_events(acme) == ["hooli", "hooli"]


def test_of_memberships_at_the_same_time_the_later_arrival_counts(acme: Product) -> None:
    tell(acme, identify("ann", 0, group="initech"), identify("ann", 0, group="hooli"))
    tell(acme, track("ann"))
    assert accounts_of_events(acme) == ["hooli"]
    tell(acme, group("initech", 0, user="ann"))
    assert accounts_of_events(acme) == ["initech"]


def test_a_user_of_several_accounts_keeps_each_event_where_it_happened(
    acme: Product,
) -> None:
    for hour in range(6):
        company = "initech" if hour % 2 else "hooli"
        tell(acme, track("ann", hours=hour, group=company), identify("ann", hour))
    assert accounts_of_events(acme) == ["hooli", "initech"] * 3
    assert Membership.objects.filter(product=acme).count() == 6


# --- Times and counts ---------------------------------------------------------------------


def test_days_are_utc_days(acme: Product) -> None:
    tell(acme, track("ann", hours=11.999), track("ann", hours=12))
    days = DailyCount.objects.filter(product=acme).order_by("day").values_list("day", flat=True)
    assert list(days) == [date(2026, 9, 24), date(2026, 9, 25)]


def test_backfill_of_years_is_counted_on_its_days(acme: Product) -> None:
    long_ago = -24 * 365 * 20
    tell(acme, identify("ann"), track("ann", hours=long_ago))
    assert DailyCount.objects.get(product=acme).day == date(2006, 9, 29)
    assert User.objects.get(product=acme).first_seen_at == at(long_ago)


def test_counts_add_up_over_batches_and_keep_the_latest_time(acme: Product) -> None:
    tell(acme, track("ann", hours=2), track("ann", hours=3))
    tell(acme, track("ann", hours=1))
    counted = DailyCount.objects.get(product=acme)
    assert (counted.count, counted.last_at) == (3, at(3))


def test_nothing_is_deduplicated_by_content(acme: Product) -> None:
    tell(acme, track("ann"), track("ann"))
    tell(acme, track("ann"))
    assert Event.objects.filter(product=acme).count() == 3


def test_a_message_recorded_twice_violates_a_key(acme: Product) -> None:
    messages = received(acme, [track("ann")])
    record(messages)
    # Citus reports an error of COPY as one of its own.
    violated = pytest.raises((IntegrityError, InternalError), match="duplicate key")
    with violated, transaction.atomic():
        record(messages)


def test_an_empty_batch_runs_no_statement(acme: Product) -> None:
    assert statements_of(lambda: record([])) == 0


def test_a_batch_that_names_no_account_searches_for_none(acme: Product) -> None:
    tell(acme, track("ann"))
    with_account = statements_of(lambda: tell(acme, track("ann", group="initech")))
    assert statements_of(lambda: tell(acme, track("ann"))) < with_account


def test_the_statements_of_a_batch_do_not_grow_with_its_messages(acme: Product) -> None:
    # The first batch stores a new name of a trait, and the second finds it.
    for _ in range(2):
        tell(acme, identify("ann", plan="pro"))
    assert statements_of_users(acme, 200) == statements_of_users(acme, 1)


def statements_of_users(product: Product, users: int) -> int:
    messages = [
        message
        for number in range(users)
        for message in (
            identify(f"user {users} {number}", group=f"account {users} {number % 7}", plan="pro"),
            track(f"user {users} {number}", f"event {users}"),
        )
    ]
    return statements_of(lambda: tell(product, *messages))


def statements_of(work: Callable[[], object]) -> int:
    """The number of statements over batches. Django does not count them: they go through the
    driver."""
    count = 0
    with pytest.MonkeyPatch.context() as patch:
        cursor = sql._cursor

        def counted() -> object:
            nonlocal count
            count += 1
            return cursor()

        patch.setattr(sql, "_cursor", counted)
        work()
    return count
