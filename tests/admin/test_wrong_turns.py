"""Error pages say what happened and what to do, and link to the home page."""

import logging
import re
from io import BytesIO
from urllib.parse import urlencode

import pytest
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.test import Client
from django.urls import reverse
from django.utils.html import strip_tags

from console.dashboard import home
from engagement.models import ProductMember
from tests.admin.rows import Rows
from tests.ingestion.examples import Response

pytestmark = pytest.mark.django_db


def page_text(answer: Response, status: int) -> str:
    """The text of the page in one line. The page is one of ours, with security headers."""
    assert answer.status_code == status
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    html = answer.content.decode()
    assert "Django administration" not in html
    assert f'href="{reverse("admin:index")}"' in html
    assert "<style" not in html and "style=" not in html
    return re.sub(r"\s+", " ", strip_tags(html.partition("<body")[2]))


@pytest.mark.parametrize("address", ["/nothing", "/admin-nothing/", "/accounts/login/"])
def test_an_unknown_url(address: str, client: Client) -> None:
    text = page_text(client.get(address), 404)
    assert "Page not found" in text
    assert "you are not a member of its product" in text


def test_a_button_that_ones_role_does_not_allow(member: Client, acme_rows: Rows) -> None:
    ProductMember.objects.update(role=ProductMember.Role.VIEWER)
    address = reverse("admin:ingestion_ingestionkey_reveal", args=[acme_rows.key.pk])
    text = page_text(member.post(address), 403)
    assert "You don't have permission" in text
    assert "Ask a manager of the product to do it" in text


def test_a_form_that_cannot_be_told_from_a_forgery() -> None:
    answer = Client(enforce_csrf_checks=True).post(reverse("admin:login"), {"username": "maya"})
    text = page_text(answer, 403)
    assert "Nothing was changed" in text
    assert "Go back, reload the page, and submit the form again" in text


def test_an_internal_error(member: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page_text(answer_to(RuntimeError("broken on maya's page"), member, monkeypatch), 500)
    assert "it has been logged" in text
    assert "broken on" not in text


def test_a_refusal_shows_its_own_reason(member: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page_text(answer_to(PermissionDenied("Only on Sundays."), member, monkeypatch), 403)
    assert "Only on Sundays." in text


def answer_to(error: Exception, who: Client, monkeypatch: pytest.MonkeyPatch) -> Response:
    """The response of the home page if it raises this error."""

    def fail(request: HttpRequest) -> None:
        raise error

    monkeypatch.setattr(home, "home_context", fail)
    who.raise_request_exception = False
    return who.get(reverse("admin:index"))


@pytest.mark.parametrize(
    "form", [{"username": "x" * 2_700_000}, {f"field{n}": "" for n in range(1_100)}]
)
def test_a_form_that_is_too_large(form: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    body, kind = urlencode(form), "application/x-www-form-urlencoded"
    browser = Client(enforce_csrf_checks=True)
    browser.get(reverse("admin:login"))
    answer = browser.post(reverse("admin:login"), body, content_type=kind)
    text = page_text(answer, 413)
    assert "Nothing was changed" in text and "Submit less at once" in text
    assert caplog.records == []


def test_a_foreign_host_is_no_error_of_the_service(
    member: Client, acme_token: str, caplog: pytest.LogCaptureFixture
) -> None:
    member.raise_request_exception = False
    bearer = {"authorization": f"Bearer {acme_token}"}
    for path in (reverse("admin:index"), reverse("admin:login"), "/", "/docs", "/v2/workspaces"):
        answer = member.get(path, headers={"host": "evil.example", **bearer})
        assert answer.status_code == 400, path
        assert b"evil.example" not in answer.content
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_large_form_of_any_kind_is_no_error_of_the_service(
    member: Client, caplog: pytest.LogCaptureFixture
) -> None:
    member.raise_request_exception = False
    fields: dict[str, object] = {f"field{number}": "" for number in range(1_100)}
    files = {f"file{number}": BytesIO(b"x") for number in range(110)}
    for path in (reverse("admin:login"), reverse("admin:readapi_apitoken_add")):
        for form in (fields, {"name": "x" * 2_700_000}, files):
            assert member.post(path, form).status_code == 413, path
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
