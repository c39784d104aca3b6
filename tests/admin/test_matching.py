"""A page says which accounts and licenses do not meet, why, and what to change."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse

from engagement.models import Account, AccountEngagement, Product, ScoreSet, User
from marketplace.licenses import matching
from marketplace.licenses.matching import Reason, Silence, bare_id, is_cloud_id
from marketplace.models import License
from tests.admin.rows import NOON, Rows, a_connection, a_user, an_account
from tests.cases import each

# Acme's sites.
SITES = [str(UUID(int=number << 64 | 0xABCDEF, version=4)) for number in range(1, 9)]
HOSTS = [f"site-{number}.atlassian.net" for number in range(1, 9)]


@pytest.fixture
def score_set(acme_rows: Rows) -> ScoreSet:
    """Scores of Acme, whose one account has no license."""
    assert acme_rows.workspace.scores is not None
    return acme_rows.workspace.scores


def add_license(product: Product, cloud_id: str, **fields: Any) -> None:
    """A license of the site, and the account that its sync has created."""
    License.objects.create(
        product=product,
        key=f"E-{product.pk}-{License.objects.count()}",
        cloud_id=cloud_id,
        fields={"status": "active", **fields},
        digest=b"",
        run_id=1,
    )


def add_site(product: Product, number: int, **traits: Any) -> str:
    """A licensed site whose app has sent nothing: the sync alone created its account."""
    cloud_id, host = SITES[number], HOSTS[number]
    add_license(product, cloud_id, cloudSiteHostname=host)
    workspace = product.workspaces.get()
    account = an_account(product, cloud_id, workspace)
    names = {"am.status": "active", "am.cloudSiteHostname": host, **traits}
    Account.objects.filter(pk=account.pk).update(traits=names)
    return cloud_id


def send_as(product: Product, external_id: str) -> Account:
    """What an app sends: an account with a user who has done something."""
    workspace = product.workspaces.get()
    account = Account.objects.filter(product=product, external_id=external_id).first()
    account = account or an_account(product, external_id, workspace)
    a_user(product, f"user of {external_id}"[:500], workspace, account)
    AccountEngagement.objects.filter(account=account).update(total_users=1, raw=500)
    return account


def reasons(score_set: ScoreSet, *others: int) -> dict[str, tuple[Reason, str]]:
    report = matching.compare(score_set, others)
    return {row.external_id: (row.reason, row.cloud_id) for row in report.unlicensed}


def silences(score_set: ScoreSet) -> dict[str, Silence]:
    report = matching.compare(score_set)
    return {row.cloud_id: row.reason for row in report.silent}


# --- The form of an id ----------------------------------------------------------------------

UUID_TEXT = "0b1c2d3e-4f50-4617-8283-94a5b6c7d8e9"


@each(
    "text",
    [
        UUID_TEXT,
        UUID_TEXT.upper(),
        UUID_TEXT.replace("-", ""),
        f" {UUID_TEXT}\n",
        f"{{{UUID_TEXT}}}",
        f"{UUID_TEXT}/",
        f"https://{UUID_TEXT}/wiki",
        f"ari:cloud:jira::site/{UUID_TEXT}",
        f"ARI:cloud:platform::site/{UUID_TEXT.upper()}",
    ],
)
def test_the_cloud_id_within_an_id_is_found(text: str) -> None:
    assert bare_id(text) == UUID_TEXT
    assert is_cloud_id(text) is (text == UUID_TEXT)


@each(
    "text, bare",
    [
        ("https://Acme.atlassian.net/", "acme.atlassian.net"),
        ("acme.atlassian.net:443/wiki?a=b", "acme.atlassian.net"),
        ("Acme Ltd", "acme ltd"),
        ("4711", "4711"),
        ("", ""),
        ("://", ""),
        ("jira:15489595", "jira"),
    ],
)
def test_other_ids_are_no_cloud_ids(text: str, bare: str) -> None:
    assert bare_id(text) == bare
    assert not is_cloud_id(text)


# --- Accounts without a license -------------------------------------------------------------

CASES: dict[str, tuple[Callable[[str, str], str], Reason, bool]] = {
    "hostname": (lambda site, host: host, Reason.HOSTNAME, True),
    "hostname with capitals": (lambda site, host: host.upper(), Reason.HOSTNAME, True),
    "hostname as an address": (lambda site, host: f"https://{host}/", Reason.HOSTNAME, True),
    "former hostname": (lambda site, host: "old-name.atlassian.net", Reason.RENAMED, True),
    "capitals": (lambda site, host: site.upper(), Reason.CAPITALS, True),
    "trailing slash": (lambda site, host: f"{site}/", Reason.ADDRESS, True),
    "scheme": (lambda site, host: f"https://{site}", Reason.ADDRESS, True),
    "resource name": (lambda site, host: f"ari:cloud:jira::site/{site}", Reason.ADDRESS, True),
    "no hyphens": (lambda site, host: site.replace("-", ""), Reason.ADDRESS, True),
    "other hostname": (lambda site, host: "who.example.com", Reason.UNKNOWN_HOSTNAME, False),
    "number": (lambda site, host: "4711", Reason.OTHER_FORM, False),
    "Connect clientKey": (lambda site, host: "jira:15489595", Reason.OTHER_FORM, False),
    "no license": (lambda site, host: UUID_TEXT, Reason.UNLICENSED, False),
    "capitals, and no license": (lambda site, host: UUID_TEXT.upper(), Reason.CAPITALS, False),
    "resource name, and no license": (
        *(lambda site, host: f"ari:cloud:jira::site/{UUID_TEXT}", Reason.ADDRESS, False),
    ),
}


def test_each_planted_fault_is_found_with_its_site(acme: Product, score_set: ScoreSet) -> None:
    for name, (form, reason, has_site) in CASES.items():
        Account.objects.exclude(external_id="acme-account").filter(product=acme).delete()
        User.objects.filter(product=acme, external_id__startswith="user of").delete()
        License.objects.all().delete()
        site = add_site(acme, 0, **{"am.formerSiteHostname": "old-name.atlassian.net"})
        good = add_site(acme, 1)
        external_id = form(site, HOSTS[0])
        send_as(acme, good)
        send_as(acme, external_id)
        assert reasons(score_set) == {external_id: (reason, site if has_site else "")}, name
        silence = Silence.SENT_OTHERWISE if has_site else Silence.NOTHING
        assert silences(score_set) == {site: silence}, name


def test_an_old_account_of_a_site_that_sends_its_cloud_id_now_is_known(
    acme: Product, score_set: ScoreSet
) -> None:
    site = add_site(acme, 0)
    send_as(acme, site)
    send_as(acme, HOSTS[0])
    assert reasons(score_set) == {HOSTS[0]: (Reason.HOSTNAME, site)}
    assert silences(score_set) == {}


def test_a_hostname_that_the_app_sends_as_a_trait_proves_nothing(
    acme: Product, score_set: ScoreSet
) -> None:
    account = send_as(acme, "acme.example.com")
    Account.objects.filter(pk=account.pk).update(
        traits={"am.cloudSiteHostname": "acme.example.com"}
    )
    assert reasons(score_set)["acme.example.com"][0] is Reason.UNKNOWN_HOSTNAME


def test_licenses_of_others_explain_nothing_unless_they_are_asked(
    acme: Product, globex: Product, score_set: ScoreSet
) -> None:
    add_license(globex, SITES[3], cloudSiteHostname=HOSTS[3])
    send_as(acme, SITES[3])
    send_as(acme, HOSTS[3])
    assert reasons(score_set)[SITES[3]][0] is Reason.UNLICENSED
    assert reasons(score_set, globex.pk)[SITES[3]][0] is Reason.OTHER_PRODUCT
    assert reasons(score_set, globex.pk)[HOSTS[3]][0] is Reason.UNKNOWN_HOSTNAME


# --- Licenses without usage -----------------------------------------------------------------


def test_a_license_without_users_says_whether_anything_arrived(
    acme: Product, score_set: ScoreSet
) -> None:
    silent, with_traits, busy = (add_site(acme, number) for number in range(3))
    Account.objects.filter(product=acme, external_id=with_traits).update(
        traits={"am.status": "active", "appVersion": "2.1"}
    )
    send_as(acme, busy)
    assert silences(score_set) == {
        silent: Silence.NOTHING,
        with_traits: Silence.NO_USERS,
    }


def test_inactive_and_unlisted_licenses_and_those_of_several_sites_are_not_missed(
    acme: Product, score_set: ScoreSet
) -> None:
    add_license(acme, SITES[0], status="inactive")
    add_license(acme, SITES[1])
    License.objects.filter(cloud_id=SITES[1]).update(unlisted_since=NOON)
    add_license(acme, "")
    add_license(acme, SITES[2], status="cancelled")
    assert silences(score_set) == {SITES[2]: Silence.NOTHING}


def test_more_than_the_limit_is_not_compared(acme: Product, score_set: ScoreSet) -> None:
    for number in range(3):
        add_site(acme, number)
        send_as(acme, SITES[number])
    report = matching.compare(score_set, limit=2)
    assert (report.accounts, report.sites, report.is_cut) == (2, 2, (True, True))
    assert matching.compare(score_set, limit=3).is_cut == (False, False)


# --- The page -------------------------------------------------------------------------------


def page(client: Client, product: Product) -> str:
    return client.get(reverse("admin:licenses_matching"), {"product": product.pk}).content.decode()


def test_the_page_counts_names_and_says_what_to_paste(
    reader: Client, acme: Product, score_set: ScoreSet
) -> None:
    for number in range(3):
        add_site(acme, number)
    account = send_as(acme, HOSTS[0])
    send_as(acme, SITES[1])
    User.objects.create(
        product=acme, external_id="alone", is_identified=True, first_seen_at=NOON, last_seen_at=NOON
    )
    html = page(reader, acme)
    assert 'The hostname instead of the Cloud ID <span class="quiet">1 account</span>' in html
    assert reverse("admin:engagement_account_change", args=[account.pk]) in html
    assert f"→ {SITES[0]}" in html and f"→ {SITES[2]}" in html
    assert "context: { groupId: cloudId }" in html.replace("&#x27;", "'")
    assert "_edge/tenant_info" in html and "await eds.track(context" in html
    assert 'Nothing has arrived <span class="quiet">1 site</span>' in html
    assert "1 user belongs to no account." in html
    assert "left out 9 licenses without a Cloud ID" in html


def test_the_page_names_only_products_that_its_reader_sees(
    reader: Client, root: Client, acme: Product, globex: Product, score_set: ScoreSet
) -> None:
    add_license(globex, SITES[3])
    send_as(acme, SITES[3])
    html = page(root, acme)
    assert "The license of another product" in html and f"→ {globex.name}" in html
    html = page(reader, acme)
    assert "A Cloud ID of no license" in html and globex.name not in html
    assert reader.get(reverse("admin:licenses_matching"), {"product": globex.pk}).status_code == 404


def test_without_a_connection_or_scores_the_page_says_so(reader: Client, acme: Product) -> None:
    assert "not connected to a marketplace" in page(reader, acme)
    a_connection(acme)
    assert "Scores are being computed" in page(reader, acme)


def test_the_overview_warns_of_ids_that_are_no_cloud_ids(
    reader: Client, acme: Product, score_set: ScoreSet
) -> None:
    def warning() -> str:
        html = reader.get(reverse("admin:index"), {"product": acme.pk}).content.decode()
        return html.split("accounts with the highest scores have no license")[0][-40:]

    sites = [add_site(acme, number) for number in range(3)]
    send_as(acme, sites[0])
    send_as(acme, UUID_TEXT)
    assert "of the" not in warning()
    send_as(acme, HOSTS[1])
    assert warning().endswith("1 of the 3 ")
