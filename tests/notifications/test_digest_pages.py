"""A member makes a digest of their own in three clicks, and managers change all of a product."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from access.logins import addresses
from engagement.models import Product, ProductMember, SavedView, ScoreSet, Segment, Workspace
from notifications.digests import writing
from notifications.models import Destination, Digest, DigestIssue
from tests.engagement.conftest import scores
from tests.engagement.rows import account, user
from tests.notifications.rows import a_destination

__all__ = ["scores"]

pytestmark = pytest.mark.django_db

ADD, LIST = "admin:notifications_digest_add", "admin:notifications_digest_changelist"


@pytest.fixture(autouse=True)
def with_a_mail_server(settings: Settings) -> None:
    settings.HAS_EMAIL = True


def person(product: Product, name: str, role: ProductMember.Role) -> Client:
    login = AdminUser.objects.create_user(name, f"{name}@acme.test", is_staff=True)
    addresses.prove(login, login.email)
    ProductMember.objects.create(product=product, user=login, role=role)
    client = Client()
    client.force_login(login)
    return client


@pytest.fixture
def ada(acme: Product) -> Client:
    return person(acme, "ada", ProductMember.Role.VIEWER)


@pytest.fixture
def maya(acme: Product) -> Client:
    return person(acme, "maya", ProductMember.Role.MANAGER)


def form(scores: ScoreSet, **fields: Any) -> dict[str, Any]:
    values = {
        "workspace": scores.workspace_id,
        "source": "",
        "cadence": "week",
        "weekday": 0,
        "hour": 8,
        "time_zone": "Europe/Berlin",
        "receiver": "own",
    }
    return {**values, **fields}


def test_a_viewer_gets_a_digest_of_their_own_in_two_clicks(ada: Client, scores: ScoreSet) -> None:
    account(scores, "initech", created_at=timezone.now().replace(year=2026, month=9, day=22))
    user(scores, "ann")
    (card,) = ada.get(reverse("admin:index")).context["cards"]
    # The first click: "Get this by email or chat".
    page = ada.get(card.digest_url)
    html = page.content.decode()
    assert "You (ada@acme.test)" in html and "1 account is new." in html
    initial = page.context["adminform"].form
    assert (initial["hour"].value(), initial["receiver"].value()) == (8, "own")
    # The second one: "Save".
    answer = ada.post(card.digest_url, form(scores), follow=True)
    assert "Mondays at 08:00 (Europe/Berlin)" in answer.content.decode()
    digest = Digest.objects.get()
    assert digest.owner_id == digest.destination.owner_id is not None
    assert digest.destination.state == "active" and mail.outbox == []
    # It begins with the next week.
    assert DigestIssue.objects.get().message_id == "" and writing.due(timezone.now()) == []
    preview = ada.get(reverse("admin:notifications_digest_preview", args=[digest.pk]))
    assert preview.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "1 account is new." in preview.content.decode()


def test_an_address_that_nobody_has_proven_gets_a_link_first(ada: Client, scores: ScoreSet) -> None:
    AdminUser.objects.filter(username="ada").update(email="new@acme.test")
    text = ada.post(reverse(ADD), form(scores), follow=True).content.decode()
    assert "Open the link that was sent to n…@acme.test to begin." in text
    assert Destination.objects.get().state == "unverified"
    assert mail.outbox[0].to == ["new@acme.test"]
    AdminUser.objects.filter(username="ada").update(email="")
    assert "has no email address" in ada.post(reverse(ADD), form(scores)).content.decode()


def test_segments_and_views_are_offered_and_no_others(
    ada: Client, scores: ScoreSet, globex: Product
) -> None:
    own, theirs = (
        Segment.objects.create(workspace=product.workspaces.get(), scope="account", name=name)
        for product, name in ((scores.product, "Ours"), (globex, "Theirs"))
    )
    maya = AdminUser.objects.create_user("somebody")
    views = [
        SavedView.objects.create(
            product=scores.product,
            workspace=scores.workspace,
            scope=scope,
            owner=owner,
            name=f"{scope} view of {owner}",
            sort="-score",
        )
        for scope, owner in (("account", None), ("account", maya), ("user", None))
    ]
    url = f"{reverse(ADD)}?workspace={scores.workspace_id}"
    html = ada.get(url).content.decode()
    assert "Ours" in html and "account view of None" in html
    assert "Theirs" not in html and "somebody" not in html and "user view" not in html
    for source in (f"segment:{theirs.pk}", f"view:{views[1].pk}", f"view:{views[2].pk}", "view:x"):
        answer = ada.post(reverse(ADD), form(scores, source=source))
        assert "Select a valid choice" in answer.content.decode(), source
    for invalid in ({"hour": 24}, {"time_zone": "Mars/Base"}, {"weekday": 7}, {"receiver": "x"}):
        assert (
            "Select a valid choice"
            in ada.post(reverse(ADD), form(scores, **invalid)).content.decode()
        )
    other = form(scores, workspace=globex.workspaces.get().pk)
    assert "Select a valid choice" in ada.post(reverse(ADD), other).content.decode()
    assert not Digest.objects.exists()
    ada.post(reverse(ADD), form(scores, source=f"segment:{own.pk}"))
    assert Digest.objects.get().segment == own


def test_only_managers_send_digests_to_channels_and_change_those_of_others(
    ada: Client, maya: Client, scores: ScoreSet
) -> None:
    channel = a_destination(scores.product, kind="slack", name="CS channel")
    hook = a_destination(scores.product, name="Hook")
    to_channel = form(scores, receiver=channel.pk)
    assert "Select a valid choice" in ada.post(reverse(ADD), to_channel).content.decode()
    assert maya.post(reverse(ADD), form(scores, receiver=hook.pk)).status_code == 200
    maya.post(reverse(ADD), to_channel)
    of_channel = Digest.objects.get()
    ada.post(reverse(ADD), form(scores))
    own = Digest.objects.exclude(pk=of_channel.pk).get()
    pages = {
        digest.pk: reverse("admin:notifications_digest_change", args=[digest.pk])
        for digest in (of_channel, own)
    }
    html = ada.get(pages[of_channel.pk]).content.decode()
    assert "CS channel" in html and 'name="hour"' not in html
    off = {**form(scores), "workspace": ""}
    assert ada.post(pages[of_channel.pk], off).status_code == 403
    # Of ada's own, ada and the manager change everything, and it still goes to ada.
    for who, hour in ((ada, 9), (maya, 10)):
        assert who.post(pages[own.pk], {**off, "hour": hour, "is_enabled": "on"}).status_code == 302
        own.refresh_from_db()
        assert own.hour == hour and own.destination.address_hint == "a…@acme.test"
    assert ada.post(pages[own.pk], off).status_code == 302
    own.refresh_from_db()
    assert not own.is_enabled
    listed = maya.get(reverse(LIST), {"product__id__exact": scores.product_id}).content.decode()
    assert "CS channel" in listed and "ada" in listed and "Off" in listed


def test_an_address_of_a_login_is_no_destination_of_subscriptions(
    ada: Client, maya: Client, scores: ScoreSet
) -> None:
    ada.post(reverse(ADD), form(scores))
    url = reverse("admin:notifications_subscription_add")
    query: dict[str, Any] = {"workspace": scores.workspace_id, "trigger": "account_first_event"}
    assert "Digests of login" not in maya.get(url, query).content.decode()


def test_one_page_has_the_workspace_and_shows_what_the_digest_would_say(
    ada: Client, scores: ScoreSet
) -> None:
    account(scores, "initech", created_at=timezone.now().replace(year=2026, month=9, day=22))
    # With one workspace there is nothing to ask.
    page = ada.get(reverse(ADD)).content.decode()
    assert 'type="hidden" name="workspace"' in page and "1 account is new." in page
    other = Workspace.objects.create(product=scores.product, name="Sandbox")
    page = ada.get(reverse(ADD), {"product__id__exact": scores.product_id}).content.decode()
    assert re.search(r'<select name="workspace"[^>]* data-reload', page) and "Sandbox" in page
    # What follows from a choice is shown before anything is saved.
    segment = Segment.objects.create(
        workspace=scores.workspace,
        scope="account",
        name="Nobody",
        conditions=[{"kind": "trait", "trait": "x", "operator": "is_set"}],
    )
    choice = form(scores, source=f"segment:{segment.pk}", _reload="1", cadence="day")
    page = ada.post(reverse(ADD), choice).content.decode()
    assert "1 account is new." not in page and "A quiet day" in page
    choice = form(scores, workspace=other.pk, _reload="1")
    assert "has no scores yet" in ada.post(reverse(ADD), choice).content.decode()
    assert not Digest.objects.exists()
    Workspace.objects.all().delete()
    assert "there are no workspaces yet" in ada.get(reverse(ADD)).content.decode()
