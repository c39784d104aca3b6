"""Ingestion processes serve their URLs as all others do, and load nothing of the pages."""

import os
import subprocess
import sys

import pytest
from django.conf import settings
from django.urls import Resolver404, resolve

from config.ingestion_urls import API_PATHS
from config.server import handover
from config.server.without_pages import INGESTION_URLS, URLS

PATHS = [
    *API_PATHS,
    *("/healthz", "/readyz", "/v1/nothing", "/v2/track/", "/beacon/v1/b", "/sourceConfig"),
    *("/v1/projects/key/settings", "/segment/v1/projects/key/settings", "/v1/t", "/v1/alias"),
    *("/analytics.js/v1/key/analytics.min.js", "/analytics-next/bundles/a.js", "/analytics.js/x"),
]
LOAD = """
import sys
from config.server.without_pages import leave_out_pages
leave_out_pages()
import config.wsgi
names = [name for name in sys.modules if name.startswith("config.openapi") or ".admin" in name]
print(sorted(name for name in names if not name.startswith("django.contrib.")))
"""


def view_name(path: str, urls: str) -> str:
    try:
        return resolve(path, urls).view_name
    except Resolver404:
        return ""


@pytest.mark.parametrize("path", PATHS)
def test_an_ingestion_process_serves_what_is_for_it(path: str) -> None:
    for_it = handover.process_kind(path.encode()) != handover.PAGES
    if for_it:
        assert view_name(path, INGESTION_URLS) == view_name(path, URLS)
    assert for_it is not path.startswith(("/v2/a", "/v2/u", "/v2/w", "/v2/s", "/v2/v", "/v1/acc"))


@pytest.mark.slow
def test_a_process_without_pages_loads_nothing_of_them() -> None:
    result = subprocess.run(
        [sys.executable, "-c", LOAD],
        cwd=settings.BASE_DIR,
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == "[]"
