"""Changes of chosen traits against a plain model, in any order and in any batches."""

from collections.abc import Sequence
from datetime import date, timedelta
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from pytest_django import Settings

from core.database import sql
from engagement.messages import Group, ReceivedMessage
from engagement.models import Product, TraitChange
from engagement.recording.record import record
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import deletion, forgetting, maintenance
from engagement.removal.jobs import DELETE_PRODUCT
from engagement.traits import Source
from tests.cases import scaled
from tests.engagement.history import NOON, at, group, identify, received, tell
from tests.jobs import run_job

pytestmark = pytest.mark.django_db

Rows = dict[tuple[str, str, date], tuple[str, str]]


def choose(product: Product, *names: str) -> None:
    Product.objects.filter(pk=product.pk).update(
        history_traits=dict.fromkeys(names, NOON.date().isoformat())
    )


@pytest.fixture
def choosing(acme: Product) -> Product:
    choose(acme, "status", "seats")
    return acme


def stored(product: Product) -> Rows:
    """The value and the one before it, by account, trait, and day."""
    changes = TraitChange.objects.filter(product=product)
    names = ("account__external_id", "name", "day", "value", "previous")
    return {row[:3]: row[3:] for row in changes.values_list(*names)}


def plain(messages: Sequence[ReceivedMessage], names: Sequence[str]) -> Rows:
    """The same, message by message in the order of arrival."""
    latest: dict[tuple[str, str], tuple[Any, Any]] = {}
    rows: Rows = {}
    for each in messages:
        message = each.message
        assert isinstance(message, Group)
        for name in names:
            if name not in message.traits:
                continue
            subject, stamp = (message.group_id, name), (message.timestamp, each.arrival)
            before, value = latest.get(subject), message.traits[name]
            if before and before[0] >= stamp:
                continue
            latest[subject] = stamp, value
            if (before and before[1]) != value:
                key = (*subject, message.timestamp.date())
                first = rows[key][1] if key in rows else text(before and before[1])
                rows[key] = text(value), first
    return rows


def text(value: Any) -> str:
    return "" if value is None else str(value)


def random_messages(product: Product, random: Random) -> list[ReceivedMessage]:
    messages = []
    for _ in range(random.randrange(2, 40)):
        traits: dict[str, Any] = {"other": random.random()}
        if random.random() < 0.8:
            traits["status"] = random.choice(["active", "paused", "churned", None])
        if random.random() < 0.5:
            traits["seats"] = random.choice([1, 2, 2.5])
        hours = random.randrange(-20, 20) * 5
        messages.append(group(random.choice("ab"), hours, random.choice([None, "u"]), **traits))
    return received(product, messages)


@pytest.mark.parametrize("seed", range(scaled(12)))
def test_changes_are_those_of_one_message_after_the_other(choosing: Product, seed: int) -> None:
    random = Random(seed)
    messages = random_messages(choosing, random)
    rest = list(messages)
    while rest:
        size = random.choice([1, 2, 30])
        record(rest[:size])
        del rest[:size]
    assert stored(choosing) == plain(messages, ["status", "seats"]) != {}


def test_a_message_that_arrives_late_invents_no_change(choosing: Product) -> None:
    tell(choosing, group("a", 0, status="active"))
    tell(choosing, group("a", -48, status="churned"), group("a", -24, status="active"))
    assert stored(choosing) == {("a", "status", NOON.date()): ("active", "")}
    tell(choosing, group("a", 1, status="active"), group("a", 30, plan="pro"))
    assert len(stored(choosing)) == 1, "the same value, and a trait that is not chosen"


def test_the_last_value_of_a_day_is_kept_with_the_one_before_the_day(choosing: Product) -> None:
    tell(choosing, group("a", -24, status="trial"))
    for hours, status in enumerate(["active", "paused", "churned"]):
        tell(choosing, group("a", hours, status=status))
    assert stored(choosing)["a", "status", NOON.date()] == ("churned", "trial")
    (change,) = TraitChange.objects.filter(day=NOON.date())
    assert change.at == at(2)


def test_only_traits_of_accounts_that_the_product_chose_are_noted(
    choosing: Product, globex: Product
) -> None:
    for product in (choosing, globex):
        tell(product, identify("u", status="active"), group("a", status="x" * 300, plan="pro"))
    assert stored(choosing) == {("a", "status", NOON.date()): ("x" * 200, "")}
    assert stored(globex) == {}
    choose(choosing, "plan")
    tell(choosing, group("a", 1, status="churned", plan="free"))
    assert stored(choosing)["a", "plan", NOON.date()] == ("free", "pro")
    assert stored(choosing)["a", "status", NOON.date()][0] == "x" * 200


def test_a_connections_value_changes_at_its_time(choosing: Product) -> None:
    choose(choosing, "am.status")
    for hours, status in ((0, "active"), (24, "inactive")):
        (message,) = received(choosing, [group("a", hours, **{"AM.Status": status})])
        record([replace(message, source=Source.MARKETPLACE)])
    assert stored(choosing) == {
        ("a", "am.status", NOON.date()): ("active", ""),
        ("a", "am.status", NOON.date() + timedelta(days=1)): ("inactive", "active"),
    }


def test_a_trait_without_room_has_no_change(
    choosing: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engagement.recording.trait_limits.MAX_TRAITS", 2)
    tell(choosing, group("a", one=1, two=2))
    tell(choosing, group("a", 1, status="active"))
    assert stored(choosing) == {}


def test_forgetting_and_deleting_take_the_changes_along(choosing: Product) -> None:
    tell(choosing, group("a", status="active"), group("b", status="active"))
    forgetting.forget(SubjectRef(choosing.pk, SubjectScope.ACCOUNT, "a"), NOON)
    assert {account for account, *_ in stored(choosing)} == {"b"}
    assert TraitChange.objects.count() == 1
    deletion.request_deletion(choosing.pk, NOON)
    run_job(DELETE_PRODUCT, NOON)
    assert not TraitChange.objects.exists()


def test_old_changes_are_deleted(choosing: Product, settings: Settings) -> None:
    settings.TRAIT_HISTORY_RETENTION_DAYS = 40
    tell(choosing, group("a", -24 * 41, status="active"), group("a", -24 * 39, status="paused"))
    choose(choosing)
    maintenance.maintain(NOON)
    assert [value for value, _ in stored(choosing).values()] == ["paused"]


def test_messages_without_traits_of_accounts_cost_no_statement(
    choosing: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []
    fetch = sql.fetch

    def noting(statement: Any, *arguments: Any, **options: Any) -> Any:
        statements.append(statement)
        return fetch(statement, *arguments, **options)

    monkeypatch.setattr(sql, "fetch", noting)
    tell(choosing, identify("u", group="a", status="active"))
    assert not any("history_traits" in statement for statement in statements)
    tell(choosing, group("a", status="active"))
    assert sum("history_traits" in statement for statement in statements) == 1
