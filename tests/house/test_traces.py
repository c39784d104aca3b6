"""How many files of the project a message runs through until its score is read, and a page of
licenses until it is stored.

``-rP`` prints the figures: files, functions, and calls of each part of the way.
"""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from engagement.models import Account, Product
from engagement.rescoring.rescore import rescore
from harness.marketplace.server import Simulator
from ingestion.drain.processing import drain
from marketplace.models import Connection
from tests.database import CITUS
from tests.marketplace import connections
from tests.marketplace.conftest import connection, simulator

__all__ = ["connection", "simulator"]

pytestmark = pytest.mark.django_db(transaction=True)

# The most files that may run. A feature that needs another one takes it from somewhere else.
UNTIL_THE_SCORE, UNTIL_THE_READ = 70, 93
OF_A_SYNC = 45
NOT_THE_PRODUCT = ("tests", "harness", ".venv")


class Trace:
    """The calls of the product's functions, each counted."""

    def __init__(self) -> None:
        self._calls: Counter[CodeType] = Counter()

    def run(self, work: Callable[[], object]) -> None:
        sys.setprofile(self._note)
        try:
            work()
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            self._calls[frame.f_code] += 1

    @property
    def calls(self) -> dict[CodeType, int]:
        return {code: count for code, count in self._calls.items() if _path(code)}

    @property
    def files(self) -> set[str]:
        return {_path(code) for code in self.calls}

    def __str__(self) -> str:
        return (
            f"{len(self.files)} files, {len(self.calls)} functions, "
            f"{sum(self.calls.values())} calls"
        )


def _path(code: CodeType) -> str:
    """The file, from the project's folder on; empty if it is not of the product."""
    path = Path(code.co_filename)
    if not path.is_relative_to(settings.BASE_DIR):
        return ""
    path = path.relative_to(settings.BASE_DIR)
    return "" if path.parts[0] in NOT_THE_PRODUCT else str(path)


def show(traces: dict[str, Trace]) -> None:
    for name, trace in traces.items():
        print(f"{name}: {trace}")


def test_an_event_runs_through_few_files_until_its_score_is_read(
    acme: Product, acme_key: str, acme_token: str
) -> None:
    sender = Client(headers={"authorization": f"Basic {acme_key}"})
    reader = Client(headers={"authorization": f"Bearer {acme_token}"})
    workspace = acme.workspaces.get().pk

    def post(kind: str, **fields: str) -> None:
        response = sender.post(f"/v2/{kind}", fields, "application/json")
        assert response.status_code == 202

    def read(path: str) -> None:
        assert reader.get(path).status_code == 200

    def record() -> None:
        drain(timezone.now)

    # At one time, so that benchmarks, which rest for a second, come in no part of the way.
    now = timezone.now()

    def score() -> None:
        rescore(now)

    accounts = f"/v2/accounts?workspace_id={workspace}"
    # What only the first messages of a process run through does not count.
    for user in ("ada", "ben"):
        post("identify", userId=user, groupId="initech")
        post("track", userId=user, event="opened")
        record()
        score()
        read(accounts)
    account = Account.objects.get().pk
    everything = f"/v2/accounts/{account}?expand=insights,traits,segments,events,history"
    read(f"{everything}&workspace_id={workspace}")
    traces = {name: Trace() for name in ("accept", "record", "score", "list", "account")}
    traces["accept"].run(lambda: post("track", userId="ada", event="opened"))
    traces["record"].run(record)
    traces["score"].run(score)
    traces["list"].run(lambda: read(accounts))
    traces["account"].run(lambda: read(f"{everything}&workspace_id={workspace}"))
    show(traces)
    until_score = traces["accept"].files | traces["record"].files | traces["score"].files
    until_read = until_score | traces["list"].files
    print(f"until the score: {len(until_score)} files; until the read: {len(until_read)} files")
    print(*sorted(until_score), sep="\n")
    assert len(until_score) <= UNTIL_THE_SCORE
    assert len(until_read) <= UNTIL_THE_READ


def test_a_page_of_licenses_runs_through_few_files(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*connections.licenses(simulator, 3))
    trace = Trace()
    trace.run(lambda: connections.work(connection))
    show({"first sync": trace})
    # How a line is logged depends on the tests before.
    files = [file for file in trace.files if not file.startswith("config/logging/")]
    print(*sorted(files), sep="\n")
    # A cluster's statistics are looked at, too.
    assert len(files) <= OF_A_SYNC + bool(CITUS)
