"""Owners, tags, and notes: the card of an account, the list, and what follows when a login goes."""

from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse

from access.models import TrailEntry
from access.trail.entries import COMMAND_LINE
from access.work import accounts, owners
from engagement import changes
from engagement.models import (
    AccountNote,
    AccountWork,
    AlarmWork,
    Product,
    ProductMember,
    ScoreSet,
)
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from tests.admin.rows import NOON, Rows, an_account
from tests.admin.test_subject_lists import listed, opened

LIST = "admin:engagement_account_changelist"


def page(rows: Rows, view: str = "change") -> str:
    return reverse(f"admin:engagement_account_{view}", args=[rows.account.pk])


def work(who: Client, rows: Rows, **posted: str) -> str:
    """What the page says after a form of the card is posted."""
    answer = who.post(page(rows, "work"), posted, follow=True)
    assert answer.status_code == 200
    return str(answer.content.decode())


def stored(rows: Rows) -> tuple[str, bool, list[str]]:
    row = AccountWork.objects.get(product=rows.product, account=rows.account.pk)
    return row.owner, row.is_by_hand, row.tags


def latest_notes() -> list[str]:
    entries = TrailEntry.objects.filter(kind="account").order_by("-pk")
    return [note.partition(" account ")[0] for note in entries.values_list("note", flat=True)]


@pytest.fixture
def colleague(acme: Product) -> AdminUser:
    dana = AdminUser.objects.create_user("dana", first_name="Dana", last_name="Wu", is_staff=True)
    ProductMember.objects.create(product=acme, user=dana)
    return dana


def test_the_card_shows_and_changes_the_owner_the_tags_and_the_notes(
    member: Client, acme_rows: Rows, colleague: AdminUser
) -> None:
    html = member.get(page(acme_rows)).content.decode()
    assert '<option value="dana">Dana Wu</option>' in html and ">maya</option>" in html
    before = changes.latest_stamp(acme_rows.product.pk)
    html = work(member, acme_rows, owner="dana")
    assert '<option value="dana" selected>' in html
    html = work(member, acme_rows, tag="  at   risk ")
    assert 'aria-label="Remove the tag at risk"' in html
    assert stored(acme_rows) == ("dana", True, ["at risk"])
    html = work(member, acme_rows, note="Two admins <left>.\nCalled them.")
    assert "Two admins &lt;left&gt;.<br>Called them." in html and "maya" in html
    # Readers of changes and watches learn of the owner and of the tag.
    assert changes.changed_ids(acme_rows.product.pk, "account", before, 0, 9) == [
        acme_rows.account.pk
    ]
    assert ScoreSet.objects.filter(product=acme_rows.product, watches_stale=True).exists()
    assert work(member, acme_rows, remove_tag="at risk").count("Remove the tag") == 0
    note = AccountNote.objects.get()
    assert "Called them" not in work(member, acme_rows, delete_note=str(note.pk))
    assert stored(acme_rows)[2] == [] and not AccountNote.objects.exists()
    # What a person wrote stays out of the trail, and so does the account's name.
    assert latest_notes() == [
        *("Deleted a note about", "Removed the tag “at risk” from", "Wrote a note about"),
        *("Added the tag “at risk” to", "Chose dana as the owner of"),
    ]
    assert not TrailEntry.objects.filter(kind="account").exclude(object_name="").exists()


@pytest.mark.parametrize(
    ("posted", "message"),
    [
        ({"owner": "nobody we know"}, "Choose an owner who may see this product"),
        ({"tag": "one, two"}, "without a comma"),
        ({"tag": "x" * 51}, "at most 50 characters"),
        ({"note": " \n "}, "Enter a note of at most 5,000 characters"),
        ({"note": "x" * 5001}, "Enter a note of at most 5,000 characters"),
        ({"delete_note": "17"}, "This note is gone"),
        ({}, ""),
    ],
)
def test_what_is_refused_changes_nothing(
    member: Client, acme_rows: Rows, posted: dict[str, str], message: str
) -> None:
    assert message in work(member, acme_rows, **posted)
    assert not AccountNote.objects.exists() and latest_notes() == []


def test_a_note_of_a_colleague_stays(member: Client, acme_rows: Rows, colleague: AdminUser) -> None:
    actor = COMMAND_LINE._replace(name="dana")
    accounts.write_note(acme_rows.account, "Mine.", actor, NOON)
    html = member.get(page(acme_rows)).content.decode()
    assert "Dana Wu, " in html and 'name="delete_note"' not in html
    note = AccountNote.objects.get()
    assert "somebody else wrote it" in work(member, acme_rows, delete_note=str(note.pk))


def test_a_viewer_reads_and_works_with_the_right_to_do_so(reader: Client, acme_rows: Rows) -> None:
    actor = COMMAND_LINE._replace(name="ray")
    accounts.choose_owner(acme_rows.product.pk, [acme_rows.account.pk], "ray", actor)
    html = reader.get(page(acme_rows)).content.decode()
    assert "<strong>Owner</strong> ray" in html and "work-tag" not in html
    assert reader.post(page(acme_rows, "work"), {"tag": "vip"}).status_code == 403
    assert "Owner and tags" not in opened(reader, "account").content.decode()
    ProductMember.objects.filter(user__username="ray").update(may_work_on_accounts=True)
    assert "Remove the tag vip" in work(reader, acme_rows, tag="vip")
    assert "Owner and tags" in opened(reader, "account").content.decode()


def change(who: Client, rows: Rows, *account_ids: int, query: str = "", **posted: str) -> str:
    query = query or f"workspace={rows.workspace.pk}"
    posted_ids: Any = {"account": account_ids} if account_ids else {}
    address = reverse("admin:engagement_account_change_work")
    answer = who.post(address, {"query": query, **posted_ids, **posted}, follow=True)
    return str(answer.content.decode())


def test_a_list_changes_the_chosen_accounts_or_all_of_them(
    member: Client, acme_rows: Rows, globex_rows: Rows, colleague: AdminUser
) -> None:
    other = an_account(acme_rows.product, "other", acme_rows.workspace)
    both = [acme_rows.account.pk, other.pk]
    html = change(member, acme_rows, *both, owner="dana", add_tag="vip")
    assert "Of 2 accounts, 2 have another owner, 2 got the tag." in html
    html = change(member, acme_rows, other.pk, owner=":keep", remove_tag="vip")
    assert "Of 1 accounts, 1 lost the tag." in html
    assert listed(member, "account", owner="dana", tag="vip") == ["acme-account"]
    # Of this list: those with the tag.
    query = f"workspace={acme_rows.workspace.pk}&tag=vip"
    assert "Of 1 accounts" in change(member, acme_rows, query=query, which="all", owner="maya")
    assert listed(member, "account", owner=":me") == ["acme-account"]
    assert listed(member, "account", owner="dana") == ["other"]
    assert listed(member, "account", owner=":nobody") == []
    # An account of another product is nobody's business.
    html = change(member, acme_rows, globex_rows.account.pk, owner="dana")
    assert "These accounts are gone." in html
    assert not AccountWork.objects.filter(product=globex_rows.product).exists()
    assert "Choose accounts first" in change(member, acme_rows, owner="dana")
    assert "Choose an owner, or enter a tag." in change(member, acme_rows, other.pk)
    query = f"workspace={globex_rows.workspace.pk}"
    address = reverse("admin:engagement_account_change_work")
    assert member.post(address, {"query": query, "which": "all"}).status_code == 404


def test_columns_show_and_sort_by_owners(
    member: Client, acme_rows: Rows, colleague: AdminUser
) -> None:
    other = an_account(acme_rows.product, "other", acme_rows.workspace)
    change(member, acme_rows, other.pk, owner="dana", add_tag="vip")
    answer = opened(member, "account", columns="owner,tags", sort="owner")
    assert [each.external_id for each in answer.context["subjects"]] == ["other", "acme-account"]
    html = answer.content.decode()
    assert ">Dana Wu</td>" in html and ">vip</td>" in html
    answer = opened(member, "account", owner="dana")
    assert answer.context["segment_url"], "The list can become a segment."


def test_accounts_lose_a_login_that_goes_and_keep_one_that_is_renamed(
    member: Client, acme_rows: Rows, colleague: AdminUser
) -> None:
    actor = COMMAND_LINE._replace(name="dana")
    accounts.write_note(acme_rows.account, "Mine.", actor, NOON)
    work(member, acme_rows, owner="dana")
    colleague.username = "dana.wu"
    colleague.save()
    assert stored(acme_rows)[:2] == ("dana.wu", True)
    ProductMember.objects.get(user=colleague).delete()
    assert stored(acme_rows)[:2] == ("", False)
    assert "dana.wu" not in owners.names(acme_rows.product.pk)
    ProductMember.objects.create(product=acme_rows.product, user=colleague)
    work(member, acme_rows, owner="dana.wu")
    colleague.delete()
    assert stored(acme_rows)[:2] == ("", False)
    # What they wrote stays, under the name that they had.
    assert "Mine." in member.get(page(acme_rows)).content.decode()
    assert AccountNote.objects.get().author == "dana"


def test_forgetting_an_account_forgets_what_people_did_about_it(
    member: Client, acme_rows: Rows
) -> None:
    work(member, acme_rows, tag="vip")
    work(member, acme_rows, note="Ada called.")
    AlarmWork.objects.create(
        product=acme_rows.product,
        workspace=acme_rows.workspace,
        account=acme_rows.account,
        signal="fall",
        since=NOON.date(),
        seen_on=NOON.date(),
        taken_by="maya",
    )
    subject = SubjectRef(acme_rows.product.pk, SubjectScope.ACCOUNT, "acme-account")
    forgetting.forget(subject, NOON)
    for model in (AccountWork, AccountNote, AlarmWork):
        assert not model._default_manager.exists()
