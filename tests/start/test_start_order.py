"""What accepts data starts first, and the rest follows."""

import os
import signal
from functools import partial
from io import StringIO
from pathlib import Path

import pytest

from config.local.supervisor import Child, Console, Supervisor, spawn
from config.server import gunicorn, handover


def test_children_that_start_later_can_be_brought_forward(tmp_path: Path) -> None:
    supervisor = Supervisor(Console(StringIO()))
    child = Child("worker", partial(spawn, ["sleep", "600"], tmp_path), signal.SIGTERM)
    supervisor.start_later(child, 3600)
    supervisor.check()
    before = child.process
    assert before is None
    supervisor.bring_forward(3600)
    supervisor.check()
    try:
        assert child.process is not None
        # It runs, so this changes nothing.
        supervisor.bring_forward(3600)
        assert child.started_at > child.due_at > child.started_at - 600
    finally:
        supervisor.stop()


def test_page_processes_load_after_an_ingestion_process(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = gunicorn.LoadingTurns()
    turns.wait(handover.INGESTION)
    turns.wait(handover.ANY)
    with monkeypatch.context() as patch:
        patch.setattr(gunicorn, "LOADING_TURN", 0.0)
        # If no ingestion process loads, pages are served nevertheless.
        turns.wait(handover.PAGES)
    monkeypatch.setattr(gunicorn, "LOADING_TURN", 3600.0)
    if not (process := os.fork()):
        turns.end(handover.INGESTION)
        os._exit(0)
    turns.wait(handover.PAGES)
    os.waitpid(process, 0)
