"""clients/eds.py against the read API, over HTTP."""

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from django.conf import settings as django_settings
from django.test import Client

from engagement.models import Product, Workspace
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal.forgetting import forget
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from outcomes.kinds import Kind
from readapi.models import Usage
from tests.engagement.history import NOON, group, tell
from tests.outcomes.backtests import backtest, keep
from tests.readapi.rows import make_account
from tests.readapi.scored import account_id, fill

sys.path.append(str(Path(django_settings.BASE_DIR) / "clients"))
import eds  # it is a file to copy, not a package of the project

Run = Callable[..., list[Any]]


class Clock:
    """Sleeping takes no time, and is written down."""

    def __init__(self) -> None:
        self.now, self.slept = 0.0, 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds
        # In the next minute of the clock, the count begins again.
        if seconds >= 1:
            Usage.objects.all().delete()

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(eds, "time", clock)
    return clock


@pytest.fixture
def run(
    acme_token: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    clock: Clock,
) -> Run:
    """Runs a command; returns the lines of its output. Requests go to Django's test client."""
    server = Client()

    def get(
        session: requests.Session, url: str, params: Any = None, timeout: float = 0
    ) -> requests.Response:
        prepared = session.prepare_request(requests.Request("GET", url, params=params))
        assert prepared.url is not None
        path = prepared.url.removeprefix("http://testserver")
        answer = server.get(path, headers=dict(prepared.headers))
        response = requests.Response()
        is_compressed = answer.headers.get("Content-Encoding") == "gzip"
        content = gzip.decompress(answer.content) if is_compressed else answer.content
        response.status_code, response._content = answer.status_code, content
        response.headers.update(answer.headers)
        return response

    monkeypatch.setattr(requests.Session, "get", get)

    def run(*arguments: str, status: int = 0) -> list[Any]:
        env = {"EDS_URL": "http://testserver/", "EDS_TOKEN": acme_token}
        assert eds.main(arguments, env) == status
        output = capsys.readouterr()
        if status:
            return output.err.splitlines()
        lines = output.out.splitlines()
        return lines if "--table" in arguments else [json.loads(line) for line in lines]

    return run


def ids(records: list[Any]) -> list[str]:
    return [record["tracking_id"] for record in records]


def test_list_get_and_export(run: Run, acme: Product) -> None:
    workspace = fill(acme)
    assert ids(run("list", "accounts", "--top", "1")) == ["initech"]
    assert ids(run("list", "accounts", "sort=score")) == ["hooli", "initech"]
    assert ids(run("list", "users", "trait=plan:pro", f"--workspace={workspace.pk}")) == ["cyd"]
    [account] = run("get", "accounts", str(account_id(acme, "initech")), "expand=traits")
    assert account["traits"]["domain"] == "initech.example" and account["metrics"]
    exported = run("export", "users", "expand=traits", "traits=email")
    assert {row["tracking_id"]: row["traits"]["email"] for row in exported} == {
        "ann": "ann@initech.example", "bob": None, "cyd": None
    }  # fmt: skip
    assert [row["id"] for row in run("list", "workspaces")] == [workspace.pk]
    head, *rows = run("list", "accounts", "--table")
    assert head.split()[:4] == ["id", "tracking_id", "name", "score"] and len(rows) == 2


def test_backtests_of_the_workspace(run: Run, workspace: Workspace) -> None:
    assert run("list", "backtests") == []
    keep(workspace, backtest(Kind.RENEWAL), NOON)
    keep(workspace, backtest(Kind.DORMANCY), NOON)
    records = run("export", "backtests", f"--workspace={workspace.pk}")
    assert [row["kind"] for row in records] == ["renewal", "dormancy"]
    assert len(records[0]["horizons"]) == 4
    head, *rows = run("list", "backtests", "--top", "1", "--table")
    assert head.split() == ["kind", "first_day", "last_day", "segment_id"]
    assert [row.split()[:2] for row in rows] == [["renewal", "2025-03-01"]]
    for resource in eds.OF_WORKSPACE:
        with pytest.raises(SystemExit):
            eds.parse(["get", resource, "1"])


def test_all_pages_within_the_rate_limit(
    run: Run, workspace: Workspace, settings: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.READ_REQUESTS_PER_MINUTE = 3
    monkeypatch.setattr(eds, "LARGEST_PAGE", {"accounts": 2})
    names = [str(number) for number in range(15)]
    for name in names:
        make_account(workspace, name, int(name))
    assert ids(run("export", "accounts")) == names[::-1]
    # The workspace and eight pages, three a minute: two waits of a second or more. It never met
    # a 429.
    assert 2 <= clock.slept <= 180
    assert Usage.objects.get().requests <= 3


def test_watch_continues_where_the_last_run_ended(run: Run, acme: Product, tmp_path: Path) -> None:
    workspace = fill(acme)
    watch = ("watch", "accounts", "--once", f"--state={tmp_path / 'state'}")
    assert sorted(ids([line["changed"] for line in run(*watch)])) == ["hooli", "initech"]
    assert run(*watch) == []
    tell(acme, group("hooli", plan="free"))
    initech = account_id(acme, "initech")
    rescore(NOON)
    forget(SubjectRef(acme.pk, SubjectScope.ACCOUNT, "initech"), NOON)
    lines = run(*watch)
    assert {"deleted": initech} in lines
    assert "hooli" in ids([line["changed"] for line in lines if "changed" in line])
    sets.request_score_set(workspace.pk)
    rescore(NOON)
    restarted, *lines = run(*watch)
    assert restarted == {"restarted": True}
    assert ids([line["changed"] for line in lines]) == ["hooli"]


def test_errors_are_sentences(run: Run, workspace: Workspace) -> None:
    [line] = run("list", "accounts", "sort=age", status=1)
    assert line.startswith("sort accepts: ") and line.endswith("(invalid_parameter)")
    assert run("get", "accounts", "999", status=1) == ["No such record for this token. (not_found)"]


def test_it_needs_an_address_and_a_token(capsys: pytest.CaptureFixture[str]) -> None:
    assert eds.main(["list", "accounts"], {}) == 2
    assert capsys.readouterr().err == "Set EDS_URL and EDS_TOKEN.\n"
