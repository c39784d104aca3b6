"""A superuser parts an id from a user: the preview, the progress, and the trail."""

import pytest
from django.test import Client
from django.urls import reverse

from access.models import TrailEntry
from engagement.models import PartRequest, Product, User
from engagement.recording import parting
from engagement.recording.jobs import MOVE_PARTED, REATTRIBUTE
from tests.engagement.history import NOON, alias, identify, tell, track
from tests.jobs import run_job, step_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada(acme: Product) -> User:
    tell(acme, identify("ada", group="initech"), track("ada"))
    tell(acme, *(track("kiosk", f"event {n}", group="hooli") for n in range(3)))
    tell(acme, alias("kiosk", "ada"), alias("ada", "ada lovelace", 1))
    return User.objects.get(external_id="ada lovelace")


def address(user: User, name: str = "part") -> str:
    return reverse(f"admin:engagement_user_{name}", args=[user.pk])


def test_the_page_says_what_would_leave(root: Client, ada: User) -> None:
    assert address(ada) in root.get(address(ada, "change")).content.decode()
    assert "Show what moves" in root.get(address(ada)).content.decode()
    page = root.get(address(ada), {"id": "kiosk"})
    # Its memberships are at one time and in one account.
    assert page.context["leaving"] == [(("kiosk", ["kiosk"]), 3, 1)]
    assert "come apart" not in page.content.decode()
    page = root.get(address(ada), {"id": "ada"})
    assert [each.part.ids for each in page.context["leaving"]] == [["ada"], ["kiosk"]]
    assert "Only ada held the others together" in page.content.decode()
    assert not PartRequest.objects.exists()


def test_it_parts_shows_the_progress_and_leaves_a_trail(
    root: Client, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parting, "ROWS_PER_STEP", 2)
    answer = root.post(address(ada), {"id": "kiosk"}, follow=True)
    assert [str(each) for each in answer.context["messages"]] == [
        "kiosk is a user of its own. 3 events move there in the background."
    ]
    assert answer.context["progress"].startswith("An id is being parted: 0 of 3 events have moved")
    step_job(MOVE_PARTED, NOON)
    kiosk = User.objects.get(external_id="kiosk")
    for user in (ada, kiosk):
        page = root.get(address(user, "change"))
        assert "2 of 3 events have moved" in page.context["progress"]
    run_job(MOVE_PARTED, NOON)
    run_job(REATTRIBUTE, NOON)
    assert not root.get(address(ada, "change")).context["progress"]
    entry = TrailEntry.objects.get(kind="user")
    assert (entry.note, entry.object_id, entry.object_name) == (
        "Parted an id: new users 1, moved events 3.",
        str(ada.pk),
        "",
    )


def test_an_id_that_is_not_the_users_changes_nothing(root: Client, ada: User) -> None:
    answer = root.post(address(ada), {"id": "somebody"}, follow=True)
    (text,) = map(str, answer.context["messages"])
    assert "no other id with this name" in text
    assert root.get(address(ada), {"id": "somebody"}).context["leaving"] == []
    assert not PartRequest.objects.exists()


def test_only_superusers_part_ids(member: Client, reader: Client, ada: User) -> None:
    for who in (member, reader):
        assert address(ada) not in who.get(address(ada, "change")).content.decode()
        assert who.get(address(ada)).status_code == 403
        assert who.post(address(ada), {"id": "kiosk"}).status_code == 403
    assert not PartRequest.objects.exists()
