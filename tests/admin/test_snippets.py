"""The code examples on a product's page work."""

import html
import re
import subprocess
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from config.local.first_start import FirstStart
from engagement.models import Product, User
from ingestion.drain import processing
from ingestion.models import IngestionKey
from ingestion.snippets import KEY_PLACEHOLDER, build_snippets
from tests.engagement.history import NOON
from tests.pipeline.waiting import counts


def page_text(who: Client, product: Product) -> str:
    answer = who.get(reverse("admin:engagement_product_change", args=[product.pk]))
    return answer.content.decode()


def code(page: str) -> list[str]:
    return [
        html.unescape(block) for block in re.findall(r"<pre[^>]*><code>(.*?)</code>", page, re.S)
    ]


def test_a_product_page_offers_three_languages_and_no_key(
    member: Client, reader: Client, acme: Product, acme_key: str
) -> None:
    for who in (member, reader):
        page = page_text(who, acme)
        snippets = code(page)
        assert [snippet.split()[0] for snippet in snippets] == ["curl", "import", "async"]
        assert all(
            KEY_PLACEHOLDER in snippet and "http://testserver/v2/" in snippet
            for snippet in snippets
        )
        assert acme_key not in page and acme_key[:9] in page
    assert "Reveal the key on its page" in page_text(member, acme)
    assert "Reveal the key on its page" not in page_text(reader, acme)


def test_a_product_without_a_key_is_offered_to_make_one(
    member: Client, reader: Client, acme: Product
) -> None:
    assert "There is none yet" in page_text(member, acme)
    assert "There is none yet" not in page_text(reader, acme)


def test_a_revealed_keys_page_has_the_key_in_the_lines_once(
    member: Client, acme: Product, acme_key: str
) -> None:
    key = IngestionKey.objects.get()
    member.post(reverse("admin:ingestion_ingestionkey_reveal", args=[key.pk]))
    address = reverse("admin:ingestion_ingestionkey_change", args=[key.pk])
    first, second = (member.get(address).content.decode() for _ in range(2))
    assert all(acme_key in snippet for snippet in code(first))
    assert all(KEY_PLACEHOLDER in snippet for snippet in code(second)) and acme_key not in second


def test_a_revoked_keys_page_offers_nothing_to_paste(
    member: Client, acme: Product, acme_key: str
) -> None:
    key = IngestionKey.objects.get()
    member.post(reverse("admin:ingestion_ingestionkey_revoke", args=[key.pk]))
    page = member.get(reverse("admin:ingestion_ingestionkey_change", args=[key.pk]))
    assert code(page.content.decode()) == []


def run_in_a_shell(script: str) -> None:
    result = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr


def run_in_python(script: str) -> None:
    exec(script, {})


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("language", ["curl", "Python"])
def test_the_lines_introduce_a_user_and_count_an_event(
    acme: Product, acme_key: str, live_server: Any, language: str
) -> None:
    code_by_language = {
        snippet.language: snippet.code
        for snippet in build_snippets(f"{live_server.url}/", acme_key)
    }
    run = {"curl": run_in_a_shell, "Python": run_in_python}[language]
    run(code_by_language[language])
    processing.drain(lambda: NOON)
    assert counts(acme) == {("u1", "Report_Created"): 1, ("u1", "Dashboard_Viewed"): 1}
    user = User.objects.select_related("account").get()
    assert user.email == "ada@example.com"
    assert user.account and user.account.name == "Example Ltd"


def test_the_readme_and_the_first_start_have_the_same_lines() -> None:
    address, key = "http://127.0.0.1:8000", "edk_…"
    lines = build_snippets(address, key)[0].code
    assert lines in (settings.BASE_DIR / "README.md").read_text()
    credentials = {"admin_login": "", "admin_password": "", "ingestion_key": key}
    credentials |= {"api_token": "", "workspace_id": "1"}
    assert lines in FirstStart(credentials).instructions(address)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_product_made_in_the_admin_comes_with_a_key_whose_lines_work(
    root: Client, live_server: Any
) -> None:
    response = root.post(reverse("admin:engagement_product_add"), {"name": "Initech"}, follow=True)
    key, product = IngestionKey.objects.get(), Product.objects.get(name="Initech")
    assert key.product == product
    page = response.content.decode()
    assert f"The secret of {key}" in html.unescape(page)
    (script, *_) = code(page)
    assert key.secret in script
    run_in_a_shell(script.replace("http://testserver", live_server.url))
    processing.drain(lambda: NOON)
    assert counts(product) == {("u1", "Report_Created"): 1, ("u1", "Dashboard_Viewed"): 1}
    # The key is shown once.
    assert key.secret not in root.get(response.redirect_chain[-1][0]).content.decode()
