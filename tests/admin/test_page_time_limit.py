"""A page that takes too long returns 503. Saving and downloads have no limit."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.template.response import TemplateResponse
from django.test import Client
from django.urls import reverse
from django.utils.html import strip_tags

from config.web import middleware
from console.dashboard import home
from core.database import sql

# Longer than any limit in these tests, and short enough to wait for.
SHORT = "SELECT pg_sleep(0.5)"
LONG = "SELECT pg_sleep(60)"
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "PAGE_TIMEOUT_SECONDS", 0.1)


def start_page(who: Client, monkeypatch: pytest.MonkeyPatch, work: Callable[..., Any]) -> Any:
    """The home page, which does this first."""
    with monkeypatch.context() as patch:
        patch.setattr(home, "home_context", work)
        return who.get(reverse("admin:index"))


def assert_says_so(answer: Any) -> None:
    assert answer.status_code == 503
    text = re.sub(r"\s+", " ", strip_tags(answer.content.decode().partition("<body")[2]))
    assert "This page took too long" in text and "Nothing was changed" in text
    assert "Narrow the list with a search or a filter, or try again" in text


def test_a_page_that_takes_too_long_says_so(
    root: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert_says_so(start_page(root, monkeypatch, lambda request: sql.fetch(LONG)))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert root.get(reverse("admin:index")).status_code == 200


def test_what_a_page_asks_while_it_is_rendered_counts(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = {"title": lambda: sql.fetch(LONG)}
    assert_says_so(start_page(root, monkeypatch, lambda request: context))


def test_a_statement_that_begins_later_is_stopped_too(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(request: HttpRequest) -> dict[str, Any]:
        with pytest.raises(Exception, match="canceling statement"):
            sql.fetch(LONG)
        sql.fetch(LONG)
        return {}

    assert_says_so(start_page(root, monkeypatch, work))


def test_a_page_that_asks_nothing_needs_no_connection(rf: Any) -> None:
    connection.close()
    answer = middleware.PageTimeoutMiddleware(lambda request: HttpResponse())(rf.get("/admin/"))
    assert answer.status_code == 200
    assert connection.connection is None


def test_another_fault_stays_one(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    root.raise_request_exception = False
    answer = start_page(root, monkeypatch, lambda request: sql.fetch("SELECT 1/0"))
    assert answer.status_code == 500


def page(request: HttpRequest) -> HttpResponse:
    sql.fetch(SHORT)
    return TemplateResponse(request, "404.html", {})


def test_what_is_saved_takes_its_time(rf: Any) -> None:
    limited = middleware.PageTimeoutMiddleware(page)
    with pytest.raises(sql.StatementTimeout):
        limited(rf.get("/admin/"))
    assert limited(rf.post("/admin/")).status_code == 200


def test_a_download_takes_its_time(rf: Any) -> None:
    def lines() -> Iterator[str]:
        sql.fetch(SHORT)
        yield "a line"

    answer = middleware.PageTimeoutMiddleware(lambda request: StreamingHttpResponse(lines()))(
        rf.get("/admin/")
    )
    assert isinstance(answer, StreamingHttpResponse)
    assert b"".join(answer) == b"a line"
