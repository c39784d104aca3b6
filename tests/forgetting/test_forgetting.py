"""Forgetting a user or an account deletes everything that the service keeps about it."""

from datetime import timedelta
from functools import partial

import pytest
from msgspec.structs import replace
from psycopg.errors import LockNotAvailable

from core.database import locks
from core.models import Job
from engagement.messages import Message
from engagement.models import (
    Account,
    AccountEngagement,
    DailyCount,
    Event,
    ForgottenSubject,
    Product,
    User,
    UserEngagement,
)
from engagement.recording import record as recording
from engagement.recording.batch import Batch
from engagement.recording.resolve import BatchRows, resolve
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from engagement.removal.jobs import ERASE_FORGOTTEN
from engagement.rescoring.rescore import rescore
from ingestion.drain import processing
from ingestion.models import DropCount, DroppedMessage, InboxMessage
from tests.bulk.lines import events as lines_of_events
from tests.bulk.lines import import_bytes
from tests.engagement.history import NOON, alias, group, identify, state, tell, track
from tests.jobs import run_job, step_job
from tests.pipeline.waiting import (
    Eventually,
    at_once,
    counts,
    drain,
    dropped,
    places_of,
    quarantined,
    somebody_else,
    until_somebody_waits_for_a_lock,
    wait,
    wait_raw,
    waiting,
)

pytestmark = pytest.mark.django_db

ADA = "ada.lovelace@example.com"
INITECH = "initech-gmbh"
LATER = NOON + timedelta(hours=1)


def user(product: Product, external_id: str = ADA) -> SubjectRef:
    return SubjectRef(product.pk, SubjectScope.USER, external_id)


def account(product: Product, external_id: str = INITECH) -> SubjectRef:
    return SubjectRef(product.pk, SubjectScope.ACCOUNT, external_id)


def forget(subject: SubjectRef, *, suppress: bool = False) -> bool:
    exists = forgetting.forget(subject, NOON, suppress=suppress)
    run_job(ERASE_FORGOTTEN, NOON)
    return exists


def raw_of(product: Product) -> dict[str, int]:
    rescore(NOON)
    rows = AccountEngagement.objects.filter(product=product).select_related("account")
    return {row.account.external_id: row.raw for row in rows}


# --- Users ----------------------------------------------------------------------------------


def test_a_forgotten_user_is_in_no_table(acme: Product, acme_key: str) -> None:
    event = replace(track(ADA), message_id="m1")
    wait(acme_key, identify(ADA, group=INITECH, name="Ada", email=ADA), event, event, track("bob"))
    drain()
    wait(acme_key, track(ADA), group(INITECH, user=ADA))
    wait_raw(acme_key, b"\xc1" + ADA.encode())
    rescore(NOON)
    assert places_of(ADA) >= {"engagement_user.external_id", "engagement_user.traits"}
    assert forget(user(acme))
    assert places_of(ADA) == set()
    assert not UserEngagement.objects.filter(product=acme).exists()
    assert counts(acme) == {("bob", "opened"): 1}


def test_other_users_and_products_keep_everything(acme: Product, globex: Product) -> None:
    messages: list[Message] = [
        identify("bob", group=INITECH, plan="pro"),
        track("bob"),
        track("cem"),
    ]
    for product in (acme, globex):
        tell(product, *messages)
    before, elsewhere = state(acme), state(globex)
    tell(acme, identify(ADA), track(ADA))
    tell(globex, track(ADA))
    with_ada = state(globex)
    forget(user(acme))
    assert state(acme) == before
    assert state(globex) == with_ada != elsewhere


def test_the_accounts_of_a_forgotten_user_lose_their_points(acme: Product) -> None:
    tell(acme, identify(ADA, -2, group=INITECH), identify(ADA, -1, group="hooli"))
    tell(acme, track(ADA, hours=-1.5), *[track(ADA)] * 2, identify("bob", group=INITECH))
    tell(acme, track("bob"))
    assert raw_of(acme) == {INITECH: 2, "hooli": 2}
    forget(user(acme))
    assert raw_of(acme) == {INITECH: 1, "hooli": 0}


def test_an_unidentified_user_can_be_forgotten(acme: Product) -> None:
    tell(acme, track(ADA))
    assert forget(user(acme))
    assert not Event.objects.exists() and not DailyCount.objects.exists()


def test_forgetting_an_unknown_user_is_no_error(acme: Product) -> None:
    assert not forget(user(acme))
    assert not forgetting.forget(user(Product(pk=0)), NOON)


def test_forgetting_a_user_keeps_an_account_with_the_same_id(acme: Product, acme_key: str) -> None:
    tell(acme, identify("same", group="same"), track("same"))
    forget(user(acme, "same"), suppress=True)
    assert Account.objects.get().external_id == "same"
    wait(acme_key, group("same", plan="pro"))
    drain()
    assert Account.objects.get().traits == {"plan": "pro"}


# --- Accounts -------------------------------------------------------------------------------


def test_forgetting_an_account_deletes_its_events_and_keeps_its_users(
    acme: Product, acme_key: str
) -> None:
    wait(acme_key, group(INITECH, domain="initech.example"), identify(ADA, 0, INITECH))
    wait(acme_key, track(ADA, hours=1), identify(ADA, 2, "hooli"), track(ADA, hours=3))
    drain(LATER)
    wait(acme_key, track(ADA, group=INITECH))
    rescore(NOON)
    assert forget(account(acme))
    assert places_of(INITECH) == places_of("initech.example") == set()
    assert counts(acme) == {(ADA, "opened"): 1}
    assert set(raw_of(acme)) == {"hooli"}
    assert set(state(acme)["users"]) == {ADA}


def test_the_result_is_as_if_the_account_had_never_existed(acme: Product, globex: Product) -> None:
    elsewhere: list[Message] = [
        identify(ADA, -30, "hooli"),
        track(ADA, hours=-29),
        identify("bob", -30, "hooli"),
        identify("bob", -10, "hooli"),
        track("bob", hours=-9),
        identify("cem", plan="pro"),
    ]
    there: list[Message] = [
        identify(ADA, -20, INITECH),
        track(ADA, hours=-19),
        identify("bob", -20, INITECH),
        track("bob", "saved", hours=-19),
    ]
    tell(acme, *elsewhere[:3], *there, *elsewhere[3:])
    forget(account(acme))
    tell(globex, *elsewhere)
    remaining_state, expected = state(acme), state(globex)
    for rows in (remaining_state, expected):
        # Arrivals and the time of the first message differ.
        rows["events"] = [event[1:] for event in rows["events"]]
        rows["memberships"] = set(rows["memberships"])
        rows["users"] = {name: (row[0], *row[2:5]) for name, row in rows["users"].items()}
        rows["accounts"] = {name: row[0] for name, row in rows["accounts"].items()}
    assert remaining_state == expected
    # Later messages have the same effect, too.
    for product in (acme, globex):
        tell(product, track("bob", hours=-15), track(ADA, hours=5))
    assert raw_of(acme) == raw_of(globex)


@pytest.mark.parametrize("introduction", [identify("ada"), alias("ada", "bob")])
def test_a_forgotten_account_does_not_return_with_a_user_who_was_in_it(
    introduction: Message, acme: Product
) -> None:
    """Whose introduction also introduces the accounts that they were in before."""
    tell(acme, group(INITECH), track("ada", group=INITECH), identify("bob"))
    assert raw_of(acme) == {INITECH: 0}
    forgetting.forget(account(acme), NOON)
    tell(acme, introduction)
    assert raw_of(acme) == {}
    run_job(ERASE_FORGOTTEN, NOON)
    assert raw_of(acme) == {} and not Account.objects.exists()


def test_erasing_an_account_takes_several_transactions(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "USERS_PER_TRANSACTION", 2)
    for number in range(7):
        name = f"user {number}"
        tell(acme, identify(name, -2, INITECH), track(name, hours=-1))
        if number % 2:
            # These users are in another account now.
            tell(acme, identify(name, 0, "hooli"), track(name, "saved", hours=1))
    forgetting.forget(account(acme), NOON)
    for _ in range(2):
        assert step_job(ERASE_FORGOTTEN, NOON)
    job = Job.objects.get(kind=ERASE_FORGOTTEN)
    assert (job.progress, job.total) == (0, 1)
    assert ForgottenSubject.objects.get().row_id is not None
    # A crash here loses nothing: another worker resumes.
    run_job(ERASE_FORGOTTEN, NOON)
    assert ForgottenSubject.objects.get().row_id is None
    assert Account.objects.get().external_id == "hooli"
    assert set(counts(acme)) == {(f"user {number}", "saved") for number in (1, 3, 5)}


def test_counts_without_events_are_deleted(acme: Product) -> None:
    tell(acme, identify(ADA, group=INITECH), track(ADA))
    # The retention leaves counts without events.
    Event.objects.all().delete()
    forget(account(acme))
    assert not DailyCount.objects.exists()


# --- Earlier and later messages -------------------------------------------------------------


def test_waiting_messages_are_listed_as_dropped_without_details(
    acme: Product, acme_key: str
) -> None:
    ids = wait(acme_key, identify(ADA, name="Ada"), track("bob"), group(INITECH, user=ADA))
    forget(user(acme))
    assert waiting() == [ids[1]]
    assert dropped() == [(ids[0], "forgotten"), (ids[2], "forgotten")]
    for row in DroppedMessage.objects.all():
        assert (row.product, row.key_hint, row.received_at) == (acme, acme_key[:9], NOON)
        assert not (row.user_external_id or row.account_external_id or row.event or row.message_id)
    assert DropCount.objects.get().count == 2


def test_messages_that_wait_with_another_products_key_stay(
    acme: Product, acme_key: str, globex: Product
) -> None:
    ids = wait(acme_key, track(ADA))
    forget(user(globex))
    assert waiting() == ids


def test_a_later_message_creates_a_new_user(acme: Product, acme_key: str) -> None:
    tell(acme, identify(ADA, plan="pro"), track(ADA))
    before = User.objects.get().pk
    forget(user(acme))
    wait(acme_key, identify(ADA, seats=3))
    drain()
    new = User.objects.get()
    assert (new.external_id, new.traits) == (ADA, {"seats": 3})
    assert new.pk != before


def test_a_later_message_for_a_suppressed_id_is_dropped(acme: Product, acme_key: str) -> None:
    forget(user(acme), suppress=True)
    forget(account(acme), suppress=True)
    ids = wait(
        acme_key,
        identify(ADA),
        group("hooli", user=ADA),
        identify("bob", group=INITECH),
        track("bob", group=INITECH),
        track("bob"),
    )
    drain()
    assert dropped() == [(id, "forgotten") for id in ids[:4]]
    assert counts(acme) == {("bob", "opened"): 1}
    assert not Account.objects.exists()
    assert places_of(ADA) == places_of(INITECH) == set()


def test_a_suppression_holds_for_one_product(acme: Product, globex: Product) -> None:
    forget(user(acme), suppress=True)
    tell(globex, track(ADA))
    assert counts(globex) == {(ADA, "opened"): 1}


def test_a_suppression_can_be_lifted(acme: Product, acme_key: str) -> None:
    assert forgetting.lift_suppression(user(acme)) == 0
    forget(user(acme), suppress=True)
    assert forgetting.lift_suppression(account(acme, ADA)) == 0
    assert forgetting.lift_suppression(user(acme)) == 1
    wait(acme_key, track(ADA))
    drain()
    assert counts(acme) == {(ADA, "opened"): 1}


def test_an_earlier_message_takes_no_effect_wherever_it_was(acme: Product, acme_key: str) -> None:
    (early,) = wait(acme_key, track(ADA))
    row = InboxMessage.objects.get()
    row.delete()
    forget(user(acme))
    # It was committed late, or somebody just retried it from quarantine.
    row.pk = early
    InboxMessage.objects.bulk_create([row])
    wait(acme_key, track("bob"))
    drain()
    assert dropped() == [(early, "forgotten")]
    assert counts(acme) == {("bob", "opened"): 1}


def test_quarantined_messages_of_a_forgotten_user_are_deleted(acme: Product, acme_key: str) -> None:
    (of_ada,) = wait_raw(acme_key, b"\xc1 something of " + ADA.encode())
    (of_bob,) = wait_raw(acme_key, b"\xc1 something of bob")
    for minute in range(3):
        drain(NOON + timedelta(minutes=minute))
    assert quarantined() == [of_ada, of_bob]
    forget(user(acme))
    assert quarantined() == [of_bob]


# --- At the same time -----------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_forgetting_waits_for_a_drain_that_is_recording_the_user(
    acme: Product, acme_key: str
) -> None:
    wait(acme_key, identify(ADA, group=INITECH), track(ADA))
    with somebody_else() as other, other.transaction():
        # Like a batch that is under way: it locks its product until it is committed.
        other.execute("SELECT FROM engagement_product WHERE id = %s FOR KEY SHARE", [acme.pk])
        other.execute(
            "INSERT INTO engagement_user (product_id, external_id, traits, trait_stamps, "
            "is_identified, first_seen_at, last_seen_at) VALUES (%s, %s, '{}', '{}', true, "
            "now(), now())",
            [acme.pk, ADA],
        )
        forgotten = Eventually(partial(forget, user(acme), suppress=True))
        until_somebody_waits_for_a_lock()
    assert forgotten.result()
    drain()
    assert not User.objects.exists()
    assert places_of(ADA) == set()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", ["drain", "import"])
def test_messages_are_recorded_under_the_lock_on_their_product(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    resolved: list[Batch] = []

    def resolve_under_the_lock(batch: Batch) -> BatchRows:
        resolved.append(batch)
        with somebody_else() as other, pytest.raises(LockNotAvailable):
            other.execute(
                "SELECT FROM engagement_product WHERE id = %s FOR UPDATE NOWAIT", [acme.pk]
            )
        return resolve(batch)

    monkeypatch.setattr(recording, "resolve", resolve_under_the_lock)
    if way == "drain":
        wait(acme_key, track(ADA))
        drain()
    else:
        assert import_bytes(acme, lines_of_events(1)) == []
    assert len(resolved) == 1


@pytest.mark.django_db(transaction=True)
def test_a_message_that_is_being_put_into_quarantine_is_found(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_raw(acme_key, b"\xc1 something of " + ADA.encode())
    for minute in range(2):
        drain(NOON + timedelta(minutes=minute))
    forgettings: list[Eventually[bool]] = []

    def forget_meanwhile(error: str) -> str:
        forgettings.append(Eventually(partial(forget, user(acme))))
        until_somebody_waits_for_a_lock()
        return error

    monkeypatch.setattr(processing, "_storable", forget_meanwhile)
    drain(NOON + timedelta(minutes=2))
    for forgotten in forgettings:
        forgotten.result()
    assert len(forgettings) == 1
    assert (waiting(), quarantined()) == ([], [])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("scope", ["user", "account"])
def test_concurrent_drains_and_forgetting_leave_nothing_of_a_suppressed_subject(
    acme: Product, acme_key: str, scope: str
) -> None:
    messages: list[Message] = []
    for number in range(400):
        messages += [
            track(ADA, hours=number / 100),
            track(f"user {number % 7}", hours=number / 100),
        ]
        if number % 10 == 0:
            messages += [identify(ADA, number / 100, INITECH), identify("user 1", group=INITECH)]
    wait(acme_key, *messages)
    subject = user(acme) if scope == "user" else account(acme)
    batches = [partial(drain, batch_size=25)] * 3
    at_once(*batches, partial(forget, subject, suppress=True), partial(rescore, NOON))
    drain()
    run_job(ERASE_FORGOTTEN, NOON)
    rescore(NOON)
    assert waiting() == [] and quarantined() == []
    assert places_of(subject.external_id) == set()
    # Other users are complete: only messages that name the subject were dropped.
    recorded = counts(acme)
    if scope == "user":
        assert {name for name, _ in recorded} == {f"user {number}" for number in range(7)}
        assert sum(recorded.values()) == 400
    orphans = UserEngagement.objects.exclude(user__in=User.objects.all())
    assert not orphans.exists()
    assert not Account.objects.filter(external_id__startswith="forgotten").exists()


@pytest.mark.django_db(transaction=True)
def test_forgetting_waits_for_scoring_that_is_under_way(acme: Product) -> None:
    tell(acme, identify(ADA), track(ADA))
    with somebody_else() as other, other.transaction():
        other.execute(
            "SELECT pg_advisory_xact_lock(%s, %s::integer)", [locks.SCORING, acme.pk % 2**31]
        )
        forgotten = Eventually(partial(forget, user(acme)))
        until_somebody_waits_for_a_lock()
        assert User.objects.filter(external_id=ADA).exists()
    assert forgotten.result()
    assert not User.objects.exists()
