"""Readers: ``acme_reads`` uses Acme's token, ``globex_reads`` another product's."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlencode

import pytest
from django.test import Client

from engagement.models import Product, Workspace
from tests.readapi.rows import workspace_of

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse as Response

Reads: TypeAlias = "Callable[..., Response]"


def reader(token: str) -> Reads:
    client = Client(headers={"authorization": f"Bearer {token}"})

    def reads(url: str, **parameters: Any) -> "Response":
        separator = "&" if "?" in url else "?"
        return client.get(url + separator + urlencode(parameters) if parameters else url)

    return reads


@pytest.fixture
def acme_reads(acme_token: str) -> Reads:
    return reader(acme_token)


@pytest.fixture
def globex_reads(globex_token: str) -> Reads:
    return reader(globex_token)


@pytest.fixture
def workspace(acme: Product) -> Workspace:
    return workspace_of(acme)


@pytest.fixture
def globex_workspace(globex: Product) -> Workspace:
    return workspace_of(globex)
