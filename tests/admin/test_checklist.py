"""A new product has a checklist on its overview, whose steps are proven by its data."""

from typing import Any

from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from access.logins import invites
from access.pages.scoping import Access, ProductSet
from console.dashboard import checklist, home
from console.dashboard.checklist import Step
from engagement.models import EventName, EventWeight, Product
from ingestion.models import IngestionKey
from marketplace.models import Connection
from notifications.models import Digest, Subscription
from tests.admin.rows import NOON, Rows
from tests.admin.test_home import EVERYTHING, page, text
from tests.admin.test_matching import HOSTS, SITES, add_site, send_as

NOBODY = Access(*[ProductSet()] * 3)
SEND, IDENTIFY, SCORE, WEIGH, CONNECT, INVITE, NOTIFY = (
    *("Send a message", "Identify users with their groups", "See a score", "Weigh the events"),
    *("Connect the marketplace", "Invite your team", "Be notified"),
)


def steps(product: Product, access: Access = EVERYTHING) -> dict[str, Step]:
    (summary,) = home.product_summaries([product], NOON, is_overview=True)
    return {step.title: step for step in checklist.find_steps(summary, access, timezone.now())}


def proof(product: Product, title: str) -> tuple[bool, str]:
    step = steps(product)[title]
    return step.is_done, step.proof


def test_of_an_empty_product_nothing_is_done_and_each_step_says_why(acme: Product) -> None:
    assert {title: (step.is_done, step.proof) for title, step in steps(acme).items()} == {
        SEND: (False, "No messages yet."),
        IDENTIFY: (
            False,
            "No user belongs to a group yet: send a groupId with identify, or a userId with group.",
        ),
        SCORE: (False, "No account has a score yet."),
        WEIGH: (False, "no events; no weights chosen. Any other event weighs 1."),
        CONNECT: (False, "Not connected."),
        INVITE: (False, "no logins, no open invites."),
        NOTIFY: (False, "no notifications, no digests."),
    }


def test_groups_are_proven_by_their_form_and_their_licenses(acme_rows: Rows) -> None:
    acme = acme_rows.product
    for number in range(4):
        add_site(acme, number)
    for number in range(3):
        send_as(acme, SITES[number])
    assert proof(acme, IDENTIFY) == (
        True,
        "3 groups have users. 3 of 3 groups look like Cloud IDs; 0 do not match any license.",
    )
    for number in range(9):
        send_as(acme, f"group-{number}")
    is_done, sentence = proof(acme, IDENTIFY)
    assert not is_done
    assert sentence == (
        "12 groups have users. 3 of 12 groups look like Cloud IDs; 9 do not match any license."
    )
    # Without a connection, any id will do.
    Connection.objects.all().delete()
    assert proof(acme, IDENTIFY) == (
        True,
        "12 groups have users. 3 of 12 groups look like Cloud IDs.",
    )


def test_the_other_steps_are_proven_by_rows(acme_rows: Rows) -> None:
    acme = acme_rows.product
    add_site(acme, 0)
    assert proof(acme, WEIGH) == (True, "1 event; 1 weight chosen. Any other event weighs 1.")
    assert proof(acme, CONNECT) == (True, "1 license of acme lens.")
    assert proof(acme, NOTIFY) == (True, "1 notification, 1 digest.")
    assert proof(acme, SCORE)[0]
    EventWeight.objects.all().delete()
    Connection.objects.update(last_success_at=None)
    Subscription.objects.all().delete()
    Digest.objects.all().delete()
    assert proof(acme, WEIGH) == (False, "1 event; no weights chosen. Any other event weighs 1.")
    assert proof(acme, CONNECT) == (False, "Connected to acme lens; no sync yet.")
    assert not proof(acme, NOTIFY)[0]


def test_an_invite_or_a_second_login_is_a_team(member: Client, acme: Product) -> None:
    assert proof(acme, INVITE) == (False, "1 login, no open invites.")
    maya = AdminUser.objects.get(username="maya")
    invites.create(maya, timezone.now(), product=acme)
    assert proof(acme, INVITE) == (True, "1 login, 1 open invite.")
    acme.invites.all().delete()
    AdminUser.objects.create_superuser("root")
    assert proof(acme, INVITE) == (True, "2 logins, no open invites.")


def test_counts_are_bounded(acme: Product, monkeypatch: Any) -> None:
    monkeypatch.setattr(checklist, "MAX_COUNTED", 2)
    EventName.objects.bulk_create(EventName(product=acme, name=f"E{n}") for n in range(3))
    assert proof(acme, WEIGH)[1].startswith("more than 2 events;")


def test_only_who_may_do_a_step_gets_its_link(acme: Product) -> None:
    for_managers = {INVITE, CONNECT, NOTIFY}
    assert {title for title, step in steps(acme, NOBODY).items() if not step.link} == for_managers
    assert all(step.link for step in steps(acme).values())


def test_the_checklist_goes_when_all_is_done(acme_rows: Rows) -> None:
    acme = acme_rows.product
    assert not all(step.is_done for step in steps(acme).values())
    add_site(acme, 0)
    send_as(acme, SITES[0])
    for name in ("ada", "bob"):
        AdminUser.objects.create_superuser(name)
    assert steps(acme) == {}


def test_a_manager_dismisses_the_checklist(member: Client, acme: Product) -> None:
    html = page(member)
    assert "Set up Acme" in text(html) and "0 of 7 done" in text(html)
    dismiss = reverse("admin:engagement_product_dismiss_checklist", args=[acme.pk])
    assert f'action="{dismiss}"' in html
    after = member.post(dismiss, follow=True).content.decode()
    assert "Set up Acme" not in after and "No messages yet." in text(after)


def test_a_viewer_cannot_dismiss_the_checklist(reader: Client, acme: Product) -> None:
    html = page(reader)
    assert "Set up Acme" in text(html) and "Dismiss" not in html


def test_an_overview_with_a_host_instead_of_a_cloud_id_links_to_the_report(
    reader: Client, acme_rows: Rows
) -> None:
    add_site(acme_rows.product, 0)
    send_as(acme_rows.product, HOSTS[0])
    html = page(reader)
    assert "0 of 1 groups look like Cloud IDs; 1 does not match any license." in html
    assert f"{reverse('admin:licenses_matching')}?product={acme_rows.product.pk}" in html


def test_a_product_beside_others_has_no_checklist(root: Client, acme: Product) -> None:
    Product.create_with_workspace("Globex")
    IngestionKey.create(acme, "web")
    html = page(root)
    assert "Set up" not in html and html.count("No messages yet.") == 2
