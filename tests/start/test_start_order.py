"""What accepts data starts first, and the rest follows."""

import os
import signal
from functools import partial
from io import StringIO
from pathlib import Path

import pytest

from config.local.supervisor import Child, Console, Supervisor, spawn
from config.server import handover, start_order


def test_children_that_start_later_can_be_brought_forward(tmp_path: Path) -> None:
    supervisor = Supervisor(Console(StringIO()))
    child = Child("worker", partial(spawn, ["sleep", "600"], tmp_path), signal.SIGTERM)
    supervisor.start_later(child, 3600)
    supervisor.check()
    assert not child.started_at
    supervisor.bring_forward(3600)
    supervisor.check()
    try:
        assert child.process is not None
        # It runs, so this changes nothing.
        supervisor.bring_forward(3600)
        assert child.started_at > child.due_at > child.started_at - 600
    finally:
        supervisor.stop()


def test_page_processes_load_after_an_ingestion_process_and_all_wait_for_the_gate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate, opener = os.pipe()
    order = start_order.make({start_order.START_GATE: str(gate)})
    order.wait_to_load(handover.INGESTION)
    with monkeypatch.context() as patch:
        patch.setattr(start_order, "LOADING_TURN", 0.0)
        # If no ingestion process loads, pages are served nevertheless.
        order.wait_to_load(handover.PAGES)
    monkeypatch.setattr(start_order, "LOADING_TURN", 3600.0)
    if not (process := os.fork()):
        order.note_loaded(handover.INGESTION)
        os._exit(0)
    order.wait_to_load(handover.PAGES)
    os.waitpid(process, 0)
    monkeypatch.setattr(start_order, "LOOK_INTERVAL", 0.0)
    assert not order.may_serve()
    os.close(opener)
    assert order.may_serve() and order.may_serve()
    os.close(gate)


def test_a_server_that_nobody_gates_serves_at_once() -> None:
    order = start_order.make({})
    order.wait_to_load(handover.PAGES)
    order.note_loaded(handover.INGESTION)
    assert order.may_serve()
