"""A web process is replaced before it takes more memory than EDS_WORKER_MEMORY_MB."""

from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings

from config.celery import app
from config.server import gunicorn, handover, memory
from config.server.webworker import PAGE_RETIREMENT, WebWorker


def worker() -> Any:
    """A worker of which only its memory matters."""
    new_worker = WebWorker.__new__(WebWorker)
    new_worker.alive, new_worker.log = True, SimpleNamespace(warning=lambda *_: None)
    return new_worker


@pytest.mark.parametrize(("limit", "stays"), [(None, True), (300, True), (200, False)])
def test_it_stops_at_four_fifths_of_the_limit(
    limit: int | None, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "resident_bytes", lambda: 200 * memory.MEBIBYTE)
    web = worker()
    web.memory_limit = limit
    web._retire_if_too_large()
    assert web.alive is stays


def test_a_page_process_ends_its_downloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "resident_bytes", lambda: 300 * memory.MEBIBYTE)
    web = worker()
    web.memory_limit, web.kind = 300, handover.PAGES
    web._retire_if_too_large()
    assert web._grace == PAGE_RETIREMENT < gunicorn.timeout


def test_the_memory_of_this_process_is_known() -> None:
    assert 10 * memory.MEBIBYTE < memory.resident_bytes() < 100_000 * memory.MEBIBYTE


def test_celery_replaces_its_processes_at_the_same_share() -> None:
    kibibytes = memory.REPLACED_AT * settings.WORKER_MEMORY_MB * 1024
    assert app.conf.worker_max_memory_per_child == int(kibibytes)
