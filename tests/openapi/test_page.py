"""The docs page works offline and under a strict Content-Security-Policy."""

import re

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders
from django.test import Client


@pytest.fixture
def page(client: Client) -> str:
    response = client.get("/docs")
    assert response.status_code == 200
    return response.content.decode()


def test_it_loads_only_our_own_files(page: str) -> None:
    loaded_urls = re.findall(r'<(?:link|script)\b[^>]*(?:src|href)="([^"]+)"', page)
    assert len(loaded_urls) >= 5
    for url in loaded_urls:
        assert url == "/openapi.json" or finders.find(url.removeprefix(settings.STATIC_URL)), url


def test_nothing_in_it_is_inline(page: str) -> None:
    assert "<style" not in page and "style=" not in page
    assert re.findall(r"<script(?! src=)", page) == []
    assert re.findall(r"\son\w+=", page) == []


def test_its_policy_allows_no_inline_scripts_or_styles(client: Client) -> None:
    policy = client.get("/docs").headers["Content-Security-Policy"]
    assert "unsafe" not in policy and "script-src 'self';" in policy
    assert "style-src 'self';" in policy and "http" not in policy


def test_it_links_to_the_description(page: str) -> None:
    assert 'data-description="/openapi.json"' in page
