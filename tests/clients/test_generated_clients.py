"""What checks API descriptions, and what generates clients from them, likes ours."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

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
    """An account with a user, as a client should read them."""
    headers = {"Authorization": f"Basic {service.key}"}
    message = {"groupId": "generated", "traits": {"plan": "pro"}}
    requests.post(f"{service.address}/v2/group", json=message, headers=headers, timeout=10)
    message = {"userId": "generator", "groupId": "generated"}
    requests.post(f"{service.address}/v2/identify", json=message, headers=headers, timeout=10)
    reading = {"Authorization": f"Bearer {service.read_token}"}
    address = f"{service.address}/v2/users?workspace_id={service.workspace_id}"

    def scored() -> Any:
        return requests.get(address, headers=reading, timeout=10).json()["data"]

    until(scored, "the user's score", 60)
    return {
        "total": 1,
        "listed": [["generated", "pro", 0]],
        "days": 90,
        "users": ["generator"],
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
    return {
        "total": page.pagination.total,
        "listed": [[listed.tracking_id, listed.traits["plan"], listed.metrics.raw_score]],
        "days": len(full.data.history),
        "users": [user.tracking_id for user in users.sync(listed.id, **scope).data],
        "error": refused.error.code,
    }
