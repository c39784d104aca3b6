"""Each page opens with the expected texts, and read-only pages change nothing."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from engagement import messages
from engagement.models import Membership, Product
from ingestion.models import DroppedMessage, DropReason, InboxMessage, IngestionKey
from tests.admin.rows import NOON, Rows, a_user, an_account, index_for_search, waiting

READ_ONLY = [
    "engagement_account",
    "engagement_user",
    "ingestion_inboxmessage",
    "ingestion_quarantinedmessage",
    "ingestion_droppedmessage",
    "ingestion_dropcount",
]
CREDENTIALS = ["ingestion_ingestionkey", "ingestion_forgetkey", "readapi_apitoken"]


def listing(name: str) -> str:
    return reverse(f"admin:{name}_changelist")


def page(name: str, pk: Any) -> str:
    return reverse(f"admin:{name}_change", args=[pk])


@pytest.mark.slow
def test_every_list_page_and_history_opens(root: Client, acme_rows: Rows) -> None:
    assert root.get(reverse("admin:index")).status_code == 200
    for name, pk in acme_rows.pages():
        for address in (
            listing(name),
            page(name, pk),
            reverse(f"admin:{name}_history", args=[pk]),
        ):
            answer = root.get(address, follow=True)
            assert answer.status_code == 200, address
            # A time says its zone, once.
            assert "UTC UTC" not in answer.content.decode(), address


def test_every_add_page_opens(root: Client, acme: Product) -> None:
    for name in ["engagement_product", "engagement_workspace", *CREDENTIALS]:
        answer = root.get(reverse(f"admin:{name}_add"), {"product": acme.pk})
        assert answer.status_code == 200


@pytest.mark.slow
def test_pages_have_no_inline_script_or_style(root: Client, acme_rows: Rows) -> None:
    for name, pk in acme_rows.pages():
        for address in (listing(name), page(name, pk)):
            html = root.get(address, follow=True).content.decode()
            assert "<style" not in html and " style=" not in html and " onclick=" not in html
            scripts = html.split("<script")[1:]
            assert all("src=" in script.split(">", 1)[0] for script in scripts), address


@pytest.mark.parametrize("name", READ_ONLY)
def test_what_is_to_look_at_cannot_be_added_changed_or_deleted(
    root: Client, acme_rows: Rows, name: str
) -> None:
    pk = dict(acme_rows.pages())[name]
    assert root.get(reverse(f"admin:{name}_add")).status_code == 403
    assert root.post(page(name, pk), {"external_id": "changed"}).status_code == 403
    assert root.post(reverse(f"admin:{name}_delete", args=[pk]), {"post": "yes"}).status_code == 403


def test_products_and_credentials_cannot_be_deleted(root: Client, acme_rows: Rows) -> None:
    for name in CREDENTIALS:
        address = reverse(f"admin:{name}_delete", args=[dict(acme_rows.pages())[name]])
        assert root.post(address, {"post": "yes"}).status_code == 403
    # Deleting a product asks for its name on a page of ours.
    address = reverse("admin:engagement_product_delete", args=[acme_rows.product.pk])
    assert root.post(address, {"post": "yes"}).status_code == 302
    acme_rows.product.refresh_from_db()
    assert acme_rows.product.deletion_requested_at is None


def test_a_product_made_here_has_its_default_workspace(root: Client) -> None:
    root.post(reverse("admin:engagement_product_add"), {"name": "Initech"})
    product = Product.objects.get(name="Initech")
    assert [workspace.name for workspace in product.workspaces.all()] == ["Default"]


def test_a_member_who_adds_a_product_sees_it(member: Client) -> None:
    member.post(reverse("admin:engagement_product_add"), {"name": "Initech"})
    product = Product.objects.get(name="Initech")
    assert member.get(page("engagement_product", product.pk)).status_code == 200


def test_a_product_is_renamed_among_its_rows(root: Client, acme_rows: Rows) -> None:
    address = page("engagement_product", acme_rows.product.pk)
    form = root.get(address).context
    data = {"name": "Acme & Sons"}
    for inline in form["inline_admin_formsets"]:
        for part in [inline.formset.management_form, *inline.formset.forms]:
            data |= {part.add_prefix(key): part[key].value() for key in part.fields}
    answer = root.post(address, {key: value for key, value in data.items() if value is not None})
    assert answer.status_code == 302
    acme_rows.product.refresh_from_db()
    assert acme_rows.product.name == "Acme & Sons"
    assert acme_rows.product.workspaces.count() == acme_rows.product.ingestionkeys.count() == 1


def test_a_product_page_leads_to_its_keys_tokens_and_workspaces(
    root: Client, acme_rows: Rows
) -> None:
    html = root.get(page("engagement_product", acme_rows.product.pk)).content.decode()
    for name in ["engagement_workspace", *CREDENTIALS]:
        assert f'href="{page(name, dict(acme_rows.pages())[name])}"' in html
        assert f'href="{reverse(f"admin:{name}_add")}?product={acme_rows.product.pk}"' in html
    # When each was created: relative, with the exact time in the tooltip.
    times = re.findall(r'<td><time [^>]*title="[-0-9: ]+UTC">([^<]+)</time></td>', html)
    assert times.count("just now") >= 3, times


def test_a_user_page_shows_scores_traits_and_the_account(root: Client, acme_rows: Rows) -> None:
    of_both = {"user": acme_rows.user, "account": acme_rows.account}
    Membership.objects.create(product=acme_rows.product, occurred_at=NOON, arrival=1, **of_both)
    html = root.get(page("engagement_user", acme_rows.user.pk)).content.decode()
    # A raw score at the benchmark scores 90.
    assert "<strong>90.0</strong>" in html
    assert "acme-user@Example.com" in html
    assert f"/account/{acme_rows.account.pk}/" in html
    assert "&lt;b&gt;pro&lt;/b&gt;" in html and "<b>pro" not in html


def test_strangers_are_not_shown(root: Client, acme_rows: Rows) -> None:
    """Nobody identified them, so they have no scores."""
    for row in (acme_rows.user, acme_rows.account):
        type(row).objects.update(is_identified=False)
        row.engagements.all().delete()
    for name in ("engagement_user", "engagement_account"):
        assert b"acme-" not in root.get(listing(name), follow=True).content
        assert root.get(page(name, dict(acme_rows.pages())[name])).status_code == 302


@pytest.mark.parametrize("term", ["acme-user", "cme-u", "ACME-USER@example.COM", " acme-user "])
def test_a_user_is_found_by_any_part_of_the_id_or_email(
    root: Client, acme_rows: Rows, globex_rows: Rows, term: str
) -> None:
    index_for_search(acme_rows.product)
    results = root.get(listing("engagement_user"), {"q": term}, follow=True).context["subjects"]
    assert [user.external_id for user in results] == ["acme-user"]


@pytest.mark.parametrize("term", ["%", "acme_user", "u", "\x00"])
def test_nothing_else_is_searched(root: Client, acme_rows: Rows, term: str) -> None:
    index_for_search(acme_rows.product)
    answer = root.get(listing("engagement_user"), {"q": term}, follow=True)
    assert answer.status_code == 200 and not answer.context["subjects"]


def test_an_account_is_found_by_its_domain(root: Client, acme_rows: Rows) -> None:
    index_for_search(acme_rows.product)
    query = {"q": "ACME-account.example"}
    answer = root.get(listing("engagement_account"), query, follow=True)
    assert [row.external_id for row in answer.context["subjects"]] == ["acme-account"]


def test_the_inbox_says_what_waits_and_what_cannot_be_decoded(
    root: Client, acme_rows: Rows
) -> None:
    waiting(acme_rows.key, b"\xc1 no message")
    waiting(acme_rows.key, b"\x93\xa1i\xa1\xff")
    waiting(None, messages.Group("org", NOON, user_id="someone"))
    html = root.get(listing("ingestion_inboxmessage")).content.decode()
    assert "track · “acme event” · user acme-user" in html
    assert html.count("undecodable") == 2
    assert "group · user someone · account org" in html and "unknown" in html


def test_the_page_of_an_undecodable_message_opens(root: Client, acme_rows: Rows) -> None:
    message = waiting(acme_rows.key, b"")
    assert "undecodable" in root.get(page("ingestion_inboxmessage", message.pk)).content.decode()


def test_every_reason_has_a_remedy(root: Client, acme_rows: Rows) -> None:
    for reason in DropReason:
        DroppedMessage.objects.filter(pk=acme_rows.dropped.pk).update(reason=reason)
        html = root.get(page("ingestion_droppedmessage", acme_rows.dropped.pk)).content.decode()
        assert "What to do" in html and reason.label in html.replace("&#x27;", "'")


@pytest.mark.parametrize("term", ["acme-user", "acme event", "acme-message"])
def test_a_dropped_message_is_found_by_whole_ids(
    root: Client, acme_rows: Rows, globex_rows: Rows, term: str
) -> None:
    def matches(term: str) -> list[int]:
        answer = root.get(listing("ingestion_droppedmessage"), {"q": term})
        return [row.pk for row in answer.context["cl"].result_list]

    assert matches(term) == [acme_rows.dropped.pk]
    assert matches(term[:-1]) == []


def test_dropped_messages_are_filtered_by_reason_product_and_day(
    root: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    def matches(**filters: Any) -> list[int]:
        answer = root.get(listing("ingestion_droppedmessage"), filters)
        return sorted(row.pk for row in answer.context["cl"].result_list)

    both = [acme_rows.dropped.pk, globex_rows.dropped.pk]
    assert matches() == both
    assert matches(reason__exact="duplicate") == both
    assert matches(reason__exact="unusable") == []
    assert matches(product__id__exact=acme_rows.product.pk) == both[:1]
    day = {"dropped_at__year": 2026, "dropped_at__month": 3}
    assert matches(**day, dropped_at__day=2) == both
    assert matches(**day, dropped_at__day=3) == []


@pytest.mark.parametrize("many", [1, 30])
@pytest.mark.parametrize(
    ("name", "budget"),
    [
        # Lists of users and accounts lead to a workspace first.
        ("engagement_user", 25),
        ("engagement_account", 26),
        ("ingestion_inboxmessage", 7),
        ("ingestion_ingestionkey", 9),
        ("ingestion_quarantinedmessage", 9),
        ("ingestion_droppedmessage", 11),
        ("engagement_product", 8),
        ("engagement_workspace", 10),
    ],
)
def test_a_list_costs_the_same_queries_however_long(
    root: Client,
    acme_rows: Rows,
    django_assert_max_num_queries: Any,
    name: str,
    budget: int,
    many: int,
) -> None:
    for number in range(many):
        account = an_account(acme_rows.product, f"a{number}", acme_rows.workspace)
        a_user(acme_rows.product, f"u{number}", acme_rows.workspace, account)
        key = IngestionKey.create(acme_rows.product, f"key {number}")
        waiting(key, messages.Track("u", "e", NOON))
        Product.create_with_workspace(f"Product {number}")
    with django_assert_max_num_queries(budget):
        assert root.get(listing(name), follow=True).status_code == 200


def test_a_long_list_is_cut_and_not_counted(
    root: Client, acme_rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("access.pages.listing.BoundedPaginator.max_rows", 2)
    for _ in range(3):
        waiting(acme_rows.key, messages.Track("u", "e", NOON))
    assert InboxMessage.objects.count() == 4
    html = root.get(listing("ingestion_inboxmessage")).content.decode()
    assert "The first 2 inbox messages. There are more." in html


def test_logins_are_for_superusers_only(root: Client, member: Client) -> None:
    logins = listing("auth_user")
    assert root.get(logins).status_code == 200
    assert member.get(logins).status_code == 403
    assert member.get(reverse("admin:auth_user_add")).status_code == 403
