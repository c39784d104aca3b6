"""Digests: written once for each period, readable without a login, ended by one click."""

import re
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.core import mail, signing
from django.test import Client
from django.urls import reverse

from access.logins import addresses
from engagement.models import Product, ProductMember, SavedView, ScoreSet, Segment, Workspace
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from notifications.delivery.deliver import deliver
from notifications.digests import content, links, writing
from notifications.digests.own import own_destination
from notifications.digests.rendering import render
from notifications.models import Destination, Digest, DigestIssue, OutboxMessage
from tests.admin.conftest import logged_in
from tests.cases import each, leaves_no_rows
from tests.engagement.alarms.rows import alarm
from tests.engagement.conftest import scores
from tests.engagement.rows import TODAY, account, moved
from tests.forks import survives
from tests.notifications.receiver import Receiver
from tests.notifications.rows import Clock, a_destination
from tests.notifications.test_kills import kill

__all__ = ["scores"]

pytestmark = pytest.mark.django_db

# Acme's scores are of Thursday, the 24th of September 2026.
MONDAY = datetime(2026, 9, 28, 6, tzinfo=UTC)
SITE = "https://eds.example.com"


@pytest.fixture
def login(acme: Product) -> AdminUser:
    ada = AdminUser.objects.create_user("ada", "Ada@acme.test", is_staff=True)
    ProductMember.objects.create(product=acme, user=ada, role=ProductMember.Role.VIEWER)
    addresses.prove(ada, ada.email)
    return ada


def a_digest(workspace: Workspace, destination: Destination, **fields: Any) -> Digest:
    values = {"hour": 8, "time_zone": "Europe/Berlin", **fields}
    return Digest.objects.create(
        product=workspace.product, workspace=workspace, destination=destination, **values
    )


def an_address(product: Product, **fields: Any) -> Any:
    values = {"name": "Team", "address_hint": "t…@acme.test", **fields}
    return a_destination(product, "team@acme.test", kind="email", signing_secrets="", **values)


@pytest.fixture
def digest(scores: ScoreSet) -> Digest:
    """Of Acme's workspace to its team, on Mondays at 8 in Berlin, which is 6 UTC."""
    return a_digest(scores.workspace, an_address(scores.product))


def days() -> list[date]:
    return list(DigestIssue.objects.order_by("day").values_list("day", flat=True))


# --- Once for each period ---------------------------------------------------------------------


def test_a_digest_is_written_at_its_hour_once(digest: Digest) -> None:
    assert writing.write_due(MONDAY - timedelta(minutes=1)) == 0
    assert writing.write_due(MONDAY) == 1
    assert writing.write_due(MONDAY) == writing.write_due(MONDAY + timedelta(hours=5)) == 0
    assert days() == [date(2026, 9, 28)]
    issue, message = DigestIssue.objects.get(), OutboxMessage.objects.get()
    assert issue.message_id == message.message_id
    assert (message.title, message.payload["type"]) == (
        "What changed in Acme this week",
        "digest.week",
    )


def test_a_clock_that_jumps_writes_nothing_twice(digest: Digest) -> None:
    week = timedelta(days=7)
    # Berlin's clocks change in October: 8 o'clock is 7 UTC then.
    later = MONDAY + 12 * week + timedelta(hours=1)
    for now in (MONDAY, later, MONDAY, MONDAY + week, MONDAY, later):
        writing.write_due(now)
    assert days() == [date(2026, 9, 28), date(2026, 10, 5), date(2026, 12, 21)]
    assert OutboxMessage.objects.count() == 3


def test_a_digest_missed_in_an_outage_is_sent_once_if_it_is_recent(digest: Digest) -> None:
    long_after = MONDAY + timedelta(weeks=12, days=2)
    assert writing.write_due(long_after) == 1
    assert writing.write_due(long_after + timedelta(days=2)) == 0
    OutboxMessage.objects.all().delete()
    DigestIssue.objects.all().delete()
    assert writing.write_due(long_after + timedelta(days=2)) == 0


def test_a_new_digest_begins_with_the_next_period(digest: Digest) -> None:
    wednesday = MONDAY + timedelta(days=2)
    writing.skip_present(digest, wednesday)
    assert writing.write_due(wednesday) == 0
    assert writing.write_due(MONDAY + timedelta(days=7)) == 1


def test_a_digest_that_waited_is_replaced_by_the_next_one(digest: Digest) -> None:
    for weeks in range(3):
        writing.write_due(MONDAY + timedelta(weeks=weeks))
    states = OutboxMessage.objects.order_by("pk").values_list("state", flat=True)
    assert list(states) == ["failed", "failed", "waiting"]


@each("reason", ["off", "unverified", "paused", "deletion", "no scores"])
@leaves_no_rows
def test_nothing_is_written_without_a_reader_or_scores(digest: Digest, reason: str) -> None:
    match reason:
        case "off":
            Digest.objects.update(is_enabled=False)
        case "unverified" | "paused":
            Destination.objects.update(state=reason)
        case "deletion":
            Product.objects.update(deletion_requested_at=MONDAY)
        case "no scores":
            Workspace.objects.update(scores=None)
    assert writing.write_due(MONDAY) == 0
    assert not DigestIssue.objects.exists() and not OutboxMessage.objects.exists()


def test_who_no_longer_sees_the_product_gets_no_digest_of_their_own(
    scores: ScoreSet, login: AdminUser
) -> None:
    own = own_destination(scores.product, login, SITE, MONDAY)
    digest = a_digest(scores.workspace, own, owner=login)
    assert writing.due(MONDAY) == [digest.pk]
    ProductMember.objects.all().delete()
    assert writing.due(MONDAY) == []
    login.is_superuser = True
    login.save()
    assert writing.due(MONDAY) == [digest.pk]
    login.is_active = False
    login.save()
    assert writing.due(MONDAY) == []
    # A channel's digest outlives who made it.
    Digest.objects.update(destination=an_address(scores.product))
    assert writing.due(MONDAY) == [digest.pk]


@pytest.mark.django_db(transaction=True)
def test_workers_that_die_write_each_period_once(digest: Digest) -> None:
    deaths = [(writing, "_issue"), (content, "build"), (writing, "_replace_waiting")]
    for module, name in deaths:
        with pytest.MonkeyPatch.context() as patch:
            kill(patch, module, name, after=True)
            assert not survives(lambda: writing.write_due(MONDAY))
        assert not DigestIssue.objects.exists() and not OutboxMessage.objects.exists()
    # Dead after the commit: what was written stays, and nobody writes it again.
    with pytest.MonkeyPatch.context() as patch:
        kill(patch, writing, "write", after=True)
        assert not survives(lambda: writing.write_due(MONDAY))
    assert writing.write_due(MONDAY) == 0
    assert OutboxMessage.objects.count() == DigestIssue.objects.count() == 1


# --- What it says -----------------------------------------------------------------------------


def plant(scores: ScoreSet) -> None:
    yesterday = TODAY - timedelta(days=1)
    initech = account(scores, "initech", traits={"name": "<b>Initech & Sons</b>"})
    alarm(initech, since=yesterday)
    long_ago = datetime(2025, 1, 1, tzinfo=UTC)
    moved(scores, "hooli", 60, 20, created_at=long_ago, traits={"name": "Hooli"})
    moved(scores, "globo", 10, 120, created_at=long_ago, traits={"name": "Globo\r\nBcc: x@y.z"})


class Links(HTMLParser):
    """The addresses that an email leads to, and whatever it would load."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.hrefs: list[str] = []
        self.loads: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "a":
            self.hrefs.append(values["href"] or "")
        if tag in ("img", "link", "script", "iframe") or "src" in values:
            self.loads.append(tag)
        assert "url(" not in (values.get("style") or "")


def only_email(digest: Digest, clock: Clock) -> Any:
    clock.now = MONDAY
    writing.write_due(clock.now)
    deliver(clock)
    (email,) = mail.outbox
    return email


def test_the_email_has_headers_for_one_click_and_reads_without_a_login_or_images(
    scores: ScoreSet, digest: Digest, clock: Clock
) -> None:
    plant(scores)
    email = only_email(digest, clock)
    assert email.to == ["team@acme.test"]
    assert email.subject == "What changed in Acme this week: 17 to 23 September"
    url = f"{SITE}{links.unsubscribe_path(digest.pk)}"
    headers = email.message()
    assert headers["List-Unsubscribe"] == f"<{url}>"
    assert headers["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    message = OutboxMessage.objects.get()
    assert headers["Message-ID"] == f"<{message.message_id}@eds.example.com>"
    assert "Bcc" not in headers and message.state == "delivered"
    ((html, kind),) = email.alternatives
    assert kind == "text/html" and "<b>Initech" not in html and "Initech &amp; Sons" in html
    page = Links(str(html))
    assert page.loads == [] and url in page.hrefs
    assert all(href.startswith(f"{SITE}/") for href in page.hrefs)
    for text in (email.body, str(html)):
        assert "1 alarm began." in text and "Hooli" in text and "+" in text
        assert "Mondays at 08:00 (Europe/Berlin)" in text


def test_a_quiet_week_is_one_sentence(scores: ScoreSet, digest: Digest, clock: Clock) -> None:
    email = only_email(digest, clock)
    assert "A quiet week: no alarm began or ended" in email.body
    assert "SEGMENTS" not in email.body and "\n\n\n\n" not in email.body


def test_the_digest_of_a_segment_is_about_its_members(scores: ScoreSet, digest: Digest) -> None:
    plant(scores)
    condition = {"kind": "trait", "trait": "name", "operator": "is", "value": "Hooli"}
    segment = Segment.objects.create(
        workspace=scores.workspace, scope="account", name="Hoolis", conditions=[condition]
    )
    Digest.objects.update(segment=segment, cadence="day")
    own = Digest.objects.select_related(*content.RELATED).get()
    text = render(content.build(own), SITE).text
    assert text.startswith("What changed in Hoolis yesterday\n23 September")
    assert "Hooli" in text and "Initech" not in text and "Every day at 08:00" in text


def test_the_digest_of_a_view_links_to_the_file_of_its_accounts(
    scores: ScoreSet, digest: Digest, login: AdminUser
) -> None:
    plant(scores)
    view = SavedView.objects.create(
        product=scores.product, workspace=scores.workspace, scope="account", name="Hoolis",
        sort="-score", filters={"trait.name": "Hooli"},
    )  # fmt: skip
    Digest.objects.update(view=view)
    own = Digest.objects.select_related(*content.RELATED).get()
    text = render(content.build(own), SITE).text
    (url,) = re.findall(f"as a file, for logins: {SITE}(.+)", text)
    assert Client().get(url).headers["Location"].startswith("/admin/login/")
    rows = b"".join(logged_in(login).get(url).streaming_content).decode()  # type: ignore[attr-defined]
    assert "Hooli" in rows and "Initech" not in rows


def test_chats_get_a_post_with_links(scores: ScoreSet, receiver: Receiver, clock: Clock) -> None:
    plant(scores)
    for kind in ("slack", "teams"):
        channel = a_destination(scores.product, receiver.url, kind=kind, name=kind)
        a_digest(scores.workspace, channel)
    clock.now = MONDAY
    assert writing.write_due(clock.now) == 2
    deliver(clock)
    posts = [each.body for each in receiver.received]
    slack, teams = sorted(posts, key=lambda body: b"AdaptiveCard" in body)
    assert b"*Scores that rose most (1)*" in slack and "• <https://".encode() in slack
    assert b"&lt;b&gt;Initech &amp; Sons" in slack
    assert b"**Scores that rose most" in teams and b"/admin/engagement/account/" in teams


# --- Unsubscribing ----------------------------------------------------------------------------


def test_get_shows_a_page_and_post_ends_the_digest(digest: Digest) -> None:
    nobody = Client(enforce_csrf_checks=True)
    path = links.unsubscribe_path(digest.pk)
    page = nobody.get(path)
    assert page.status_code == 200 and b"once a week" in page.content
    digest.refresh_from_db()
    assert digest.is_enabled
    # As a mail program does it: no cookie, no token of a form.
    answer = nobody.post(
        path, "List-Unsubscribe=One-Click", content_type="application/x-www-form-urlencoded"
    )
    assert answer.status_code == 200 and b"Unsubscribed" in answer.content
    (ended,) = Digest.objects.filter(is_enabled=False)
    assert ended.unsubscribed_at is not None
    assert nobody.post(path).status_code == 200
    assert writing.write_due(MONDAY) == 0


def test_a_made_up_link_and_one_of_a_deleted_digest_end_nothing(digest: Digest) -> None:
    good = links.unsubscribe_path(digest.pk)
    other_use = signing.Signer(salt="notifications.confirm").sign(str(digest.pk))
    for path in (f"{good}x", reverse("unsubscribe", args=[other_use])):
        assert Client().post(path).status_code == 404
    digest.refresh_from_db()
    assert digest.is_enabled
    digest.delete()
    assert Client().post(good).status_code == 404


# --- Forgetting and secrets -------------------------------------------------------------------


def test_a_forgotten_account_is_in_no_digest_that_waits_or_was_sent(
    scores: ScoreSet, digest: Digest, clock: Clock
) -> None:
    plant(scores)
    writing.write_due(MONDAY)
    message = OutboxMessage.objects.get()
    assert "hooli" in str(message.payload)
    forgetting.forget(SubjectRef(scores.product_id, SubjectScope.ACCOUNT, "hooli"), MONDAY)
    message.refresh_from_db()
    assert "hooli" not in str(message.payload).lower()
    clock.now = MONDAY
    deliver(clock)
    assert "Hooli" not in mail.outbox[0].body and "1 alarm began." in mail.outbox[0].body


def test_an_address_is_used_only_once_its_owner_has_proven_it(
    scores: ScoreSet, login: AdminUser
) -> None:
    own = own_destination(scores.product, login, SITE, MONDAY)
    assert (own.state, own.address_hint, own.kind) == ("active", "A…@acme.test", "email")
    assert own_destination(scores.product, login, SITE, MONDAY).pk == own.pk
    login.email = "eve@acme.test"
    login.save()
    changed = own_destination(scores.product, login, SITE, MONDAY)
    assert (changed.pk, changed.state, changed.verified_at) == (own.pk, "unverified", None)
    stored = Destination.objects.raw("SELECT id, address FROM notifications_destination")[0]
    assert "eve@" not in str(vars(stored).get("name"))
