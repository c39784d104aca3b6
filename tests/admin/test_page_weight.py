"""How many bytes a page costs: its HTML, and everything that a browser loads with it."""

import re
from datetime import timedelta
from gzip import decompress
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse

from engagement.models import Account, DailyBenchmark, Product, SavedView, Segment
from tests.admin.conftest import logged_in
from tests.admin.rows import NOON, Rows, a_user, an_account, fill
from tests.admin.test_permissions import For, addresses
from tests.admin.test_subject_pages import account_page, counted, user_page

pytestmark = pytest.mark.django_db

# Over the wire: of a page itself, and with all that it loads.
MAX_PAGE_BYTES, MAX_BYTES = 16_000, 120_000
# A condition that each account meets.
RULE = [{"kind": "trait", "trait": "none", "operator": "is_not_set"}]
# Redirects, downloads, data, and pages that need an input.
NO_PAGES = {
    "logout",
    "view_on_site",
    "autocomplete",
    "jsi18n",
    "app_list",
    "jobs_run",
    "jobs_pause",
    "jobs_resume",
}


class Browser:
    """Loads pages like a browser that accepts gzip, and has nothing in its cache."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._sizes: dict[str, int] = {}

    def weigh(self, url: str) -> tuple[int, int] | None:
        """The bytes over the wire of the page, and of all that it loads. None for no page."""
        response = self.client.get(url, headers={"accept-encoding": "gzip"})
        if response.status_code != 200 or "text/html" not in response.headers["Content-Type"]:
            return None
        # Several icons come from one file.
        files = set(re.findall(r'(?:src|href)="(/static/[^"#]+)', _plain(response).decode()))
        return len(response.content), len(response.content) + sum(map(self._file_bytes, files))

    def _file_bytes(self, url: str) -> int:
        if url not in self._sizes:
            response = self.client.get(url, headers={"accept-encoding": "gzip"})
            assert response.status_code == 200, url
            content = _plain(response)
            self._sizes[url] = len(response.getvalue())
            for path in re.findall(rb'@import url\(["\']?([^"\')]+)', content):
                self._sizes[url] += self._file_bytes(f"{url.rpartition('/')[0]}/{path.decode()}")
        return self._sizes[url]


def _plain(response: Any) -> bytes:
    content: bytes = b"".join(response) if response.streaming else response.content
    return decompress(content) if response.headers.get("Content-Encoding") == "gzip" else content


@pytest.mark.slow
def test_no_page_is_heavy(root: Client, acme_rows: Rows) -> None:
    fill_up(acme_rows)
    browser = Browser(root)
    heavy, weighed = [], 0
    pages = [(row.name, row.url) for row in addresses(acme_rows) if row.whom is not For.ANYBODY]
    workspace = acme_rows.workspace.pk
    pages += [
        ("account of a workspace", account_page(acme_rows, workspace=workspace, people="all")),
        ("ranked users", f"{reverse('admin:engagement_user_changelist')}?workspace={workspace}"),
        ("new segment", f"/admin/engagement/segment/add/?workspace={workspace}&scope=account"),
    ]
    for name, url in pages:
        if name in NO_PAGES or (weight := browser.weigh(url)) is None:
            continue
        weighed += 1
        if weight[0] > MAX_PAGE_BYTES or weight[1] > MAX_BYTES:
            heavy.append((name, *weight))
    assert heavy == []
    assert weighed > 40


def fill_up(rows: Rows) -> None:
    """Give the rows as much as a large customer has."""
    for number in range(40):
        counted(rows, f"an event with a long name {number}", number + 1)
        user = a_user(rows.product, f"a user with a long id {number}", rows.workspace, rows.account)
        user.traits = {
            "name": f"Maximiliane Mustermann {number}",
            "email": f"m{number}@example.com",
        }
        user.save(update_fields=["traits"])
    assert rows.workspace.scores is not None
    for ago in range(90):
        DailyBenchmark.objects.create(
            score_set=rows.workspace.scores,
            day=NOON.date() - timedelta(days=ago),
            users=ago + 1.5,
            accounts=ago + 2.5,
        )
    account = rows.account
    account.traits = {f"trait {number}": f"value {number}" * 4 for number in range(30)}
    account.traits |= {f"am.attribution.{number}": f"value {number}" * 4 for number in range(30)}
    account.save(update_fields=["traits"])


def test_home_stays_light_with_many_products(acme_rows: Rows) -> None:
    for number in range(12):
        product = Product.create_with_workspace(f"A product with quite a long name {number}")
        fill(product, number + 2)
    root = logged_in(AdminUser.objects.create_superuser("another"))
    weight = Browser(root).weigh("/admin/")
    assert weight and weight[0] <= MAX_PAGE_BYTES and weight[1] <= MAX_BYTES, weight


def test_the_40_rows_of_a_list_are_light(root: Client, acme_rows: Rows) -> None:
    for number in range(40):
        account = an_account(acme_rows.product, f"organization-{number}", acme_rows.workspace)
        account.traits = {
            "name": f"{number * 7} Harbour Freight and Forwarding",
            "domain": f"harbour-{number * 7}.freight.example",
            "am.licenseType": "COMMERCIAL",
            "am.tier": f"{number * 25} Users",
            "am.status": "active",
            "am.maintenanceEndDate": f"2026-0{1 + number % 9}-{10 + number % 19}",
        }
        account.save(update_fields=["traits"])
    browser = Browser(root)
    ranked = f"{reverse('admin:engagement_account_changelist')}?workspace={acme_rows.workspace.pk}"
    for query in ("&sort=name", "&sort=change&license_type=COMMERCIAL"):
        weight = browser.weigh(ranked + query)
        assert weight and weight[0] <= 10_000, weight


WORDS = ("license attribute of the marketplace ", "ライセンスの属性 ", 'R&D\'s "plan" ')


@pytest.mark.slow
def test_the_widest_list_comes_within_the_weight_of_any_page(root: Client, acme_rows: Rows) -> None:
    product, workspace = acme_rows.product, acme_rows.workspace
    accounts = [an_account(product, f"organization-{row}", workspace) for row in range(44)]
    in_workspace = {"workspace": workspace, "scope": "account"}
    menu = [f"{WORDS[0]}{number}" for number in range(60)]
    Segment.objects.bulk_create(
        Segment(name=name, conditions=RULE, **in_workspace) for name in menu
    )
    SavedView.objects.bulk_create(
        SavedView(product=product, name=name, **in_workspace) for name in menu
    )
    browser = Browser(root)
    for word in WORDS:
        names = [f"{word}{number}" for number in range(20)]
        for row, account in enumerate(accounts):
            account.traits = {name: f"{word * 20}{name}{row * 31}"[-200:] for name in names}
            account.traits |= {"name": f"{word * 5}{row}", "domain": f"{word * 5}{row}"}
        Account.objects.bulk_update(accounts, ["traits"])
        columns = ",".join(f"trait:{name}" for name in names)
        query = urlencode({"workspace": workspace.pk, "columns": columns})
        weight = browser.weigh(f"{reverse('admin:engagement_account_changelist')}?{query}")
        assert weight and weight[1] <= MAX_BYTES, (word, weight)


def test_pages_are_compressed_unless_they_show_a_secret(root: Client, acme_rows: Rows) -> None:
    gzip = {"accept-encoding": "gzip, br"}
    page = root.get(user_page(acme_rows), headers=gzip)
    assert page.headers["Content-Encoding"] == "gzip" and "Accept-Encoding" in page.headers["Vary"]
    assert b"acme-user" in decompress(page.content)
    # Bytes of random length hide how well the page was compressed.
    sizes = {len(root.get("/admin/password_change/", headers=gzip).content) for _ in range(8)}
    assert len(sizes) > 1
    assert "Content-Encoding" not in root.get(user_page(acme_rows)).headers
    key = acme_rows.key
    root.post(reverse("admin:ingestion_ingestionkey_reveal", args=[key.pk]))
    address = reverse("admin:ingestion_ingestionkey_change", args=[key.pk])
    response = root.get(address, headers=gzip)
    assert "Content-Encoding" not in response.headers and key.secret in response.content.decode()
    assert root.get(address, headers=gzip).headers["Content-Encoding"] == "gzip"


def test_files_are_compressed_once_and_kept_for_ever(client: Client) -> None:
    url = re.findall(
        r'href="(/static/[^"]+base\.css)"', client.get("/admin/login/").content.decode()
    )
    (plain,) = [client.get(address) for address in url]
    (small,) = [client.get(address, headers={"accept-encoding": "gzip"}) for address in url]
    content = b"".join(plain)
    assert decompress(small.content) == content and len(small.content) * 3 < len(content)
    for response in (plain, small):
        assert "immutable" in response.headers["Cache-Control"]
        assert response.headers["Vary"] == "Accept-Encoding"
        assert response.headers["Content-Type"].startswith("text/css")
    assert small.headers["Content-Length"] == str(len(small.content))
    # Without a change, the browser keeps what it has.
    again = {"accept-encoding": "gzip", "if-none-match": small.headers["ETag"]}
    assert client.get(url[0], headers=again).status_code == 304


def test_data_is_compressed_for_clients_that_accept_it(client: Client, acme_rows: Rows) -> None:
    address = f"/v2/accounts?workspace_id={acme_rows.workspace.pk}"
    token = {"authorization": f"Bearer {acme_rows.token.secret}"}
    for number in range(10):
        a_user(acme_rows.product, f"user {number}", acme_rows.workspace, acme_rows.account)
    address = address.replace("accounts", "users")
    plain = client.get(address, headers=token)
    small = client.get(address, headers={**token, "accept-encoding": "gzip"})
    assert "Content-Encoding" not in plain.headers and "Accept-Encoding" in plain.headers["Vary"]
    assert small.headers["Content-Length"] == str(len(small.content))
    assert decompress(small.content) == plain.content
    # What fits into a packet stays as it is.
    short = client.get("/healthz", headers={"accept-encoding": "gzip"})
    assert "Content-Encoding" not in short.headers
    schema = client.get("/openapi.json", headers={"accept-encoding": "gzip"})
    assert schema.headers["Content-Encoding"] == "gzip"
