"""The page that shows the description works offline and under a strict policy."""

import re

import pytest
from django.contrib.staticfiles import finders
from django.test import Client


@pytest.fixture
def page(client: Client) -> str:
    response = client.get("/docs")
    assert response.status_code == 200
    return response.content.decode()


def test_everything_that_it_loads_is_a_file_of_our_own(page: str) -> None:
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(loaded) >= 5
    for address in loaded:
        assert address == "/openapi.json" or finders.find(address.removeprefix("/static/")), address


def test_nothing_in_it_is_inline(page: str) -> None:
    assert "<style" not in page and "style=" not in page
    assert re.findall(r"<script(?! src=)", page) == []
    assert re.findall(r"\son\w+=", page) == []


def test_its_policy_has_no_exceptions_for_scripts_and_styles(client: Client) -> None:
    policy = client.get("/docs").headers["Content-Security-Policy"]
    assert "unsafe" not in policy and "script-src 'self';" in policy
    assert "style-src 'self';" in policy and "http" not in policy


def test_it_says_where_the_description_is(page: str) -> None:
    assert 'data-description="/openapi.json"' in page
