"""Notifications that go to the owner of the account, and to the destination for all others."""

import pytest
from django.contrib.auth.models import User as AdminUser
from pytest_django import Settings

from access.logins import addresses
from access.trail.entries import COMMAND_LINE
from access.work import accounts
from engagement.models import Account, Product, ProductMember
from notifications.models import Destination, OutboxMessage
from tests.engagement.history import group, tell
from tests.notifications.rows import Clock, a_destination, a_segment, settle, subscribe

pytestmark = pytest.mark.django_db

PAYS = {"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"}


@pytest.fixture
def world(acme: Product, clock: Clock, settings: Settings) -> Destination:
    """Accounts of Dana, of Eve, whose address nobody has proven, and of nobody."""
    settings.HAS_EMAIL = True
    names = ("of dana", "of eve", "of nobody")
    tell(acme, *(group(name, name=name.title()) for name in names))
    destination: Destination = a_destination(acme)
    subscribe(destination, segment=a_segment(acme, PAYS), to_owner=True)
    settle(clock)
    for name in ("dana", "eve"):
        login = AdminUser.objects.create_user(name, f"{name}@acme.example")
        ProductMember.objects.create(product=acme, user=login)
        account = Account.objects.get(external_id=f"of {name}")
        accounts.choose_owner(acme.pk, [account.pk], name, COMMAND_LINE)
    dana = AdminUser.objects.get(username="dana")
    addresses.prove(dana, dana.email)
    return destination


def enter(product: Product, clock: Clock, hours: float, plan: str = "pro") -> None:
    names = ("of dana", "of eve", "of nobody")
    tell(product, *(group(name, hours=hours, plan=plan) for name in names))
    settle(clock)


def recipients() -> dict[str, str]:
    rows = OutboxMessage.objects.select_related("destination__owner")
    return {row.external_id: getattr(row.destination.owner, "username", "CRM") for row in rows}


def test_an_owner_with_a_proven_address_is_told_instead(
    acme: Product, world: Destination, clock: Clock
) -> None:
    enter(acme, clock, 1)
    assert recipients() == {"of dana": "dana", "of eve": "CRM", "of nobody": "CRM"}
    own = Destination.objects.defer(None).get(owner__username="dana")
    assert (own.address, own.state) == ("dana@acme.example", Destination.State.ACTIVE)
    assert own.site_url == world.site_url


def test_a_later_message_leaves_what_deliveries_write_alone(
    acme: Product, world: Destination, clock: Clock
) -> None:
    enter(acme, clock, 1)
    own = Destination.objects.filter(owner__username="dana")
    own.update(failures=3, leased_until=clock.now)
    OutboxMessage.objects.all().delete()
    enter(acme, clock, 2, "free")
    enter(acme, clock, 3)
    assert recipients()["of dana"] == "dana"
    assert (own.get().failures, own.get().leased_until is None) == (3, False)


def test_who_left_the_product_is_told_nothing(
    acme: Product, world: Destination, clock: Clock
) -> None:
    ProductMember.objects.filter(user__username="dana").delete()
    enter(acme, clock, 1)
    assert set(recipients().values()) == {"CRM"}


def test_without_a_mail_server_the_destination_is_told(
    acme: Product, world: Destination, clock: Clock, settings: Settings
) -> None:
    settings.HAS_EMAIL = False
    enter(acme, clock, 1)
    assert set(recipients().values()) == {"CRM"}
