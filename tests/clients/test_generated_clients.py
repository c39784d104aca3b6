"""What checks API descriptions, and what generates clients from them, likes ours."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from config.openapi import assembly
from tests.clients.conftest import HERE
from tests.clients.service import Service
from tests.start.running import until

pytestmark = pytest.mark.usefixtures("node")

BIN = HERE / "node_modules" / ".bin"
PROGRAM = "typed_client.ts"


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("openapi") / "openapi.json"
    path.write_bytes(assembly.render_schema())
    return path


@pytest.fixture(scope="module")
def read(service: Service) -> dict[str, Any]:
    """Three accounts, one with three users, as a client should read them."""
    headers = {"Authorization": f"Basic {service.key}"}
    for account in ("generated", "generated-2", "generated-3"):
        message = {"groupId": account, "traits": {"plan": "pro"}}
        requests.post(f"{service.address}/v2/group", json=message, headers=headers, timeout=10)
    for user in ("generator-3", "generator-2", "generator"):
        message = {"userId": user, "groupId": "generated"}
        requests.post(f"{service.address}/v2/identify", json=message, headers=headers, timeout=10)
    reading = {"Authorization": f"Bearer {service.read_token}"}
    address = f"{service.address}/v2/users?workspace_id={service.workspace_id}&segment_id="

    def all_users() -> Any:
        segments = f"{service.address}/v2/segments?workspace_id={service.workspace_id}&scope=user"
        return requests.get(segments, headers=reading, timeout=10).json()["data"][0]["id"]

    def scored() -> Any:
        users = requests.get(f"{address}{all_users()}", headers=reading, timeout=10).json()["data"]
        ids = {user["tracking_id"] for user in users}
        return {"generator", "generator-2", "generator-3"} <= ids

    until(scored, "the users' scores", 60)
    return {
        "total": 1,
        "listed": [["generated", "pro", 0]],
        "days": 90,
        "users": ["generator", "generator-2", "generator-3"],
        "pages": [1, 2],
        "members": [1, 2],
        "mirrored": ["generated", "generated-2", "generated-3"],
        "has_changes_only": True,
        "error": "invalid_limit",
    }


def run(*command: object, folder: Path) -> str:
    # The generator of the Python client runs ruff.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    result = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_spectral_and_redocly_find_nothing(description: Path) -> None:
    folder = description.parent
    (folder / ".spectral.yaml").write_text('extends: ["spectral:oas"]\n')
    run(BIN / "spectral", "lint", "--fail-severity=hint", description.name, folder=folder)
    checked = run(BIN / "redocly", "lint", "--format=json", description.name, folder=folder)
    assert json.loads(checked)["problems"] == []


def test_a_typescript_client(
    description: Path, service: Service, read: dict[str, Any], tmp_path: Path
) -> None:
    """Its types are those of the program, and what it reads is of these types."""
    (tmp_path / "node_modules").symlink_to(HERE / "node_modules")
    (tmp_path / PROGRAM).write_text((HERE / "programs" / PROGRAM).read_text())
    run(BIN / "openapi-typescript", description, "--output", "api.d.ts", folder=tmp_path)
    options = ["--strict", "--noEmit", "--skipLibCheck", "--module", "esnext"]
    options += ["--target", "es2022", "--moduleResolution", "bundler"]
    run(BIN / "tsc", *options, PROGRAM, folder=tmp_path)
    bundle = ["--bundle", "--platform=node", "--format=esm", "--outfile=client.mjs"]
    run(BIN / "esbuild", PROGRAM, *bundle, "--log-level=error", folder=tmp_path)
    arguments = service.address, service.read_token, service.workspace_id
    assert json.loads(run("node", "client.mjs", *arguments, folder=tmp_path)) == read


def test_a_python_client(
    description: Path,
    service: Service,
    read: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generate = [sys.executable, "-m", "openapi_python_client", "generate"]
    options = ["--meta=none", "--output-path=generated_client", "--fail-on-warning"]
    run(*generate, "--path", description, *options, folder=tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with import_module("generated_client").AuthenticatedClient(
        base_url=service.address, token=service.read_token
    ) as client:
        assert read_with(client, service.workspace_id) == read


def read_with(client: Any, workspace_id: int) -> dict[str, Any]:
    accounts = import_module("generated_client.api.accounts.list_accounts")
    account = import_module("generated_client.api.accounts.get_account")
    users = import_module("generated_client.api.accounts.list_account_users")
    models = import_module("generated_client.models")
    segments = import_module("generated_client.api.segments.list_segments")
    members = import_module("generated_client.api.segments.list_members")
    scope = {"client": client, "workspace_id": workspace_id}

    page = accounts.sync(
        **scope,
        # All tests share one service.
        tracking_id="generated",
        expand=list(models.ListAccountsExpandItem),
        traits=["plan"],
        sort=models.ListAccountsSort("-score"),
        total=True,
    )
    [listed] = page.data
    full = account.sync(listed.id, **scope, expand=list(models.GetAccountExpandItem))
    refused = accounts.sync(**scope, limit=0)
    assert isinstance(refused, models.ErrorResponse)
    first_segments = segments.sync(**scope, scope=models.ListSegmentsScope.USER, limit=1)
    everybody = partial(members.sync, first_segments.data[0].id, **scope)
    mirrored, token = follow(partial(accounts.sync, **scope), "start")
    changed, _ = follow(partial(accounts.sync, **scope), token)
    return {
        "total": page.pagination.total,
        "listed": [[listed.tracking_id, listed.traits["plan"], listed.metrics.raw_score]],
        "days": len(full.data.history),
        "users": sorted(user.tracking_id for user in users.sync(listed.id, **scope).data),
        "pages": two_pages(partial(accounts.sync, **scope)),
        "members": two_pages(everybody),
        "mirrored": sorted(
            account.tracking_id
            for account in mirrored.values()
            if account.tracking_id.startswith("generated")
        ),
        "has_changes_only": len(changed) < len(mirrored),
        "error": refused.error.code,
    }


def parameter_of(link: str, name: str) -> str:
    return parse_qs(urlsplit(link).query)[name][0]


def two_pages(read_list: Callable[..., Any]) -> list[int]:
    """The number of records on the first page, and of different ones on the first two."""
    first = read_list(limit=1)
    second = read_list(limit=1, cursor=parameter_of(first.field_links.next_, "cursor"))
    ids = {row.id for page in (first, second) for row in page.data}
    return [len(first.data), len(ids)]


def follow(read_list: Callable[..., Any], token: str) -> tuple[dict[int, Any], str]:
    """The records that changed since the token, and the token of the next walk."""
    changed: dict[int, Any] = {}
    page = read_list(changed_since=token, limit=2)
    while True:
        changed |= {row.id: row for row in page.data}
        if not page.pagination.has_more:
            return changed, parameter_of(page.field_links.changes, "changed_since")
        cursor = parameter_of(page.field_links.next_, "cursor")
        page = read_list(changed_since=token, limit=2, cursor=cursor)
