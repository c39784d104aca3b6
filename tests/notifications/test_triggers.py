"""Each trigger tells of what it says, to whom it should, and not more often than asked."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from core.database import sql
from core.jobs.run import run_due
from engagement.models import AlarmNight, Product, Segment
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from engagement.rescoring import activation
from engagement.rescoring.rescore import rescore
from engagement.rules.steps import Step
from ingestion.models import HourCount, IngestionKey, QuarantinedMessage, RefusedCount
from marketplace.models import Connection
from notifications import retention
from notifications.models import Delivery, Destination, OutboxMessage, Watch, WatchedMember
from notifications.watching import outbox
from notifications.watching.sweep import sweep
from outcomes.forecasts import jobs as forecasts
from outcomes.forecasts.results import month_after
from outcomes.models import ChanceLook
from outcomes.reading import QUEUE
from readapi.models import ApiToken
from tests.admin.rows import a_connection
from tests.engagement.history import alias, group, identify, tell, track
from tests.engagement.planted_nights import a_fall, add_nights
from tests.notifications.rows import (
    Clock,
    a_destination,
    a_segment,
    outbox_texts,
    settle,
    subscribe,
)
from tests.outcomes.forecasts import Planted, plant

pytestmark = pytest.mark.django_db
PAYS = {"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"}


@pytest.fixture
def destination(acme: Product) -> Destination:
    row: Destination = a_destination(acme)
    return row


def group_at(clock: Clock, account: str, **traits: Any) -> Any:
    return type(group(account))(account, clock.now, traits, None)


def track_at(clock: Clock, user: str, times: int = 1, account: str | None = None) -> list[Any]:
    return [type(track(user))(user, "opened", clock.now, account) for _ in range(times)]


# --- Scores -----------------------------------------------------------------------------------


def test_a_score_that_crosses_a_value_is_told_in_its_direction(
    acme: Product, destination: Destination, clock: Clock
) -> None:
    tell(acme, identify("ann", group="initech", name="Ann"), identify("bob", group="hooli"))
    tell(acme, *track_at(clock, "ann", 10), *track_at(clock, "bob", 1))
    settle(clock)
    workspace = acme.workspaces.get()
    for direction in ("up", "down"):
        subscribe(
            destination,
            "score_crossed",
            workspace=workspace,
            scope="user",
            direction=direction,
            threshold=60,
        )
    settle(clock)
    assert outbox_texts() == []
    # The rolling window leaves Ann behind, and Bob catches up.
    clock.now += timedelta(days=8)
    tell(acme, *track_at(clock, "bob", 10))
    settle(clock)
    assert sorted(message.split(":")[0] for message in outbox_texts()) == [
        "Ann fell below 60",
        "bob rose to 60 or more",
    ]
    payload = OutboxMessage.objects.get(title__startswith="bob").payload
    assert payload["type"] == "score.crossed"
    assert payload["data"]["after"]["score"] >= 60 > payload["data"]["before"]["score_last_period"]


def test_a_score_that_moves_is_told(acme: Product, destination: Destination, clock: Clock) -> None:
    tell(acme, identify("ann", group="initech"), *track_at(clock, "ann", 5))
    settle(clock)
    for direction in ("up", "down"):
        subscribe(
            destination,
            "score_moved",
            workspace=acme.workspaces.get(),
            scope="account",
            direction=direction,
            threshold=30,
        )
    settle(clock)
    clock.now += timedelta(days=8)
    settle(clock)
    (message,) = outbox_texts()
    assert message.startswith("initech fell by ")


def test_the_first_event_of_a_new_account_is_told_once(
    acme: Product, destination: Destination, clock: Clock
) -> None:
    tell(acme, identify("ann", group="initech"), *track_at(clock, "ann"))
    settle(clock)
    subscribe(destination, "account_first_event", workspace=acme.workspaces.get(), scope="account")
    settle(clock)
    tell(acme, identify("bob", group="hooli", hours=1))
    settle(clock)
    assert outbox_texts() == []
    tell(acme, *track_at(clock, "bob"))
    settle(clock)
    tell(acme, *track_at(clock, "bob"), *track_at(clock, "ann"))
    settle(clock)
    assert outbox_texts() == ["hooli had a first event."]


# --- Filters, pauses, and floods ----------------------------------------------------------------


@pytest.fixture
def paying(acme: Product, clock: Clock) -> Segment:
    tell(acme, *[group(f"account {number}") for number in range(6)])
    settle(clock)
    return a_segment(acme, PAYS)


def pay(acme: Product, clock: Clock, *accounts: str, plan: str = "pro", **traits: Any) -> None:
    clock.step()
    tell(acme, *[group_at(clock, account, plan=plan, **traits) for account in accounts])
    settle(clock)


def test_only_subjects_in_the_filters_segment_are_told_of(
    acme: Product, destination: Destination, paying: Segment, clock: Clock
) -> None:
    big = {"kind": "trait", "trait": "seats", "operator": "at_least", "value": 100}
    subscribe(destination, segment=paying, filter_segment=a_segment(acme, big, name="Big"))
    settle(clock)
    pay(acme, clock, "account 1", seats=5)
    pay(acme, clock, "account 2", seats=500)
    assert outbox_texts() == ["account 2 entered Paying."]


def test_a_subject_is_told_of_once_in_the_quiet_period(
    acme: Product, destination: Destination, paying: Segment, clock: Clock
) -> None:
    subscribe(destination, segment=paying, quiet_hours=24)
    settle(clock)
    for plan in ("pro", "free", "pro", "free"):
        pay(acme, clock, "account 1", plan=plan)
    assert outbox_texts() == ["account 1 entered Paying."]
    clock.now += timedelta(days=1)
    pay(acme, clock, "account 1", plan="pro")
    assert outbox_texts() == ["account 1 entered Paying."] * 2


def test_more_changes_than_anybody_reads_become_one_message(
    acme: Product,
    destination: Destination,
    paying: Segment,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "MAX_MESSAGES", 3)
    monkeypatch.setattr(outbox, "NAMED_SUBJECTS", 2)
    subscribe(destination, segment=paying)
    settle(clock)
    pay(acme, clock, *[f"account {number}" for number in range(5)])
    (message,) = OutboxMessage.objects.all()
    assert message.title == "5 accounts: entered Paying"
    data = message.payload["data"]
    assert (data["count"], [each["name"] for each in data["first"]]) == (
        5,
        ["account 0", "account 1"],
    )


def test_messages_have_the_traits_that_the_subscription_has_chosen(
    acme: Product, destination: Destination, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MAX_MESSAGES", 1)
    active = a_segment(acme, {"kind": "active", "active": True}, scope="user")
    subscribe(destination, segment=active, traits=["email", "plan"])
    subscribe(destination, segment=active)
    settle(clock)
    tell(acme, identify("ann", email="ann@example.com", role="admin"), *track_at(clock, "ann"))
    settle(clock)
    with_traits, plain = OutboxMessage.objects.order_by("pk")
    assert with_traits.payload["data"]["user"]["traits"] == {
        "email": "ann@example.com",
        "plan": None,
    }
    assert "traits" not in plain.payload["data"]["user"]
    tell(acme, *(identify(name, plan=name) for name in ("bob", "cyd")))
    tell(acme, *track_at(clock, "bob"), *track_at(clock, "cyd"))
    settle(clock)
    summary = OutboxMessage.objects.filter(subscription=with_traits.subscription).latest("pk")
    traits = [user["traits"] for user in summary.payload["data"]["first"]]
    assert traits == [{"email": None, "plan": "bob"}, {"email": None, "plan": "cyd"}]


def test_a_full_outbox_counts_what_it_does_not_keep(
    acme: Product,
    destination: Destination,
    paying: Segment,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "MAX_WAITING", 2)
    subscribe(destination, segment=paying)
    settle(clock)
    pay(acme, clock, *[f"account {number}" for number in range(5)])
    assert len(outbox_texts()) == 2
    assert Destination.objects.get().overflowed == 3


def test_a_new_subscription_to_a_watched_set_is_told_of_later_changes_only(
    acme: Product, destination: Destination, paying: Segment, clock: Clock
) -> None:
    subscribe(destination, segment=paying)
    settle(clock)
    second = subscribe(a_destination(acme, name="Other"), segment=paying)
    pay(acme, clock, "account 1")
    assert outbox_texts() == ["account 1 entered Paying."]
    pay(acme, clock, "account 2")
    assert OutboxMessage.objects.filter(subscription_id=second.pk).count() == 1
    assert Watch.objects.count() == 1


def test_nothing_is_told_to_an_unverified_destination(
    acme: Product, paying: Segment, clock: Clock
) -> None:
    destination = a_destination(acme, state=Destination.State.UNVERIFIED)
    subscribe(destination, segment=paying)
    settle(clock)
    pay(acme, clock, "account 1")
    assert outbox_texts() == []


def test_a_sweep_that_fails_leaves_everything_to_the_next_one(
    acme: Product,
    destination: Destination,
    paying: Segment,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subscribe(destination, segment=paying)
    settle(clock)
    write = outbox._write

    def die(*arguments: Any) -> int:
        write(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(outbox, "_write", die)
    with pytest.raises(KeyboardInterrupt):
        pay(acme, clock, "account 1")
    assert (outbox_texts(), WatchedMember.objects.count()) == ([], 0)
    monkeypatch.undo()
    sweep(clock.step())
    sweep(clock.step())
    assert outbox_texts() == ["account 1 entered Paying."]


# --- People who are gone ------------------------------------------------------------------------


def test_a_joined_and_a_forgotten_user_have_left_nothing(
    acme: Product, destination: Destination, clock: Clock
) -> None:
    tell(acme, *[identify(user, plan="pro") for user in ("ann", "bob", "cyd")])
    settle(clock)
    subscribe(destination, "segment_left", segment=a_segment(acme, PAYS, scope="user"))
    settle(clock)
    assert WatchedMember.objects.count() == 3
    tell(acme, alias("ann", "bob", hours=1))
    forgetting.forget(SubjectRef(acme.pk, SubjectScope.USER, "cyd"), clock.now)
    settle(clock)
    assert outbox_texts() == []
    assert WatchedMember.objects.count() == 1


def test_forgetting_deletes_what_names_the_subject(
    acme: Product,
    destination: Destination,
    paying: Segment,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subscribe(destination, segment=paying)
    settle(clock)
    pay(acme, clock, "account 1", "account 2")
    monkeypatch.setattr(outbox, "MAX_MESSAGES", 1)
    pay(acme, clock, "account 3", "account 4")
    for message in OutboxMessage.objects.all():
        Delivery.objects.create(
            product=acme,
            message=message,
            attempted_at=clock.now,
            outcome=Delivery.Outcome.REFUSED,
            seconds=1,
            response=str(message.payload),
        )
    for account in ("account 1", "account 3"):
        forgetting.forget(SubjectRef(acme.pk, SubjectScope.ACCOUNT, account), clock.now)
    assert outbox_texts() == ["account 2 entered Paying."]
    assert Delivery.objects.count() == 1


def test_what_is_old_and_what_lost_its_owner_is_deleted(
    acme: Product, destination: Destination, paying: Segment, clock: Clock
) -> None:
    subscription = subscribe(destination, segment=paying)
    settle(clock)
    pay(acme, clock, "account 1")
    retention.maintain(clock.now)
    assert OutboxMessage.objects.count() == WatchedMember.objects.count() == 1
    retention.maintain(clock.now + timedelta(days=31))
    assert not OutboxMessage.objects.exists()
    pay(acme, clock, "account 2")
    subscription.watch.delete()  # type: ignore[union-attr]
    Destination.objects.all().delete()
    retention.maintain(clock.now)
    assert not OutboxMessage.objects.exists() and not WatchedMember.objects.exists()


# --- Conditions of the product ------------------------------------------------------------------


def test_a_connection_that_needs_credentials_is_told_until_it_has_them(
    acme: Product, destination: Destination, clock: Clock
) -> None:
    subscribe(destination, "connection_needs_authentication")
    connection = a_connection(acme)
    sweep(clock.step(70))
    assert outbox_texts() == []
    set_connection(connection, state=Connection.State.REQUIRES_AUTHENTICATION)
    sweep(clock.step(70))
    sweep(clock.step(70))
    assert outbox_texts() == ["Acme: The marketplace connection needs new credentials."]
    set_connection(connection, state=Connection.State.ACTIVE)
    sweep(clock.step(70))
    assert outbox_texts()[1:] == ["Acme: Resolved: marketplace connection needs new credentials."]
    link = OutboxMessage.objects.order_by("pk")[0].payload["data"]["link"]
    assert link.endswith(f"/admin/marketplace/connection/{connection.pk}/change/")


def set_connection(connection: Connection, **fields: Any) -> None:
    Connection.objects.filter(pk=connection.pk).update(**fields)


def test_tokens_that_expire_and_syncs_that_fail_are_told(
    acme: Product, destination: Destination, clock: Clock
) -> None:
    connection = a_connection(acme, token_expires_on=clock.now.date() + timedelta(days=40))
    subscribe(destination, "token_expiring", threshold=30)
    subscribe(destination, "sync_failed")
    sweep(clock.step(70))
    assert outbox_texts() == []
    clock.now += timedelta(days=11)
    set_connection(connection, last_error="It is unavailable.", last_error_at=clock.now)
    sweep(clock.step(70))
    expires = connection.token_expires_on
    assert sorted(outbox_texts()) == [
        f"Acme: The API token of the marketplace connection expires on {expires}.",
        "Acme: The last license sync failed. It is unavailable.",
    ]


def test_each_key_and_token_that_expires_is_told(
    acme: Product, globex: Product, destination: Destination, clock: Clock
) -> None:
    def until(days: int) -> dict[str, Any]:
        return {"expires_at": clock.now + timedelta(days=days)}

    subscribe(destination, "credential_expiring", threshold=30)
    for product in (acme, globex):
        ApiToken.create(product, "nightly", **until(40))
    IngestionKey.create(acme, "app", **until(41))
    IngestionKey.create(acme, "revoked", **until(35), revoked_at=clock.now)
    IngestionKey.create(acme, "for ever")
    sweep(clock.step(70))
    assert outbox_texts() == []
    clock.now += timedelta(days=10)
    sweep(clock.step(70))
    sweep(clock.step(70))
    token = ApiToken.objects.get(product=acme)
    on = clock.now.date() + timedelta(days=30)
    assert outbox_texts() == [f"Acme: The read token nightly ({token.hint}…) expires on {on}."]
    data = OutboxMessage.objects.get().payload["data"]
    assert data["link"].endswith(f"/admin/readapi/apitoken/{token.pk}/change/")
    assert token.secret not in str(OutboxMessage.objects.values_list("payload"))
    # The next one is told of although the first still holds, and their ends are no news.
    clock.now += timedelta(days=1)
    sweep(clock.step(70))
    assert [message.split("(")[0] for message in outbox_texts()[1:]] == [
        "Acme: The ingestion key app "
    ]
    clock.now += timedelta(days=40)
    sweep(clock.step(70))
    assert len(outbox_texts()) == 2


def test_quarantine_drops_and_an_old_inbox_are_told(
    acme: Product, destination: Destination, clock: Clock, acme_key: str
) -> None:
    subscribe(destination, "quarantine", threshold=2)
    subscribe(destination, "drops_rate", threshold=10)
    subscribe(destination, "refused_rate", threshold=10)
    subscribe(destination, "inbox_old", threshold=5)
    sweep(clock.step(70))
    assert outbox_texts() == []
    from tests.pipeline.waiting import wait

    wait(acme_key, track("ann"))
    from ingestion.models import InboxMessage

    InboxMessage.objects.update(received_at=clock.now - timedelta(minutes=7))
    for number in (1, 2):
        QuarantinedMessage.objects.create(
            id=number,
            product=acme,
            received_at=clock.now,
            key_digest=b"",
            payload=b"",
            attempts=5,
            error="",
            quarantined_at=clock.now,
        )
    hour = clock.now.replace(minute=0, second=0)
    for reason, count in (("", 80), ("unusable_message", 20), ("duplicate", 500)):
        HourCount.objects.create(product=acme, hour=hour, reason=reason, count=count)
    RefusedCount.objects.create(product=acme, hour=hour, code="invalid_json", count=200)
    sweep(clock.step(70))
    assert sorted(outbox_texts()) == [
        "Acme: Dropped 20 of 100 messages since 11:00 UTC (20.0%).",
        "Acme: Messages in quarantine: 2.",
        "Acme: Refused requests since 11:00 UTC: 200 (25.0%).",
        "Acme: The oldest message has waited in the inbox for 8 minutes.",
    ]


def test_an_inbox_that_nobody_can_look_through_is_not_called_resolved(
    acme: Product,
    destination: Destination,
    clock: Clock,
    acme_key: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is full of the messages of others, and the search for this product's was cut off."""
    subscribe(destination, "inbox_old", threshold=5)
    from ingestion.log import last_24h
    from ingestion.models import InboxMessage
    from tests.pipeline.waiting import wait

    wait(acme_key, track("ann"))
    InboxMessage.objects.update(received_at=clock.now - timedelta(minutes=7))
    sweep(clock.step(70))
    old = "Acme: The oldest message has waited in the inbox for 8 minutes."
    assert outbox_texts() == [old]
    with monkeypatch.context() as patch:

        def cut_off(*arguments: object) -> None:
            raise sql.StatementTimeout

        patch.setattr(last_24h, "oldest_waiting", cut_off)
        sweep(clock.step(70))
    assert outbox_texts() == [old]
    # What was counted before is too many to count now, but one message is enough.
    with monkeypatch.context() as patch:
        patch.setattr(last_24h, "load_backlogs", cut_off)
        sweep(clock.step(70))
    assert outbox_texts() == [old]
    InboxMessage.objects.all().delete()
    sweep(clock.step(70))
    assert outbox_texts() == [old, "Acme: Resolved: messages wait in the inbox."]


def test_a_fall_of_the_whole_product_and_a_silent_sender_are_told_until_they_end(
    acme: Product, destination: Destination, clock: Clock
) -> None:
    workspace = acme.workspaces.get()
    subscribe(destination, "product_falling")
    subscribe(destination, "sender_silent")
    sweep(clock.step(70))
    assert outbox_texts() == []
    yesterday = clock.now.date() - timedelta(days=1)
    add_nights(workspace, [*a_fall(20)[:-1], 3], yesterday)
    sweep(clock.step(70))
    sweep(clock.step(70))
    falls, silent = sorted(outbox_texts())[::-1]
    assert falls.startswith("Acme: The whole product is used less: ")
    assert silent.startswith("Acme: The sender may be silent: 3 active user-days on 2026-09-23.")
    data = OutboxMessage.objects.get(title=falls).payload["data"]
    assert data["day"] == "2026-09-23" and data["observed"] < 0.9 * data["expected"]
    assert data["link"].endswith(f"/admin/?workspace={workspace.pk}")
    # Without new nights nobody can say that it is over.
    clock.now += timedelta(days=4)
    sweep(clock.step(70))
    assert len(outbox_texts()) == 2
    AlarmNight.objects.all().delete()
    add_nights(workspace, a_fall(560), clock.now.date() - timedelta(days=1))
    sweep(clock.step(70))
    assert sorted(outbox_texts()[2:]) == [
        "Acme: Resolved: the sender is silent.",
        "Acme: Resolved: the whole product is used less.",
    ]


def test_a_forecast_that_falls_is_told_until_it_recovers(
    acme: Product, destination: Destination, clock: Clock
) -> None:
    workspace = acme.workspaces.get()
    subscribe(destination, "forecast_falling", threshold=20)
    rescore(clock.now)
    sweep(clock.step(70))
    later = month_after(clock.now.date(), 1)
    terms = [Planted(name, later, 0.9, seats=100) for name in "ab"]
    for chances, number in (((0.9, 0.9), 0), ((0.9, 0.7), 0), ((0.5, 0.7), 1), ((0.9, 0.8), 2)):
        clock.now += timedelta(hours=1)
        planted = [replace(term, chance=own) for term, own in zip(terms, chances, strict=True)]
        plant(acme, planted, clock.now.date())
        ChanceLook.objects.update(looked_at=clock.now)
        forecasts.request_due(clock.now)
        run_due(QUEUE, lambda: clock.now)
        sweep(clock.step(70))
        assert len(outbox_texts()) == number, chances
    falls, over = outbox_texts()
    assert falls == (
        "Acme: Of the renewals of the next three months, 120 seats are expected. When the month "
        "began, it was 180."
    )
    assert over == "Acme: Resolved: the forecast of renewals falls."
    data = OutboxMessage.objects.get(title=falls).payload["data"]
    assert (data["measure"], data["expected"], data["expected_before"]) == ("seats", 120, 180)
    assert data["link"].endswith(f"/admin/engagement/workspace/{workspace.pk}/forecast/")


# --- Activation -------------------------------------------------------------------------------


def test_who_is_activated_or_gets_stuck_is_told_once(
    acme: Product, destination: Destination, clock: Clock
) -> None:
    tell(acme, group_at(clock, "initech"), group_at(clock, "hooli"))
    tell(acme, identify("ann", group="initech"), identify("bob", group="hooli"))
    settle(clock)
    workspace = acme.workspaces.select_related("scores").get()
    activation.request(workspace, "account", [Step("Open", "event", "opened", within_days=3)])
    settle(clock)
    for trigger in ("activated", "activation_stuck"):
        subscribe(destination, trigger, workspace=workspace, scope="account")
    settle(clock)
    tell(acme, *track_at(clock, "ann"))
    settle(clock)
    assert outbox_texts() == ["initech did all steps of activation."]
    # A day alone makes it too late.
    clock.now += timedelta(days=4)
    settle(clock)
    assert outbox_texts()[1:] == ["hooli got stuck at a step of activation."]
    # Edited steps are no news of anybody.
    activation.request(workspace, "account", [Step("Save", "event", "saved", within_days=3)])
    settle(clock)
    settle(clock)
    assert len(outbox_texts()) == 2
