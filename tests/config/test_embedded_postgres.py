"""The embedded PostgreSQL takes its share of the memory, and not more."""

import os
from pathlib import Path

import pytest

from config.local import postgres

GIB = 1024**3


@pytest.mark.parametrize(
    ("memory", "limit", "buffers"),
    [
        (24 * GIB, None, "1024MB"),
        (4 * GIB, None, "512MB"),
        (1 * GIB, None, "256MB"),
        (24 * GIB, f"{4 * GIB}\n", "512MB"),
        (4 * GIB, "max\n", "512MB"),
        (4 * GIB, f"{2**63 - 4096}\n", "512MB"),
    ],
)
def test_its_cache_is_an_eighth_of_the_memory_that_it_may_take(
    memory: int, limit: str | None, buffers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the container's, where it has a limit of its own."""
    sizes = {"SC_PHYS_PAGES": memory // 4096, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    path = tmp_path / "memory.max"
    if limit is not None:
        path.write_text(limit)
    monkeypatch.setattr(postgres, "_CONTAINER_LIMITS", (path,))
    assert postgres.shared_buffers() == buffers
    assert postgres.EmbeddedPostgres(tmp_path).options["shared_buffers"] == buffers
